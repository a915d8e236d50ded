/**
 * An engineer that repairs data pipelines: it reads long logs, SQL and YAML, edits a file and runs the pipeline again,
 * which may fail once more for another reason. Two edits count as the same if the file is the same after both. Messages
 * API, streamed. Pure; bench process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import type { Facts } from '../facts.ts';
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
import { haveSameArguments } from '../truth.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { addDays, isoDate, makeDay, makeId } from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const SUBJECTS =
  'accounts,baskets,bookings,carriers,claims,clicks,contracts,couriers,devices,donors,fares,freight,grants,invoices,leads,ledgers,listings,meters,parcels,patients,payouts,permits,policies,readings,refunds,rentals,rides,sensors,shipments,stores,surveys,tickets,tolls,vouchers,wagons'.split(
    ',',
  );
const SHAPES = ['daily', 'summary', 'facts', 'snapshot', 'rollup', 'history'];
/** Names of columns, each with the new name that a source gives the column. */
const RENAMES: readonly (readonly [string, string])[] = [
  ['cust_ref', 'customer_ref'],
  ['amt', 'amount_net'],
  ['country', 'country_code'],
  ['created', 'created_at'],
  ['qty', 'quantity'],
  ['zip', 'postal_code'],
  ['dept', 'department_id'],
  ['curr', 'currency'],
  ['sales_rep', 'owner_id'],
  ['state', 'lifecycle_state'],
];
const COLUMNS = ['id', 'batch_no', 'source_file', 'channel', 'segment', 'priority', 'site_id', 'checksum'];
const TEAMS = { secret: 'platform', missing: 'partners' } as const;

type Fault =
  | { is: 'renamed'; old: string; now: string }
  | { is: 'type'; column: string; sample: string }
  | { is: 'early'; at: string; ready: string; next: string }
  | { is: 'secret'; secret: string }
  | { is: 'missing'; file: string };

interface Pipeline {
  name: string;
  source: string;
  partner: string;
  day: number;
  /** The second fault shows after the first one is mended. */
  faults: readonly Fault[];
  runs: readonly string[];
  rows: string;
  sql: { path: string; text: string };
  yaml: { path: string; text: string };
}

const TOOLS = [
  tool('get_pipeline', 'Reads the state of a pipeline and the id of its last run.', { name: 'string' }),
  tool('read_log', 'Reads the log of a run.', { run_id: 'string' }),
  tool('read_file', 'Reads a file of the repository.', { path: 'string' }),
  tool('edit_file', 'Replaces a text that occurs once in a file.', {
    path: 'string',
    old_text: 'string',
    new_text: 'string',
  }),
  tool('run_pipeline', 'Runs a pipeline and waits for its end.', { name: 'string' }),
  tool('open_review', 'Opens a change for review.', { path: 'string', title: 'string' }),
  tool('open_ticket', 'Opens a ticket for another team.', {
    team: 'string',
    title: 'string',
    body: 'string',
  }),
];

function makeFault(prng: Prng, kinds: readonly Fault['is'][], source: string, day: number): Fault {
  const hour = between(prng, 1, 4);
  const ready = hour + between(prng, 1, 3);
  const clock = (at: number): string => `${String(at).padStart(2, '0')}:00`;
  switch (pick(prng, kinds)) {
    case 'renamed': {
      const [old, now] = pick(prng, RENAMES);
      return { is: 'renamed', old, now };
    }
    case 'type':
      return {
        is: 'type',
        column: pick(prng, ['weight_kg', 'unit_price', 'distance_km', 'score', 'duration_min', 'tax_rate']),
        sample: `${between(prng, 1, 900)}.${between(prng, 11, 99)}`,
      };
    case 'early':
      return {
        is: 'early',
        at: clock(hour),
        ready: `${String(ready).padStart(2, '0')}:${between(prng, 10, 55)}`,
        next: clock(ready + 1),
      };
    case 'secret':
      return {
        is: 'secret',
        secret: `${source}/${pick(prng, ['reader', 'export', 'sftp', 'api'])}-${between(prng, 10, 99)}`,
      };
    case 'missing':
      return { is: 'missing', file: `${source}_${isoDate(day).replaceAll('-', '')}.csv.gz` };
  }
}

function makePipeline(prng: Prng, kind: RunKind): Pipeline {
  const [source, other] = shuffle(prng, SUBJECTS) as [string, string];
  const name = `${source}_${pick(prng, SHAPES)}`;
  const day = makeDay(prng);
  const mendable = ['renamed', 'renamed', 'type', 'early'] as const;
  const first = makeFault(
    prng,
    kind === 'restricted' || prng.chance(0.75) ? mendable : ['secret', 'missing'],
    source,
    day,
  );
  // The other fault is in the other file.
  const second = makeFault(prng, first.is === 'renamed' ? ['type'] : ['renamed'], source, day);
  const isMendable = first.is !== 'secret' && first.is !== 'missing';
  const failsTwice = prng.chance(0.2);
  const faults = isMendable && kind === 'usual' && failsTwice ? [first, second] : [first];
  const draft = {
    name,
    source,
    partner: other,
    day,
    faults,
    runs: Array.from({ length: 3 }, () => makeId(prng, 'run-', 8)),
    rows: String(between(prng, 1_100, 980_000)),
  };
  return { ...draft, sql: writeSql(prng, draft), yaml: writeYaml(prng, draft) };
}

type Draft = Omit<Pipeline, 'sql' | 'yaml'>;

function writeSql(prng: Prng, { name, source, faults }: Draft): Pipeline['sql'] {
  const renamed = faults.find((fault) => fault.is === 'renamed');
  const [plain] = shuffle(
    prng,
    RENAMES.filter(([old]) => old !== renamed?.old),
  );
  const columns = shuffle(prng, [...shuffle(prng, COLUMNS).slice(0, between(prng, 3, 5)), plain![1]]);
  const at = between(prng, 1, columns.length);
  if (renamed !== undefined) columns.splice(at, 0, renamed.old);
  const lines = columns.map((column, i) => `    src.${column}${i < columns.length - 1 ? ',' : ''}`);
  return {
    path: `models/${name}.sql`,
    text: [
      `-- ${name}: one row for each of the ${source} of the day`,
      'SELECT',
      ...lines,
      `FROM raw.${source} AS src`,
      `LEFT JOIN ref.calendar AS cal ON cal.day = src.load_day`,
      "WHERE src.load_day = DATE '{{ run_day }}'",
      '',
    ].join('\n'),
  };
}

function writeYaml(prng: Prng, { name, source, faults }: Draft): Pipeline['yaml'] {
  const type = faults.find((fault) => fault.is === 'type');
  const early = faults.find((fault) => fault.is === 'early');
  const columns = shuffle(prng, [
    ...shuffle(prng, COLUMNS)
      .slice(0, 4)
      .map((column) => [column, pick(prng, ['text', 'bigint', 'date'])]),
    ...(type === undefined ? [] : [[type.column, 'integer']]),
  ]);
  return {
    path: `pipelines/${name}.yaml`,
    text: [
      `pipeline: ${name}`,
      `owner: data-${pick(prng, ['core', 'ops', 'finance', 'growth'])}`,
      'schedule:',
      `  start_after: "${early?.at ?? `0${between(prng, 1, 8)}:00`}"`,
      `  retries: ${between(prng, 0, 3)}`,
      'inputs:',
      `  - raw.${source}`,
      'columns:',
      ...columns.map(([column, kind]) => `  ${column}: ${kind}`),
      'alerts:',
      `  channel: "#${pick(prng, ['data-alerts', 'nightly', 'on-call-data'])}"`,
      '',
    ].join('\n'),
  };
}

/** Writes a log whose error follows many unimportant lines. */
function writeLog(prng: Prng, { name, source, day, partner }: Pipeline, fault: Fault): string {
  const lines: string[] = [];
  let at = Date.UTC(2026, 0, 1, between(prng, 1, 5), between(prng, 0, 59), between(prng, 0, 59));
  const say = (level: string, text: string): void => {
    at += between(prng, 40, 9_000);
    lines.push(`${isoDate(day)} ${new Date(at).toISOString().slice(11, 23)} ${level.padEnd(5)} ${text}`);
  };
  say('INFO', `starting ${name} for ${isoDate(addDays(day, -1))}`);
  say(
    'INFO',
    `worker ${makeId(prng, 'w', 3)}, image etl:${between(prng, 3, 9)}.${between(prng, 0, 30)}.${between(prng, 0, 9)}`,
  );
  for (let i = 0; i < between(prng, 18, 40); i++)
    say(
      pick(prng, ['INFO', 'INFO', 'DEBUG', 'WARN']),
      pick(prng, [
        `chunk ${i} of raw.${source} read, ${between(prng, 900, 50_000)} rows`,
        `cache hit for ref.calendar (${between(prng, 1, 90)} ms)`,
        `slow query, ${between(prng, 1_000, 9_000)} ms: SELECT count(*) FROM raw.${partner}`,
        `connection ${between(prng, 1, 32)} returned to the pool`,
        `retrying the upload of a heartbeat (attempt ${between(prng, 1, 3)})`,
      ]),
    );
  for (const line of ERRORS[fault.is](fault as never, { name, source })) say('ERROR', line);
  say('INFO', `${name} finished with state failed`);
  return lines.join('\n');
}

type Named = Pick<Pipeline, 'name' | 'source'>;
type FaultOf<K extends Fault['is']> = Extract<Fault, { is: K }>;

const ERRORS: { [K in Fault['is']]: (fault: FaultOf<K>, names: Named) => string[] } = {
  renamed: ({ old, now }, { name, source }) => [
    `step transform failed: models/${name}.sql`,
    `Binder Error: column "${old}" not found in raw.${source}. Candidate bindings: "src.${now}"`,
  ],
  type: ({ column, sample }, { name }) => [
    `step validate failed: pipelines/${name}.yaml`,
    `Conversion Error: column "${column}" is declared integer, but the value "${sample}" is decimal`,
  ],
  early: ({ at, ready }, { source }) => [
    `step wait_for_input failed: raw.${source} was not complete at ${at}`,
    `input raw.${source} was completed at ${ready}`,
  ],
  secret: ({ secret }, { source }) => [
    `step extract failed: 401 from the source of ${source}`,
    `secret ${secret} has expired`,
  ],
  missing: ({ file }) => [
    `step extract failed: no object matches ${file}`,
    'the partner has not delivered the file',
  ],
};

const TASKS = [
  '{The pipeline|Pipeline} <name> {failed|is red} {last night|this morning|again}. {Please fix it.|Can you repair it?|}',
  '<name> {did not run through|broke}{ on <day>|}. {Find out why and repair it.|Please look.}',
  '{No fresh data|Stale data} in <name> {since yesterday|today}. {Get it going again|Please take care of it}.',
  'On-call: <name> is failing{, dashboards are empty|}. {Yours.|Please mend it.}',
];

class MenderRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #pipeline: Pipeline;
  readonly #logs: readonly string[];
  /** What a sentence forbids: edits, or a new run of the pipeline. */
  readonly #frozen: 'edits' | 'runs' | null;
  #edited = 0;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    const pipeline = makePipeline(prng, kind);
    this.#pipeline = pipeline;
    this.#logs = pipeline.faults.map((fault) => writeLog(prng, pipeline, fault));
    this.#frozen = kind === 'restricted' ? pick(prng, ['edits', 'runs'] as const) : null;
    const rule =
      this.#frozen === 'edits'
        ? pick(prng, [
            ' The repository is frozen until Monday: do not edit files, open a ticket for the team "data" instead.',
            ' You may not change any files this week. Open a ticket for the team "data" with what you would change.',
          ])
        : this.#frozen === 'runs'
          ? pick(prng, [
              ' Do not run the pipeline yourself today; the next schedule does.',
              ' Mend it, but you must not start it: the cluster is full.',
            ])
          : '';
    const inSystem = prng.chance(0.5);
    this.system = [
      'You repair data pipelines. Read the log of the last run, then the file that is at fault; change as little as possible, and run the pipeline again.',
      'A column that the source renamed gets its new name in the SQL. A column that is declared with the wrong type becomes "decimal". If the input came too late, start_after becomes the full hour after it was complete.',
      `Expired secrets are a ticket for the team "${TEAMS.secret}", files that a partner did not deliver one for "${TEAMS.missing}". End with one or two sentences: cause and what you did.${inSystem ? rule : ''}`,
    ].join('\n');
    const task = word(prng, pick(prng, TASKS), { name: pipeline.name, day: isoDate(pipeline.day) });
    this.task = inSystem ? task : `${task}${rule}`;
  }

  perform({ name, input }: ToolCall): Result {
    const { name: called, runs, faults, day, rows } = this.#pipeline;
    switch (name) {
      case 'get_pipeline':
        return input.name === called
          ? good({
              name: called,
              state: 'failed',
              last_run: runs[0],
              day: isoDate(day),
              files: [this.#pipeline.sql.path, this.#pipeline.yaml.path],
            })
          : bad('no such pipeline');
      case 'read_log': {
        const log = this.#logs[runs.indexOf(String(input.run_id))];
        return log === undefined ? bad('no such run') : good(log);
      }
      case 'read_file': {
        const file = this.#file(input.path);
        return file === undefined ? bad('no such file') : good(file.text);
      }
      case 'edit_file': {
        const after = this.#afterEdit(input);
        if (after === null) return bad('old_text was not found in the file, or is there more than once');
        this.#edited++;
        return good('1 replacement');
      }
      case 'run_pipeline':
        if (input.name !== called) return bad('no such pipeline');
        return this.#edited < faults.length
          ? good({ run: runs[this.#edited], state: 'failed' })
          : good({ run: runs[2], state: 'succeeded', rows: Number(rows) });
      case 'open_review':
        return good({ review: `!${rows.slice(0, 3)}` });
      case 'open_ticket':
        return good({ ticket: `DATA-${rows.slice(0, 4)}` });
      default:
        return bad(`no tool ${name}`);
    }
  }

  #file(path: unknown): { path: string; text: string } | undefined {
    return [this.#pipeline.sql, this.#pipeline.yaml].find((file) => file.path === path);
  }

  /** Returns the file's edited text, without white space around it or at the ends of lines; null: the edit fails. */
  #afterEdit({ path, old_text, new_text }: ToolCall['input']): string | null {
    const file = this.#file(path);
    if (file === undefined || typeof old_text !== 'string' || old_text === '') return null;
    const parts = file.text.split(old_text);
    if (parts.length !== 2) return null;
    return parts
      .join(String(new_text))
      .replaceAll(/[ \t]+\n/g, '\n')
      .trim();
  }

  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    if (wanted.name !== 'edit_file') return haveSameArguments(wanted, call);
    if (wanted.name !== call.name) return false;
    const after = this.#afterEdit(call.input);
    // A failed edit changes nothing, so it is compared by its arguments.
    return after === null ? haveSameArguments(wanted, call) : after === this.#afterEdit(wanted.input);
  }

  moves(turns: readonly Turn[]): Move[] {
    const { name, runs, faults } = this.#pipeline;
    if (callsOf(turns, 'get_pipeline').length === 0) return only({ name: 'get_pipeline', input: { name } });
    const edits = callsOf(turns, 'edit_file').length;
    const ran = callsOf(turns, 'run_pipeline').length;
    const fault = faults[edits];
    if (fault === undefined || (edits > ran && edits > 0)) return this.#afterMending(turns);
    const logs = callsOf(turns, 'read_log').map(({ input }) => input.run_id);
    if (!logs.includes(runs[edits])) return only({ name: 'read_log', input: { run_id: runs[edits] } });
    if (fault.is === 'secret' || fault.is === 'missing' || this.#frozen === 'edits') {
      if (callsOf(turns, 'open_ticket').length > 0) return ending(this.#tellTicket(fault));
      const look = this.#look(turns, fault);
      const ticket = { weight: 1, calls: [this.#ticket(fault)] };
      return look === null
        ? [ticket]
        : [
            { ...ticket, weight: 0.3 },
            { weight: 0.7, calls: [look] },
          ];
    }
    const look = this.#look(turns, fault);
    return look === null ? this.#edits(turns, fault) : [{ weight: 1, calls: [look] }];
  }

  /** Lists the moves after an edit. */
  #afterMending(turns: readonly Turn[]): Move[] {
    const { name } = this.#pipeline;
    if (this.#frozen === 'runs') return ending(this.#tellMended('waits'));
    if (callsOf(turns, 'run_pipeline').length === callsOf(turns, 'edit_file').length)
      return ending(this.#tellMended('ran'));
    if (this.#kind !== 'changed') return only({ name: 'run_pipeline', input: { name } });
    // In a changed run, the model asks for a review and runs nothing.
    return callsOf(turns, 'open_review').length > 0
      ? ending(this.#tellMended('in review'))
      : only({
          name: 'open_review',
          input: { path: this.#placeOf(this.#pipeline.faults[0]!)! },
          free: { title: this.#title(this.#pipeline.faults[0]!) },
        });
  }

  /** Returns the call that reads the faulty file; null: the file was read, or no file is faulty. */
  #look(turns: readonly Turn[], fault: Fault): WantedCall | null {
    const path = this.#placeOf(fault);
    if (path === null) return null;
    const isRead = callsOf(turns, 'read_file').some(({ input }) => input.path === path);
    return isRead ? null : { name: 'read_file', input: { path } };
  }

  #placeOf(fault: Fault): string | null {
    const { sql, yaml } = this.#pipeline;
    if (fault.is === 'renamed') return sql.path;
    return fault.is === 'type' || fault.is === 'early' ? yaml.path : null;
  }

  /** Lists the right edit in some spellings, and a slip: an edit of a text that the file does not have. */
  #edits(turns: readonly Turn[], fault: Fault): Move[] {
    const path = this.#placeOf(fault)!;
    const edit = (old_text: string, new_text: string): WantedCall => ({
      name: 'edit_file',
      input: { path, old_text, new_text },
    });
    const [before, after] = replacementOf(fault);
    const line = this.#file(path)!
      .text.split('\n')
      .find((each) => each.includes(before))!;
    const whole = edit(line, line.replace(before, after));
    const failed = allCallsOf(turns, 'edit_file').filter(({ is_error }) => is_error).length;
    const moves: Move[] = [
      { weight: 0.6, calls: [edit(before, after)] },
      { weight: 0.25, calls: [edit(line.trim(), line.trim().replace(before, after))] },
      { weight: 0.12, calls: [whole] },
    ];
    if (failed === 0)
      return [
        ...moves,
        {
          weight: 0.04,
          is_slip: true,
          calls: [edit(`\t${line.trim()}`, `\t${line.trim().replace(before, after)}`)],
        },
      ];
    const reads = callsOf(turns, 'read_file').filter(({ input }) => input.path === path).length;
    return reads > failed
      ? moves
      : [...moves, { weight: 0.5, calls: [{ name: 'read_file', input: { path } }] }];
  }

  #values(fault: Fault): Record<string, string> {
    const { name, source, partner, rows, sql, yaml } = this.#pipeline;
    const { is, ...rest } = fault;
    return {
      ...{ name, source, partner, rows, is, sql: sql.path, yaml: yaml.path },
      ...{ path: this.#placeOf(fault) ?? '' },
      ...rest,
    };
  }

  #text(fault: Fault, wordings: readonly string[], needs: Facts['needs'], bars: RegExp[] = []): FreeText {
    return { wordings, values: this.#values(fault), facts: { needs, bars } };
  }

  #title(fault: Fault): FreeText {
    const titles: Readonly<Record<Fault['is'], readonly string[]>> = {
      renamed: [
        '{Follow the rename of|Rename} <old> to <now>{ in <name>|}',
        '<name>: {use|read} <now> instead of <old>',
      ],
      type: ['<name>: <column> {is|becomes} decimal', '{Declare|Make} <column> {as |}decimal{ in <name>|}'],
      early: [
        '<name>: {start|wait} {later|until <next>}',
        '{Start|Run} <name> after <next>{ instead of <at>|}',
      ],
      secret: [
        '{Secret|The secret} <secret> {has |is |}expired',
        '{Renew|Please renew} <secret>{ for <name>|}',
      ],
      missing: ['{File|Missing file} <file>{ for <name>|}', '<file> {is missing|was not delivered}'],
    };
    return this.#text(fault, titles[fault.is], []);
  }

  #ticket(fault: Fault): WantedCall {
    const team = fault.is === 'secret' || fault.is === 'missing' ? TEAMS[fault.is] : 'data';
    const bodies: Readonly<Record<Fault['is'], readonly string[]>> = {
      renamed: [
        '{<name> fails because|In <name>} {the source renamed|raw.<source> renamed} <old> to <now>. {<sql> has to follow.|Please change <sql>.}',
      ],
      type: [
        '<column> is declared integer{ in <yaml>|}, but {has values like|a value is} <sample>. {It should be decimal.|Please make it decimal.}',
      ],
      early: [
        'raw.<source> was complete at <ready>, {but <name> starts at|after the start at} <at>. start_after should be <next>.',
      ],
      secret: [
        '{<name> fails with 401|The extract of <name> gets a 401}: secret <secret> {has|is} expired. {Please renew it.|Please rotate it.}',
      ],
      missing: [
        '{<name> fails|<name> has no data} because <file> {was not delivered|is missing}. {Please ask the partner.|Can you chase it?}',
      ],
    };
    const needs: Readonly<Record<Fault['is'], string[]>> = {
      renamed: ['old', 'now'],
      type: ['column'],
      early: ['next'],
      secret: ['secret'],
      missing: ['file'],
    };
    const values = this.#values(fault);
    return {
      name: 'open_ticket',
      input: { team },
      free: {
        title: this.#title(fault),
        body: this.#text(
          fault,
          bodies[fault.is],
          needs[fault.is].map((key) => [values[key]!]),
        ),
      },
    };
  }

  #tellTicket(fault: Fault): FreeText {
    const values = this.#values(fault);
    const causes: Readonly<Record<Fault['is'], string>> = {
      renamed: '{the source renamed <old> to <now>|<old> is called <now> now}',
      type: '{<column> has decimal values but is declared integer|<column> must be decimal}',
      early:
        '{the input was complete at <ready> only|it starts at <at>, before its input is complete (<ready>)}',
      secret: '{secret <secret> has expired|the expired secret <secret>}',
      missing: '{<file> was not delivered|the missing file <file>}',
    };
    const keys = {
      renamed: 'now',
      type: 'column',
      early: 'ready',
      secret: 'secret',
      missing: 'file',
    } as const;
    return this.#text(
      fault,
      [
        `{Cause|Cause of the failure}: ${causes[fault.is]}. {I opened a ticket.|A ticket is open.}`,
        `<name> {fails|is red}: ${causes[fault.is]}. {Ticket opened|I opened a ticket}{, nothing changed|}.`,
      ],
      [[values[keys[fault.is]]!], [/\bticket\b/]],
      [/runs again|succeeded|repaired|i changed/],
    );
  }

  #tellMended(state: 'ran' | 'waits' | 'in review'): FreeText {
    const { faults, name, rows } = this.#pipeline;
    const [first, second] = faults as [Fault, Fault?];
    const wrong: Readonly<Record<Fault['is'], string>> = {
      renamed: '{column <old> is <now> now|the source renamed <old> to <now>|<old> became <now>}',
      type: '{<column> had to be decimal|<column> was declared integer, now decimal}',
      early:
        '{it started before its input was complete; start_after is <next> now|start_after was too early, now <next>}',
      secret: '',
      missing: '',
    };
    const key = { renamed: 'now', type: 'column', early: 'next', secret: 'secret', missing: 'file' } as const;
    const causes = [first, second].flatMap((fault) => {
      if (fault === undefined) return [];
      const values = this.#values(fault);
      return [
        { words: word(createPrng(Number(rows)), wrong[fault.is], values), need: values[key[fault.is]]! },
      ];
    });
    const cause = causes.map(({ words }) => words).join('; ');
    const needs: Facts['needs'] = [[name], ...causes.map(({ need }) => [need])];
    const free = (wordings: readonly string[], more: Facts['needs'], bars: RegExp[]): FreeText => ({
      wordings,
      values: { ...this.#values(second ?? first), ...this.#values(first), cause },
      facts: { needs: [...needs, ...more], bars },
    });
    if (state === 'waits')
      return free(
        [
          '{Mended|Repaired} <name>: <cause>. {I did not run it.|It was not started.}',
          '<name>: <cause>. {The file is mended; the next schedule runs it.|Not run yet.}',
        ],
        [],
        [/succeeded|runs again|rows/],
      );
    if (state === 'in review')
      return free(
        [
          '{Change of|A mended} <name> is in review: <cause>.',
          '<name>: <cause>. {I asked for a review.|The review is open.}',
        ],
        [[/review/]],
        [/succeeded|runs again|rows/],
      );
    return free(
      [
        '<name> {runs again|succeeded}{ with <rows> rows|}: <cause>.',
        '{Cause:|Fixed:} <cause>. {<name> succeeded|The run of <name> succeeded}{ (<rows> rows)|, <rows> rows}.',
        '{Repaired|I repaired} <name>: <cause>. {<rows> rows loaded.|It runs again.}',
      ],
      [],
      [/\bticket\b|\breview\b|not run/],
    );
  }
}

/** Returns the text that is replaced, and the new text. */
function replacementOf(fault: Fault): [string, string] {
  switch (fault.is) {
    case 'renamed':
      return [`src.${fault.old}`, `src.${fault.now}`];
    case 'type':
      return [`${fault.column}: integer`, `${fault.column}: decimal`];
    case 'early':
      return [`start_after: "${fault.at}"`, `start_after: "${fault.next}"`];
    default:
      throw new Error(`nothing to edit: ${fault.is}`);
  }
}

export const pipelineMender: HeldBackAgent = {
  name: 'pipeline mender',
  model: 'claude-sonnet-5',
  wire: 'messages',
  is_streaming: true,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {read the log|look at the last run}.",
    '{The cause is clear|Found it}{. Now the file|}.',
    '{Next|Now} {the check|I go on}.',
  ],
  aside_share: 0.4,
  names: [],
  start: (seed, kind) => new MenderRun(seed, kind),
};
