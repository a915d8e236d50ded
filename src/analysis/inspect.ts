/**
 * What `understudy inspect` finds out, apart from how it looks: the runs of a capture database with their verdicts, and
 * one run as a conversation. Pure but for the source it reads from. Command line, main thread.
 *
 * Memory: the list of runs goes over the records once and chains the exchanges of each run (run-chains.ts). Then it reads
 * the runs that are asked for, at most JUDGED_RUNS runs and about JUDGED_EXCHANGES exchanges side by side, and hands each
 * out. A run is read one exchange at a time. At most MAX_SEEN_HASHES fingerprints of earlier messages stay in memory (about
 * 100 bytes each), so that a message is shown once.
 */

import type { ChildKind } from '../domain/client-run.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import { GoldenTally, type GoldenVerdict, hasFailed, judgeOutcome, type TurnLink } from '../domain/golden.ts';
import { type DecodedTurn, decodeTurn } from '../providers/decode.ts';
import type { Message } from '../providers/turn.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { type ChainedRun, RunChains, readSummaries } from './run-chains.ts';

/** Fingerprints remembered while a run is read. */
export const MAX_SEEN_HASHES = 200_000;

/** Runs that are judged side by side, and their exchanges: they lie near each other, so that most blocks are read once. */
const JUDGED_RUNS = 4_096;
const JUDGED_EXCHANGES = 65_536;

/** Exchanges that are listed before those of them that matter are read. */
const LISTED_EXCHANGES = 512;

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

export interface RunTable extends RunListEnd {
  /** By first appearance. */
  runs: RunSummary[];
}

/** What a list of runs does not show. */
export interface RunListEnd {
  /**
   * Earlier runs beyond the limit. With a filter by verdict: runs that nobody looked at, since later ones are enough.
   */
  left_out_runs: number;
  without_run: RunSummary | null;
  /** Exchanges of runs beyond those that a command knows of, which went on longest ago. */
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

/** Told now and then while runs are collected and judged: how far it is. */
export type TellProgress = (done: number) => void;

/**
 * The runs of a capture database. First all records are gone over, without their bodies, then runs are judged. For runs
 * without `seq`, and for those with failed calls, whose records leave nothing to object to, judging reads their bodies:
 * only those tell whether a conversation is unbroken and a call was tried again. Of a run that falls short already, the
 * list names what the records show; `summarizeRun` may find more.
 */
export class RunList {
  readonly #chains = new RunChains();
  #withoutRun: RunTally | null = null;

  /** Goes over all records. @param tell told the id of each */
  async addAll(source: ExchangeSource, tell: TellProgress = () => {}): Promise<void> {
    await this.#chains.addAll(source, (record) => {
      tell(record.id);
      if (record.run_id !== null) return;
      this.#withoutRun ??= startTally(null);
      addRecord(this.#withoutRun, record, null, null);
    });
  }

  /** Something when the run is there. */
  find(runId: string): unknown {
    return this.#chains.find(runId);
  }

  get size(): number {
    return this.#chains.size;
  }

  /**
   * The runs that fit, by first appearance, as they are judged.
   * @param outcomes of finished monitor runs, by id
   * @param tell told how many runs were judged
   * @returns after the last one: what is not among them
   */
  async *judge(
    source: ExchangeSource,
    outcomes: ReadonlyMap<string, string>,
    filter: RunFilter = {},
    tell: TellProgress = () => {},
  ): AsyncGenerator<RunSummary, RunListEnd> {
    const { since_ms: sinceMs = Number.NEGATIVE_INFINITY, golden, limit = Number.POSITIVE_INFINITY } = filter;
    const chains = this.#chains;
    const fits = ({ finished_ms }: ChainedRun): boolean => finished_ms >= sinceMs;
    let fitting = 0;
    for (const run of chains.runs) if (fits(run)) fitting += 1;
    let judged = 0;
    const judgeNext = async (runs: ChainedRun[]): Promise<RunSummary[]> => {
      const summaries = await judgeRuns(source, chains, runs, outcomes);
      judged += runs.length;
      tell(judged);
      return summaries;
    };
    if (golden === undefined || limit >= fitting) {
      // Which they are does not depend on what they are like.
      const passed = golden === undefined ? Math.max(0, fitting - limit) : 0;
      for (const some of takeSome(skip(chains.runs, fits, passed)))
        for (const run of await judgeNext(some)) if (golden === undefined || run.golden === golden) yield run;
      return this.#end(source, passed);
    }
    // Newest first, until there are enough. Text takes less room than what it says.
    const found: string[] = [];
    for (const some of takeSome(skip(chains.youngest, fits, 0), SEARCHED_RUNS)) {
      if (found.length >= limit) break;
      for (const run of (await judgeNext(some)).reverse())
        if (run.golden === golden && found.length < limit) found.push(JSON.stringify(run));
    }
    for (let text = found.pop(); text !== undefined; text = found.pop()) yield JSON.parse(text) as RunSummary;
    return this.#end(source, fitting - judged);
  }

  #end(source: ExchangeSource, leftOut: number): RunListEnd {
    return {
      left_out_runs: leftOut + this.#chains.forgotten,
      without_run: this.#withoutRun === null ? null : finishTally(source, this.#withoutRun, null),
      uncounted_exchanges: this.#chains.forgotten_exchanges,
    };
  }
}

/** Runs that are judged at once where a few of the newest may be enough. */
const SEARCHED_RUNS = 256;

function* skip<T>(all: Iterable<T>, fits: (one: T) => boolean, passed: number): Generator<T> {
  let left = passed;
  for (const one of all) {
    if (!fits(one)) continue;
    if (left > 0) left -= 1;
    else yield one;
  }
}

/** In parts of so many runs or of JUDGED_EXCHANGES exchanges, whichever is less. */
function* takeSome(runs: Iterable<ChainedRun>, most = JUDGED_RUNS): Generator<ChainedRun[]> {
  let some: ChainedRun[] = [];
  let exchanges = 0;
  for (const run of runs) {
    some.push(run);
    exchanges += run.exchanges;
    if (some.length < most && exchanges < JUDGED_EXCHANGES) continue;
    yield some;
    some = [];
    exchanges = 0;
  }
  if (some.length > 0) yield some;
}

/** @returns their summaries, by first appearance */
async function judgeRuns(
  source: ExchangeSource,
  chains: RunChains,
  runs: readonly ChainedRun[],
  outcomes: ReadonlyMap<string, string>,
): Promise<RunSummary[]> {
  const tallies = new Map<string, RunTally>();
  for (const record of readSummaries(source, listIds(chains, runs))) {
    const runId = record.run_id ?? '';
    const tally = tallies.get(runId) ?? startTally(runId);
    tallies.set(runId, tally);
    addRecord(tally, record, null, null);
  }
  await judgeByBodies(source, chains, tallies);
  await source.release?.();
  return [...tallies].map(([runId, tally]) => finishTally(source, tally, outcomes.get(runId) ?? null));
}

/** The ids of all their exchanges, ascending. */
function listIds(chains: RunChains, runs: Iterable<ChainedRun>): Float64Array {
  const ids: number[] = [];
  for (const run of runs) for (const id of chains.idsOf(run)) ids.push(id);
  return Float64Array.from(ids).sort();
}

/** Summarises every run. */
export async function summarizeRuns(
  source: ExchangeSource,
  outcomes: ReadonlyMap<string, string> = new Map(),
  filter: RunFilter = {},
): Promise<RunTable> {
  const list = new RunList();
  await list.addAll(source);
  const runs: RunSummary[] = [];
  const judged = list.judge(source, outcomes, filter);
  for (;;) {
    const next = await judged.next();
    if (next.done === true) return { runs, ...next.value };
    runs.push(next.value);
  }
}

/** The second pass: reads the turns of the runs that only their bodies can judge. */
async function judgeByBodies(
  source: ExchangeSource,
  chains: RunChains,
  tallies: ReadonlyMap<string, RunTally>,
): Promise<void> {
  const open = new Map<string, { finder: LinkFinder; golden: GoldenTally }>();
  const runs: ChainedRun[] = [];
  for (const [runId, tally] of tallies) {
    const onlyUnread = tally.golden.judge().reasons.every((reason) => reason.code === 'unlinked');
    if (!onlyUnread || (tally.has_seq && !tally.golden.hadFailures)) continue;
    tally.golden = new GoldenTally();
    open.set(runId, { finder: new LinkFinder(), golden: tally.golden });
    runs.push(chains.find(runId)!);
  }
  const ids = listIds(chains, runs);
  for (let at = 0; at < ids.length; at += LISTED_EXCHANGES) {
    // Listed first: a source lets go of memory only while no listing is gone through.
    for (const record of [...readSummaries(source, ids.subarray(at, at + LISTED_EXCHANGES))]) {
      const judged = open.get(record.run_id ?? '');
      if (judged === undefined) continue;
      const turn = record.kind === 'turn' ? readTurn(source, record.id) : null;
      const link = turn === null ? null : judged.finder.find(turn, record);
      judged.golden.add(markUnread(record, turn), link, turn?.conversation ?? null);
    }
    await source.release?.();
  }
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
