/**
 * What `understudy inspect` finds out, apart from how it looks: the runs of a capture database with their verdicts, and
 * one run as the conversation that it was. Pure but for the source it reads from. Command line, main thread.
 *
 * Memory: the table of runs goes over the records once or twice and keeps a summary of each run (some kilobytes at
 * most, mostly far less), of at most MAX_RUNS runs; exchanges of further runs are only counted. A run is read one
 * exchange at a time; of what was said before, at most MAX_SEEN_HASHES fingerprints stay in memory (about 100 bytes
 * each), so that a message is shown once.
 */

import type { ExchangeRecord } from '../domain/exchange.ts';
import { GoldenTally, type GoldenVerdict, hasFailed, type TurnLink } from '../domain/golden.ts';
import { type DecodedTurn, decodeTurn, type StoredExchange } from '../gateway/turns/decode.ts';
import type { Message } from '../gateway/turns/turn.ts';

/** Which body of an exchange. */
export type BodySide = 'request' | 'response';

/** A record without its headers: what a listing needs. */
export type ListedExchange = Omit<ExchangeRecord, 'request' | 'response'>;

/** What is read of a capture database. `CaptureReader` is one. */
export interface ExchangeSource {
  /** Records without headers by id, ascending; of one run, when asked so. */
  summaries(filter?: { run_id?: string }): Iterable<ListedExchange>;
  /** Whole records, likewise. */
  exchanges(filter?: { run_id?: string }): Iterable<ExchangeRecord>;
  /** The record, or undefined when there is none. */
  exchange(id: number): ExchangeRecord | undefined;
  /** The stored body's exact bytes, or undefined when the exchange is not there. */
  body(id: number, side: BodySide): Uint8Array | undefined;
  /** The stored copy as the decoders take it, or undefined when the exchange is not there. */
  copy(id: number): StoredExchange | undefined;
}

/** Runs that a table can hold. */
export const MAX_RUNS = 100_000;

/** Fingerprints remembered while a run is read. */
export const MAX_SEEN_HASHES = 200_000;

/** Models, notes and providers named of one run. */
const MAX_NAMES = 8;

/** One line of the table of runs. */
export interface RunSummary {
  /** null: the exchanges that belong to no run, together. */
  run_id: string | null;
  notes: string[];
  providers: string[];
  models: string[];
  exchanges: number;
  turns: number;
  /** RFC 3339. */
  started_at: string;
  finished_at: string;
  /** Sums of what the providers told; null when none told. */
  input_tokens: number | null;
  output_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  /** Failed calls (no answer, an error status, a turn without an end), aborted ones apart. */
  errors: number;
  aborted: number;
  first_seq: number | null;
  last_seq: number | null;
  /** Ranges of missing seq, both ends included. */
  gaps: [from: number, to: number][];
  golden: boolean;
  /** Why not golden, in words; empty when golden. */
  reasons: GoldenVerdict['reasons'];
}

export interface RunTable {
  /** By first appearance. */
  runs: RunSummary[];
  without_run: RunSummary | null;
  /** Exchanges of runs beyond MAX_RUNS. */
  uncounted_exchanges: number;
}

/** A run while its records go by. */
interface RunTally {
  summary: RunSummary;
  golden: GoldenTally;
  first_ms: number;
  last_ms: number;
  has_seq: boolean;
  last_turn: ListedExchange | null;
}

/**
 * Summarises every run in one pass over the records. For runs without `seq` whose records leave nothing to object to
 * comes a second pass that reads their bodies: only those tell whether a conversation is unbroken. Of a run that falls
 * short already, the table names what the records show; `summarizeRun` may find more.
 */
export function summarizeRuns(source: ExchangeSource): RunTable {
  const tallies = new Map<string, RunTally>();
  let withoutRun: RunTally | null = null;
  let uncounted = 0;
  for (const record of source.summaries()) {
    if (record.run_id === null) {
      withoutRun ??= startTally(null);
      addRecord(withoutRun, record, null);
      continue;
    }
    let tally = tallies.get(record.run_id);
    if (tally === undefined) {
      if (tallies.size >= MAX_RUNS) {
        uncounted += 1;
        continue;
      }
      tally = startTally(record.run_id);
      tallies.set(record.run_id, tally);
    }
    addRecord(tally, record, null);
  }
  const open = new Map<string, LinkedTally>();
  for (const [runId, { golden, has_seq: hasSeq }] of tallies) {
    const onlyUnread = golden.judge().reasons.every((reason) => reason.code === 'unlinked');
    if (onlyUnread && !hasSeq) open.set(runId, { finder: new LinkFinder(), golden: new GoldenTally() });
  }
  if (open.size > 0) judgeByBodies(source, open);
  const runs: RunSummary[] = [];
  for (const [runId, tally] of tallies) {
    const judged = open.get(runId);
    runs.push(finishTally(source, judged === undefined ? tally : { ...tally, golden: judged.golden }));
  }
  return {
    runs,
    without_run: withoutRun === null ? null : finishTally(source, withoutRun),
    uncounted_exchanges: uncounted,
  };
}

/** A run whose conversation is being followed. */
interface LinkedTally {
  finder: LinkFinder;
  golden: GoldenTally;
}

/** The second pass: reads the turns of the runs that are still open and judges them by their links. */
function judgeByBodies(source: ExchangeSource, open: Map<string, LinkedTally>): void {
  for (const record of source.summaries()) {
    const judged = record.run_id === null ? undefined : open.get(record.run_id);
    if (judged === undefined) continue;
    const turn = record.kind === 'turn' ? readTurn(source, record.id) : null;
    judged.golden.add(record, turn === null ? null : judged.finder.find(turn, record));
  }
}

/** Summarises one run, bodies and all; null when the database holds no exchange of it. */
export function summarizeRun(source: ExchangeSource, runId: string): RunSummary | null {
  let tally: RunTally | null = null;
  for (const step of readRun(source, runId)) {
    tally ??= startTally(runId);
    addRecord(tally, step.record, step.link);
  }
  return tally === null ? null : finishTally(source, tally);
}

/** One exchange of a run, read. */
export interface RunStep {
  record: ExchangeRecord;
  /** null for an exchange that is no turn. */
  turn: DecodedTurn | null;
  /** How the turn follows from those before it; null for an exchange that is no turn. */
  link: TurnLink | null;
  /** The request's messages that no earlier exchange of the run showed, answers included. */
  new_messages: Message[];
  /** The system prompt, when it is not the one of the turn before; else null. */
  new_system: string[] | null;
}

/** Reads a run exchange by exchange, in the order of ids. */
export function* readRun(source: ExchangeSource, runId: string): Generator<RunStep> {
  const reader = new RunReader();
  for (const record of source.exchanges({ run_id: runId }))
    yield reader.read(record, readTurn(source, record.id));
}

/** Finds how each turn of a run follows from those before it. Keeps a few fingerprints. */
class LinkFinder {
  /** The last turn's whole request; null before the first turn. */
  #asked: string | null = null;
  /** The last answer, as a request that goes on from it holds it. */
  #answered: string | null = null;
  #answeredId: string | null = null;

  find(turn: DecodedTurn, record: ListedExchange): TurnLink {
    const link = this.#compare(turn);
    const { prefixes, answered, answered_id } = turn.conversation;
    this.#asked = prefixes.at(-1) ?? null;
    if (answered !== null && !hasFailed(record)) {
      this.#answered = answered;
      this.#answeredId = answered_id;
    }
    return link;
  }

  #compare(turn: DecodedTurn): TurnLink {
    const { prefixes } = turn.conversation;
    const { messages } = turn.request;
    if (this.#asked !== null && prefixes.at(-1) === this.#asked) return 'repeats';
    const goesOnElsewhere = countLinks(turn) > 0;
    if (this.#answered === null) return goesOnElsewhere || messages.some(isAnswer) ? 'breaks' : 'starts';
    if (goesOnElsewhere) return prefixes[0] === this.#answeredId ? 'continues' : 'breaks';
    const at = prefixes.lastIndexOf(this.#answered);
    if (at < 0) return messages.some(isAnswer) ? 'breaks' : 'starts';
    // After the answer only what the client says: another answer in between would be a turn that we did not see.
    return messages.slice(at + 1).some(isAnswer) ? 'breaks' : 'continues';
  }
}

/** Follows a run's conversation and picks what is new in each turn. */
class RunReader {
  readonly #finder = new LinkFinder();
  readonly #seen = new Set<string>();
  #system: string | null = null;

  read(record: ExchangeRecord, turn: DecodedTurn | null): RunStep {
    if (turn === null || record.kind !== 'turn') {
      return { record, turn: null, link: null, new_messages: [], new_system: null };
    }
    const link = this.#finder.find(turn, record);
    const newMessages = this.#takeNewMessages(turn);
    const system = turn.request.system.join('\n\n');
    const newSystem = system === this.#system ? null : turn.request.system;
    this.#system = system;
    return { record, turn, link, new_messages: newMessages, new_system: newSystem };
  }

  #takeNewMessages(turn: DecodedTurn): Message[] {
    const { prefixes, answered } = turn.conversation;
    const offset = countLinks(turn);
    let from = 0;
    for (let i = prefixes.length - 1; i >= offset && from === 0; i -= 1) {
      if (this.#seen.has(prefixes[i]!)) from = i - offset + 1;
    }
    for (const hash of prefixes) this.#remember(hash);
    if (answered !== null) this.#remember(answered);
    return turn.request.messages.slice(from);
  }

  #remember(hash: string): void {
    if (this.#seen.size < MAX_SEEN_HASHES) this.#seen.add(hash);
  }
}

/** How many of a turn's prefixes stand for no message of its own request: the link to an answer kept elsewhere. */
function countLinks(turn: DecodedTurn): number {
  return Math.max(0, turn.conversation.prefixes.length - turn.request.messages.length);
}

function isAnswer(message: Message): boolean {
  return message.role === 'assistant';
}

/** A stored exchange read as a turn; null when it has no shape or is not there. */
export function readTurn(source: ExchangeSource, id: number): DecodedTurn | null {
  const copy = source.copy(id);
  return copy === undefined ? null : decodeTurn(copy);
}

function startTally(runId: string | null): RunTally {
  return {
    summary: {
      run_id: runId,
      notes: [],
      providers: [],
      models: [],
      exchanges: 0,
      turns: 0,
      started_at: '',
      finished_at: '',
      input_tokens: null,
      output_tokens: null,
      cache_read_tokens: null,
      cache_write_tokens: null,
      errors: 0,
      aborted: 0,
      first_seq: null,
      last_seq: null,
      gaps: [],
      golden: false,
      reasons: [],
    },
    golden: new GoldenTally(),
    first_ms: Number.POSITIVE_INFINITY,
    last_ms: Number.NEGATIVE_INFINITY,
    has_seq: false,
    last_turn: null,
  };
}

function addRecord(tally: RunTally, record: ListedExchange, link: TurnLink | null): void {
  const { summary } = tally;
  summary.exchanges += 1;
  if (record.kind === 'turn') {
    summary.turns += 1;
    tally.last_turn = record;
  }
  addName(summary.notes, record.note === '' ? null : record.note);
  addName(summary.providers, record.provider);
  addName(summary.models, record.model);
  for (const key of ['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens'] as const) {
    const told = record.usage[key];
    if (told !== null) summary[key] = (summary[key] ?? 0) + told;
  }
  if (record.aborted) summary.aborted += 1;
  else if (hasFailed(record)) summary.errors += 1;
  const started = Date.parse(record.started_at);
  tally.first_ms = Math.min(tally.first_ms, started);
  tally.last_ms = Math.max(tally.last_ms, started + record.duration_ms);
  if (record.seq !== null) {
    tally.has_seq = true;
    summary.first_seq = Math.min(summary.first_seq ?? record.seq, record.seq);
    summary.last_seq = Math.max(summary.last_seq ?? record.seq, record.seq);
  }
  tally.golden.add(record, link);
}

function finishTally(source: ExchangeSource, tally: RunTally): RunSummary {
  const { summary } = tally;
  summary.started_at = formatTime(tally.first_ms);
  summary.finished_at = formatTime(tally.last_ms);
  summary.gaps = tally.golden.gaps();
  if (summary.run_id === null) {
    summary.reasons = [{ code: 'no_turn', words: 'exchanges without a run are never golden' }];
    return summary;
  }
  const last = tally.last_turn;
  // These end alike whether they call a tool or not: responses always, chat completions when the call was forced.
  const endsAlike = last?.shape === 'responses' || last?.shape === 'chat_completions';
  const calls = endsAlike ? callsTools(readTurn(source, last.id)) : null;
  const verdict = tally.golden.judge(calls);
  summary.golden = verdict.golden;
  summary.reasons = verdict.reasons;
  return summary;
}

function callsTools(turn: DecodedTurn | null): boolean {
  return turn?.answer.parts.some((part) => part.type === 'tool_call') ?? false;
}

function addName(names: string[], name: string | null): void {
  if (name !== null && names.length < MAX_NAMES && !names.includes(name)) names.push(name);
}

function formatTime(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : '';
}
