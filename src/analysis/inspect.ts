/**
 * What `understudy inspect` finds out, apart from how it looks: the runs of a capture database with their verdicts, and
 * one run as a conversation. Pure but for the source it reads from. Command line, main thread.
 *
 * Memory: the table of runs goes over the records once, keeps a summary of each run (about a kilobyte, some at most), of
 * at most MAX_RUNS runs, and counts the exchanges of further ones. What only bodies can judge is read again,
 * JUDGED_RUNS runs and LISTED_EXCHANGES exchanges at a time. A run is read one exchange at a time. At most MAX_SEEN_HASHES
 * fingerprints of earlier messages stay in memory (about 100 bytes each), so that a message is shown once.
 */

import type { ChildKind } from '../domain/client-run.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import { GoldenTally, type GoldenVerdict, hasFailed, judgeOutcome, type TurnLink } from '../domain/golden.ts';
import { type DecodedTurn, decodeTurn, type StoredExchange } from '../providers/decode.ts';
import type { Message } from '../providers/turn.ts';

/** Which body of an exchange. */
export type BodySide = 'request' | 'response';

/** A record without its headers: what a listing needs. */
export type ListedExchange = Omit<ExchangeRecord, 'request' | 'response' | 'relegation'>;

/** What is read of a capture database. `CaptureReader` is one. */
export interface ExchangeSource {
  /** Records without headers by id, ascending; of one run, or from an id on, when asked so. */
  summaries(filter?: { run_id?: string; from_id?: number }): Iterable<ListedExchange>;
  /** Whole records, likewise. */
  exchanges(filter?: { run_id?: string }): Iterable<ExchangeRecord>;
  /** The record, or undefined when there is none. */
  exchange(id: number): ExchangeRecord | undefined;
  /** The stored body's exact bytes, or undefined when the exchange is not there. */
  body(id: number, side: BodySide): Uint8Array | undefined;
  /** The stored copy as the decoders take it, or undefined when the exchange is not there. */
  copy(id: number): StoredExchange | undefined;
  /** Lets go of memory that reading has taken. Called while no listing is gone through. */
  release?(): Promise<void>;
}

/** Runs that a table can hold. */
export const MAX_RUNS = 100_000;

/** Fingerprints remembered while a run is read. */
export const MAX_SEEN_HASHES = 200_000;

/** Runs that are judged side by side. They lie near each other, so that most exchanges are gone through once. */
const JUDGED_RUNS = 4_096;

/** Exchanges that are listed before those of them that matter are read. */
const LISTED_EXCHANGES = 512;

/** Exchanges that are added to the table before the source may let go of memory. */
const ADDED_EXCHANGES = 4_096;

/** Models, notes and providers named of one run. */
const MAX_NAMES = 8;

/** One line of the table of runs. */
export interface RunSummary {
  /** null: the exchanges that belong to no run, together. */
  run_id: string | null;
  /** The client's own session; null where its headers name none. */
  session_id: string | null;
  /** The run that this one is part of; null: of none. */
  parent_run_id: string | null;
  /** What it is within its session; null: an agent's own run. */
  kind: ChildKind | null;
  notes: string[];
  providers: string[];
  models: string[];
  exchanges: number;
  turns: number;
  /** Of those, answered by the student. */
  student_turns: number;
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
  /** Of the finished monitor run of that id; null when there is none. */
  outcome: string | null;
  golden: boolean;
  /** Why not golden, in words; empty when golden. */
  reasons: GoldenVerdict['reasons'];
}

export interface RunTable {
  /** By first appearance. */
  runs: RunSummary[];
  /** Runs that fit the filter and are beyond its limit: earlier ones. */
  left_out_runs: number;
  without_run: RunSummary | null;
  /** Exchanges of runs beyond MAX_RUNS. */
  uncounted_exchanges: number;
}

/** A run while its records go by. */
export interface RunTally {
  summary: RunSummary;
  golden: GoldenTally;
  first_ms: number;
  last_ms: number;
  first_id: number;
  last_id: number;
  has_seq: boolean;
}

/** Which runs a table shows; all without it. */
export interface RunFilter {
  /** That went on at this time or later, in milliseconds since the epoch. */
  since_ms?: number;
  golden?: boolean;
  /** The latest so many of them. */
  limit?: number;
}

/** Told now and then while the runs are collected and judged: how many exchanges of how many were looked at. */
export type TellProgress = (exchanges: number) => void;

/**
 * The runs of a capture database. First all records are added, without their bodies, then the runs are judged. For runs
 * without `seq`, and for those with failed calls, whose records leave nothing to object to, judging reads their bodies:
 * only those tell whether a conversation is unbroken and a call was tried again. Of a run that falls short already, the
 * table names what the records show; `summarizeRun` may find more.
 */
export class RunCollection {
  readonly #tallies = new Map<string, RunTally>();
  #withoutRun: RunTally | null = null;
  #uncounted = 0;

  /** Adds the next record, in the order of ids. */
  add(record: ListedExchange): void {
    if (record.run_id === null) {
      this.#withoutRun ??= startTally(null);
      addRecord(this.#withoutRun, record, null, null);
      return;
    }
    let tally = this.#tallies.get(record.run_id);
    if (tally === undefined) {
      if (this.#tallies.size >= MAX_RUNS) {
        this.#uncounted += 1;
        return;
      }
      tally = startTally(record.run_id);
      this.#tallies.set(record.run_id, tally);
    }
    addRecord(tally, record, null, null);
  }

  /** Adds all records. */
  async addAll(source: ExchangeSource, tell: TellProgress = () => {}): Promise<void> {
    let next = 1;
    for (let added = ADDED_EXCHANGES; added === ADDED_EXCHANGES; ) {
      added = 0;
      for (const record of source.summaries({ from_id: next })) {
        this.add(record);
        next = record.id + 1;
        tell(record.id);
        if (++added === ADDED_EXCHANGES) break;
      }
      await source.release?.();
    }
  }

  /** Something when the run is there. */
  find(runId: string): unknown {
    return this.#tallies.get(runId);
  }

  get size(): number {
    return this.#tallies.size;
  }

  /**
   * The table; the collection is used up by it.
   * @param outcomes of finished monitor runs, by id
   */
  async judge(
    source: ExchangeSource,
    outcomes: ReadonlyMap<string, string>,
    filter: RunFilter = {},
    tell: TellProgress = () => {},
  ): Promise<RunTable> {
    const { since_ms: sinceMs = Number.NEGATIVE_INFINITY, golden: isGolden, limit } = filter;
    const chosen = new Map<string, RunTally>();
    for (const [runId, tally] of this.#tallies) if (tally.last_ms >= sinceMs) chosen.set(runId, tally);
    const found = chosen.size;
    // The others need no judging, unless which they are depends on it.
    if (isGolden === undefined) dropFirst(chosen, limit);
    this.#tallies.clear();
    const runs: RunSummary[] = [];
    while (chosen.size > 0) {
      const some = takeFirst(chosen, JUDGED_RUNS);
      await judgeByBodies(source, some, tell);
      for (const [runId, tally] of some) {
        const summary = finishTally(source, tally, outcomes.get(runId) ?? null);
        if (isGolden === undefined || summary.golden === isGolden) runs.push(summary);
      }
      await source.release?.();
    }
    const fitting = isGolden === undefined ? found : runs.length;
    if (limit !== undefined && runs.length > limit) runs.splice(0, runs.length - limit);
    return {
      runs,
      left_out_runs: fitting - runs.length,
      without_run: this.#withoutRun === null ? null : finishTally(source, this.#withoutRun, null),
      uncounted_exchanges: this.#uncounted,
    };
  }
}

function takeFirst(tallies: Map<string, RunTally>, count: number): Map<string, RunTally> {
  const taken = new Map<string, RunTally>();
  for (const [runId, tally] of tallies) {
    if (taken.size >= count) break;
    taken.set(runId, tally);
    tallies.delete(runId);
  }
  return taken;
}

function dropFirst(tallies: Map<string, RunTally>, limit: number | undefined): void {
  let surplus = limit === undefined ? 0 : tallies.size - limit;
  for (const runId of tallies.keys()) {
    if (surplus <= 0) return;
    tallies.delete(runId);
    surplus -= 1;
  }
}

/** Summarises every run. */
export async function summarizeRuns(
  source: ExchangeSource,
  outcomes: ReadonlyMap<string, string> = new Map(),
  filter: RunFilter = {},
): Promise<RunTable> {
  const collection = new RunCollection();
  await collection.addAll(source);
  return collection.judge(source, outcomes, filter);
}

/** The second pass: reads the turns of the runs that only their bodies can judge. */
async function judgeByBodies(
  source: ExchangeSource,
  tallies: Map<string, RunTally>,
  tell: TellProgress,
): Promise<void> {
  const open = new Map<string, { finder: LinkFinder; golden: GoldenTally }>();
  let next = Number.POSITIVE_INFINITY;
  let last = 0;
  for (const [runId, tally] of tallies) {
    const onlyUnread = tally.golden.judge().reasons.every((reason) => reason.code === 'unlinked');
    if (!onlyUnread || (tally.has_seq && !tally.golden.hadFailures)) continue;
    tally.golden = new GoldenTally();
    open.set(runId, { finder: new LinkFinder(), golden: tally.golden });
    next = Math.min(next, tally.first_id);
    last = Math.max(last, tally.last_id);
  }
  while (next <= last) {
    const listed = listFrom(source, next, last);
    for (const record of listed) {
      const judged = record.run_id === null ? undefined : open.get(record.run_id);
      if (judged === undefined) continue;
      const turn = record.kind === 'turn' ? readTurn(source, record.id) : null;
      const link = turn === null ? null : judged.finder.find(turn, record);
      judged.golden.add(markUnread(record, turn), link, turn?.conversation ?? null);
    }
    next = (listed.at(-1)?.id ?? last) + 1;
    tell(next - 1);
    await source.release?.();
  }
}

/** Up to LISTED_EXCHANGES of the exchanges between two ids, both included. */
function listFrom(source: ExchangeSource, first: number, last: number): ListedExchange[] {
  const listed: ListedExchange[] = [];
  for (const record of source.summaries({ from_id: first })) {
    if (record.id > last || listed.length >= LISTED_EXCHANGES) break;
    listed.push(record);
  }
  return listed;
}

/**
 * Summarises one run, bodies and all; null when the database holds no exchange of it.
 * @param outcome of the finished monitor run of that id; null when there is none
 */
export function summarizeRun(
  source: ExchangeSource,
  runId: string,
  outcome: string | null = null,
): RunSummary | null {
  let tally: RunTally | null = null;
  for (const step of readRun(source, runId)) {
    tally ??= startTally(runId);
    addRecord(tally, step.record, step.link, step.turn);
  }
  return tally === null ? null : finishTally(source, tally, outcome);
}

/** One exchange of a run, read. */
export interface RunStep {
  record: ExchangeRecord;
  /** null for an exchange that is no turn. */
  turn: DecodedTurn | null;
  /** How the turn follows from those before it; null for an exchange that is no turn. */
  link: TurnLink | null;
  /** Which of the run's conversations it belongs to, from 1 on; null for an exchange that is no turn. */
  conversation: number | null;
  /** The earlier exchange of the run that it goes on with, or tries again; null when it starts a conversation. */
  follows: number | null;
  /** It follows that exchange's answer, or its failure: nothing is missing in between. */
  follows_answer: boolean;
  /** The request's messages that no earlier exchange of the run showed, answers included. */
  new_messages: Message[];
  /** The system prompt, when it is not the one of the turn before; else null. */
  new_system: string[] | null;
}

/** Reads a run exchange by exchange, in the order of ids. */
export function* readRun(source: ExchangeSource, runId: string): Generator<RunStep> {
  const reader = new RunReader();
  for (const record of source.exchanges({ run_id: runId })) {
    const turn = readTurn(source, record.id);
    yield reader.read(markUnread(record, turn), turn);
  }
}

/** Finds how each turn of a run follows from those before it. Keeps a few fingerprints. */
class LinkFinder {
  /** The last turn's whole request; null before the first turn. */
  #asked: string | null = null;
  /** The last answer, as a request that goes on from it holds it. */
  #answered: string | null = null;
  #answeredId: string | null = null;
  #answerAlone: string | null = null;

  find(turn: DecodedTurn, record: ListedExchange): TurnLink {
    const link = this.#compare(turn);
    const { prefixes, answered, answered_id, answer_alone } = turn.conversation;
    this.#asked = prefixes.at(-1) ?? null;
    if (answered !== null && !hasFailed(record)) {
      this.#answered = answered;
      this.#answeredId = answered_id;
      this.#answerAlone = answer_alone;
    }
    return link;
  }

  #compare(turn: DecodedTurn): TurnLink {
    const { prefixes, last_answer_alone: lastAnswer } = turn.conversation;
    const { messages } = turn.request;
    if (this.#asked !== null && prefixes.at(-1) === this.#asked) return 'repeats';
    const goesOnElsewhere = countLinks(turn) > 0;
    if (this.#answered === null) return goesOnElsewhere || messages.some(isAnswer) ? 'breaks' : 'starts';
    if (goesOnElsewhere) return prefixes[0] === this.#answeredId ? 'continues' : 'breaks';
    const at = prefixes.lastIndexOf(this.#answered);
    // What stands before may have been rewritten or dropped: that answer is the last one all the same.
    if (at < 0 && lastAnswer !== null && lastAnswer === this.#answerAlone) return 'continues';
    if (at < 0) return messages.some(isAnswer) ? 'breaks' : 'starts';
    // After the answer only what the client says: another answer in between would be a turn that we did not see.
    return messages.slice(at + 1).some(isAnswer) ? 'breaks' : 'continues';
  }
}

/** An earlier turn of the run, as a later one may hold it. */
interface KnownTurn {
  id: number;
  conversation: number;
}

/** Tells the conversations of a run apart: a labelled one holds those of sub-agents and side calls as well. */
class ConversationFinder {
  readonly #known = new Map<string, KnownTurn>();
  #conversations = 0;

  find(
    turn: DecodedTurn,
    record: ListedExchange,
  ): { conversation: number; follows: number | null; follows_answer: boolean } {
    const { prefixes, answered, answered_id, answer_alone } = turn.conversation;
    const exact = this.#findExact(turn);
    const before = exact ?? this.#findShorter(turn);
    if (before === null) this.#conversations += 1;
    const conversation = before?.conversation ?? this.#conversations;
    const known = { id: record.id, conversation };
    const asked = prefixes.at(-1);
    if (asked !== undefined) {
      this.#remember(`asked ${asked}`, known);
      // The same words again try a failed call again; where it was answered they begin another conversation.
      if (hasFailed(record)) this.#remember(`failed ${asked}`, known);
      else this.#known.delete(`failed ${asked}`);
    }
    if (!hasFailed(record)) {
      for (const key of [answered, answered_id, answer_alone]) if (key !== null) this.#remember(key, known);
    }
    return { conversation, follows: before?.id ?? null, follows_answer: exact !== null };
  }

  /** The turn whose answer is the last one in the request; or that failed, and is tried again. */
  #findExact(turn: DecodedTurn): KnownTurn | null {
    const { prefixes, last_answer_alone: alone, last_answer_at: at } = turn.conversation;
    const failed = this.#known.get(`failed ${prefixes.at(-1)}`);
    if (failed !== undefined) return failed;
    for (let i = prefixes.length - 1; i >= Math.max(at, 0); i -= 1) {
      const found = this.#known.get(prefixes[i]!);
      if (found !== undefined) return found;
    }
    return (alone === null ? undefined : this.#known.get(alone)) ?? null;
  }

  /** The latest turn whose request, or request and answer, the request begins with. */
  #findShorter(turn: DecodedTurn): KnownTurn | null {
    const { prefixes } = turn.conversation;
    for (let i = prefixes.length - 2; i >= 0; i -= 1) {
      const found = this.#known.get(prefixes[i]!) ?? this.#known.get(`asked ${prefixes[i]}`);
      if (found !== undefined) return found;
    }
    return null;
  }

  #remember(key: string, turn: KnownTurn): void {
    if (this.#known.size < MAX_SEEN_HASHES) this.#known.set(key, turn);
  }
}

/** Follows a run's conversations and picks what is new in each turn. */
class RunReader {
  readonly #finder = new LinkFinder();
  readonly #conversations = new ConversationFinder();
  readonly #seen = new Set<string>();
  #system: string | null = null;

  read(record: ExchangeRecord, turn: DecodedTurn | null): RunStep {
    if (turn === null || record.kind !== 'turn') {
      const none = { turn: null, link: null, conversation: null, follows: null, new_system: null };
      return { record, new_messages: [], follows_answer: false, ...none };
    }
    const link = this.#finder.find(turn, record);
    const place = this.#conversations.find(turn, record);
    const newMessages = this.#takeNewMessages(turn, place.follows === null);
    const system = turn.request.system.join('\n\n');
    const newSystem = system === this.#system ? null : turn.request.system;
    this.#system = system;
    return { record, turn, link, ...place, new_messages: newMessages, new_system: newSystem };
  }

  /** A conversation that starts anew is shown from its beginning, though another began with the same words. */
  #takeNewMessages(turn: DecodedTurn, isStart: boolean): Message[] {
    const { prefixes, answered } = turn.conversation;
    const offset = countLinks(turn);
    let from = 0;
    for (let i = prefixes.length - 1; !isStart && i >= offset && from === 0; i -= 1) {
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

/** A turn whose bodies are not there any more cannot be decoded, whatever was found in them once. */
function markUnread<T extends ListedExchange>(record: T, turn: DecodedTurn | null): T {
  const isUnread = turn === null && record.kind === 'turn' && record.shape !== null;
  return isUnread ? { ...record, undecodable: true } : record;
}

// One of each stands for those of a hundred thousand runs; nobody adds to them.
const NO_NAMES: string[] = [];
const NO_GAPS: RunSummary['gaps'] = [];
const NO_REASONS: RunSummary['reasons'] = [];

/** A run of which nothing is known yet. */
export function startTally(runId: string | null): RunTally {
  return {
    summary: {
      run_id: runId,
      session_id: null,
      parent_run_id: null,
      kind: null,
      notes: NO_NAMES,
      providers: NO_NAMES,
      models: NO_NAMES,
      exchanges: 0,
      turns: 0,
      student_turns: 0,
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
      gaps: NO_GAPS,
      outcome: null,
      golden: false,
      reasons: NO_REASONS,
    },
    golden: new GoldenTally(),
    first_ms: Number.POSITIVE_INFINITY,
    last_ms: Number.NEGATIVE_INFINITY,
    first_id: Number.POSITIVE_INFINITY,
    last_id: 0,
    has_seq: false,
  };
}

/** Adds the run's next exchange; link and turn null where nobody looked at its bodies. */
export function addRecord(
  tally: RunTally,
  record: ListedExchange,
  link: TurnLink | null,
  turn: DecodedTurn | null,
): void {
  const { summary } = tally;
  summary.session_id ??= record.session_id ?? null;
  summary.parent_run_id ??= record.parent_run_id ?? null;
  summary.kind ??= record.run_kind ?? null;
  summary.exchanges += 1;
  if (record.kind === 'turn') {
    summary.turns += 1;
    if (record.served_by === 'student') summary.student_turns += 1;
  }
  summary.notes = addName(summary.notes, record.note === '' ? null : record.note);
  summary.providers = addName(summary.providers, record.provider);
  summary.models = addName(summary.models, record.model);
  for (const key of ['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens'] as const) {
    const told = record.usage[key];
    if (told !== null) summary[key] = (summary[key] ?? 0) + told;
  }
  if (record.aborted) summary.aborted += 1;
  else if (hasFailed(record)) summary.errors += 1;
  const started = Date.parse(record.started_at);
  tally.first_ms = Math.min(tally.first_ms, started);
  tally.last_ms = Math.max(tally.last_ms, started + record.duration_ms);
  tally.first_id = Math.min(tally.first_id, record.id);
  tally.last_id = Math.max(tally.last_id, record.id);
  if (record.seq !== null) {
    tally.has_seq = true;
    summary.first_seq = Math.min(summary.first_seq ?? record.seq, record.seq);
    summary.last_seq = Math.max(summary.last_seq ?? record.seq, record.seq);
  }
  tally.golden.add(record, link, turn?.conversation ?? null);
}

/** Judges a run, and completes its summary in place. @param outcome of its finished monitor run; null: none */
export function finishTally(source: ExchangeSource, tally: RunTally, outcome: string | null): RunSummary {
  const { summary } = tally;
  summary.started_at = formatTime(tally.first_ms);
  summary.finished_at = formatTime(tally.last_ms);
  const gaps = tally.golden.gaps();
  if (gaps.length > 0) summary.gaps = gaps;
  if (summary.run_id === null) {
    summary.reasons = [{ code: 'no_turn', words: 'exchanges without a run are never golden' }];
    return summary;
  }
  const last = tally.golden.lastTurn;
  // These end alike whether they call a tool or not: responses always, chat completions when the call was forced.
  const endsAlike = last?.shape === 'responses' || last?.shape === 'chat_completions';
  const calls = endsAlike ? callsTools(readTurn(source, last.id)) : null;
  const { reasons } = tally.golden.judge(calls);
  const against = judgeOutcome(outcome);
  if (against !== null) reasons.push(against);
  summary.outcome = outcome;
  summary.golden = reasons.length === 0;
  if (reasons.length > 0) summary.reasons = reasons;
  return summary;
}

function callsTools(turn: DecodedTurn | null): boolean {
  return turn?.answer.parts.some((part) => part.type === 'tool_call') ?? false;
}

/** The names with one more; a new list, since one that grew holds room for more. */
function addName(names: string[], name: string | null): string[] {
  if (name === null || names.length >= MAX_NAMES || names.includes(name)) return names;
  const shared = shareName(name);
  if (names.length > 0) return [...names, shared];
  const known = sharedLists.get(shared);
  if (known !== undefined) return known;
  const alone = [shared];
  if (sharedLists.size < MAX_SHARED_NAMES) sharedLists.set(shared, alone);
  return alone;
}

/** Names that many runs have, each once in memory. */
const sharedNames = new Map<string, string>();
/** Lists of one such name; never changed. */
const sharedLists = new Map<string, string[]>();
const MAX_SHARED_NAMES = 1_000;

function shareName(name: string): string {
  const known = sharedNames.get(name);
  if (known === undefined && sharedNames.size < MAX_SHARED_NAMES) sharedNames.set(name, name);
  return known ?? name;
}

/** A list of such names, sharing what others have. */
export function shareNames(names: readonly string[]): string[] {
  return names.reduce<string[]>((all, name) => addName(all, name), NO_NAMES);
}

function formatTime(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : '';
}
