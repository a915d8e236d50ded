/**
 * An analyst that answers plain-language questions by querying a real database (node:sqlite). Two queries count as the same
 * if they find the same rows. Responses API, without streaming. Bench process.
 */

import { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  type FreeText,
  type HeldBackAgent,
  type Move,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { haveSameArguments } from '../truth.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { between, pick, word } from '../wording.ts';

const DATABASES = 4;
const REGIONS = ['north', 'south', 'harbour', 'valley', 'lakes'];
const SEGMENTS = ['retail', 'school', 'clinic', 'studio'];
const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
];
const FIRMS = [
  'Alder',
  'Birch',
  'Cobalt',
  'Dune',
  'Ember',
  'Fjord',
  'Garnet',
  'Heron',
  'Iris',
  'Juniper',
  'Kelp',
];
const ENDINGS = ['Works', 'Partners', 'Supply', 'House', 'Group'];

const COLUMNS = {
  customers: 'id INTEGER, name TEXT, segment TEXT, region TEXT',
  orders: 'id INTEGER, customer_id INTEGER, total_cents INTEGER, status TEXT, placed_on TEXT',
  returns: 'id INTEGER, order_id INTEGER, reason TEXT',
};

const TOOLS = [
  tool('list_tables', 'Names the tables of the sales database.', {}),
  tool('describe_table', 'Names the columns of a table.', { table: 'string' }),
  tool('run_query', 'Runs one SELECT and gives its rows as JSON (SQLite).', { sql: 'string' }),
];

const databases = new Map<number, DatabaseSync>();

function openDatabase(at: number): DatabaseSync {
  const known = databases.get(at);
  if (known !== undefined) return known;
  const db = new DatabaseSync(':memory:');
  for (const [name, columns] of Object.entries(COLUMNS)) db.exec(`CREATE TABLE ${name} (${columns})`);
  const prng = createPrng(9_000 + at);
  const customer = db.prepare('INSERT INTO customers VALUES (?, ?, ?, ?)');
  const order = db.prepare('INSERT INTO orders VALUES (?, ?, ?, ?, ?)');
  const returned = db.prepare('INSERT INTO returns VALUES (?, ?, ?)');
  for (let id = 1; id <= 40; id++)
    customer.run(
      id,
      `${FIRMS[(id + at) % FIRMS.length]} ${ENDINGS[(id >> 1) % ENDINGS.length]} ${id}`,
      pick(prng, SEGMENTS),
      pick(prng, REGIONS),
    );
  for (let id = 1; id <= 600; id++) {
    const status = pick(prng, ['paid', 'paid', 'paid', 'open', 'cancelled']);
    const on = new Date(Date.UTC(2026, prng.below(12), between(prng, 1, 28))).toISOString().slice(0, 10);
    order.run(id, between(prng, 1, 40), between(prng, 900, 90_000), status, on);
    if (prng.chance(0.08)) returned.run(id, id, pick(prng, ['damaged', 'late', 'wrong item']));
  }
  databases.set(at, db);
  return db;
}

/** Runs a query that only reads. @returns the rows; null: it is not such a query, or the database refuses it */
function query(database: number, sql: unknown): unknown[] | null {
  if (typeof sql !== 'string' || !/^\s*(select|with)\b/i.test(sql)) return null;
  try {
    return openDatabase(database).prepare(sql).all();
  } catch {
    return null;
  }
}

type Question = 'revenue' | 'count' | 'best' | 'average' | 'returns';

/** A question, and the values that its condition uses. */
interface Asked {
  question: Question;
  region: string;
  segment: string;
  status: string;
  reason: string;
  month: number;
  only_paid: boolean;
}

const QUESTIONS: Readonly<Record<Question, readonly string[]>> = {
  revenue: [
    '{What was|How much was|Tell me} the {revenue|turnover} {of|in} the region <region> in <month> 2026{?| please.}',
    '{How much did we sell|What did we take} in <region> during <month> 2026?',
  ],
  count: [
    'How many orders {with the status <status>|that are <status>} {were placed|do we have} in <month> 2026?',
    '{Number|Count} of <status> orders in <month> 2026, please.',
  ],
  best: [
    '{Which customer|Who} {spent the most|had the largest turnover} in the region <region> in 2026?',
    'Our {best|biggest} customer in <region>, by turnover in 2026?',
  ],
  average: [
    'What is the average {order value|value of an order} of the segment <segment> in <month> 2026?',
    'Average order {value|size} for <segment> customers in <month> 2026, please.',
  ],
  returns: [
    'How many orders of <month> 2026 came back because {they were <reason>|of "<reason>"}?',
    '{Number of returns|How many returns} with the reason "<reason>" for orders placed in <month> 2026?',
  ],
};

/** Tables that each question needs. */
const TABLES: Readonly<Record<Question, readonly (keyof typeof COLUMNS)[]>> = {
  revenue: ['customers', 'orders'],
  count: ['orders'],
  best: ['customers', 'orders'],
  average: ['customers', 'orders'],
  returns: ['orders', 'returns'],
};

function monthClause({ month }: Asked): string {
  const [m, next] = [String(month + 1).padStart(2, '0'), String(month + 2).padStart(2, '0')];
  const end = month === 11 ? '2027-01-01' : `2026-${next}-01`;
  return `{o.placed_on LIKE '2026-${m}%'|strftime('%Y-%m', o.placed_on) = '2026-${m}'|o.placed_on >= '2026-${m}-01' AND o.placed_on < '${end}'}`;
}

/** Spells the query in many ways, which all give the same rows. */
function spellQuery(asked: Asked): string {
  const month = monthClause(asked);
  const paid = asked.only_paid ? " AND o.status = 'paid'" : '';
  const join = '{JOIN|INNER JOIN} customers c ON {c.id = o.customer_id|o.customer_id = c.id}';
  switch (asked.question) {
    case 'revenue':
      return `SELECT SUM(o.total_cents) AS {revenue|total|revenue_cents} FROM orders o ${join} WHERE {c.region = '${asked.region}' AND ${month}|${month} AND c.region = '${asked.region}'}${paid}`;
    case 'count':
      return `SELECT COUNT(*) AS {n|orders|order_count} FROM orders o WHERE {o.status = '${asked.status}' AND ${month}|${month} AND o.status = '${asked.status}'}${paid}`;
    case 'best':
      return `SELECT c.name, SUM(o.total_cents) AS {total|spent} FROM orders o ${join} WHERE c.region = '${asked.region}' AND {o.placed_on LIKE '2026%'|strftime('%Y', o.placed_on) = '2026'}${paid} GROUP BY {c.id|c.id, c.name} ORDER BY 2 DESC LIMIT 1`;
    case 'average':
      return `SELECT {ROUND(AVG(o.total_cents))|CAST(AVG(o.total_cents) + 0.5 AS INTEGER)} AS {average|avg_cents} FROM orders o ${join} WHERE c.segment = '${asked.segment}' AND ${month}${paid}`;
    case 'returns':
      return `SELECT COUNT(*) AS {n|returns} FROM returns r JOIN orders o ON {o.id = r.order_id|r.order_id = o.id} WHERE r.reason = '${asked.reason}' AND ${month}${paid}`;
  }
}

const RESTRICTIONS = [
  'Count paid orders only.',
  'Leave out everything that is not paid.',
  'Do not include open or cancelled orders.',
];

function makeAsked(prng: Prng, kind: RunKind): Asked {
  const questions: Question[] = ['revenue', 'revenue', 'count', 'best', 'average', 'returns'];
  return {
    question: pick(prng, kind === 'restricted' ? questions.filter((each) => each !== 'count') : questions),
    region: pick(prng, REGIONS),
    segment: pick(prng, SEGMENTS),
    status: pick(prng, ['paid', 'open', 'cancelled']),
    reason: pick(prng, ['damaged', 'late', 'wrong item']),
    month: prng.below(12),
    only_paid: false,
  };
}

class AnalystRun implements Run {
  readonly system =
    'You answer questions about sales with SQL. Amounts are stored in cents; say them in euros with two decimals. Look at the tables that you use before you query them. Answer in one or two sentences.';
  readonly task: string;
  readonly #database: number;
  readonly #asked: Asked;
  readonly #rows: unknown[];

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#database = seed % DATABASES;
    this.#asked = makeAsked(prng, kind);
    const { question, region, segment, status, reason, month } = this.#asked;
    const values = { region, segment, status, reason, month: MONTHS[month]! };
    const asked = word(prng, pick(prng, QUESTIONS[question]), values);
    this.task = kind === 'restricted' ? `${asked} ${pick(prng, RESTRICTIONS)}` : asked;
    // In a changed run, the model counts only paid orders as turnover.
    this.#asked.only_paid = kind === 'restricted' || (kind === 'changed' && question !== 'count');
    this.#rows = query(this.#database, this.#sql)!;
  }

  /** One spelling of the query. */
  get #sql(): string {
    return word(createPrng(1), spellQuery(this.#asked), {});
  }

  perform({ name, input }: ToolCall): Result {
    if (name === 'list_tables') return { text: JSON.stringify(Object.keys(COLUMNS)), is_error: false };
    if (name === 'describe_table') {
      const columns = COLUMNS[input.table as keyof typeof COLUMNS];
      return columns === undefined
        ? { text: 'no such table', is_error: true }
        : { text: `${input.table}(${columns})`, is_error: false };
    }
    const rows = query(this.#database, input.sql);
    return rows === null
      ? { text: `error: no such column in: ${String(input.sql).slice(0, 60)}`, is_error: true }
      : { text: JSON.stringify(rows), is_error: false };
  }

  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    if (wanted.name !== 'run_query') return haveSameArguments(wanted, call);
    // Rows from several databases are compared, because two queries may find the same rows in one database by chance.
    return [...Array(DATABASES).keys()].every((database) => {
      const rows = query(database, call.input.sql);
      return (
        rows !== null && isDeepStrictEqual(rows.map(plainRow), query(database, this.#sql)!.map(plainRow))
      );
    });
  }

  moves(turns: readonly Turn[]): Move[] {
    if (callsOf(turns, 'run_query').length > 0) return [{ weight: 1, calls: [], text: this.#answer() }];
    const described = new Set(callsOf(turns, 'describe_table').map(({ input }) => input.table));
    const missing = TABLES[this.#asked.question].filter((table) => !described.has(table));
    if (missing.length > 0) {
      const looks = missing.map((table) => ({ name: 'describe_table', input: { table } }));
      const list = { name: 'list_tables', input: {} };
      const isFirst = turns.length === 0;
      return [
        { weight: isFirst ? 0.1 : 0.92, calls: looks },
        ...looks.map((look) => ({ weight: looks.length > 1 ? 0.04 : 0, calls: [look] })),
        ...(isFirst ? [{ weight: 0.82, calls: [list] }] : []),
      ];
    }
    const wanted: FreeText = { wordings: [spellQuery(this.#asked)], values: {}, facts: null };
    const slip: FreeText = { wordings: ['SELECT SUM(amount) FROM orders'], values: {}, facts: null };
    const right: Move = { weight: 0.97, calls: [{ name: 'run_query', input: {}, free: { sql: wanted } }] };
    // The model guesses the name of a column, and the error corrects it.
    return allCallsOf(turns, 'run_query').length > 0
      ? [right]
      : [
          right,
          { weight: 0.03, is_slip: true, calls: [{ name: 'run_query', input: {}, free: { sql: slip } }] },
        ];
  }

  #answer(): FreeText {
    const { question, region, segment, status, reason, month } = this.#asked;
    const row = plainRow(this.#rows[0] ?? {});
    const number = Number(row.at(-1) ?? 0);
    const euros = (number / 100).toFixed(2);
    const grouped = euros.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
    const values = {
      ...{ region, segment, status, reason, month: MONTHS[month]!, euros, grouped },
      ...{ count: String(number), name: String(row[0] ?? '') },
    };
    const money = [[euros, grouped]];
    const monthName = [values.month];
    switch (question) {
      case 'revenue':
        return {
          wordings: [
            '{The revenue|Revenue} in {the region <region>|<region>} in <month> 2026 was {€<grouped>|<euros> EUR|EUR <grouped>}.',
            'In <month> 2026{, the region <region>| <region>} {took|sold} {<euros> euros|€<grouped>}.',
          ],
          values,
          facts: { needs: [...money, monthName, [region]] },
        };
      case 'average':
        return {
          wordings: [
            'The average {order value|value of an order} of <segment> {customers|the segment} in <month> 2026 {was|is} {€<grouped>|<euros> EUR}.',
            '<month> 2026, <segment>: {<euros> EUR|€<grouped>} an order{ on average|, on average}.',
          ],
          values,
          facts: { needs: [...money, monthName, [segment]] },
        };
      case 'best':
        return {
          wordings: [
            '{The {best|biggest} customer|The customer with the largest turnover} in <region> {is|was} <name>, with {€<grouped>|<euros> EUR}{ in 2026|}.',
            '<name> {spent the most|had the largest turnover} in <region>{ in 2026|}: {<euros> EUR|€<grouped>}.',
          ],
          values,
          facts: { needs: [[values.name], [region], ...money] },
        };
      default:
        return {
          wordings:
            question === 'count'
              ? [
                  '{There were|We had} <count> <status> orders in <month> 2026.',
                  '<count> orders {with the status <status>|that are <status>} were placed in <month> 2026.',
                ]
              : [
                  '<count> orders of <month> 2026 {came back|were returned} {with the reason "<reason>"|as <reason>}.',
                  '{There were|We had} <count> returns {because of "<reason>"|with the reason "<reason>"} for <month> 2026.',
                ],
          values,
          facts: { needs: [[values.count], monthName, [question === 'count' ? status : reason]] },
        };
    }
  }
}

/** Values in order, without the names of columns. */
function plainRow(row: unknown): unknown[] {
  return Object.values(row as object);
}

export const sqlAnalyst: HeldBackAgent = {
  name: 'sql analyst',
  model: 'gpt-5.5',
  wire: 'responses',
  is_streaming: false,
  is_labelled: false,
  tools: TOOLS,
  asides: ['{Let me|I will} {look at|check} the {schema|tables}.', '{Now|Next} {the query|I query it}.'],
  aside_share: 0.15,
  names: [],
  start: (seed, kind) => new AnalystRun(seed, kind),
};
