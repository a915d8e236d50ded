/**
 * The worlds of the varied agents (varied-family.ts): a support desk, a ledger in SQL, code fixes in a shell, a shop's
 * pages, a calendar, alerts. The student's rules were developed on these families. Bench process.
 */

import type { AgentFamily, LoggedCall } from './agent-family.ts';
import {
  date,
  digits,
  fail,
  hex,
  json,
  lastOf,
  money,
  person,
  pick,
  requestNoise,
  tool,
} from './agent-worlds.ts';
import { accepts, toFamily, type VariedFamily } from './varied-family.ts';

const okOf = (log: readonly LoggedCall[], name: string): LoggedCall | undefined =>
  log.findLast((call) => call.name === name && !call.is_error);

// ---------------------------------------------------------------- support desk

interface DeskWorld {
  ticket: string;
  order: string;
  customer: { id: string; name: string; email: string };
  item: string;
  total: number;
  status: string;
  days: number;
  wants: 'refund' | 'status' | 'address';
  street: string;
  done: string;
}
const DESK: VariedFamily<DeskWorld> = {
  name: 'support_desk',
  tools: [
    tool('get_ticket', 'A ticket', { ticket_id: 'string' }),
    tool('get_customer', 'A customer', { customer_id: 'string' }),
    tool('get_order', 'An order', { order_id: 'string' }),
    tool('issue_refund', 'Pay back', { order_id: 'string', amount: 'number', reason: 'string' }),
    tool('change_address', 'Before it is shipped', { order_id: 'string', street: 'string' }),
    tool('reply', 'Write to the customer', { ticket_id: 'string', message: 'string' }),
    tool('close_ticket', 'Close it', { ticket_id: 'string', resolution: 'string', note: 'string' }),
  ],
  makeWorld: (random, isShifted) => ({
    ticket: `T-${digits(random, 5)}`,
    order: `ORD-${digits(random, 6)}`,
    customer: { id: `C${digits(random, 5)}`, ...person(random) },
    item: pick(random, [
      'desk lamp',
      'teapot',
      'running shoes',
      'headphones',
      'cast iron pan',
      'duvet',
      'backpack',
    ]),
    total: money(random, 9, 400),
    status: pick(
      random,
      isShifted ? ['lost', 'seized'] : ['delivered', 'delivered', 'shipped', 'processing'],
    ),
    days: 1 + random.below(60),
    wants: pick(random, ['refund', 'refund', 'status', 'address']),
    street: `${1 + random.below(200)} ${pick(random, ['Oak', 'Mill', 'High', 'Station', 'Park', 'Church'])} ${pick(random, ['Street', 'Road', 'Lane'])}`,
    done: '',
  }),
  system: (_w, random) => `You are the support agent of Harbour Goods. Handle the ticket that you are given.
Refund delivered orders that are at most 30 days old, in full. Addresses change only while an order is processing.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `Handle ticket ${w.ticket}.`,
      `Ticket ${w.ticket} is yours.`,
      `Please work on ${w.ticket}`,
    ]),
  call(w, name, input) {
    if (name === 'get_ticket') {
      const body = {
        refund: `Hi, I want my money back for ${w.order}, the ${w.item} is not what I expected.`,
        status: `Where is my order ${w.order}? I have been waiting.`,
        address: `Please send ${w.order} to ${w.street} instead.`,
      }[w.wants];
      return json({
        ticket_id: w.ticket,
        customer_id: w.customer.id,
        order_id: w.order,
        topic: w.wants,
        body,
      });
    }
    if (name === 'get_customer') return json({ ...w.customer, language: 'en' });
    if (name === 'get_order')
      return json({
        order_id: w.order,
        item: w.item,
        total: w.total,
        status: w.status,
        age_days: w.days,
        currency: 'EUR',
      });
    w.done = `${w.done} ${name} ${String(input.order_id ?? '')}`;
    return json({ ok: true });
  },
  options(w, log) {
    const first = w.customer.name.split(' ')[0]!;
    const total = w.total.toFixed(2).replace(/\.?0+$/, '');
    if (okOf(log, 'get_ticket') === undefined)
      return [{ name: 'get_ticket', input: { ticket_id: w.ticket } }];
    const looks = [];
    if (okOf(log, 'get_customer') === undefined)
      looks.push({ name: 'get_customer', input: { customer_id: w.customer.id } });
    if (okOf(log, 'get_order') === undefined) looks.push({ name: 'get_order', input: { order_id: w.order } });
    if (looks.length > 0) return looks;
    const refunds = w.wants === 'refund' && w.status === 'delivered' && w.days <= 30;
    const moves = w.wants === 'address' && w.status === 'processing';
    if (refunds && okOf(log, 'issue_refund') === undefined)
      return [
        {
          name: 'issue_refund',
          input: { order_id: w.order, amount: w.total },
          texts: {
            reason: {
              phrases: [
                [
                  'Customer not satisfied with',
                  'The customer is unhappy with',
                  'Customer returned',
                  'Not as expected:',
                  'Dissatisfied with',
                ],
                [`the ${w.item}`, `${w.item}`],
                ['', 'within the return window', 'and asked for money back', '(refund policy applies)'],
              ],
              needs: [],
            },
          },
        },
      ];
    if (moves && okOf(log, 'change_address') === undefined)
      return [{ name: 'change_address', input: { order_id: w.order, street: w.street } }];
    if (okOf(log, 'reply') === undefined)
      return [
        {
          name: 'reply',
          input: { ticket_id: w.ticket },
          texts: { message: deskReply(w, refunds, moves, first, total) },
        },
      ];
    return [
      okOf(log, 'close_ticket') === undefined ? closeTicket(w, refunds, moves) : deskFinal(w, refunds, moves),
    ];
  },
};
function closeTicket(w: DeskWorld, refunds: boolean, moves: boolean) {
  return {
    name: 'close_ticket',
    input: {
      ticket_id: w.ticket,
      resolution: refunds || moves ? 'done' : w.wants === 'status' ? 'answered' : 'declined',
    },
    texts: {
      note: {
        phrases: [
          refunds
            ? ['Refund issued', 'Refunded the order', 'Money returned to customer']
            : moves
              ? ['Address changed', 'Updated the address']
              : w.wants === 'status'
                ? ['Told the customer the status', 'Status given']
                : ['Request declined', 'Explained why it is not possible', 'Declined per policy'],
          ['', 'and customer informed.', 'as asked.', '- closing.'],
        ],
        needs: [],
        never: refunds ? ['declined'] : [],
      },
    },
  };
}

function deskFinal(w: DeskWorld, refunds: boolean, moves: boolean) {
  return {
    final: {
      phrases: [
        [
          `Ticket ${w.ticket} is closed.`,
          `${w.ticket} is done and closed.`,
          `I have closed ${w.ticket}.`,
          `All done with ${w.ticket}!`,
          `${w.ticket}: closed.`,
        ],
        refunds
          ? [
              `I refunded ${w.order}.`,
              `The customer was refunded for ${w.order}.`,
              `A refund for ${w.order} went out.`,
            ]
          : moves
            ? [`The address of ${w.order} was updated.`, `${w.order} goes to the new address.`]
            : w.wants === 'status'
              ? [`The customer knows where ${w.order} is.`, `I told the customer about ${w.order}.`]
              : [
                  `The request for ${w.order} could not be granted.`,
                  `I had to decline for ${w.order}; it is not possible.`,
                ],
        ['', 'Let me know if there is anything else.', 'Anything else I can do?', 'Happy to help further.'],
      ],
      needs: [w.ticket, w.order],
      never: refunds || moves || w.wants === 'status' ? ['decline', 'could not'] : ['refunded', 'went out'],
    },
  };
}

function deskReply(w: DeskWorld, refunds: boolean, moves: boolean, first: string, total: string) {
  const hello = [`Hi ${first},`, `Hello ${first},`, `Dear ${w.customer.name},`, `Hi ${first}!`];
  const bye = [
    '',
    'Best regards, Harbour Goods',
    'Kind regards, the Harbour Goods team',
    'Have a great day!',
  ];
  if (refunds) return deskRefund(w, hello, bye, first, total);
  if (moves)
    return {
      phrases: [
        hello,
        [
          `Your order ${w.order} now goes to ${w.street}.`,
          `I have changed the address of ${w.order} to ${w.street}.`,
          `We will send ${w.order} to ${w.street}.`,
        ],
        bye,
      ],
      needs: [w.street, w.order, first],
    };
  if (w.wants === 'status')
    return {
      phrases: [
        hello,
        [
          `Your order ${w.order} is ${w.status}.`,
          `The status of ${w.order} is: ${w.status}.`,
          `I checked ${w.order} and it is ${w.status}.`,
        ],
        ['', 'Thanks for your patience.', 'Thank you for waiting.'],
        bye,
      ],
      needs: [w.status, w.order, first],
    };
  return deskRefusal(w, hello, bye, first);
}

function deskRefund(w: DeskWorld, hello: string[], bye: string[], first: string, total: string) {
  return {
    phrases: [
      hello,
      [
        `I am sorry that the ${w.item} was not right for you.`,
        `Sorry to hear about the ${w.item}.`,
        'Thanks for reaching out.',
      ],
      [
        `I have refunded ${total} EUR for order ${w.order}.`,
        `Your refund of ${total} EUR for ${w.order} is on its way.`,
        `We have issued a refund of ${total} EUR for your order ${w.order}.`,
      ],
      ['', 'It takes 3 to 5 days.', 'Please allow 3 to 5 business days.', 'You will see it in 3 to 5 days.'],
      bye,
    ],
    needs: [total, w.order, first],
  };
}

function deskRefusal(w: DeskWorld, hello: string[], bye: string[], first: string) {
  const why =
    w.wants === 'refund'
      ? w.status === 'delivered'
        ? [
            `it was delivered ${w.days} days ago and we refund within 30 days`,
            `more than 30 days (${w.days}) have passed`,
          ]
        : [`it is still ${w.status}`, `it has the status ${w.status}`]
      : [`it is already ${w.status}`, `its status is ${w.status}`];
  return {
    phrases: [
      hello,
      [
        `Unfortunately I cannot do that for ${w.order}:`,
        `I am afraid this is not possible for ${w.order} because`,
        `We are unable to help with ${w.order}, since`,
      ],
      why.map((words) => `${words}.`),
      bye,
    ],
    needs: [w.order, first],
    never: ['refunded', 'on its way'],
  };
}

// ---------------------------------------------------------------- SQL

interface SqlWorld {
  customer: string;
  month: string;
  kind: 'count' | 'sum' | 'last';
  value: number;
  day: string;
}
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
];
const SQL: VariedFamily<SqlWorld> = {
  name: 'ledger_sql',
  tools: [
    tool('list_tables', 'Tables of the database', {}),
    tool('describe_table', 'Columns of a table', { table: 'string' }),
    tool('run_query', 'Runs SQL', { sql: 'string' }),
  ],
  makeWorld: (random) => ({
    customer: person(random).name,
    month: pick(random, MONTHS),
    kind: pick(random, ['count', 'count', 'sum', 'last']),
    value: 1 + random.below(900),
    day: date(random),
  }),
  system: (_w, random) => `You answer questions about the sales database. Look at the tables first.
${requestNoise(random)}`,
  task: (w, random) =>
    ({
      count: pick(random, [
        `How many orders did ${w.customer} place in ${w.month}?`,
        `Number of orders by ${w.customer} in ${w.month}?`,
      ]),
      sum: pick(random, [
        `What did ${w.customer} spend in ${w.month}?`,
        `Total spending of ${w.customer} in ${w.month}, please.`,
      ]),
      last: pick(random, [`When did ${w.customer} last order?`, `Date of the last order of ${w.customer}?`]),
    })[w.kind],
  call(w, name, input) {
    if (name === 'list_tables') return json({ tables: ['customers', 'orders', 'order_lines'] });
    if (name === 'describe_table')
      return input.table === 'orders'
        ? json({ table: 'orders', columns: ['id', 'customer_name', 'month', 'total', 'placed_on'] })
        : json({ table: input.table, columns: ['id', 'name'] });
    const sql = String(input.sql);
    if (!sql.includes(w.customer)) return json({ rows: [] });
    if (/count/i.test(sql)) return json({ rows: [{ n: w.value }] });
    if (/sum/i.test(sql)) return json({ rows: [{ total: w.value }] });
    return json({ rows: [{ placed_on: w.day }] });
  },
  options(w, log) {
    if (lastOf(log, 'list_tables') === undefined) return [{ name: 'list_tables', input: {} }];
    const queried = lastOf(log, 'run_query');
    if (queried === undefined) {
      const sql = {
        count: `SELECT COUNT(*) AS n FROM orders WHERE customer_name = '${w.customer}' AND month = '${w.month}'`,
        sum: `SELECT SUM(total) AS total FROM orders WHERE customer_name = '${w.customer}' AND month = '${w.month}'`,
        last: `SELECT MAX(placed_on) AS placed_on FROM orders WHERE customer_name = '${w.customer}'`,
      }[w.kind];
      const query = { name: 'run_query', input: { sql } };
      // Some runs look at the columns first.
      return lastOf(log, 'describe_table') === undefined
        ? [{ name: 'describe_table', input: { table: 'orders' }, weight: 2 }, query]
        : [query];
    }
    const first = w.customer.split(' ')[0]!;
    const finals = {
      count: {
        phrases: [
          [
            `${w.customer} placed ${w.value} orders in ${w.month}.`,
            `In ${w.month}, ${w.customer} placed ${w.value} orders.`,
            `The number of orders that ${w.customer} placed in ${w.month} is ${w.value}.`,
            `${w.value} orders were placed by ${w.customer} in ${w.month}.`,
            `There were ${w.value} orders from ${w.customer} in ${w.month}.`,
          ],
          ['', 'Let me know if you need a breakdown.', 'I can break this down further.'],
        ],
        needs: [String(w.value), w.customer],
      },
      sum: {
        phrases: [
          [
            `${w.customer} spent ${w.value} in ${w.month}.`,
            `In ${w.month}, ${w.customer} spent a total of ${w.value}.`,
            `Total spending by ${w.customer} in ${w.month}: ${w.value}.`,
          ],
          ['', 'Let me know if you need more detail.'],
        ],
        needs: [String(w.value), w.customer],
      },
      last: {
        phrases: [
          [
            `The last order of ${w.customer} was placed on ${w.day}.`,
            `${w.customer} last ordered on ${w.day}.`,
            `Most recent order by ${w.customer}: ${w.day}.`,
          ],
          ['', `Would you like to see ${first}'s other orders?`],
        ],
        needs: [w.day, w.customer],
      },
    };
    return [{ final: finals[w.kind] }];
  },
};

// ---------------------------------------------------------------- code in a shell

interface FixWorld {
  module: string;
  name: string;
  right: string;
  wrong: string;
  fixed: boolean;
  message: string;
}
const FIX: VariedFamily<FixWorld> = {
  name: 'shell_fix',
  tools: [tool('bash', 'Runs a command', { command: 'string' })],
  makeWorld(random) {
    const [wrong, right] = pick(random, [
      ['a - b', 'a + b'],
      ['a < b', 'a <= b'],
      ['None', '[]'],
      ['range(n)', 'range(n + 1)'],
    ] as const);
    return {
      module: pick(random, ['billing', 'cart', 'dates', 'export', 'loader', 'paths', 'rates', 'search']),
      name: `fix_${hex(random, 5)}`,
      right,
      wrong,
      fixed: false,
      message: '',
    };
  },
  system: (_w, random) => `You fix failing tests in a Python project with a shell.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [`tests/test_${w.module}.py fails. Fix it.`, `Please make tests/test_${w.module}.py pass.`]),
  call(w, name, input) {
    if (name !== 'bash') return fail('no such tool');
    const command = String(input.command);
    if (command.startsWith('pytest'))
      return w.fixed
        ? { text: `1 passed in 0.${10 + (w.name.length % 7)}s` }
        : {
            text: `FAILED tests/test_${w.module}.py\nsrc/${w.module}.py:12: in ${w.name}\n    return ${w.wrong}\nAssertionError`,
          };
    if (command.startsWith('cat'))
      return { text: `def ${w.name}(a, b, n=3):\n    # may be wrong\n    return ${w.wrong}\n` };
    if (command.startsWith('sed')) {
      w.fixed = true;
      return { text: '' };
    }
    w.message = command;
    return { text: `[main ${w.name.slice(4)}f] committed\n 1 file changed` };
  },
  options(w, log) {
    const bash = (command: string) => ({ name: 'bash', input: { command } });
    const ran = (prefix: string) => log.some(({ input }) => String(input.command).startsWith(prefix));
    const count = log.filter(({ input }) => String(input.command).startsWith('pytest')).length;
    const test = bash(`pytest tests/test_${w.module}.py`);
    const cat = bash(`cat src/${w.module}.py`);
    if (!w.fixed) {
      if (count === 0) return ran('cat') ? [test] : [{ ...test, weight: 3 }, cat];
      if (!ran('cat')) return [cat];
      return [bash(`sed -i 's/return ${w.wrong}/return ${w.right}/' src/${w.module}.py`)];
    }
    if (count < 2) return [test];
    if (w.message === '') return [bash(`git commit -am "fix ${w.name} in ${w.module}"`)];
    return [
      {
        final: {
          phrases: [
            [
              `The tests in tests/test_${w.module}.py pass now.`,
              `Fixed: tests/test_${w.module}.py passes.`,
              `tests/test_${w.module}.py is green again.`,
            ],
            [`The bug was in ${w.name}.`, `${w.name} returned the wrong value.`, `I corrected ${w.name}.`],
          ],
          needs: [`tests/test_${w.module}.py`, w.name],
        },
      },
    ];
  },
};

// ---------------------------------------------------------------- a shop's pages

interface ShopWorld {
  product: string;
  ref: number;
  price: string;
  stock: boolean;
  names: string[];
}
const PRODUCTS = [
  'Aurora Kettle',
  'Basalt Mug',
  'Cirrus Fan',
  'Delta Tent',
  'Ember Stove',
  'Fjord Jacket',
  'Glint Torch',
  'Harbor Rug',
  'Iris Vase',
  'Juno Chair',
  'Krill Rod',
  'Lumen Lamp',
  'Mica Tray',
  'Nimbus Hat',
];
const SHOP: VariedFamily<ShopWorld> = {
  name: 'shop_pages',
  tools: [
    tool('open_page', 'Opens an address', { url: 'string' }),
    tool('type_text', 'Types into a field', { ref: 'string', text: 'string' }),
    tool('click', 'Clicks an element', { ref: 'string' }),
    tool('save_price', 'Keeps a price', {
      product: 'string',
      price: 'string',
      available: 'boolean',
      comment: 'string',
    }),
  ],
  makeWorld(random) {
    const names = [0, 1, 2].map(() => pick(random, PRODUCTS));
    return {
      product: pick(random, PRODUCTS),
      ref: 20 + random.below(60),
      price: `$${money(random, 5, 300).toFixed(2)}`,
      stock: random.chance(0.8),
      names,
    };
  },
  system: (_w, random) => `You read prices in a web shop at https://shop.example and keep them.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `What does the ${w.product} cost? Keep it.`,
      `Keep the price of the ${w.product}.`,
      `Look up the ${w.product} and keep its price.`,
    ]),
  call(w, name, input) {
    if (name === 'open_page') return { text: '[1] searchbox "Search"\n[2] button "Go"\n[3] link "Cart"' };
    if (name === 'type_text') return { text: `[1] searchbox "${String(input.text)}"\n[2] button "Go"` };
    if (name === 'click')
      return String(input.ref) === '2'
        ? {
            text: `Results\n[${w.ref}] link "${w.product}"\n[${w.ref + 1}] link "${w.names[0]} Set"\n[${w.ref + 2}] link "${w.names[1]} Pro"`,
          }
        : {
            text: `${w.product}\nPrice: ${w.price}\n${w.stock ? 'In stock' : 'Sold out'}\n[9] button "Add to cart"`,
          };
    return json({ saved: true });
  },
  options(w, log) {
    const clicks = log.filter(({ name }) => name === 'click').length;
    if (lastOf(log, 'open_page') === undefined)
      return [{ name: 'open_page', input: { url: 'https://shop.example' } }];
    if (lastOf(log, 'type_text') === undefined)
      return [{ name: 'type_text', input: { ref: '1', text: w.product } }];
    if (clicks === 0) return [{ name: 'click', input: { ref: '2' } }];
    if (clicks === 1) return [{ name: 'click', input: { ref: String(w.ref) } }];
    if (lastOf(log, 'save_price') === undefined)
      return [
        {
          name: 'save_price',
          input: { product: w.product, price: w.price, available: w.stock },
          texts: {
            comment: {
              phrases: [
                w.stock
                  ? ['Available now', 'In stock', 'Can be ordered', 'Product page shows it in stock']
                  : ['Sold out at the moment', 'Currently not available', 'No stock', 'Page says sold out'],
                ['', '(checked on the product page)', 'as of today'],
              ],
              needs: [],
            },
          },
        },
      ];
    return [
      {
        final: {
          phrases: [
            [
              `The ${w.product} costs ${w.price}.`,
              `Price of the ${w.product}: ${w.price}.`,
              `I found the ${w.product} for ${w.price}.`,
              `${w.product} is listed at ${w.price}.`,
            ],
            w.stock
              ? ['It is in stock.', 'It is available.', 'You can order it now.']
              : ['It is sold out.', 'It is not available right now.', 'Unfortunately it is sold out.'],
            ['', 'I have kept the price.', 'The price is saved.'],
          ],
          needs: [w.product, w.price],
          never: w.stock ? ['sold out', 'not available'] : ['in stock', 'can order'],
        },
      },
    ];
  },
};

// ---------------------------------------------------------------- calendar

interface CalendarWorld {
  who: { name: string; email: string };
  day: string;
  start: string;
  end: string;
  busy: boolean;
  topic: string;
  made: boolean;
}
const CALENDAR: VariedFamily<CalendarWorld> = {
  name: 'calendar',
  tools: [
    tool('find_contact', 'A contact by name', { name: 'string' }),
    tool('list_events', 'Events of a day', { date: 'string' }),
    tool('create_event', 'Makes an event', {
      title: 'string',
      date: 'string',
      start: 'string',
      end: 'string',
      attendee: 'string',
      description: 'string',
    }),
  ],
  makeWorld(random) {
    const hour = 8 + random.below(9);
    return {
      who: person(random),
      day: date(random),
      start: `${String(hour).padStart(2, '0')}:00`,
      end: `${String(hour + 1).padStart(2, '0')}:00`,
      busy: random.chance(0.3),
      topic: pick(random, ['budget', 'roadmap', 'hiring', 'contract', 'launch', 'review', 'training']),
      made: false,
    };
  },
  system: (_w, random) => `You keep a calendar. Make an event only when the time is free.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `Meet ${w.who.name} about the ${w.topic} on ${w.day} from ${w.start} to ${w.end}.`,
      `Put a meeting with ${w.who.name} on ${w.day}, ${w.start} to ${w.end}: ${w.topic}.`,
    ]),
  call(w, name, input) {
    if (name === 'find_contact') return json({ name: w.who.name, email: w.who.email });
    if (name === 'list_events')
      return json({
        date: input.date,
        free: !w.busy,
        events: w.busy ? [{ title: 'Standup', start: w.start, end: w.end }] : [],
      });
    w.made = true;
    return json({ event_id: `ev_${w.who.email.length}${w.start.slice(0, 2)}x`, status: 'confirmed' });
  },
  options(w, log) {
    const looks = [];
    if (lastOf(log, 'find_contact') === undefined)
      looks.push({ name: 'find_contact', input: { name: w.who.name } });
    if (lastOf(log, 'list_events') === undefined) looks.push({ name: 'list_events', input: { date: w.day } });
    if (looks.length > 0) return looks;
    if (!w.busy && !w.made)
      return [
        {
          name: 'create_event',
          input: {
            title: `Meeting: ${w.topic}`,
            date: w.day,
            start: w.start,
            end: w.end,
            attendee: w.who.email,
          },
          texts: {
            description: {
              phrases: [
                [`Discussion with ${w.who.name}`, `Meeting with ${w.who.name}`, `Talk with ${w.who.name}`],
                [`about the ${w.topic}.`, `on ${w.topic}.`, `regarding ${w.topic}.`],
              ],
              needs: [w.topic],
            },
          },
        },
      ];
    return [
      {
        final: w.busy
          ? {
              phrases: [
                [
                  `You are busy on ${w.day} at ${w.start}.`,
                  `${w.day} from ${w.start} to ${w.end} is taken.`,
                  `There is a conflict on ${w.day} at ${w.start}.`,
                ],
                ['So I made no event.', 'Nothing was booked.', 'I did not create the meeting.'],
                ['', 'Shall I look for another time?', 'Do you want another slot?'],
              ],
              needs: [w.day, w.start],
              never: ['is booked', 'is set'],
            }
          : {
              phrases: [
                [
                  `The meeting with ${w.who.name} is set for ${w.day}, ${w.start} to ${w.end}.`,
                  `Done! ${w.who.name} is invited on ${w.day} at ${w.start}.`,
                  `I have booked ${w.day}, ${w.start} to ${w.end}, with ${w.who.name}.`,
                ],
                ['', 'An invitation was sent.', 'The invitation is out.'],
              ],
              needs: [w.day, w.start, w.who.name],
              never: ['nothing', 'conflict', 'busy'],
            },
      },
    ];
  },
};

// ---------------------------------------------------------------- alerts

interface AlertWorld {
  id: string;
  service: string;
  severity: string;
  count: number;
  host: string;
  errors: string;
  done: string;
}
const ALERTS: VariedFamily<AlertWorld> = {
  name: 'alert_triage',
  tools: [
    tool('get_alert', 'An alert', { alert_id: 'string' }),
    tool('search_logs', 'Lines of a service', { service: 'string', query: 'string' }),
    tool('page_oncall', 'Wakes the engineer on call', { service: 'string', summary: 'string' }),
    tool('create_issue', 'For the team', { service: 'string', alert_id: 'string', summary: 'string' }),
    tool('silence', 'Mutes an alert', { alert_id: 'string', hours: 'integer' }),
  ],
  makeWorld: (random, isShifted) => ({
    id: `AL-${digits(random, 4)}`,
    service: pick(random, ['auth', 'billing', 'search', 'mailer', 'gateway', 'reports']),
    severity: pick(random, isShifted ? ['security'] : ['critical', 'warning', 'warning', 'info']),
    count: 1 + random.below(400),
    host: `node-${digits(random, 3)}`,
    errors: pick(random, ['timeout', 'out of memory', 'connection refused', 'disk full']),
    done: '',
  }),
  system: (
    _w,
    random,
  ) => `You triage alerts: page for critical ones, file an issue for warnings, silence information for 4 hours.
${requestNoise(random)}`,
  task: (w, random) => pick(random, [`Alert ${w.id} fired.`, `Triage ${w.id}.`, `${w.id} needs a look.`]),
  call(w, name) {
    if (name === 'get_alert')
      return json({ alert_id: w.id, service: w.service, severity: w.severity, host: w.host });
    if (name === 'search_logs')
      return json({ matches: w.count, sample: `${w.host} ${w.errors}`, level: 'error' });
    w.done = name;
    return json({ accepted: true });
  },
  options(w, log) {
    if (lastOf(log, 'get_alert') === undefined) return [{ name: 'get_alert', input: { alert_id: w.id } }];
    if (lastOf(log, 'search_logs') === undefined)
      return [{ name: 'search_logs', input: { service: w.service, query: w.host } }];
    const summary = {
      phrases: [
        [
          `${w.service} on ${w.host}: ${w.count} errors`,
          `${w.count} errors of ${w.service} on ${w.host}`,
          `High error count (${w.count}) in ${w.service}, host ${w.host}`,
        ],
        [`(${w.errors}).`, `- ${w.errors}.`, `caused by ${w.errors}.`],
      ],
      needs: [w.host, String(w.count)],
    };
    if (w.done === '') {
      if (w.severity === 'critical')
        return [{ name: 'page_oncall', input: { service: w.service }, texts: { summary } }];
      if (w.severity === 'info') return [{ name: 'silence', input: { alert_id: w.id, hours: 4 } }];
      return [{ name: 'create_issue', input: { service: w.service, alert_id: w.id }, texts: { summary } }];
    }
    const did = {
      page_oncall: ['the on-call engineer was paged', 'I paged on-call'],
      create_issue: ['I filed an issue for the team', 'an issue was created'],
      silence: ['it is silenced for 4 hours', 'I silenced it for 4 hours'],
    }[w.done] ?? [''];
    return [
      {
        final: {
          phrases: [
            [
              `Alert ${w.id} (${w.service}):`,
              `${w.id} on ${w.service}:`,
              `For ${w.id} of ${w.service},`,
              `${w.id}, ${w.service}:`,
            ],
            did.map((words) => `${words}.`),
            ['', `There were ${w.count} matching lines.`, `The logs show ${w.count} matches.`],
          ],
          needs: [w.id, w.service],
          never: w.done === 'page_oncall' ? ['silence'] : ['paged'],
        },
      },
    ];
  },
};

const VARIED = [DESK, SQL, FIX, SHOP, CALENDAR, ALERTS] as readonly VariedFamily[];

/** The varied families as `AgentFamily`. */
export const VARIED_FAMILIES: readonly AgentFamily[] = VARIED.map(
  (family) => toFamily(family) as AgentFamily,
);

/** Whether an answer is right in a varied family's world, in any wording. */
export function isRightAnswer(
  family: string,
  world: unknown,
  log: readonly LoggedCall[],
  content: Parameters<typeof accepts>[1],
): boolean {
  const found = VARIED.find(({ name }) => name === family)!;
  return accepts(found.options(world, log), content);
}
