/**
 * Makes a capture database of many runs, with the code that the capture process uses: `node bench/capture-database.ts
 * --runs N --dir D [--run-bytes B] [--turns T]`. Benches read this database. It also lets a person try the command line
 * and the dashboard with the data of a busy month. Own process.
 *
 * The runs belong to four agents, which have different prompts, tools, models and shares of the runs. Each turn adds a
 * tool result that resembles prose, code or a listing, until a run has about B bytes on the wire. One run in twelve is
 * not golden: its last turn is missing, failed or aborted. Some runs have no label, some sessions have a child run that
 * requests a title, one run has 400 turns, and one has a request of 60 MB. The same arguments give the same database.
 */
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { CapturedExchange } from '../src/domain/exchange.ts';
import { decodeExchange } from '../src/providers/decode.ts';
import { CaptureLog } from '../src/storage/capture/log.ts';
import { makeRandom, TextSource } from './storage-runs.ts';

interface DatabasePlan {
  /** Folder of `capture.mdb`. */
  dir: string;
  runs: number;
  /** Approximate bytes of a run's requests and answers. */
  run_bytes: number;
  /** Turns of most runs; TURNS when absent. */
  turns?: number;
  /** Called after each run with the number of runs made so far. */
  tell?: (runs: number) => void;
}

export interface MadeDatabase {
  path: string;
  runs: number;
  exchanges: number;
  /** Bytes of all requests and answers on the wire. */
  raw_bytes: number;
  /** Bytes on the disk. */
  packed_bytes: number;
  seconds: number;
}

const BATCH_BYTES = 8_000_000;
const BATCH_EXCHANGES = 500;
/**
 * Maximum number of files of the database. Each file is packed and sealed before the next one is begun, as in a gateway
 * that runs for days.
 */
const FILES = 4;
const TIDY_MS = 1_000;
const TURNS = 5;
const LONG_TURNS = 400;
const HUGE_BYTES = 60_000_000;
/** Longer texts repeat after this many characters. */
const TEXT_BYTES = 1_000_000;
/** Number of runs whose texts come from the same generator, which remembers its lines. */
const SOURCE_RUNS = 50;
const NEWEST_MS = Date.UTC(2026, 10, 1);
const RUN_MS = 20_000;
const TURN_MS = 1_500;

type Json = Record<string, unknown>;

/** An agent: its share of the runs, its task and its tools. */
interface Agent {
  name: string;
  share: number;
  model: string;
  noun: string;
  /** The first tool is called once, with an id; the second in further turns except the last, with the id and a page. */
  tools: readonly [string, string];
  /** The request header that identifies the agent's runs. */
  header: 'x-svc-run' | 'x-claude-code-session-id' | null;
}

const AGENTS: readonly Agent[] = [
  {
    name: 'orders',
    share: 0.6,
    model: 'claude-sonnet-4-5',
    noun: 'order',
    tools: ['look_up_order', 'read_log'],
    header: 'x-svc-run',
  },
  {
    name: 'incidents',
    share: 0.25,
    model: 'claude-opus-4-5',
    noun: 'incident',
    tools: ['get_incident', 'read_events'],
    header: 'x-claude-code-session-id',
  },
  {
    name: 'invoices',
    share: 0.13,
    model: 'claude-haiku-4-5',
    noun: 'invoice',
    tools: ['open_invoice', 'read_lines'],
    header: null,
  },
  {
    name: 'returns',
    share: 0.02,
    model: 'claude-haiku-4-5',
    noun: 'return',
    tools: ['find_return', 'read_notes'],
    header: 'x-svc-run',
  },
];

/** An agent's system prompt and tools. */
interface Brief {
  system: string;
  tools: Json[];
}

const briefs = new Map(AGENTS.map((agent, at) => [agent, makeBrief(agent, at)]));

function makeBrief({ name, noun, tools }: Agent, seed: number): Brief {
  const text = new TextSource(seed + 1, seed + 1);
  const tool = (called: string, properties: Json): Json => ({
    name: called,
    description: text.text(600),
    input_schema: { type: 'object', properties, required: Object.keys(properties) },
  });
  return {
    system: `You look after ${name}. Read the ${noun} and its history, then say what state it is in.\n${text.text(4_000)}`,
    tools: [
      tool(tools[0], { [noun]: { type: 'string' } }),
      tool(tools[1], { [noun]: { type: 'string' }, page: { type: 'integer' } }),
      tool('escalate', { [noun]: { type: 'string' }, reason: { type: 'string' } }),
    ],
  };
}

/** One run's exchanges, from its first to its last. */
class MadeRun {
  readonly #agent: Agent;
  readonly #at: number;
  readonly #text: TextSource;
  readonly #startedMs: number;
  readonly #session: string;

  constructor(agent: Agent, at: number, text: TextSource, startedMs: number) {
    this.#agent = agent;
    this.#at = at;
    this.#text = text;
    this.#startedMs = startedMs;
    this.#session = `${agent.name}-${at}`;
  }

  /** Yields the exchanges of one run. @param resultBytes size of each tool's result */
  *turns(count: number, resultBytes: number): Generator<CapturedExchange> {
    const { noun, tools } = this.#agent;
    const key = `${noun.slice(0, 2).toUpperCase()}-${100_000 + this.#at}`;
    const state = ['sent', 'waiting', 'closed'][this.#text.pick(3)]!;
    const messages: Json[] = [{ role: 'user', content: `What is the state of ${noun} ${key}, please?` }];
    if (this.#agent.header === 'x-claude-code-session-id') yield this.#title(key);
    for (let turn = 1; turn <= count; turn++) {
      const isLast = turn === count;
      const id = `toolu_${this.#session}_${turn}`;
      const input = turn === 1 ? { [noun]: key } : { [noun]: key, page: turn - 1 };
      const content: Json[] = isLast
        ? [{ type: 'text', text: `The ${noun} ${key} is ${state}.` }]
        : [{ type: 'tool_use', id, name: tools[turn === 1 ? 0 : 1], input }];
      yield this.#exchange(turn, { ...briefs.get(this.#agent)!, messages }, content);
      const result = JSON.stringify({
        [noun]: key,
        state,
        page: turn - 1,
        notes: this.#notes(resultBytes),
      });
      messages.push(
        { role: 'assistant', content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: result }] },
      );
    }
  }

  #notes(bytes: number): string {
    const text = this.#text.text(Math.min(bytes, TEXT_BYTES));
    return text.repeat(Math.ceil(bytes / text.length)).slice(0, bytes);
  }

  /** Makes a side call that requests a title, like the call with which coding agents name a session. */
  #title(key: string): CapturedExchange {
    const messages = [{ role: 'user', content: `Write a title for: the state of ${key}` }];
    const asked = { system: 'Generate a concise title for this conversation.', messages };
    return this.#exchange(0, asked, [{ type: 'text', text: `State of ${key}` }]);
  }

  #exchange(turn: number, asked: Json, content: Json[]): CapturedExchange {
    const { model, header } = this.#agent;
    const calls = content.some(({ type }) => type === 'tool_use');
    const request = Buffer.from(JSON.stringify({ model, max_tokens: 2_048, ...asked }));
    const usage = {
      input_tokens: 40,
      cache_read_input_tokens: Math.round(request.length / 4),
      cache_creation_input_tokens: 0,
      output_tokens: 40,
    };
    const response = Buffer.from(
      JSON.stringify({
        id: this.#text.id('msg_01', 22),
        type: 'message',
        role: 'assistant',
        model,
        content,
        stop_reason: calls ? 'tool_use' : 'end_turn',
        stop_sequence: null,
        usage,
      }),
    );
    const named = header === null ? [] : [header, this.#session];
    const numbered = header === 'x-svc-run' ? ['x-svc-seq', String(turn)] : [];
    return {
      run_id: header === 'x-svc-run' ? this.#session : null,
      seq: header === 'x-svc-run' ? turn : null,
      note: '',
      provider: 'anthropic',
      kind: 'turn',
      shape: 'messages',
      method: 'POST',
      path: '/v1/messages',
      query: '',
      status: 200,
      started_at_ms: this.#startedMs + turn * TURN_MS,
      first_byte_ms: 300,
      duration_ms: 600 + this.#text.pick(600),
      aborted: false,
      truncated: false,
      served_by: 'upstream',
      request_headers: [
        ...['host', '127.0.0.1:8787', 'anthropic-version', '2023-06-01', 'content-type', 'application/json'],
        ...['content-length', String(request.length), ...named, ...numbered],
      ],
      response_headers: [
        ...['content-type', 'application/json', 'request-id', this.#text.id('req_011C', 20)],
      ],
      request_bytes: request.length,
      response_bytes: response.length,
      request_body: request,
      response_body: response,
    };
  }
}

/** Makes a run not golden: removes its last turn, or lets it fail or be aborted. */
function spoil(turns: CapturedExchange[], how: number): void {
  const last = turns.pop()!;
  if (how < 0.3) return;
  const response_body = Buffer.from(
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
  );
  const failed = { status: 529, response_body, response_bytes: response_body.length };
  turns.push(how < 0.7 ? { ...last, ...failed } : { ...last, aborted: true });
}

function drawAgent(place: number): Agent {
  let below = 0;
  for (const agent of AGENTS) {
    below += agent.share;
    if (place < below) return agent;
  }
  return AGENTS[0]!;
}

/** Yields all runs, the oldest first. */
function* makeRuns({
  runs,
  run_bytes,
  turns: turnCount = TURNS,
}: DatabasePlan): Generator<CapturedExchange[]> {
  const random = makeRandom(11);
  // Each request contains the prompt, and one result more than the previous request.
  const briefBytes = JSON.stringify([...briefs.values()][0]).length + 500;
  const results = (turnCount * (turnCount - 1)) / 2;
  const resultBytes = Math.max(200, Math.round((run_bytes - turnCount * briefBytes) / results - 400));
  let text = new TextSource(1, 17);
  for (let at = 0; at < runs; at++) {
    if (at % SOURCE_RUNS === 0) text = new TextSource(at + 1, 17);
    const agent = drawAgent(random());
    const made = new MadeRun(agent, at, text, NEWEST_MS - (runs - at) * RUN_MS);
    const [long, huge] = [at === Math.floor(runs / 2), at === Math.floor(runs / 3)];
    const turns = long
      ? made.turns(LONG_TURNS, 200)
      : huge
        ? made.turns(2, HUGE_BYTES)
        : made.turns(turnCount, resultBytes);
    const run = [...turns];
    if (random() < 1 / 12) spoil(run, random());
    yield run;
  }
}

/** Makes the database and completes all deferred work, like an idle gateway. */
export async function makeCaptureDatabase(plan: DatabasePlan): Promise<MadeDatabase> {
  const path = join(plan.dir, 'capture.mdb');
  mkdirSync(plan.dir, { recursive: true });
  if (readdirSync(plan.dir).includes('capture.mdb')) throw new Error(`${path} already exists`);
  const startedMs = performance.now();
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  const tidy = async (): Promise<void> => {
    while ((await log.tidySome(decodeExchange, TIDY_MS)).done > 0);
  };
  const made = { runs: 0, exchanges: 0, raw_bytes: 0 };
  let batch: CapturedExchange[] = [];
  let batchBytes = 0;
  for (const run of makeRuns(plan)) {
    for (const exchange of run) {
      const bytes = exchange.request_bytes + exchange.response_bytes;
      batch.push(exchange);
      batchBytes += bytes;
      made.raw_bytes += bytes;
      made.exchanges += 1;
      if (batchBytes < BATCH_BYTES && batch.length < BATCH_EXCHANGES) continue;
      await log.append(batch);
      batch = [];
      batchBytes = 0;
    }
    made.runs += 1;
    plan.tell?.(made.runs);
    if (made.runs % Math.ceil(plan.runs / FILES) !== 0 || made.runs === plan.runs) continue;
    await log.append(batch);
    batch = [];
    batchBytes = 0;
    await tidy();
    await log.rotate();
  }
  if (batch.length > 0) await log.append(batch);
  await tidy();
  await log.close();
  const packed_bytes = sumFiles(plan.dir);
  return { path, ...made, packed_bytes, seconds: (performance.now() - startedMs) / 1_000 };
}

function sumFiles(dir: string): number {
  let bytes = 0;
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    bytes += entry.isDirectory() ? sumFiles(path) : statSync(path).size;
  }
  return bytes;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '1000' },
      dir: { type: 'string' },
      'run-bytes': { type: 'string', default: '106000' },
      turns: { type: 'string', default: String(TURNS) },
    },
  });
  if (values.dir === undefined) throw new Error('--dir DIR is missing: the folder for the database');
  const startedMs = performance.now();
  const made = await makeCaptureDatabase({
    dir: values.dir,
    runs: Number(values.runs),
    run_bytes: Number(values['run-bytes']),
    turns: Number(values.turns),
    tell: (runs) => {
      const seconds = Math.round((performance.now() - startedMs) / 1_000);
      if (runs % 1_000 === 0) console.error(`${runs} runs in ${seconds} s`);
    },
  });
  const megabytes = (bytes: number): number => Math.round(bytes / 1e6);
  console.log(
    `${made.path}: ${made.runs} runs, ${made.exchanges} exchanges, ${megabytes(made.raw_bytes)} MB on the wire, ` +
      `${megabytes(made.packed_bytes)} MB on the disk, in ${Math.round(made.seconds)} s`,
  );
}
