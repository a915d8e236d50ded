/**
 * A reviewer of pull requests: it reads long diffs, comments on lines and gives a verdict. Chat completions, streamed.
 * Pure; bench process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  only,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { anyOf, scaled } from '../independent.ts';
import { callsOf } from '../turns.ts';
import { makeId, makePerson, PERSON_NAMES } from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const THINGS =
  'address,basket,booking,budget,channel,coupon,courier,customer,depot,device,donation,employee,fare,invoice,label,ledger,meter,member,order,parcel,payment,permit,policy,product,quote,rental,report,route,schedule,shipment,stock,supplier,tariff,ticket,tour,vehicle,vendor,voucher,warehouse,worker'.split(
    ',',
  );
const VERBS =
  'apply,archive,build,cancel,check,close,collect,compare,export,filter,group,import,load,merge,move,parse,print,rank,refresh,resolve,round,split,store,sync,update'.split(
    ',',
  );
const FOLDERS = ['src/api', 'src/jobs', 'src/domain', 'src/web', 'lib', 'services/core'];
const FIELDS =
  'amount,city,code,count,createdAt,currency,id,kind,label,name,owner,price,quantity,region,state,total,updatedAt,weight'.split(
    ',',
  );

type Fault = 'secret' | 'injection' | 'assignment' | 'debug' | 'swallowed';

/** Faults that keep a change from being merged. */
const BLOCKING: readonly Fault[] = ['secret', 'injection', 'assignment'];

interface File {
  path: string;
  diff: string;
  fault: Fault | null;
  /** Number of the faulty line in the new file. */
  line: number;
  /** What the faulty line is about. */
  about: string;
}

const TOOLS = [
  tool('get_pull_request', 'Reads a pull request and the list of its files.', { number: 'integer' }),
  tool('get_diff', 'Reads the diff of a file, with the line numbers of the new file.', {
    number: 'integer',
    path: 'string',
  }),
  tool('post_comment', 'Comments on a line of the new file.', {
    number: 'integer',
    path: 'string',
    line: 'integer',
    body: 'string',
  }),
  tool('submit_review', 'Ends the review: approve, comment or request_changes.', {
    number: 'integer',
    verdict: 'string',
    summary: 'string',
  }),
];

const upper = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}`;

/** Makes a line of code without a fault. */
function plainLine(prng: Prng, thing: string): string {
  const [field, other] = [pick(prng, FIELDS), pick(prng, FIELDS)];
  const verb = pick(prng, VERBS);
  return pick(prng, [
    `const ${field} = ${thing}.${field};`,
    `if (${thing}.${field} === undefined) return null;`,
    `const ${thing}s = await ${verb}${upper(thing)}s(${field});`,
    `return ${thing}s.filter((each) => each.${field} > ${between(prng, 0, 900)});`,
    `log.info({ ${field}, ${other} }, '${verb} ${thing}');`,
    `${thing}.${field} = next.${other} ?? ${between(prng, 0, 60)};`,
    `for (const each of ${thing}s) total += each.${field};`,
    `await db.query('SELECT ${field} FROM ${thing}s WHERE ${other} = $1', [${other}]);`,
    `throw new Error(\`no ${thing} with ${field} \${${other}}\`);`,
    `export const MAX_${field.toUpperCase()} = ${between(prng, 2, 5_000)};`,
    `// ${upper(thing)}s with the same ${field} belong together.`,
    `const token = process.env.${thing.toUpperCase()}_TOKEN;`,
  ]);
}

function faultyLine(prng: Prng, fault: Fault, thing: string): { code: string; about: string } {
  const field = pick(prng, FIELDS);
  switch (fault) {
    case 'secret': {
      const name = `${thing.toUpperCase()}_${pick(prng, ['KEY', 'TOKEN', 'PASSWORD'])}`;
      return {
        code: `const ${name} = '${pick(prng, ['sk_live', 'tok', 'pw'])}_${makeId(prng, '', 9)}${makeId(prng, 'x', 7)}';`,
        about: name,
      };
    }
    case 'injection':
      return {
        code: `const rows = await db.query("SELECT * FROM ${thing}s WHERE ${field} = '" + ${field} + "'");`,
        about: field,
      };
    case 'assignment':
      return {
        code: `if (${thing}.${field} = '${pick(prng, ['open', 'paid', 'new', 'draft'])}') {`,
        about: `${thing}.${field}`,
      };
    case 'debug':
      return {
        code: `console.log('${pick(prng, ['here', 'XXX', 'why', 'test'])}', ${thing}.${field});`,
        about: `${thing}.${field}`,
      };
    case 'swallowed':
      return { code: `try { await ${pick(prng, VERBS)}${upper(thing)}(${field}); } catch {}`, about: field };
  }
}

function makeFile(prng: Prng, fault: Fault | null): File {
  const thing = pick(prng, THINGS);
  const path = `${pick(prng, FOLDERS)}/${pick(prng, VERBS)}-${thing}${fault === 'debug' ? '' : pick(prng, ['', '', '.test'])}.ts`;
  const lines: string[] = [];
  let [place, about, at] = [0, '', between(prng, 1, 60)];
  const hunks = between(prng, 1, 3);
  const faulty = prng.below(hunks);
  for (let hunk = 0; hunk < hunks; hunk++) {
    lines.push(
      `@@ line ${at} @@ ${pick(prng, ['async ', ''])}function ${pick(prng, VERBS)}${upper(thing)}()`,
    );
    const length = between(prng, 7, 18);
    const target = hunk === faulty && fault !== null ? between(prng, 2, length - 2) : -1;
    for (let i = 0; i < length; i++) {
      const isAdded = i === target || prng.chance(0.4);
      if (i !== target && prng.chance(0.15)) {
        lines.push(`${''.padStart(5)} -   ${plainLine(prng, thing)}`);
        continue;
      }
      let code = plainLine(prng, thing);
      if (i === target) {
        const made = faultyLine(prng, fault!, thing);
        [code, place, about] = [made.code, at, made.about];
      }
      lines.push(`${String(at).padStart(5)} ${isAdded ? '+' : ' '}   ${code}`);
      at++;
    }
    at += between(prng, 6, 70);
  }
  return { path, diff: [`--- a/${path}`, `+++ b/${path}`, ...lines].join('\n'), fault, line: place, about };
}

const TASKS = [
  '{Please review|Review} {pull request |PR |}#<number>{, please|}.',
  '<author> {asks for a review of|wants your eyes on} #<number> ("<title>").',
  '{Can you look at|Have a look at} pull request <number>{ by <author>|}? {It goes out today.|No hurry.|}',
  '#<number> {is ready for review|needs a reviewer}.',
];

class ReviewerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #number: number;
  readonly #title: string;
  readonly #author: string;
  readonly #files: readonly File[];
  readonly #lock: string | null;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;
  /** What a sentence says: never approve, say nothing about debug output, or approve in spite of debug output. */
  readonly #rule: 'no approval' | 'no debug' | 'lenient' | null;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#number = between(prng, 100, 9_800);
    this.#author = makePerson(prng, 'x').name;
    this.#title = `${upper(pick(prng, VERBS))} ${pick(prng, THINGS)}s ${pick(prng, ['by region', 'in batches', 'after import', 'with retries', 'on the server', 'for partners'])}`;
    this.#together = pick(prng, [0.85, 0.85, 0.1]);
    this.#rule = kind === 'restricted' ? pick(prng, ['no approval', 'no debug', 'lenient'] as const) : null;
    const faults: (Fault | null)[] =
      this.#rule === 'no approval'
        ? [null, null]
        : this.#rule !== null
          ? ['debug', null]
          : shuffle(prng, [
              'secret',
              'injection',
              'assignment',
              'debug',
              'swallowed',
              null,
              null,
              null,
              null,
              null,
            ] as const).slice(0, between(prng, 1, 3));
    this.#files = shuffle(prng, faults).map((fault) => makeFile(prng, fault));
    this.#lock = prng.chance(0.25) ? 'package-lock.json' : null;
    const rule =
      this.#rule === 'no approval'
        ? pick(prng, [
            ' Do not approve anything today; end reviews without findings with the verdict "comment".',
            ' You may not approve: use "comment" where you would.',
          ])
        : this.#rule === 'no debug'
          ? ' Ignore debug output in this branch, it is there on purpose: do not comment on it.'
          : this.#rule === 'lenient'
            ? ' For this hotfix you may approve in spite of remarks that do not block; still post them.'
            : '';
    this.system = [
      'You review pull requests of TypeScript services. Read the diff of every file except lock files, and comment on the line of each fault. There is at most one in a file.',
      'Blocking: secrets in the code, SQL that is put together from values, and assignments in conditions. They need the verdict request_changes. Debug output and errors that are swallowed get a comment, and the verdict "comment". Without findings approve.',
      'Say nothing about style. End with one or two sentences.',
    ].join('\n');
    this.task = `${word(prng, pick(prng, TASKS), {
      number: String(this.#number),
      author: this.#author,
      title: this.#title,
    })}${rule}`;
  }

  perform({ name, input }: ToolCall): Result {
    if (input.number !== this.#number) return bad('no such pull request');
    if (name === 'get_pull_request')
      return good({
        number: this.#number,
        title: this.#title,
        author: this.#author,
        state: 'open',
        files: [
          ...this.#files.map(({ path, diff }) => ({ path, changes: diff.split('\n').length - 3 })),
          ...(this.#lock === null ? [] : [{ path: this.#lock, changes: 812 }]),
        ],
      });
    if (name === 'submit_review') return good({ review: 'submitted', verdict: input.verdict });
    if (input.path === this.#lock && this.#lock !== null) return good('(file is too large)');
    const file = this.#files.find(({ path }) => path === input.path);
    if (file === undefined) return bad('no such file in this pull request');
    return name === 'get_diff' ? good(file.diff) : good({ comment: 'posted', line: input.line });
  }

  /** Files with something to say. */
  get #found(): File[] {
    return this.#files.filter(
      ({ fault }) => fault !== null && !(fault === 'debug' && this.#rule === 'no debug'),
    );
  }

  get #verdict(): 'approve' | 'comment' | 'request_changes' {
    const faults = this.#found.map(({ fault }) => fault!);
    if (faults.some((fault) => BLOCKING.includes(fault)))
      // In a changed run, the model never blocks.
      return this.#kind === 'changed' ? 'comment' : 'request_changes';
    if (this.#rule === 'no approval') return 'comment';
    return faults.length > 0 && this.#rule !== 'lenient' ? 'comment' : 'approve';
  }

  moves(turns: readonly Turn[]): Move[] {
    const number = this.#number;
    if (callsOf(turns, 'get_pull_request').length === 0)
      return only({ name: 'get_pull_request', input: { number } });
    if (callsOf(turns, 'submit_review').length > 0) return ending(this.#tell());
    const read = new Set(callsOf(turns, 'get_diff').map(({ input }) => input.path));
    const said = new Set(callsOf(turns, 'post_comment').map(({ input }) => input.path));
    const looks = this.#files
      .filter(({ path }) => !read.has(path))
      .map(({ path }) => ({ name: 'get_diff', input: { number, path } }));
    const comments = this.#found
      .filter(({ path }) => read.has(path) && !said.has(path))
      .map((file) => this.#comment(file));
    if (looks.length + comments.length === 0)
      return only({
        name: 'submit_review',
        input: { number, verdict: this.#verdict },
        free: { summary: this.#summary() },
      });
    const [first, then] = this.#together > 0.5 ? [looks, comments] : [comments, looks];
    const usual = anyOf(first.length > 0 ? first : then, this.#together);
    return [...usual, ...scaled(anyOf([...looks, ...comments], 0), 0)];
  }

  #comment(file: File): WantedCall {
    const { path, line, fault, about } = file;
    const wordings: Readonly<Record<Fault, readonly string[]>> = {
      secret: [
        '{This is|That looks like} a secret{ in the code|}. {Please read <about> from the environment.|Move it to the environment and rotate it.}',
        '{Secrets|Credentials} {must not|should not} be in the repository: {take <about> from the configuration|please rotate <about>}.',
      ],
      injection: [
        '{SQL injection|This allows SQL injection}: {use a parameter for <about>|<about> should be a parameter}.',
        '{Please do not|Do not} {concatenate|put together} SQL{ with <about>|}; {use a placeholder|use $1 and pass it as a parameter}.',
      ],
      assignment: [
        '{This assigns|This is an assignment} instead of {comparing|a comparison}: {use ===|did you mean ===?}',
        '"=" {sets|assigns} <about>{, so the condition is always true|}. {Should be ===.|Please compare with ===.}',
      ],
      debug: [
        '{Debug output|Leftover debug output|A forgotten console.log}: {please remove|can go}.',
        '{Please remove this|Remove the} console.log{ of <about>|}.',
      ],
      swallowed: [
        '{The error is|Errors are} swallowed here. {Please log it.|Log it or let it through.}',
        '{Empty catch|An empty catch block}: {failures stay invisible|a failure leaves no trace}{. At least log it|}.',
      ],
    };
    const needs: Readonly<Record<Fault, RegExp>> = {
      secret: /secret|credential|rotate/,
      injection: /injection|parameter|placeholder|concatenat/,
      assignment: /assign|===/,
      debug: /debug|console\.log/,
      swallowed: /swallow|catch/,
    };
    return {
      name: 'post_comment',
      input: { number: this.#number, path, line },
      free: {
        body: {
          wordings: wordings[fault!],
          values: { about, path, line: String(line) },
          facts: {
            needs: [[needs[fault!]]],
            bars: Object.entries(needs)
              .filter(([other]) => other !== fault && other !== 'injection' && fault !== 'injection')
              .map(([, pattern]) => pattern),
          },
        },
      },
    };
  }

  get #values(): Record<string, string> {
    const found = this.#found;
    return {
      number: String(this.#number),
      count: String(found.length),
      files: String(this.#files.length),
      paths: found.map(({ path }) => path).join(', '),
      title: this.#title,
      author: this.#author,
      diffs: this.#files.map(({ diff }) => diff).join('\n'),
    };
  }

  #summary(): FreeText {
    const wordings =
      this.#found.length === 0
        ? [
            '{Looks good|No findings}{ to me|}.',
            '{I read everything|Everything read}, {nothing to add|all fine}.',
            '{Clean change|Fine}, {thank you|thanks}.',
          ]
        : [
            '{Findings|Comments}: <count>{, see <paths>|}. {Please have a look.|Thanks!}',
            '{Please see|See} {the comment in|my remarks on} <paths>.',
            '{Otherwise fine|The rest is fine}: {see my comments|remarks in <paths>}.',
          ];
    return {
      wordings,
      values: this.#values,
      facts: {
        needs: [],
        bars:
          this.#found.length === 0
            ? [/please (fix|see|have)|findings: |remarks/]
            : [/looks good|no findings|nothing to add/],
      },
    };
  }

  #tell(): FreeText {
    const verdict = this.#verdict;
    const wordings = {
      approve: [
        '{Approved|I approved} #<number>{ after reading {all|the} diffs|}.',
        '#<number> is approved{; remarks: <count>|}{, files read: <files>|}.',
      ],
      comment: [
        '{Commented on|I commented on} #<number>{; remarks: <count>|, not approved}.',
        '#<number> {is reviewed with|got} the verdict "comment"{, remarks: <count>|}.',
      ],
      request_changes: [
        '{Requested changes for|I requested changes on} #<number>: <paths>.',
        '#<number> {needs changes|cannot go out like this}{, findings: <count>|}: {see <paths>|<paths>}.',
      ],
    }[verdict];
    const needs = { approve: /approved/, comment: /comment/, request_changes: /changes|cannot/ }[verdict];
    const bars = {
      approve: [/not approved|needs changes|requested changes/],
      comment: [/is approved|i approved|needs changes|requested changes/],
      request_changes: [/approved/],
    }[verdict];
    return {
      wordings,
      values: this.#values,
      facts: { needs: [[this.#values.number!], [needs]], bars },
    };
  }
}

export const codeReviewer: HeldBackAgent = {
  name: 'code reviewer',
  model: 'gpt-5.5',
  wire: 'chat_completions',
  is_streaming: true,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    '{Reading|I read} the {diffs|changes}.',
    '{Found something|One thing stands out}.',
    "{Let me|I'll} {go through|see} the files.",
  ],
  aside_share: 0.25,
  names: PERSON_NAMES,
  start: (seed, kind) => new ReviewerRun(seed, kind),
};
