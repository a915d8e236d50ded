/** An agent that cleans rows of contacts page by page. Responses API, without streaming. Pure; bench process. */

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
import { callsOf } from '../turns.ts';
import { between, pick, word } from '../wording.ts';

const FIRST = ['Anke', 'Bilal', 'Chiara', 'Desmond', 'Esther', 'Fiete', 'Gaia', 'Hamza'];
const LAST = ['Ritter', 'Osei', 'Bianchi', 'Falk', 'Marsh', 'Ivanova', 'Petit', 'Sato'];
const COUNTRIES = {
  Germany: 'DE',
  France: 'FR',
  Italy: 'IT',
  Spain: 'ES',
  Poland: 'PL',
  Norway: 'NO',
} as const;
/** What the model writes in a changed run. */
const LONG_CODES: Readonly<Record<string, string>> = {
  DE: 'DEU',
  FR: 'FRA',
  IT: 'ITA',
  ES: 'ESP',
  PL: 'POL',
  NO: 'NOR',
};
const PER_PAGE = 4;

type Field = 'email' | 'country' | 'joined';

interface Row {
  id: number;
  name: string;
  email: string;
  country: string;
  joined: string;
}

interface Fix {
  id: number;
  field: Field;
  value: string;
}

const TOOLS = [
  tool('read_rows', 'Gives a page of rows of a table.', { table: 'string', page: 'integer' }),
  tool('fix_row', 'Writes one field of a row.', {
    table: 'string',
    id: 'integer',
    field: 'string',
    value: 'string',
  }),
  tool('report', 'Files a report on a table that is done.', {
    table: 'string',
    fixed: 'integer',
    remarks: 'string',
  }),
];

const TASKS = [
  '{Please clean|Clean} the table <table>{, all pages|}.',
  '<table> {needs cleaning|is a mess}{: all of its pages, please|. Go through all pages}.',
  '{Go through|Tidy up} <table> {page by page|and fix what is wrong}.',
];

const FIELDS: readonly Field[] = ['email', 'country', 'joined'];

/** Makes rows, and what must be written in them. */
function makeRows(prng: Prng, count: number, base: number): { rows: Row[]; fixes: Fix[] } {
  const fixes: Fix[] = [];
  const rows = Array.from({ length: count }, (_, at) => {
    const [first, last] = [pick(prng, FIRST), pick(prng, LAST)];
    const [country, code] = pick(prng, Object.entries(COUNTRIES));
    const [year, month, date] = [between(prng, 2019, 2026), between(prng, 1, 12), between(prng, 1, 28)].map(
      (part) => String(part).padStart(2, '0'),
    );
    const good: Row = {
      id: base + at,
      name: `${first} ${last}`,
      email: `${first}.${last}@example.com`.toLowerCase(),
      country: code,
      joined: `${year}-${month}-${date}`,
    };
    const row = { ...good };
    for (const field of FIELDS) {
      if (!prng.chance(0.14)) continue;
      row[field] =
        field === 'email'
          ? ` ${first}.${last}@Example.COM `
          : field === 'country'
            ? country
            : `${date}.${month}.${year}`;
      fixes.push({ id: row.id, field, value: good[field] });
    }
    return row;
  });
  return { rows, fixes };
}

class CleanerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #table: string;
  readonly #rows: Row[];
  readonly #fixes: readonly Fix[];

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#table = `${pick(prng, ['contacts', 'members', 'donors', 'guests'])}_${between(prng, 2019, 2026)}`;
    const { rows, fixes } = makeRows(prng, between(prng, 3, 11), between(prng, 100, 9_000));
    this.#rows = rows.map((row) => ({ ...row }));
    const left = kind === 'restricted' ? pick(prng, FIELDS) : null;
    this.#fixes = fixes
      .filter(({ field }) => field !== left)
      .map((fix) =>
        kind === 'changed' && fix.field === 'country' ? { ...fix, value: LONG_CODES[fix.value]! } : fix,
      );
    this.system =
      'You clean tables. E-mail addresses are lower case without blanks, countries are ISO codes, dates are YYYY-MM-DD. Read a page, fix what is wrong on it, then go on while has_more is true. File a report at the end and say how many fields you fixed.';
    const words =
      left === null
        ? ''
        : pick(prng, [
            ` Leave the column ${left} as it is.`,
            ` You must not change anything in ${left}.`,
            ` Do not touch ${left}: another team owns it.`,
          ]);
    this.task = `${word(prng, pick(prng, TASKS), { table: this.#table })}${words}`;
  }

  perform({ name, input }: ToolCall): Result {
    if (input.table !== this.#table) return bad('no such table');
    switch (name) {
      case 'read_rows': {
        const page = Number(input.page);
        const rows = this.#rows.slice((page - 1) * PER_PAGE, page * PER_PAGE);
        return page < 1 || rows.length === 0
          ? bad('no such page')
          : good({ page, rows, has_more: this.#rows.length > page * PER_PAGE });
      }
      case 'fix_row': {
        const row = this.#rows.find(({ id }) => id === input.id);
        if (row === undefined || !FIELDS.includes(input.field as Field)) return bad('no such row or field');
        row[input.field as Field] = String(input.value);
        return good('ok');
      }
      case 'report':
        return good({ filed: true });
      default:
        return bad(`no tool ${name}`);
    }
  }

  moves(turns: readonly Turn[]): Move[] {
    const table = this.#table;
    const pages = callsOf(turns, 'read_rows').length;
    const fixed = callsOf(turns, 'fix_row').map(({ input }) => `${input.id} ${input.field}`);
    const seen = this.#rows.slice(0, pages * PER_PAGE).map(({ id }) => id);
    const open = this.#fixes.filter(
      ({ id, field }) => seen.includes(id) && !fixed.includes(`${id} ${field}`),
    );
    if (open.length > 0) {
      const writes = open.map((fix): WantedCall => ({ name: 'fix_row', input: { table, ...fix } }));
      return [
        { weight: 0.9, calls: writes },
        // Fixing the rows one after the other is also right.
        ...(writes.length > 1
          ? writes.map((write, at) => ({ weight: at === 0 ? 0.1 : 0, calls: [write] }))
          : []),
      ];
    }
    if (pages * PER_PAGE < this.#rows.length)
      return only({ name: 'read_rows', input: { table, page: pages + 1 } });
    if (callsOf(turns, 'report').length === 0)
      return only({
        name: 'report',
        input: { table, fixed: this.#fixes.length },
        free: { remarks: this.#remarks() },
      });
    return ending(this.#tell());
  }

  #remarks(): FreeText {
    const fields = [...new Set(this.#fixes.map(({ field }) => field))];
    return {
      wordings:
        fields.length === 0
          ? [
              '{Nothing was wrong|All rows were clean}{.|, nothing changed.}',
              '{No faults|Nothing to fix} {found|in <rows> rows}.',
            ]
          : [
              '{Wrong|Unclean} {fields|values} in: <fields>.',
              '{Fixed|Corrected}: <fields>{, in <rows> rows looked at|}.',
            ],
      values: { fields: fields.join(', '), rows: String(this.#rows.length) },
      facts: { needs: [] },
    };
  }

  #tell(): FreeText {
    const count = this.#fixes.length;
    const values = { count: String(count), table: this.#table, rows: String(this.#rows.length) };
    return count === 0
      ? {
          wordings: [
            '<table> {was clean|needed nothing}: {no field|0 fields} {had to be |}fixed.',
            '{Nothing|There was nothing} to fix in <table>{ (<rows> rows)|}.',
          ],
          values,
          facts: { needs: [[/\bno\b|\b0\b|nothing/], [this.#table]] },
        }
      : {
          wordings: [
            '{Fixed|I fixed} <count> {fields|values} in <table>{ (<rows> rows)|}.',
            '<table> is clean{ now|}: <count> {fields|values} {were |}fixed.',
          ],
          values,
          facts: { needs: [[values.count], [this.#table]], bars: [/nothing/] },
        };
  }
}

export const dataCleaner: HeldBackAgent = {
  name: 'data cleaner',
  model: 'gpt-5.5',
  wire: 'responses',
  is_streaming: false,
  is_labelled: true,
  tools: TOOLS,
  asides: ['{Reading|Next} page.', '{Fixing|I fix} {these|what is wrong}.'],
  aside_share: 0.1,
  names: [],
  start: (seed, kind) => new CleanerRun(seed, kind),
};
