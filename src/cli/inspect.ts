/**
 * `understudy inspect`: shows what a capture database holds. The face of `src/analysis/inspect.ts`: flags, tables, the
 * run as a conversation, JSON. Main thread of the command line; reads only.
 *
 * Output goes out piece by piece with back-pressure, so a long run is never held whole. Everything that came from an
 * exchange is made harmless before it reaches a terminal; `--raw` alone writes bytes as they are.
 */

import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import {
  type BodySide,
  type ExchangeSource,
  RunCollection,
  type RunFilter,
  type RunStep,
  type RunSummary,
  readRun,
  readTurn,
  summarizeRun,
} from '../analysis/inspect.ts';
import { loadConfig } from '../config.ts';
import type { ExchangeRecord, TokenUsage } from '../domain/exchange.ts';
import { type GoldenCode, hasFailed } from '../domain/golden.ts';
import type { Part, Role } from '../gateway/turns/turn.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { listRunsDbs, readOutcomes } from './run-outcomes.ts';
import {
  type Cell,
  choosePalette,
  formatJson,
  layOutLines,
  makeHarmless,
  makeHarmlessLine,
  measureWidth,
  type Palette,
  wrapText,
} from './terminal-text.ts';

const HELP = `Shows what a capture database holds: runs, turns, gaps, bodies, and which runs are golden.

Usage: understudy inspect [--db FILE] [--since WHEN] [--golden | --not-golden] [--limit N] [--json]
       understudy inspect [--db FILE] --run ID [--full] [--json]
       understudy inspect [--db FILE] --exchange N [--json]
       understudy inspect [--db FILE] --exchange N --raw request|response

  --db FILE        capture database; DATA_DIR/capture.mdb when not given. Its sealed files are read with it; one of them
                   can be named too, and is then read alone. A running gateway may be writing to it.
  --since WHEN     runs that went on then or later: 90m, 12h, 7d ago, or a time such as 2026-05-01 or 2026-05-01T12:00Z
  --golden         golden runs alone; --not-golden: the others alone
  --limit N        the latest N runs, 0 for all; on a terminal 200 when not given
  --run ID         one run as the conversation that it was: what was new in each request, what was answered, how
                   long it took and what it cost, what failed and was tried again
  --full           with --run: show long texts whole instead of their beginning
  --exchange N     one exchange: status, times, model, usage, headers (credentials are never stored)
  --raw SIDE       the stored body of that exchange, request or response, byte for byte and nothing else
  --json           the same as one JSON document, for programs; with --exchange the exchange record itself

The table has a line for each run, the latest last:
  TURNS     model turns / all exchanges        IN, OUT   tokens, as the providers count them
  ERR       failed calls and aborted ones      GAPS      x-svc-seq numbers that are missing
  GOLDEN    yes, or in short why not (--run says it in full): a golden run was captured whole, with nothing missing,
            every failed call retried to success, its last turn ended of itself, and no monitor run says otherwise

Examples:
  understudy inspect
  understudy inspect --since 2h --not-golden
  understudy inspect --run checkout-fix-17
  understudy inspect --exchange 42 --raw response | jq .
  understudy inspect --json | jq -r '.runs[] | select(.golden) | .run_id'

Exit status: 0 done, 1 failed (no such database, run, exchange or body), 2 wrong use.
`;

/** Characters and lines of a text that are shown of it without --full. */
const SHOWN_CHARS = 1200;
const SHOWN_LINES = 16;

/** Characters of a system prompt that are shown without --full. */
const SHOWN_SYSTEM_CHARS = 300;

/** Arguments of a call up to this many characters stand on one line; longer ones have a line each. */
const INLINE_ARGUMENT_CHARS = 100;

/** Kept of what was unpacked, of each open file: exchanges are read in order. */
const CACHE_BYTES = 8 * 1024 * 1024;

/** The table goes out in pieces of this many characters. */
const OUTPUT_CHARS = 65_536;

/** Runs that a terminal shows without --limit. */
const TERMINAL_RUNS = 200;

/** Labels of what is said stand in a column of this width. */
const LABEL_COLUMNS = 12;

const SHORT_REASONS: Record<GoldenCode, string> = {
  no_turn: 'no turn',
  aborted: 'aborted',
  truncated: 'cut off',
  undecodable: 'unreadable',
  seq_gap: 'seq gap',
  seq_missing: 'seq missing',
  seq_repeated: 'seq repeated',
  unlinked: 'conversation broken',
  failed_call: 'failed call',
  unfinished: 'unfinished',
  shape: 'shape',
  outcome: 'outcome',
};

/** What helps the next run against each reason. */
const ADVICE: Record<GoldenCode, string> = {
  no_turn: 'only runs in which a model answers can be golden',
  aborted: 'let the agent read its answers to the end, or run the task again',
  truncated: 'raise GW_MAX_CAPTURE_BYTES',
  undecodable: 'understudy inspect --exchange N says what could not be read',
  seq_gap:
    'see writer.dropped in GET /__gw/stats: raise GW_MAX_QUEUE if it is not 0; and send every call of a run through the gateway',
  seq_missing: 'stamp x-svc-seq on every call of the run, or on none',
  seq_repeated: 'give each agent, and each start of it, an x-svc-run of its own',
  unlinked: 'stamp x-svc-run and x-svc-seq: then a client may rewrite its history as it likes',
  failed_call: 'have the client try failed calls again',
  unfinished: 'let the agent go on until the model ends its turn of itself',
  shape: 'POST /v1/messages counts always, chat-completions and responses with x-svc-run and x-svc-seq',
  outcome: 'distil from runs that succeeded',
};

/** What a test may put in place of the real surroundings. */
export interface InspectSurroundings {
  /** Used when --db is not given. */
  default_db?: string;
  /** Width of the terminal. */
  columns?: number;
  /** Opens the database; CaptureFiles when not given. */
  open?: (db: string) => Promise<OpenSource>;
  /** Databases of finished monitor runs that may speak against a run; those of DATA_DIR and beside the file. */
  runs_dbs?: string[];
  now?: () => number;
}

/** An open database and how to let go of it. */
export interface OpenSource {
  source: ExchangeSource;
  /** Exchanges in all, for the progress. */
  count?: number;
  close(): Promise<void>;
}

/**
 * Runs the command.
 * @param argv what follows `understudy inspect`
 * @returns the exit status: 0 done, 1 failed; failures are told on `io.err`
 * @throws UsageError on wrong use
 */
export async function runInspect(
  argv: string[],
  io: CliIo,
  surroundings: InspectSurroundings = {},
): Promise<number> {
  const now = surroundings.now ?? Date.now;
  const flags = readInspectFlags(argv, now());
  if (flags === 'help') {
    await io.out(HELP);
    return EXIT.done;
  }
  const config = (): ReturnType<typeof loadConfig> => loadConfig({ listener: 'gateway' });
  const db = flags.db ?? surroundings.default_db ?? config().capture.db;
  const progress = new Progress(io, io.is_terminal, now);
  try {
    const open = await (surroundings.open ?? openCapture)(resolve(db));
    try {
      const face = new InspectFace(open, io, surroundings.columns ?? process.stdout.columns, flags, progress);
      if (flags.exchange !== null) return await face.showExchange(flags.exchange);
      const runsDbs = surroundings.runs_dbs ?? (await listRunsDbs(resolve(db), config().data_dir));
      const findOutcomes: FindOutcomes = (runs) => readOutcomes(runsDbs, runs);
      if (flags.run !== null) return await face.showRun(flags.run, findOutcomes);
      return await face.showRuns(db, findOutcomes);
    } finally {
      progress.clear();
      await open.close();
    }
  } catch (error) {
    // Their messages name the file and what is wrong with it.
    if (!(error instanceof Error)) throw error;
    if (error.name !== 'CaptureFileError' && error.name !== 'OutcomesError') throw error;
    const isMissing = 'code' in error && error.code === 'missing';
    io.err(
      isMissing
        ? `understudy: there is no capture database at ${makeHarmlessLine(db)}.\n` +
            'Send something through the gateway first (understudy up), or name another file with --db.\n'
        : `understudy: ${makeHarmlessLine(error.message)}\n`,
    );
    return EXIT.failed;
  }
}

/** Reads the outcomes of monitor runs that have the id of a captured run. */
type FindOutcomes = (runs: { find(runId: string): unknown }) => Promise<Map<string, string>>;

interface Flags extends RunFilter {
  db: string | undefined;
  run: string | null;
  exchange: number | null;
  raw: BodySide | null;
  json: boolean;
  full: boolean;
  limit?: number;
}

const FLAGS = {
  db: 'text',
  run: 'text',
  exchange: 'text',
  raw: 'text',
  since: 'text',
  golden: 'switch',
  'not-golden': 'switch',
  limit: 'text',
  json: 'switch',
  full: 'switch',
} as const;

function readInspectFlags(argv: string[], nowMs: number): Flags | 'help' {
  const values = readFlags(argv, FLAGS);
  if (values.help === true) return 'help';
  const raw = values.raw ?? null;
  if (raw !== null && raw !== 'request' && raw !== 'response') {
    throw new UsageError(`--raw takes request or response, not ${formatJson(raw, 0)}`);
  }
  if (raw !== null && values.exchange === undefined) throw new UsageError('--raw needs --exchange N');
  if (raw !== null && values.json === true)
    throw new UsageError('--raw writes bytes: it does not go with --json');
  if (values.run !== undefined && values.exchange !== undefined) {
    throw new UsageError(
      '--run and --exchange do not go together: an exchange has one number in the whole database',
    );
  }
  if (values.full === true && values.run === undefined) throw new UsageError('--full goes with --run');
  if (values.golden === true && values['not-golden'] === true)
    throw new UsageError('--golden and --not-golden leave nothing together');
  for (const name of ['since', 'golden', 'not-golden', 'limit'] as const) {
    if (values[name] !== undefined && (values.run !== undefined || values.exchange !== undefined))
      throw new UsageError(`--${name} chooses among runs: it does not go with --run or --exchange`);
  }
  return {
    db: values.db,
    run: values.run ?? null,
    exchange: values.exchange === undefined ? null : readExchangeId(values.exchange),
    raw,
    json: values.json === true,
    full: values.full === true,
    ...(values.since === undefined ? {} : { since_ms: readSince(values.since, nowMs) }),
    ...(values.golden === true ? { golden: true } : {}),
    ...(values['not-golden'] === true ? { golden: false } : {}),
    ...(values.limit === undefined ? {} : { limit: readLimit(values.limit) }),
  };
}

function readExchangeId(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) {
    throw new UsageError(`--exchange takes a number from 1 on, not ${formatJson(text, 0)}`);
  }
  return Number(text);
}

function readLimit(text: string): number {
  if (!/^\d{1,9}$/.test(text))
    throw new UsageError(`--limit takes a number of runs, 0 for all, not ${formatJson(text, 0)}`);
  return text === '0' ? Number.POSITIVE_INFINITY : Number(text);
}

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90m` before now, or a time. */
function readSince(text: string, nowMs: number): number {
  const ago = /^(\d{1,9})([smhd])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * UNIT_MS[ago[2]!]!;
  const time = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(time))
    throw new UsageError(
      `--since takes 90m, 12h, 7d or a time such as 2026-05-01T12:00Z, not ${formatJson(text, 0)}`,
    );
  return time;
}

/** Writes what was asked for. */
class InspectFace {
  readonly #source: ExchangeSource;
  readonly #count: number;
  readonly #io: CliIo;
  readonly #width: number;
  readonly #flags: Flags;
  readonly #paint: Palette;
  readonly #progress: Progress;

  constructor(open: OpenSource, io: CliIo, columns: number | undefined, flags: Flags, progress: Progress) {
    this.#source = open.source;
    this.#count = open.count ?? 0;
    this.#io = io;
    this.#width =
      io.is_terminal && columns !== undefined && columns > 0
        ? Math.max(40, columns)
        : Number.POSITIVE_INFINITY;
    this.#flags = flags;
    this.#paint = choosePalette(io.has_color);
    this.#progress = progress;
  }

  async showRuns(db: string, findOutcomes: FindOutcomes): Promise<number> {
    const collection = new RunCollection();
    for (const record of this.#source.summaries()) {
      collection.add(record);
      this.#progress.tell(
        'looking through the exchanges',
        collection.size === 0 ? 0 : record.id,
        this.#count,
      );
    }
    const { since_ms, golden: onlyGolden, limit } = this.#flags;
    const shownLimit = limit ?? (this.#io.is_terminal && !this.#flags.json ? TERMINAL_RUNS : undefined);
    const filter: RunFilter = {
      ...(since_ms === undefined ? {} : { since_ms }),
      ...(onlyGolden === undefined ? {} : { golden: onlyGolden }),
      ...(shownLimit === undefined ? {} : { limit: shownLimit }),
    };
    const outcomes = await findOutcomes(collection);
    const table = await collection.judge(this.#source, outcomes, filter, (exchanges) =>
      this.#progress.tell('judging the runs', exchanges, this.#count),
    );
    this.#progress.clear();
    const { runs, without_run: withoutRun, uncounted_exchanges: uncounted, left_out_runs: leftOut } = table;
    if (this.#flags.json) {
      await this.#io.out(`{\n  "db": ${formatJson(db, 0)},\n  "runs": [`);
      for (const [i, run] of runs.entries())
        await this.#io.out(`${i === 0 ? '' : ','}\n    ${formatJson(run, 0)}`);
      const rest = { left_out_runs: leftOut, without_run: withoutRun, uncounted_exchanges: uncounted };
      await this.#io.out(`\n  ],\n${formatJson(rest, 2).slice(2)}\n`);
      return EXIT.done;
    }
    if (runs.length > 0) {
      let text = '';
      for (const line of this.#layOutRuns(runs)) {
        text += line;
        if (text.length < OUTPUT_CHARS) continue;
        await this.#io.out(text);
        text = '';
      }
      await this.#io.out(text);
    }
    const turns = runs.reduce((sum, run) => sum + run.turns, 0);
    const exchanges = runs.reduce((sum, run) => sum + run.exchanges, 0);
    const golden = runs.filter((run) => run.golden).length;
    let end = '';
    if (runs.length > 0) {
      end += `\n${count(runs.length, 'run')}, ${count(turns, 'turn')} in ${count(exchanges, 'exchange')}, ${formatCount(golden)} golden.\n`;
    }
    if (leftOut > 0)
      end += `${count(leftOut, 'earlier run')}: --limit N shows more, --limit 0 all, --since 2h the latest.\n`;
    if (withoutRun !== null) {
      end += `${count(withoutRun.exchanges, 'exchange')} without a run (${count(withoutRun.turns, 'turn')}).\n`;
    }
    if (uncounted > 0) end += `${count(uncounted, 'exchange')} of further runs: look at those with --run.\n`;
    if (end === '' && (since_ms !== undefined || onlyGolden !== undefined)) end = 'No such run.\n';
    if (end === '') end = 'The database holds no exchange yet.\n';
    await this.#io.out(end);
    return EXIT.done;
  }

  async showRun(runId: string, findOutcomes: FindOutcomes): Promise<number> {
    const outcomes = await findOutcomes({ find: (id) => (id === runId ? id : undefined) });
    const summary = summarizeRun(this.#source, runId, outcomes.get(runId) ?? null);
    if (summary === null) {
      this.#io.err(
        `understudy: the database has no run ${formatJson(runId, 0)}.\nWhich runs it has: understudy inspect\n`,
      );
      return EXIT.failed;
    }
    if (this.#flags.json) return this.#writeRunJson(summary, runId);
    await this.#io.out(this.#layOutSummary(summary));
    for (const step of readRun(this.#source, runId)) await this.#io.out(this.#layOutStep(step, summary));
    return EXIT.done;
  }

  async showExchange(id: number): Promise<number> {
    const record = this.#source.exchange(id);
    if (record === undefined) {
      this.#io.err(
        `understudy: the database has no exchange ${id}.\nWhich it has: understudy inspect --json\n`,
      );
      return EXIT.failed;
    }
    const { raw } = this.#flags;
    if (raw !== null) {
      const body = this.#source.body(id, raw);
      if (body === undefined) {
        this.#io.err(`understudy: the ${raw} body of exchange ${id} is not stored.\n`);
        return EXIT.failed;
      }
      await this.#io.out(body);
      return EXIT.done;
    }
    await this.#io.out(this.#flags.json ? `${formatJson(record, 2)}\n` : this.#layOutExchange(record));
    return EXIT.done;
  }

  async #writeRunJson(summary: RunSummary, runId: string): Promise<number> {
    await this.#io.out(`{"run": ${formatJson(summary, 0)}, "steps": [`);
    let separator = '\n';
    for (const step of readRun(this.#source, runId)) {
      const { record, turn, link, conversation, follows, new_messages, new_system } = step;
      const shown = {
        exchange: record,
        link,
        conversation,
        follows,
        system: new_system,
        new_messages,
        answer: turn?.answer ?? null,
        problem: turn?.problem ?? '',
      };
      await this.#io.out(`${separator}${formatJson(shown, 0)}`);
      separator = ',\n';
    }
    await this.#io.out('\n]}\n');
    return EXIT.done;
  }

  #layOutRuns(runs: RunSummary[]): Iterable<string> {
    const { good, bad, strong, dim } = this.#paint;
    const layOutRun = (run: RunSummary): Cell[] => {
      const failures = run.errors + run.aborted;
      const missing = run.gaps.reduce((sum, [from, to]) => sum + to - from + 1, 0);
      // On a narrow terminal the year and the seconds go first.
      const started = run.started_at
        .slice(this.#width < 100 ? 5 : 0, this.#width < 100 ? 16 : 19)
        .replace('T', ' ');
      return [
        { text: makeHarmlessLine(run.run_id ?? ''), paint: strong },
        { text: run.turns === run.exchanges ? `${run.turns}` : `${run.turns}/${run.exchanges}` },
        { text: nameAll(run.models) },
        { text: started },
        { text: formatMs(Date.parse(run.finished_at) - Date.parse(run.started_at)) },
        { text: formatTokens(run.input_tokens) },
        { text: formatTokens(run.output_tokens) },
        failures === 0 ? { text: '0', paint: dim } : { text: `${failures}`, paint: bad },
        missing === 0 ? { text: '0', paint: dim } : { text: `${missing}`, paint: bad },
        run.golden ? { text: 'yes', paint: good } : { text: `no: ${shortReasons(run)}` },
      ];
    };
    const layOutAll = function* (): Generator<Cell[]> {
      for (const run of runs) yield layOutRun(run);
    };
    return layOutLines(
      [
        { title: 'RUN', align: 'left', min: 10 },
        { title: 'TURNS', align: 'right' },
        { title: 'MODEL', align: 'left', min: 8, dispensable: 3 },
        { title: 'STARTED', align: 'left', dispensable: 1 },
        { title: 'TOOK', align: 'right', dispensable: 5 },
        { title: 'IN', align: 'right', dispensable: 2 },
        { title: 'OUT', align: 'right', dispensable: 2 },
        { title: 'ERR', align: 'right' },
        { title: 'GAPS', align: 'right', dispensable: 4 },
        { title: 'GOLDEN', align: 'left', min: 12 },
      ],
      layOutAll,
      this.#width,
      this.#paint,
    );
  }

  #layOutSummary(run: RunSummary): string {
    const { strong, good, bad, dim } = this.#paint;
    const fields: [name: string, value: string][] = [
      ['run', strong(makeHarmlessLine(run.run_id ?? ''))],
      ['golden', run.golden ? good('yes') : bad('no')],
    ];
    for (const { code, words } of run.reasons) {
      fields.push(['', `- ${makeHarmlessLine(words)}`], ['', dim(`  ${ADVICE[code]}`)]);
    }
    const byStudent = run.student_turns === 0 ? '' : `, ${run.student_turns} served by the student`;
    const took = formatMs(Date.parse(run.finished_at) - Date.parse(run.started_at));
    fields.push(
      [
        'turns',
        `${run.turns} in ${count(run.exchanges, 'exchange')}, ${count(run.errors, 'failed call')}, ${run.aborted} aborted${byStudent}`,
      ],
      ['model', `${nameAll(run.models)} (${nameAll(run.providers)})`],
      ['time', `${run.started_at} to ${run.finished_at} (${took})`],
      ['tokens', formatUsage(run)],
    );
    if (run.first_seq !== null) fields.push(['seq', `${run.first_seq} to ${run.last_seq}`]);
    if (run.notes.length > 0) fields.push(['note', nameAll(run.notes)]);
    if (run.outcome !== null) fields.push(['outcome', makeHarmlessLine(run.outcome)]);
    return fields.map(([name, value]) => this.#layOutField(name, value)).join('');
  }

  /** `name     value`, wrapped under the value. */
  #layOutField(name: string, value: string): string {
    const lines = wrapText(value, this.#width - 9);
    return `${this.#paint.dim(name.padEnd(9))}${lines.join(`\n${' '.repeat(9)}`)}\n`;
  }

  #layOutStep(step: RunStep, run: RunSummary): string {
    const { record, turn } = step;
    const { bad, dim, call } = this.#paint;
    let text = '\n';
    for (const [from, to] of run.gaps) {
      if (record.seq === to + 1)
        text += `${bad(`-- seq ${from === to ? from : `${from} to ${to}`} missing --`)}\n`;
    }
    text += `${this.#layOutHead(record, Date.parse(run.started_at))}\n`;
    if (step.conversation !== null && step.conversation > 1 && step.follows === null)
      text += this.#layOutPart(
        '',
        call(`conversation ${step.conversation} begins: a sub-agent, or a side call`),
      );
    else if (step.link === 'repeats') text += this.#layOutPart('', dim('the same request as before'));
    else if (step.link === 'breaks' && step.follows_answer) {
      const of =
        step.conversation === null || step.conversation === 1 ? '' : `, conversation ${step.conversation}`;
      text += this.#layOutPart('', dim(`goes on from #${step.follows}${of}`));
    } else if (step.link === 'breaks')
      text += this.#layOutPart('', bad('not the continuation of the turn before'));
    if (turn === null) return text;
    const system = step.new_system?.join('\n\n') ?? '';
    if (system !== '') text += this.#layOutPart('system', this.#shorten(system, SHOWN_SYSTEM_CHARS));
    for (const message of step.new_messages) text += this.#layOutParts(message.role, message.parts);
    text += this.#layOutParts('assistant', turn.answer.parts);
    if (turn.answer.error !== null) text += this.#layOutPart('error', bad(makeHarmless(turn.answer.error)));
    if (turn.problem !== '') text += this.#layOutPart('unread', bad(makeHarmless(turn.problem)));
    if (record.stop_reason !== null)
      text += this.#layOutPart('stop', dim(makeHarmlessLine(record.stop_reason)));
    return text;
  }

  /**
   * `#12  seq 3  +4.2 s  200  claude-x  took 1.2 s …`
   * @param runStartedMs null outside a run: then method and path stand in place of the time since
   */
  #layOutHead(record: ExchangeRecord, runStartedMs: number | null): string {
    const { strong, dim, bad, good, call } = this.#paint;
    const ok = !record.aborted && !hasFailed(record);
    const fields = [strong(`#${record.id}`)];
    if (record.seq !== null) fields.push(`seq ${record.seq}`);
    if (runStartedMs !== null) fields.push(`+${formatMs(Date.parse(record.started_at) - runStartedMs)}`);
    if (runStartedMs === null || record.kind !== 'turn')
      fields.push(makeHarmlessLine(`${record.method} ${record.path}`));
    fields.push(ok ? good(`${record.status}`) : bad(record.status === 0 ? 'no answer' : `${record.status}`));
    if (record.aborted) fields.push(bad('aborted'));
    else if (!ok && record.status >= 200 && record.status < 300) fields.push(bad('broke off'));
    if (record.truncated) fields.push(bad('truncated'));
    if (record.served_by === 'student') fields.push(call('by the student'));
    if (record.model !== null) fields.push(makeHarmlessLine(record.model));
    fields.push(dim(formatLatency(record)));
    if (record.kind === 'turn') fields.push(dim(formatUsage(record.usage)));
    return wrapText(fields.join('  '), this.#width).join('\n    ');
  }

  #layOutParts(role: Role, parts: Part[]): string {
    const { dim, call, bad } = this.#paint;
    let text = '';
    for (const part of parts) {
      switch (part.type) {
        case 'text':
          text += this.#layOutPart(role, this.#shorten(part.text));
          break;
        case 'thinking':
          if (part.text !== '') text += this.#layOutPart('thinking', dim(this.#shorten(part.text)));
          break;
        case 'tool_call':
          text += this.#layOutPart(
            'call',
            `${call(makeHarmlessLine(part.name))} ${this.#layOutArguments(part.arguments)}${dim(formatId(part.id))}`,
          );
          break;
        case 'tool_result': {
          const content = part.parts.map((inner) => describeInline(inner)).join('\n');
          const shown = this.#shorten(content);
          text += this.#layOutPart(
            'result',
            `${part.is_error ? bad(shown) : shown}${dim(formatId(part.call_id))}`,
          );
          break;
        }
        default:
          text += this.#layOutPart(role, dim(this.#shorten(describeInline(part))));
      }
    }
    return text;
  }

  /** Short arguments as JSON; of longer ones each on a line, texts as they are. */
  #layOutArguments(value: unknown): string {
    const compact = compactJson(value);
    if (compact.length <= INLINE_ARGUMENT_CHARS || typeof value !== 'object' || value === null)
      return this.#shorten(compact);
    const lines = Object.entries(value).map(
      ([name, item]) =>
        `  ${this.#paint.dim(`${makeHarmlessLine(name)}:`)} ${this.#shorten(compactJson(item)).replaceAll('\n', '\n    ')}`,
    );
    return `\n${lines.join('\n')}\n `;
  }

  /** A labelled block; lines after the first stand under the text. */
  #layOutPart(label: string, text: string): string {
    const lines = wrapText(text, this.#width - LABEL_COLUMNS);
    return `  ${this.#paint.dim(label.padEnd(9))} ${lines.join(`\n${' '.repeat(LABEL_COLUMNS)}`)}\n`;
  }

  /** The beginning of a text, made harmless, and how much more there is. */
  #shorten(text: string, shownChars: number = SHOWN_CHARS): string {
    const trimmed = text.trim();
    if (this.#flags.full) return makeHarmless(trimmed);
    let shown = trimmed.slice(0, shownChars);
    let at = -1;
    for (let lines = 0; lines < SHOWN_LINES; lines += 1) {
      at = shown.indexOf('\n', at + 1);
      if (at < 0) break;
    }
    if (at >= 0) shown = shown.slice(0, at);
    if (shown.length === trimmed.length) return makeHarmless(trimmed);
    const more = (trimmed.length - shown.length).toLocaleString('en-US');
    return `${makeHarmless(shown)}… ${this.#paint.dim(`(${more} more characters: --full)`)}`;
  }

  #layOutExchange(record: ExchangeRecord): string {
    const { dim, bad } = this.#paint;
    const fields: [string, string][] = [
      ['run', record.run_id ?? '-'],
      ['seq', record.seq === null ? '-' : `${record.seq}`],
      ['note', record.note === '' ? '-' : record.note],
      ['provider', record.provider],
      ['kind', record.shape === null ? record.kind : `${record.kind} (${record.shape})`],
      ['query', record.query === '' ? '-' : record.query],
      ['started', record.started_at],
      ['served by', record.served_by],
      ['stop', record.stop_reason ?? '-'],
      ['request', `${formatCount(record.request.bytes)} bytes`],
      ['response', `${formatCount(record.response.bytes)} bytes`],
    ];
    let text = `${this.#layOutHead(record, null)}\n`;
    for (const [name, value] of fields) text += `  ${dim(name.padEnd(9))} ${makeHarmlessLine(value)}\n`;
    if (record.undecodable) {
      const problem = readTurn(this.#source, record.id)?.problem ?? '';
      text += this.#layOutPart(
        'unread',
        bad(makeHarmless(problem === '' ? 'the body could not be read' : problem)),
      );
    }
    text += this.#layOutHeaders('request headers', record.request.headers);
    text += this.#layOutHeaders('response headers', record.response.headers);
    text += dim(`\nBodies: --exchange ${record.id} --raw request, --raw response\n`);
    return text;
  }

  #layOutHeaders(title: string, headers: [name: string, value: string][]): string {
    const shown = headers.map(([name, value]) => [makeHarmlessLine(name), makeHarmlessLine(value)] as const);
    const width = shown.reduce((widest, [name]) => Math.max(widest, measureWidth(name)), 0);
    const lines = shown.map(([name, value]) => `  ${this.#paint.dim(name.padEnd(width))}  ${value}\n`);
    return `\n${this.#paint.strong(title)}\n${lines.join('')}`;
  }
}

/** A part in plain words, where it does not get a block of its own. */
function describeInline(part: Part): string {
  switch (part.type) {
    case 'text':
    case 'thinking':
      return part.text;
    case 'media':
      return `[${part.media_type}, ${formatCount(part.data.length)} characters]`;
    case 'tool_call':
      return `${part.name} ${compactJson(part.arguments)}`;
    case 'tool_result':
      return part.parts.map((inner) => describeInline(inner)).join('\n');
    case 'other':
      return `[${part.name}] ${compactJson(part.value)}`;
  }
}

function compactJson(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function formatId(id: string | null): string {
  return id === null ? '' : ` [${makeHarmlessLine(id)}]`;
}

/** Why not golden, in a word each; `--run` has the sentences. */
function shortReasons(run: RunSummary): string {
  return [...new Set(run.reasons.map((reason) => SHORT_REASONS[reason.code]))].join(', ');
}

function nameAll(names: string[]): string {
  return names.length === 0 ? '-' : makeHarmlessLine(names.join(', '));
}

function count(n: number, noun: string): string {
  return `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`;
}

function formatCount(n: number | null): string {
  return n === null ? '-' : n.toLocaleString('en-US');
}

function formatUsage(usage: TokenUsage): string {
  const read = usage.cache_read_tokens ?? 0;
  const written = usage.cache_write_tokens ?? 0;
  const cache =
    read + written === 0 ? '' : `, cache ${formatCount(read)} read ${formatCount(written)} written`;
  return `in ${formatCount(usage.input_tokens)} out ${formatCount(usage.output_tokens)}${cache}`;
}

/** Tokens for a table: 9,876, 12.3k, 4.56M. */
function formatTokens(n: number | null): string {
  if (n === null || n < 10_000) return formatCount(n);
  return n < 999_950 ? `${(n / 1_000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(2)}M`;
}

function formatLatency(record: ExchangeRecord): string {
  const whole = `took ${formatMs(record.duration_ms)}`;
  return record.first_byte_ms === null ? whole : `${whole} (first byte ${formatMs(record.first_byte_ms)})`;
}

/** `120 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
function formatMs(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1_440)} d ${Math.floor((minutes % 1_440) / 60)} h`;
}

/** Opens a capture database; loaded only now, so that `--help` and mistakes answer at once. */
async function openCapture(db: string): Promise<OpenSource> {
  // The process is this command's alone. Its garbage would grow to several times what it keeps: a hundred thousand runs
  // take 410 MB so, and 480 MB without. V8 passes over a flag that it does not know.
  setFlagsFromString('--heap-growing-percent=50');
  const { CaptureFiles } = await import('./capture-files.ts');
  const files = await CaptureFiles.open(db, { cache_bytes: CACHE_BYTES });
  return { source: files, count: files.count, close: () => files.close() };
}
