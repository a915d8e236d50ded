/**
 * Short runs of many kinds of agents (coding, review, questions, customers, browsing, operations, data entry): which
 * monitors must fire and which must not. The runs were written from the purpose of each monitor, not from its rules.
 */
import { describe, expect, it } from 'vitest';
import type { MonitorStep } from '../../../src/domain/monitors/masked-step.ts';
import type { MonitorName } from '../../../src/domain/monitors/names.ts';
import { firedIn, judgeRun } from './script.ts';

type Steps = Partial<MonitorStep>[];

/** A call, with a thought before it if there is one. */
function call(
  action: string,
  input: string | object,
  observation: string,
  thought = '',
): Partial<MonitorStep> {
  const action_input = typeof input === 'string' ? input : JSON.stringify(input);
  return { action, action_input, observation, thought };
}
const bash = (command: string, observation: string, thought = ''): Partial<MonitorStep> =>
  call('bash', command, observation, thought);
const read = (path: string, text: string, thought = ''): Partial<MonitorStep> =>
  call('read_file', { path }, text, thought);
const edit = (path: string, change: string, thought = ''): Partial<MonitorStep> =>
  call('edit_file', { path, change }, 'The file has been updated.', thought);
const say = (text: string, answer = ''): Partial<MonitorStep> => call('respond', text, answer);
const web = (instruction: string, observation: string): Partial<MonitorStep> =>
  call('WebSurfer', instruction, observation);
const times = (count: number, make: (at: number) => Partial<MonitorStep>): Steps =>
  Array.from({ length: count }, (_, at) => make(at));

interface Case {
  name: string;
  task: string;
  steps: Steps;
}

const TOLD: Record<MonitorName, Case[]> = {
  infinite_loop: [
    {
      name: 'a page reloaded that never changes',
      task: 'Book a table for two at the Lantern on Friday evening',
      steps: times(4, () =>
        call(
          'browser_click',
          { selector: '#reserve' },
          'The page is unchanged: button "Reserve" is disabled.',
        ),
      ),
    },
    {
      name: 'a form saved and read by turns, with no change of either',
      task: 'Enter the invoice of Holm & Co. into the ledger',
      steps: times(8, (i) =>
        i % 2 === 0
          ? call(
              'submit_form',
              { supplier: 'Holm', amount: 120 },
              'Validation: field "cost centre" is required',
            )
          : call('read_form', { form: 'invoice' }, 'supplier=Holm amount=120 cost centre=(empty)'),
      ),
    },
    {
      name: 'the same test without an edit between',
      task: 'Make the date tests pass',
      steps: times(4, () => bash('pytest tests/test_dates.py -q', '1 failed, 8 passed in 0.31s')),
    },
    {
      name: 'a cycle of three pages',
      task: 'Find the warranty terms of the kettle K-200',
      steps: times(9, (i) =>
        call(
          'goto',
          ['https://shop/help', 'https://shop/kettles', 'https://shop/terms'][i % 3]!,
          `page ${i % 3}`,
        ),
      ),
    },
    {
      name: 'one query with its keys in another order',
      task: 'How many orders did Ann Meyer place in May?',
      steps: [
        call('query_orders', '{"customer":"Ann Meyer","month":5}', '[]'),
        call('query_orders', '{"month":5,"customer":"Ann Meyer"}', '[]'),
        call('query_orders', '{"month": 5, "customer": "Ann Meyer"}', '[]'),
      ],
    },
    {
      name: 'a service restarted over and over with one error',
      task: 'Bring the billing service back',
      steps: times(6, (i) =>
        i % 2 === 0
          ? bash('systemctl restart billing', 'Job for billing.service failed.')
          : bash('journalctl -u billing -n 1', 'billing: cannot bind port 8080'),
      ),
    },
    {
      name: 'one remark over and over in a review',
      task: 'Review the pull request 812',
      steps: [{ thought: 'I should look at this function once more now. '.repeat(14) }],
    },
  ],
  semantic_loop: [
    {
      name: 'one question to a search engine in many words',
      task: 'In which year was the bridge at Varde built?',
      steps: [
        'Search for the year in which the bridge at Varde was built',
        'Look for the construction year of the bridge in Varde',
        'Try to find when the Varde bridge was built, with another search',
        'Search again for the date of construction of the bridge at Varde',
        'Please find the year the bridge in Varde was constructed',
      ].map((text) =>
        web(text, 'Results: hotels near you, cheap flights, car rental, weather for the weekend.'),
      ),
    },
    {
      name: 'a page scrolled for something that it does not hold',
      task: 'What does the museum charge for school classes?',
      steps: [
        'Scroll down and find the price for school classes on the page of the museum',
        'Continue scrolling to find the price for school classes on the page of the museum',
        'Scroll further down the page of the museum and look for the price of school classes',
        'Continue to scroll down until the price for school classes of the museum is found',
        'Please scroll further and report the price of school classes of the museum',
      ].map((text) =>
        web(text, 'I scrolled down one page. The page shows photographs of the garden and a map.'),
      ),
    },
    {
      name: 'guesses of a key in a store',
      task: 'Read the limit of uploads from the configuration store',
      steps: ['limits/upload', 'limit/upload', 'limits/uploads', 'upload/limits', 'limits/upload/max'].map(
        (key) => call('kv_get', { key }, `key not found: ${key}`),
      ),
    },
    {
      name: 'an interface called with one option after the other, the same refusal each time',
      task: 'Export the report as PDF',
      steps: ['a4', 'letter', 'legal', 'a5', 'a3'].map((paper) =>
        call('export_report', { format: 'pdf', paper }, 'Error: the account has no right to export', ''),
      ),
    },
    {
      name: 'a deployment tried by different tools, stopped by the same thing',
      task: 'Deploy the shop to staging',
      steps: [
        'kubectl apply -f shop.yaml',
        'helm upgrade shop ./chart',
        'kubectl replace -f shop.yaml',
        'kubectl create -f shop.yaml',
        'helm install shop ./chart',
      ].map((command) => bash(command, 'error: You must be logged in to the server (Unauthorized)')),
    },
    {
      name: 'one intention word for word, each time with no result',
      task: 'Find out who wrote the importer',
      steps: ['--author', '--committer', '--all', '--grep importer'].map((flag) =>
        bash(
          `git log ${flag}`,
          'fatal: not a git repository',
          'The history must say who wrote the importer, so I will look at the history.',
        ),
      ),
    },
    {
      name: 'a colleague asked for the same figures in other words',
      task: 'Put together the sales of the northern region for the board',
      steps: [
        'Please get the sales figures of the northern region for the last quarter.',
        'Could you fetch the quarterly sales numbers for the north region?',
        'Please try once more to obtain the sales figures of the northern region for the quarter.',
        'Get the sales of the northern region in the last quarter from any other place you can think of.',
        'Again: the sales figures of the northern region for the last quarter, please.',
      ].map((text) => call('ask_agent', { to: 'analyst', text }, 'I do not have access to that system.')),
    },
    {
      name: 'questions with few words in common, one and the same page',
      task: 'Find the fee for a residence permit',
      steps: [
        'Find out what a residence permit costs.',
        'Look up the fee for permits of residence.',
        'Determine how much one pays for the permit to reside.',
        'Search for the price charged for a residency permit.',
        'Get the amount due when applying for a residence permit.',
      ].map((text) =>
        web(text, 'Welcome to the city portal. News: the swimming pool opens in May. Events. Contact.'),
      ),
    },
    {
      name: 'queries in other words that bring the same list',
      task: 'Who painted the ceiling of the Rosen hall?',
      steps: [
        'who painted ceiling Rosen hall',
        'Rosen hall ceiling painter',
        'painter of the ceiling in Rosen hall',
        'Rosen hall ceiling fresco artist',
        'artist Rosen hall ceiling painting',
      ].map((query) =>
        call('web_search', query, '1. Rosen hall: seats. 2. Parking. 3. Hotels near Rosen hall. 4. Events.'),
      ),
    },
    {
      name: 'a statement of a query language rewritten against one error',
      task: 'How many refunds were paid in May?',
      steps: ["month='May'", "month = 'may'", "month LIKE 'May%'", "r.month='MAY'", "lower(month)='may'"].map(
        (test) =>
          call('run_sql', `SELECT count(*) FROM refunds r WHERE ${test}`, 'Error: no such column: month'),
      ),
    },
    {
      name: 'clicks beside a button, at numbers that hardly differ',
      task: 'Accept the banner and open the catalogue',
      steps: times(5, (i) =>
        call(
          'click',
          { x: 410 + i, y: 300 - i },
          'Nothing happened. The banner "We use cookies" is still shown.',
        ),
      ),
    },
    {
      name: 'a plan made over and over and never begun',
      task: 'Refactor the cart',
      steps: [
        'First I will look at the cart module, then split it into parts and run the tests.',
        'I am going to look at the cart module first, split it into parts, and then run the tests.',
        'The plan: look at the cart module, split it into parts, run the tests.',
        'So I start by looking at the cart module, then split it in parts and run the tests.',
        'I will begin with the cart module: look at it, split it into parts, run the tests.',
      ].map((thought) => ({ thought })),
    },
    {
      name: 'a customer put off with the same words',
      task: 'Where is my refund?',
      steps: [
        'I am sorry for the delay. I will look into your refund right away.',
        'Sorry for the delay, I will look into your refund right away.',
        'I am so sorry for this delay! I will look into the refund right away.',
        'I am sorry about the delay, and I will look into your refund right away.',
      ].map((text) => say(text, 'And, where is it?')),
    },
  ],
  claim_contradiction: [
    {
      name: 'a migration that failed, told as done',
      task: 'Migrate the users table',
      steps: [
        bash(
          'npx prisma migrate deploy',
          'Error: P3009 migrate found failed migrations in the target database',
        ),
        say('The migration has been completed successfully. The users table is now up to date.'),
      ],
    },
    {
      name: 'a build that broke, told as working',
      task: 'Fix the build of the app',
      steps: [
        edit('src/app.ts', 'import x'),
        bash('npm run build', "error TS2307: Cannot find module './x'\nnpm ERR! code 2"),
        { thought: 'The build works now and the task is complete.', action: 'submit' },
      ],
    },
    {
      name: 'a booking that was refused, told as made',
      task: 'Book seat 12A',
      steps: [
        call('book_seat', { seat: '12A' }, 'Error: seat 12A is already taken'),
        say('Good news: your seat 12A has been booked successfully!'),
      ],
    },
    {
      name: 'a file that could not be loaded, taken as read',
      task: 'What does the annual report say about debt?',
      steps: [
        web('Please download the annual report of the company as a PDF file.', 'Error 403: access denied.'),
        web(
          'Please open the downloaded annual report of the company and look for the chapter about debt.',
          '',
        ),
      ],
    },
    {
      name: 'a list of which one page was seen, taken as whole',
      task: 'Which bakeries near the station open before six?',
      steps: [
        web(
          'Find bakeries near the station.',
          'Showing 1 to 4 of 31: Brot & Co, Old Mill Bakery, Dough House, Corner Crust.',
        ),
        web(
          'Please check the opening hours of Brot & Co, Old Mill Bakery, Dough House, and Corner Crust.',
          'Brot & Co opens at seven.',
        ),
      ],
    },
    {
      name: 'a statement turned round',
      task: 'Does the plugin support arrays?',
      steps: [
        say('The plugin version three does support arrays in its settings file.'),
        say('The plugin version three does not support arrays in its settings file.'),
      ],
    },
    {
      name: 'an order said to be changed although it was only looked at',
      task: 'Please change the address of my order to Elm Street 5',
      steps: [
        call('get_order_details', { order_id: 'A17' }, '{"order_id":"A17","address":"Oak Street 2"}'),
        say('I have updated the address of your order to Elm Street 5. Is there anything else?'),
      ],
    },
    {
      name: 'a file opened whose name was never given',
      task: 'What does the second report say about exports?',
      steps: [
        call('list_files', {}, 'report-1.pdf'),
        call('open_file', { path: '/data/path_to_second_report.pdf' }, 'Error: file not found'),
      ],
    },
    {
      name: 'a reservation told as moved by an agent that looked three times',
      task: 'Move my reservation to Sunday',
      steps: [
        call('find_reservation', { name: 'Bo' }, '{"id":"R1","day":"Saturday"}'),
        call('list_tables', { day: 'Sunday' }, '["4","7"]'),
        call('get_reservation', { id: 'R1' }, '{"id":"R1","day":"Saturday"}'),
        say('Your reservation has been successfully rescheduled to Sunday.'),
      ],
    },
    {
      name: 'a fix reported by an agent that only read',
      task: 'Fix the crash in the importer',
      steps: [
        read('src/importer.py', 'def load(path): ...'),
        call('grep', { pattern: 'load' }, 'src/importer.py:1:def load(path): ...'),
        { thought: 'I have fixed the crash in the importer by adding a check for missing files.' },
      ],
    },
  ],
  verification_skip: [
    {
      name: 'a program handed in that nothing has run',
      task: 'Add a retry to the client',
      steps: [read('client.py', 'def get(): ...'), edit('client.py', 'retry'), call('submit', '', '')],
    },
    {
      name: 'success told after an edit, with nothing run',
      task: 'Repair the login form',
      steps: [
        read('src/login.tsx', 'export function Login() {}'),
        edit('src/login.tsx', 'onSubmit'),
        say('I have fixed the login form. It works now.'),
      ],
    },
    {
      name: 'an account closed before anything was looked up',
      task: 'My cousin wants her account closed',
      steps: [call('delete_account', { account_id: 'c-881' }, '{"status":"deleted"}')],
    },
    {
      name: 'a test before the last edit, none after it',
      task: 'Make the parser faster',
      steps: [
        edit('src/parse.rs', 'one'),
        bash('cargo test', 'test result: ok. 12 passed'),
        edit('src/parse.rs', 'two'),
        edit('src/lex.rs', 'three'),
        { thought: 'The parser is now fixed and complete.', action: 'finish' },
      ],
    },
    {
      name: 'a refund paid before anybody looked at the order',
      task: 'I want my money back',
      steps: [call('refund_payment', { payment: 'p-4', amount: 90 }, '{"refunded":90}')],
    },
    {
      name: 'a check that got no answer and was dropped',
      task: 'Which of the hotels on the coast allow dogs and have a pool?',
      steps: [
        web(
          'Please verify that the hotels Seaview and Dune really allow large dogs in their rooms.',
          'Subscribe to our newsletter to get ten percent off the next order of garden furniture.',
        ),
        web(
          'Collect the prices for one night in June and the size of the pools.',
          'Prices for one night in June: 120 and 140. The pools: 20 metres.',
        ),
      ],
    },
    {
      name: 'a configuration changed by the shell and reported as working',
      task: 'Raise the limit of open files of the web server',
      steps: [
        bash('cat /etc/nginx/nginx.conf', 'worker_rlimit_nofile 1024;'),
        bash("sed -i 's/1024/65536/' /etc/nginx/nginx.conf", ''),
        say('The limit has been raised successfully and everything works.'),
      ],
    },
  ],
  silent_topic_drift: [
    {
      name: 'a bug left for the looks of the page',
      task: 'Fix the rounding of amounts in the invoice totals',
      steps: [
        call('grep', { pattern: 'rounding invoice totals' }, 'src/invoice.ts:12: total rounding'),
        read('src/invoice.ts', 'export function totals(): amount'),
        ...['header', 'sidebar', 'footer', 'button', 'navbar', 'banner'].map((part) =>
          call('edit_file', { path: `styles/${part}.css`, change: `${part} colour gradient` }, 'Saved.'),
        ),
      ],
    },
    {
      name: 'a question about tickets that ends in recipes',
      task: 'Compare the ticket prices of the Harbour Aquarium and the Old Lighthouse for families',
      steps: [
        web(
          'Look up the ticket prices of the Harbour Aquarium for families.',
          'Harbour Aquarium: families 40',
        ),
        web('Look up the ticket prices of the Old Lighthouse for families.', 'Old Lighthouse: closed'),
        ...['soup', 'bread', 'salad', 'cake', 'stew', 'pie'].map((dish) =>
          web(
            `Search a recipe with mushrooms, garlic and cream: ${dish}`,
            `Mushroom ${dish}: chop garlic, stir cream.`,
          ),
        ),
      ],
    },
    {
      name: 'the very first instructions on something else',
      task: 'Compare the ticket prices of the Harbour Aquarium and the Old Lighthouse for families',
      steps: [
        web('Please find the newest phones that come out this autumn.', 'Phones: a list of models.'),
        web('Please compare the cameras of those phones and their batteries.', 'Cameras: a table of lenses.'),
      ],
    },
    {
      name: 'a source that was named and is not used',
      task: 'Which trails near Lake Morn have at least fifty reviews and are highly rated on TrailAdvisor?',
      steps: [
        web(
          'Search for popular trails near Lake Morn in blogs of families.',
          'Ten best trails near Lake Morn',
        ),
        web(
          'Open the blog of a family and list the trails near Lake Morn that it praises.',
          'Fern Loop, Ridge Walk',
        ),
      ],
    },
    {
      name: 'a customer left for upkeep of the shop',
      task: 'I would like to exchange the blue lamp of my order for a green one',
      steps: [
        call('find_order', { text: 'blue lamp' }, 'order: blue lamp, 30 euro'),
        call('find_product', { text: 'green lamp' }, 'green lamp: in stock'),
        ...['keyboards', 'mattresses', 'bicycles', 'teapots', 'raincoats', 'drills'].map((item) =>
          call(
            'update_catalogue',
            { category: item, text: `seasonal banner for ${item}` },
            'catalogue saved',
          ),
        ),
      ],
    },
  ],
  cyclic_compression: [
    {
      name: 'the session summed up three times with nothing between',
      task: 'Port the importer to the new interface',
      steps: [
        read('src/importer.ts', 'class Importer {}'),
        ...times(3, (i) => ({
          thought:
            'Summary of the progress so far: the importer was read, the interface has changed, the tests are red, next is the port of the reader.',
          action: 'note',
          action_input: `note ${i}`,
          observation: 'saved',
        })),
      ],
    },
    {
      name: 'all pages read again after the notes were condensed',
      task: 'Which of the suppliers deliver on Sundays?',
      steps: [
        ...['ahlers', 'brandt', 'cohn'].map((name) =>
          call('open_page', { url: `/suppliers/${name}` }, `about ${name}`),
        ),
        call('compact_context', {}, 'The conversation was compacted.'),
        ...['ahlers', 'brandt', 'cohn'].map((name) =>
          call('open_page', { url: `/suppliers/${name}` }, `about ${name}`),
        ),
      ],
    },
    {
      name: 'logs fetched again after the incident was summed up',
      task: 'Why did the queue stop at night?',
      steps: [
        ...['queue', 'worker', 'broker'].map((name) =>
          bash(`tail -n 50 /var/log/${name}.log`, `log of ${name}`),
        ),
        { thought: 'To summarize: all three logs were read, the broker lost its disk at 02:10.' },
        ...['queue', 'worker', 'broker'].map((name) =>
          bash(`tail -n 50 /var/log/${name}.log`, `log of ${name}`),
        ),
      ],
    },
  ],
};

const LEFT_ALONE: Case[] = [
  // Runs that do real work in nearly the same words.
  {
    name: 'people looked up one by one, some of whom are not there',
    task: 'Find the mail address of each member of the board',
    steps: ['Anna Holt', 'Bruno Kern', 'Carla Voss', 'Dario Penn', 'Ella Quist', 'Finn Roth'].map((name, i) =>
      web(
        `Find the mail address of ${name}.`,
        i % 2 === 1 ? `There is no page for ${name}.` : `${name}: ${i}@board.org`,
      ),
    ),
  },
  {
    name: 'chapters summed up by a colleague',
    task: 'Sum up the book',
    steps: ['the voyage begins', 'a storm hits', 'the crew revolts', 'land is sighted', 'they return'].map(
      (text, i) =>
        call('ask_agent', `Please summarise chapter ${i + 1} of the book.`, `Chapter ${i + 1}: ${text}.`),
    ),
  },
  {
    name: 'a cause followed deeper and deeper',
    task: 'Find the cause of the crash',
    steps: [
      call('ask_agent', 'Look at the crash log and tell which module fails.', 'The module "parser" fails.'),
      call(
        'ask_agent',
        'Look at the module "parser" and tell which function fails.',
        'The function "readToken" fails.',
      ),
      call(
        'ask_agent',
        'Look at the function "readToken" and tell which line fails.',
        'It fails at line 88.',
      ),
      call(
        'ask_agent',
        'Look at line 88 and tell which value is wrong.',
        'The value of "offset" is negative.',
      ),
    ],
  },
  {
    name: 'fields of a form filled in by instructions',
    task: 'Fill in the form for the parking permit',
    steps: ['name Ann Adler', 'street Elm Road 4', 'town Kolding', 'phone 5544', 'plate AB123'].map((field) =>
      web(
        `Type ${field} into its field of the form.`,
        `I typed '${field}'. Here is a screenshot of the form.`,
      ),
    ),
  },
  {
    name: 'the same request sent to several people',
    task: 'Get quotes for a new roof',
    steps: ['roof', 'tile', 'slate', 'thatch', 'beam'].map((name) =>
      call(
        'send_email',
        { to: `${name}@example.com`, body: 'Could you please send us a quote for a new roof?' },
        'sent',
      ),
    ),
  },
  {
    name: 'services moved one by one, with the same words of it',
    task: 'Migrate the five services',
    steps: ['auth', 'mail', 'cart', 'stock', 'bill'].flatMap((name) => [
      bash(`./migrate.sh ${name}`, `${name} migrated`, 'Now I migrate the next service of the list.'),
      bash(`curl -s ${name}.local/health`, '{"ok":true}', 'Now I check that the service is healthy.'),
    ]),
  },
  {
    name: 'tests run after each edit, with one and the same failure',
    task: 'Fix the rounding',
    steps: times(12, (i) =>
      i % 2 === 0
        ? call('str_replace', { path: 'r.py', old: `v${i}`, new: `v${i + 2}` }, 'ok')
        : call('run_tests', {}, 'AssertionError: 1.0 != 1.1\n1 failed'),
    ),
  },
  {
    name: 'rates of exchange, of which nothing is exchanged',
    task: 'What are 100 euro in five currencies?',
    steps: ['DKK', 'SEK', 'NOK', 'PLN', 'CHF'].map((to, i) =>
      call('get_exchange_rate', { from: 'EUR', to }, `${i}.34`),
    ),
  },
  {
    name: 'a customer handed over to a colleague at once',
    task: 'I want to talk to a human',
    steps: [
      call(
        'transfer_to_human_agents',
        { summary: 'The customer wants to talk to a person.' },
        'Transfer successful',
      ),
    ],
  },
  {
    name: 'a part that worked and a part that did not, both told',
    task: 'Please swap the puzzle and correct my address',
    steps: [
      call('get_order', { id: 'W4' }, '{"items":["puzzle"],"status":"pending"}'),
      call('modify_items', { id: 'W4', item: 'puzzle 500' }, '{"status":"pending (modified)"}'),
      call('modify_address', { id: 'W4', street: 'Elm 5' }, 'Error: non-pending order cannot be modified'),
      say(
        'The puzzle has been successfully swapped. Unfortunately, I cannot change the address of this order any more.',
      ),
    ],
  },
  {
    name: 'a manual with names to be filled in, searched and written',
    task: 'Document how to log in to the service',
    steps: [
      call('grep', { pattern: 'your_token' }, 'docs/login.md:4: login --token your_token'),
      call(
        'edit_file',
        { path: 'docs/login.md', text: 'login --token <your token> --file /path/to/file' },
        'written',
      ),
    ],
  },
  // Coding.
  {
    name: 'tests first red, then green, file by file',
    task: 'Port the helpers to TypeScript so that the tests pass',
    steps: ['dates', 'paths', 'money', 'text'].flatMap((name) => [
      read(`src/${name}.js`, `module.exports = ${name}`),
      edit(`src/${name}.ts`, `export const ${name} = 1`),
      bash(`npx vitest run test/${name}.test.ts`, `FAIL test/${name}.test.ts 1 failed`),
      edit(`src/${name}.ts`, `export const ${name} = 2`),
      bash(`npx vitest run test/${name}.test.ts`, `PASS test/${name}.test.ts 4 passed`),
    ]),
  },
  {
    name: 'a debugger stepped through',
    task: 'Find out why the counter is off by one',
    steps: times(10, (i) => call('gdb', 'next', `${40 + i}\t  count = step(${i});`)),
  },
  {
    name: 'a bisection',
    task: 'Find the commit that broke the export',
    steps: times(8, (i) =>
      bash('git bisect bad', `Bisecting: ${2 ** (7 - i)} revisions left (roughly ${7 - i} steps)`),
    ),
  },
  {
    name: 'compiler errors fixed one after the other',
    task: 'Make the project compile',
    steps: times(10, (i) =>
      i % 2 === 0
        ? bash('make', `src/a.c:${10 + i}: error: '${'abcdefghij'[i]}' undeclared\nmake: *** [a.o] Error 1`)
        : edit('src/a.c', `int ${'abcdefghij'[i - 1]};`),
    ),
  },
  {
    name: 'a plan of many alike steps in words',
    task: 'Add licence headers to the packages',
    steps: times(8, (i) =>
      call(
        'edit_file',
        { path: `packages/p${i}/index.ts`, insert: '// Licensed under MIT' },
        'inserted',
        'Next package of the list: add the licence header to it.',
      ),
    ).concat([
      bash('npm run check-headers', 'all files have headers'),
      { thought: 'All headers are in place.' },
    ]),
  },
  {
    name: 'a deep look into a dependency that the task does not name',
    task: 'The upload of large files fails with a timeout, find out why',
    steps: [
      call('grep', { pattern: 'upload' }, 'src/upload.ts:4: upload of files'),
      read('src/upload.ts', 'import { Agent } from "undici"; upload files timeout'),
      ...['agent', 'pool', 'client', 'connect', 'socket', 'balanced'].map((name) =>
        read(
          `node_modules/undici/lib/${name}.js`,
          `class ${name} {}`,
          'The timeout of the upload may come from the HTTP library, so I follow it there.',
        ),
      ),
    ],
  },
  {
    name: 'honest words over a part that is open',
    task: 'Fix the two failing tests',
    steps: [
      edit('a.py', 'x'),
      bash('pytest', '1 failed, 9 passed'),
      { thought: 'One of the two tests passes now; the other one still fails, so the work is not done.' },
    ],
  },
  {
    name: 'a check with another tool than the usual ones',
    task: 'Write a script that counts words',
    steps: [
      call('create_file', { path: 'count.py', text: 'import sys' }, 'created'),
      call('execute_code', { code: 'import count; print(count.run("a b"))' }, '2'),
      { thought: 'The script is done and works.', action: 'finish', action_input: 'done' },
    ],
  },
  {
    name: 'an edit that was looked at through git',
    task: 'Rename the option',
    steps: [
      edit('src/options.ts', 'rename'),
      bash('git diff', '-  old: string;\n+  name: string;'),
      { thought: 'The option has been renamed, the task is done.', action: 'finish' },
    ],
  },
  {
    name: 'a text for people written and handed in',
    task: 'Write a short guide for new colleagues',
    steps: [
      call('write_file', { path: 'docs/guide.md', text: 'Welcome' }, 'written'),
      { thought: 'The guide is finished.', action: 'submit' },
    ],
  },
  {
    name: 'many calls in one step, the same ones as in the step before but for one',
    task: 'Compare the versions of the packages',
    steps: times(5, (i) =>
      call(
        'parallel',
        { calls: times(6, (k) => call('npm_view', { name: `pkg-${k}`, version: `${i}.${k}` }, '')) },
        `versions of round ${i}: ${i * 3}`,
      ),
    ),
  },
  {
    name: 'an API explored by its parts, some of which are missing',
    task: 'Which parts of the interface are public?',
    steps: ['users', 'orders', 'items', 'carts', 'taxes'].map((part, i) =>
      call(
        'http_get',
        { url: `https://api.local/v1/${part}` },
        i % 2 === 0 ? `404 ${part} not found` : `[{"${part}": 1}]`,
      ),
    ),
  },
  // Review.
  {
    name: 'one comment a file with much the same words',
    task: 'Review the pull request 77 of the shop',
    steps: ['cart', 'order', 'price', 'stock', 'user'].flatMap((name) => [
      call('get_diff', { file: `src/${name}.ts` }, `+ const ${name}: any = load();`),
      call(
        'add_comment',
        { file: `src/${name}.ts`, body: `Please give ${name} a type instead of any.` },
        'comment added',
      ),
    ]),
  },
  {
    name: 'a finding confirmed by the code before it is told',
    task: 'Review the change to the cache',
    steps: [
      call('get_diff', { file: 'cache.go' }, '+ delete(m, k)'),
      read('cache.go', 'func (c *Cache) Delete(k string) { delete(c.m, k) }'),
      call(
        'add_comment',
        { file: 'cache.go', body: 'Deleting while iterating is fine in Go.' },
        'comment added',
      ),
      call('approve', { number: 12 }, 'approved'),
    ],
  },
  {
    name: 'a review with a table of findings',
    task: 'Review the change to the scheduler',
    steps: [
      call('get_diff', { file: 'scheduler.py' }, '+ while True: run()'),
      say(`Findings:\n${'| scheduler.py | line | the loop never sleeps and burns a core |\n'.repeat(12)}`),
    ],
  },
  // Questions.
  {
    name: 'one question taken apart',
    task: 'How old was the architect of the Tower of Lund when the Hall of Brask was opened?',
    steps: [
      web(
        'Find out who was the architect of the Tower of Lund.',
        'The Tower of Lund was built by Ebba Krog.',
      ),
      web('Find the year of birth of Ebba Krog.', 'Ebba Krog was born in 1871.'),
      web('Find the year in which the Hall of Brask was opened.', 'The Hall of Brask was opened in 1913.'),
      call('finish', '42', ''),
    ],
  },
  {
    name: 'the first step on a riddle inside the task',
    task: 'In the 2014 article of Nora Vane in the journal that is named after the smith of the gods, which word is quoted twice?',
    steps: [
      web(
        'Look up the name of the smith of the gods in the old tales.',
        'The smith of the gods is called Volund.',
      ),
      web(
        'Search for the article by Nora Vane in the journal Volund of 2014.',
        'Nora Vane: Dragons, Volund 2014',
      ),
      web(
        'Open the article of Nora Vane and find the quoted word.',
        'The word "fluffy" is quoted from two authors.',
      ),
    ],
  },
  {
    name: 'the same question for many cities',
    task: 'Make a table of the population of ten cities',
    steps: ['Oslo', 'Bergen', 'Turku', 'Malmo', 'Aarhus', 'Tartu', 'Riga', 'Vaasa'].map((city, i) =>
      web(
        `Please look up how many people live in ${city}.`,
        `${city} has ${100 + i * 37} thousand inhabitants.`,
      ),
    ),
  },
  {
    name: 'a lookup that needs three tries, the third with a result',
    task: 'Which award did the film Silent Orchard win?',
    steps: [
      call('search', 'Silent Orchard award', 'No results found.'),
      call('search', 'Silent Orchard film prize', 'No results found.'),
      call('search', 'Silent Orchard festival', 'Silent Orchard won the Silver Leaf in Gdynia.'),
      call('finish', 'the Silver Leaf', ''),
    ],
  },
  {
    name: 'a source named by the task, used from the start',
    task: 'Which trails near Lake Morn are highly rated on TrailAdvisor?',
    steps: [
      web('Search on TrailAdvisor for trails near Lake Morn.', 'Trails near Lake Morn on TrailAdvisor'),
      web('Open the first of them and note its rating.', 'Fern Loop, rated 4.7 of 5'),
    ],
  },
  {
    name: 'two sources, one after the other',
    task: 'What is the longest film of Ada Brandt according to CineBase that is available on Streamly?',
    steps: [
      web(
        'Find the list of films of Ada Brandt on CineBase with their lengths.',
        'CineBase: Ada Brandt, 12 films',
      ),
      web('Sort those films of Ada Brandt by length.', 'The Long Field, 190 minutes'),
      web('Check whether The Long Field can be seen on Streamly.', 'Streamly: The Long Field, available'),
    ],
  },
  // Customers.
  {
    name: 'a customer with many wishes, one after the other',
    task: 'Hi, I need some help with my orders',
    steps: [
      say('Sure. May I have your e-mail address to find your account?', 'ann@example.com'),
      call('find_user', { email: 'ann@example.com' }, '{"user_id":"ann_1"}'),
      say('Thank you, Ann. What can I do for you?', 'Which kettles do you have?'),
      call('list_products', { kind: 'kettle' }, '["K-100","K-200"]'),
      say('We have the K-100 and the K-200.', 'And what about toasters?'),
      call('list_products', { kind: 'toaster' }, '["T-1"]'),
      say('We have the T-1.', 'Then please cancel order W7.'),
      call('get_order', { id: 'W7' }, '{"id":"W7","status":"pending"}'),
      say('Order W7 is pending. Shall I cancel it? (yes/no)', 'yes'),
      call('cancel_order', { id: 'W7' }, '{"id":"W7","status":"cancelled"}'),
      say('Order W7 has been cancelled successfully. Anything else?', 'No, thanks.'),
    ],
  },
  {
    name: 'flights searched for a wish that the first message does not name',
    task: 'Hi! I need to change something, please.',
    steps: [
      say('Of course, what would you like to change?', 'I would like to fly from Lyon to Gdansk instead.'),
      ...['2026-05-01', '2026-05-02', '2026-05-03', '2026-05-04', '2026-05-05', '2026-05-06'].map((date) =>
        call(
          'search_flights',
          { from: 'LYS', to: 'GDN', date },
          `[{"flight":"X${date.slice(-1)}","seats":3}]`,
        ),
      ),
    ],
  },
  {
    name: 'sums worked out one after the other',
    task: 'What is the sum of all my gift cards?',
    steps: [
      call('get_user', { id: 'bo_2' }, '{"gift cards": [12, 30, 44, 51, 60, 72, 80]}'),
      call('get_balance', { card: 'all gift cards' }, '{"gift cards": 7}'),
      ...times(6, (i) => call('calculate', { expression: `${i * 11} + ${i * 7 + 3}` }, String(i * 18 + 3))),
    ],
  },
  {
    name: 'details of one product after the other',
    task: 'I would like to have the best version of everything that I ordered',
    steps: [
      call('get_orders', { user: 'cy_3' }, '{"ordered": ["7001","7002","7003","7004","7005","7006","7007"]}'),
      call('get_order', { id: 'ordered 1' }, '{"version": "basic"}'),
      ...times(7, (i) =>
        call('get_product', { product_id: `${7001 + i}` }, `{"name":"thing ${i}","price":${i * 9}}`),
      ),
    ],
  },
  {
    name: 'a customer who is asked twice for the same thing',
    task: 'I want to return my shoes',
    steps: [
      say('Could you please give me the order number of the shoes?', 'I do not have it.'),
      say('No problem. Could you give me your e-mail address instead?', 'bo@example.com'),
      call('find_user', { email: 'bo@example.com' }, '{"user":"bo"}'),
      call('get_orders', { user: 'bo' }, '[{"id":"W1","items":["shoes"],"status":"delivered"}]'),
      say('I found your order W1 with the shoes. Shall I start the return?', 'Yes please'),
      call('return_items', { order: 'W1', items: ['shoes'] }, '{"status":"return requested"}'),
      say('The return of your shoes has been requested successfully.', 'Great, thank you'),
    ],
  },
  {
    name: 'a refusal that the result bears out',
    task: 'Please change my flight',
    steps: [
      call('get_booking', { id: 'Q1' }, '{"fare":"basic","changes":"not allowed"}'),
      say(
        'I am sorry: basic fares cannot be changed. I can offer to cancel the booking instead.',
        'No, leave it.',
      ),
    ],
  },
  {
    name: 'what other people did is told, not done',
    task: 'Where is my parcel?',
    steps: [
      call('get_parcel', { id: 'P9' }, '{"events":["shipped","customs","delivered to neighbour"]}'),
      say('Your parcel has been shipped and was delivered to your neighbour at noon.', 'Thank you!'),
    ],
  },
  {
    name: 'an account that was found, told to the customer',
    task: 'Can you look up my account?',
    steps: [
      call('find_user', { email: 'di@example.com' }, '{"user":"di","plan":"gold"}'),
      say('I have successfully found your account: you are on the gold plan.', 'Thanks'),
    ],
  },
  // Browsing.
  {
    name: 'a list scrolled with new entries each time',
    task: 'Find the cheapest laptop with 32 GB',
    steps: times(10, (i) =>
      call('scroll', { direction: 'down' }, `laptop ${i * 2}: ${900 - i * 13} euro; laptop ${i * 2 + 1}`),
    ),
  },
  {
    name: 'a form filled in field by field',
    task: 'Apply for the parking permit of Ms Adler',
    steps: ['name', 'street', 'city', 'plate', 'phone', 'mail'].map((field) =>
      call('browser_type', { selector: `#${field}`, text: `${field} of Ms Adler` }, 'typed'),
    ),
  },
  {
    name: 'hits opened one after the other by the back button',
    task: 'Find a plumber who works on Sundays',
    steps: times(10, (i) =>
      i % 2 === 0
        ? call(
            'browser_click',
            { text: `result ${i / 2}` },
            `Plumber ${i / 2}: opening hours Monday to Friday, phone ${i}23`,
          )
        : call('browser_back', {}, `results of the search for plumbers, ${i}`),
    ),
  },
  // Operations.
  {
    name: 'waiting until a rollout is through',
    task: 'Roll out version 12 of the shop',
    steps: [
      bash('kubectl set image deploy/shop shop=shop:12', 'deployment.apps/shop image updated'),
      ...times(9, (i) =>
        bash('kubectl rollout status deploy/shop', `Waiting for rollout to finish: ${i} of 10 updated`),
      ),
      bash('kubectl rollout status deploy/shop', 'deployment "shop" successfully rolled out'),
    ],
  },
  {
    name: 'a queue watched while it drains',
    task: 'Drain the queue before the upgrade',
    steps: times(8, (i) => call('get_queue_length', { queue: 'mail' }, `{"length": ${800 - i * 100}}`)),
  },
  {
    name: 'one command on many hosts',
    task: 'Collect the free space of all hosts',
    steps: times(12, (i) => bash(`ssh web${i} df -h /`, `/dev/sda1 50G ${i + 3}G ${47 - i}G ${10 + i}% /`)),
  },
  {
    name: 'one command on many hosts, some of which do not answer',
    task: 'Collect the uptime of all hosts',
    steps: times(8, (i) =>
      bash(
        `ssh db${i} uptime`,
        i % 3 === 2 ? `up ${i} days` : `ssh: connect to host db${i} port 22: Connection refused`,
      ),
    ),
  },
  {
    name: 'a database looked at table by table',
    task: 'Which tables hold addresses?',
    steps: ['users', 'orders', 'suppliers', 'branches', 'staff', 'leads'].map((name) =>
      call(
        'run_sql',
        `SELECT column_name FROM columns WHERE table_name = '${name}'`,
        `id, ${name}_street, ${name}_city`,
      ),
    ),
  },
  {
    name: 'the state read back after a change',
    task: 'Raise the limit of open files of the web server',
    steps: [
      bash('cat /etc/nginx/nginx.conf', 'worker_rlimit_nofile 1024;'),
      bash("sed -i 's/1024/65536/' /etc/nginx/nginx.conf", ''),
      bash('nginx -t', 'nginx: configuration file test is successful'),
      say('The limit is raised and the configuration is valid.'),
    ],
  },
  // Data entry.
  {
    name: 'rows entered one by one',
    task: 'Enter the attendance list into the sheet',
    steps: ['Ann', 'Bo', 'Cy', 'Di', 'Ed', 'Flo', 'Gus', 'Hal'].map((name, i) =>
      call('append_row', { sheet: 'attendance', row: [name, 'present', `2026-03-0${i + 1}`] }, 'row added'),
    ),
  },
  {
    name: 'the same value entered for many records, with a word of it',
    task: 'Set the region of all Danish customers to North',
    steps: times(8, (i) =>
      call(
        'update_record',
        { id: `dk-${i}`, region: 'North' },
        '{"ok":true}',
        'This customer is Danish too, so the region becomes North.',
      ),
    ),
  },
  {
    name: 'a summary after each chapter, with the work going on',
    task: 'Make an abstract of the four chapters of the handbook',
    steps: [
      'safety of machines',
      'storage of chemicals',
      'training of staff',
      'reporting of accidents',
    ].flatMap((topic, i) => [
      call('read_chapter', { number: i + 1 }, `Chapter ${i + 1}: ${topic} in detail`),
      {
        thought: `Summary of the work so far: chapter ${i + 1} explains the ${topic}; its main rules were noted down with pages ${i * 9} to ${i * 9 + 8}.`,
      },
    ]),
  },
  {
    name: 'a plan that is changed and said to be',
    task: 'Fix the rounding of amounts in the invoice totals',
    steps: [
      call('grep', { pattern: 'rounding invoice totals' }, 'src/invoice.ts:12: total rounding'),
      read('src/invoice.ts', 'export function totals(): amount'),
      ...['webpack', 'babel', 'eslint', 'jest', 'husky', 'turbo'].map((tool) =>
        read(
          `config/${tool}.json`,
          `{"${tool}": true}`,
          'Before the invoice totals can be fixed the tool chain has to run, so I go through its settings first.',
        ),
      ),
    ],
  },
];

describe.each(Object.entries(TOLD) as [MonitorName, Case[]][])('%s fires:', (monitor, cases) => {
  it.each(cases)('$name', ({ task, steps }) => {
    expect(firedIn(judgeRun(steps, task))).toContain(monitor);
  });
});

describe('no monitor fires:', () => {
  it.each(LEFT_ALONE)('$name', ({ task, steps }) => {
    expect(firedIn(judgeRun(steps, task))).toEqual([]);
  });
});
