/**
 * `understudy inspect`: shows what a capture database holds. The face of `src/analysis/inspect.ts`: flags, tables, the
 * run as a conversation, JSON. Main thread of the command line; reads only.
 *
 * Output goes out piece by piece with back-pressure, so a long run is never held whole. Everything that came from an
 * exchange is made harmless before it reaches a terminal; `--raw` alone writes bytes as they are.
 */

import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import {
  type BodySide,
  type ExchangeSource,
  type RunStep,
  type RunSummary,
  readRun,
  readTurn,
  summarizeRun,
  summarizeRuns,
} from '../analysis/inspect.ts';
import { loadConfig } from '../config.ts';
import type { ExchangeRecord, TokenUsage } from '../domain/exchange.ts';
import { type GoldenCode, hasFailed } from '../domain/golden.ts';
import type { Part, Role } from '../gateway/turns/turn.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import {
  type Cell,
  choosePalette,
  formatJson,
  layOutTable,
  makeHarmless,
  makeHarmlessLine,
  measureWidth,
  type Palette,
} from './terminal-text.ts';

const HELP = `Shows what a capture database holds: runs, turns, gaps, bodies, and which runs are golden.

Usage: understudy inspect [--db FILE] [--json]
       understudy inspect [--db FILE] --run ID [--full] [--json]
       understudy inspect [--db FILE] --exchange N [--json]
       understudy inspect [--db FILE] --exchange N --raw request|response

  --db FILE        capture database; DATA_DIR/capture.mdb when not given. A running gateway may be writing to it.
  --run ID         one run as the conversation that it was: what was new in each request, what was answered, how
                   long it took and what it cost, what failed and was tried again
  --full           with --run: show long texts whole instead of their beginning
  --exchange N     one exchange: status, times, model, usage, headers (credentials are never stored)
  --raw SIDE       the stored body of that exchange, request or response, byte for byte and nothing else
  --json           the same as one JSON document, for programs; with --exchange the exchange record itself

The table has a line for each run:
  TURNS     model turns / all exchanges        IN, OUT   tokens, as the providers count them
  ERR       failed calls and aborted ones      GAPS      x-svc-seq numbers that are missing
  GOLDEN    yes, or in short why not (--run says it in full): a golden run was captured whole, with nothing missing,
            every failed call retried to success, and its last turn ended of itself

Examples:
  understudy inspect
  understudy inspect --run checkout-fix-17
  understudy inspect --exchange 42 --raw response | jq .
  understudy inspect --json | jq -r '.runs[] | select(.golden) | .run_id'

Exit status: 0 done, 1 failed (no such database, run, exchange or body), 2 wrong use.
`;

/** Characters of a text that are shown of it without --full. */
const SHOWN_CHARS = 1200;

/** Characters of a system prompt that are shown without --full. */
const SHOWN_SYSTEM_CHARS = 300;

const SHORT_REASONS: Record<GoldenCode, string> = {
  no_turn: 'no turn',
  aborted: 'aborted',
  truncated: 'cut off',
  undecodable: 'unreadable',
  seq_gap: 'seq gap',
  seq_missing: 'seq missing',
  unlinked: 'conversation broken',
  failed_call: 'failed call',
  unfinished: 'unfinished',
  shape: 'shape',
  outcome: 'outcome',
};

/** What a test may put in place of the real surroundings. */
export interface InspectSurroundings {
  /** Used when --db is not given. */
  default_db?: string;
  /** Width of the terminal. */
  columns?: number;
  /** Opens the database; a CaptureReader when not given. */
  open?: (db: string) => Promise<OpenSource>;
}

/** An open database and how to let go of it. */
export interface OpenSource {
  source: ExchangeSource;
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
  const flags = readFlags(argv);
  if (flags === 'help') {
    await io.out(HELP);
    return EXIT.done;
  }
  const db = flags.db ?? surroundings.default_db ?? loadConfig({ listener: 'gateway' }).capture.db;
  if (!existsSync(db)) {
    io.err(
      `understudy: there is no capture database at ${makeHarmlessLine(db)}.\n` +
        'Send something through the gateway first (understudy up), or name another file with --db.\n',
    );
    return EXIT.failed;
  }
  try {
    const { source, close } = await (surroundings.open ?? openCapture)(db);
    try {
      const face = new InspectFace(source, io, surroundings.columns ?? process.stdout.columns, flags);
      if (flags.exchange !== null) return await face.showExchange(flags.exchange);
      if (flags.run !== null) return await face.showRun(flags.run);
      return await face.showRuns(db);
    } finally {
      await close();
    }
  } catch (error) {
    // Its message names the file and what is wrong with it.
    if (!(error instanceof Error) || error.name !== 'CaptureFileError') throw error;
    io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
    return EXIT.failed;
  }
}

interface Flags {
  db: string | undefined;
  run: string | null;
  exchange: number | null;
  raw: BodySide | null;
  json: boolean;
  full: boolean;
}

function readFlags(argv: string[]): Flags | 'help' {
  const { values } = parseFlags(argv);
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
  return {
    db: values.db,
    run: values.run ?? null,
    exchange: values.exchange === undefined ? null : readExchangeId(values.exchange),
    raw,
    json: values.json === true,
    full: values.full === true,
  };
}

function parseFlags(argv: string[]) {
  try {
    return parseArgs({
      args: argv,
      options: {
        db: { type: 'string' },
        run: { type: 'string' },
        exchange: { type: 'string' },
        raw: { type: 'string' },
        json: { type: 'boolean' },
        full: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message.split('. ')[0]!);
  }
}

function readExchangeId(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) {
    throw new UsageError(`--exchange takes a number from 1 on, not ${formatJson(text, 0)}`);
  }
  return Number(text);
}

/** Writes what was asked for. */
class InspectFace {
  readonly #source: ExchangeSource;
  readonly #io: CliIo;
  readonly #width: number;
  readonly #flags: Flags;
  readonly #paint: Palette;

  constructor(source: ExchangeSource, io: CliIo, columns: number | undefined, flags: Flags) {
    this.#source = source;
    this.#io = io;
    this.#width =
      io.is_terminal && columns !== undefined && columns > 0
        ? Math.max(40, columns)
        : Number.POSITIVE_INFINITY;
    this.#flags = flags;
    this.#paint = choosePalette(io.has_color);
  }

  async showRuns(db: string): Promise<number> {
    const table = summarizeRuns(this.#source);
    if (this.#flags.json) {
      await this.#io.out(`${formatJson({ db, ...table }, 2)}\n`);
      return EXIT.done;
    }
    const { runs, without_run: withoutRun, uncounted_exchanges: uncounted } = table;
    if (runs.length > 0) await this.#io.out(this.#layOutRuns(runs));
    const turns = runs.reduce((sum, run) => sum + run.turns, 0);
    const exchanges = runs.reduce((sum, run) => sum + run.exchanges, 0);
    const golden = runs.filter((run) => run.golden).length;
    let end = '';
    if (runs.length > 0) {
      end += `\n${count(runs.length, 'run')}, ${count(turns, 'turn')} in ${count(exchanges, 'exchange')}, ${golden} golden.\n`;
    }
    if (withoutRun !== null) {
      end += `${count(withoutRun.exchanges, 'exchange')} without a run (${count(withoutRun.turns, 'turn')}).\n`;
    }
    if (uncounted > 0) end += `${count(uncounted, 'exchange')} of further runs: look at those with --run.\n`;
    if (end === '') end = 'The database holds no exchange yet.\n';
    await this.#io.out(end);
    return EXIT.done;
  }

  async showRun(runId: string): Promise<number> {
    const summary = summarizeRun(this.#source, runId);
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
      const { record, turn, link, new_messages, new_system } = step;
      const shown = {
        exchange: record,
        link,
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

  #layOutRuns(runs: RunSummary[]): string {
    const { good, bad, strong, dim } = this.#paint;
    return layOutTable(
      [
        { title: 'RUN', align: 'left', min: 10 },
        { title: 'TURNS', align: 'right' },
        { title: 'MODEL', align: 'left', min: 8, dispensable: 3 },
        { title: 'FIRST', align: 'left', dispensable: 1 },
        { title: 'LAST', align: 'left', dispensable: 5 },
        { title: 'IN', align: 'right', dispensable: 2 },
        { title: 'OUT', align: 'right', dispensable: 2 },
        { title: 'ERR', align: 'right' },
        { title: 'GAPS', align: 'right', dispensable: 4 },
        { title: 'GOLDEN', align: 'left', min: 12 },
      ],
      runs.map((run): Cell[] => {
        const failures = run.errors + run.aborted;
        const missing = run.gaps.reduce((sum, [from, to]) => sum + to - from + 1, 0);
        // On a narrow terminal the year and the seconds go first.
        const first = run.started_at
          .slice(this.#width < 100 ? 5 : 0, this.#width < 100 ? 16 : 19)
          .replace('T', ' ');
        const last = run.finished_at.slice(0, 19).replace('T', ' ');
        return [
          { text: makeHarmlessLine(run.run_id ?? ''), paint: strong },
          { text: run.turns === run.exchanges ? `${run.turns}` : `${run.turns}/${run.exchanges}` },
          { text: nameAll(run.models) },
          { text: first },
          { text: run.started_at.slice(0, 10) === last.slice(0, 10) ? last.slice(11) : last },
          { text: formatCount(run.input_tokens) },
          { text: formatCount(run.output_tokens) },
          failures === 0 ? { text: '0', paint: dim } : { text: `${failures}`, paint: bad },
          missing === 0 ? { text: '0', paint: dim } : { text: `${missing}`, paint: bad },
          run.golden ? { text: 'yes', paint: good } : { text: `no: ${shortReasons(run)}` },
        ];
      }),
      this.#width,
      this.#paint,
    );
  }

  #layOutSummary(run: RunSummary): string {
    const { strong, good, bad, dim } = this.#paint;
    const lines = [
      `${dim('run')}      ${strong(makeHarmlessLine(run.run_id ?? ''))}`,
      `${dim('golden')}   ${run.golden ? good('yes') : bad('no')}`,
      ...run.reasons.map((reason) => `         - ${makeHarmlessLine(reason.words)}`),
      `${dim('turns')}    ${run.turns} in ${count(run.exchanges, 'exchange')}, ${count(run.errors, 'failed call')}, ${run.aborted} aborted`,
      `${dim('model')}    ${nameAll(run.models)} (${nameAll(run.providers)})`,
      `${dim('time')}     ${run.started_at} to ${run.finished_at}`,
      `${dim('tokens')}   ${formatUsage(run)}`,
    ];
    if (run.first_seq !== null) lines.push(`${dim('seq')}      ${run.first_seq} to ${run.last_seq}`);
    if (run.notes.length > 0) lines.push(`${dim('note')}     ${nameAll(run.notes)}`);
    return `${lines.join('\n')}\n`;
  }

  #layOutStep(step: RunStep, run: RunSummary): string {
    const { record, turn } = step;
    const { bad, dim } = this.#paint;
    let text = '\n';
    for (const [from, to] of run.gaps) {
      if (record.seq === to + 1)
        text += `${bad(`-- seq ${from === to ? from : `${from} to ${to}`} missing --`)}\n`;
    }
    text += `${this.#layOutHead(record)}\n`;
    if (step.link === 'repeats') text += this.#layOutPart('', dim('the same request as before'));
    if (step.link === 'breaks') text += this.#layOutPart('', bad('not the continuation of the turn before'));
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

  /** `#12  seq 3  POST /v1/messages  200  claude-x  1.2 s …` */
  #layOutHead(record: ExchangeRecord): string {
    const { strong, dim, bad, good } = this.#paint;
    const ok = !record.aborted && !hasFailed(record);
    const fields = [strong(`#${record.id}`)];
    if (record.seq !== null) fields.push(`seq ${record.seq}`);
    fields.push(makeHarmlessLine(`${record.method} ${record.path}`));
    fields.push(ok ? good(`${record.status}`) : bad(record.status === 0 ? 'no answer' : `${record.status}`));
    if (record.aborted) fields.push(bad('aborted'));
    if (record.truncated) fields.push(bad('truncated'));
    if (record.served_by === 'student') fields.push('student');
    if (record.model !== null) fields.push(makeHarmlessLine(record.model));
    fields.push(dim(formatLatency(record)));
    if (record.kind === 'turn') fields.push(dim(formatUsage(record.usage)));
    return fields.join('  ');
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
            `${call(makeHarmlessLine(part.name))} ${this.#shorten(compactJson(part.arguments))}${dim(formatId(part.id))}`,
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

  /** A labelled block; lines after the first stand under the text. */
  #layOutPart(label: string, text: string): string {
    return `  ${this.#paint.dim(label.padEnd(9))} ${text.replaceAll('\n', `\n${' '.repeat(12)}`)}\n`;
  }

  /** The beginning of a text, made harmless, and how much more there is. */
  #shorten(text: string, shownChars: number = SHOWN_CHARS): string {
    const trimmed = text.trim();
    if (this.#flags.full || trimmed.length <= shownChars) return makeHarmless(trimmed);
    const more = (trimmed.length - shownChars).toLocaleString('en-US');
    return `${makeHarmless(trimmed.slice(0, shownChars))}… ${this.#paint.dim(`(${more} more characters: --full)`)}`;
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
    let text = `${this.#layOutHead(record)}\n`;
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

function formatLatency(record: ExchangeRecord): string {
  const whole = formatMs(record.duration_ms);
  return record.first_byte_ms === null ? whole : `${whole} (first byte ${formatMs(record.first_byte_ms)})`;
}

function formatMs(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000
    ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** Opens a capture file; loaded only now, so that `--help` and mistakes answer at once. */
async function openCapture(db: string): Promise<OpenSource> {
  const [{ CaptureReader }, { decodeExchange }] = await Promise.all([
    import('../storage/capture/reader.ts'),
    import('../gateway/turns/decode.ts'),
  ]);
  // With the decoder the reader also knows the facts of exchanges that the writer has not got round to.
  const reader = CaptureReader.open(db, { decode: decodeExchange });
  return { source: reader, close: () => reader.close() };
}
