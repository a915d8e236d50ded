/**
 * The content of `understudy inspect`, without its layout: the runs of a capture database with their verdicts, and one
 * run as a conversation. Pure except for its source. Command line, main thread; capture reader.
 *
 * Memory: the list of runs scans the records once and chains the exchanges of each run (run-chains.ts). Then it reads
 * the requested runs, at most JUDGED_RUNS runs and about JUDGED_EXCHANGES exchanges side by side, and yields each run.
 * A single run is read one exchange at a time. To show each message once, at most MAX_SEEN_HASHES fingerprints of
 * earlier messages stay in memory (about 100 bytes each).
 */

import type { ChildKind } from '../domain/child-kind.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import {
  countErrors,
  type GoldenReason,
  GoldenTally,
  type GoldenVerdict,
  hasFailed,
  isFailedCall,
  type TurnLink,
} from '../domain/golden.ts';
import { NO_WORDS, type RunMark, type RunWords, weighWords } from '../domain/run-mark.ts';
import { RunOrder } from '../domain/run-order.ts';
import type { TurnMessage } from '../domain/turn.ts';
import { GOLDEN_WIRES } from '../providers/golden-wires.ts';
import { type ReadTurn, readTurn as readStoredTurn } from '../providers/normal-turn.ts';
import { type ExchangeSource, type ListedExchange, readInOrder } from './exchange-source.ts';
import { type ChainedRun, RunChains, readSummaries } from './run-chains.ts';
import { judgeByRecords, RunJudge } from './run-judge.ts';

/** Maximum number of fingerprints that are remembered while a run is read. */
export const MAX_SEEN_HASHES = 200_000;

/**
 * Maximum numbers of runs that are judged at the same time, and of exchanges in these runs. The runs are close together
 * in the file, so most blocks are read once.
 */
const JUDGED_RUNS = 4_096;
const JUDGED_EXCHANGES = 16_384;

/** Maximum number of exchanges in one pass: their summaries are listed first, and then the relevant ones are read. */
const LISTED_EXCHANGES = 512;

/** Maximum number of models, notes and providers listed for one run. */
const MAX_NAMES = 8;
/** Maximum number of request tags, and of credentials, listed for one run. */
const MAX_TAGS = 32;
const MAX_CREDENTIALS = 16;
/** Maximum number of tools listed for one run. */
const MAX_TOOLS = 64;

/** One line of the table of runs. */
export interface RunSummary {
  /** null for the line of all exchanges without a run. */
  run_id: string | null;
  /** The client's own session; null when its headers name none. */
  session_id: string | null;
  /** The run's parent; null without one. */
  parent_run_id: string | null;
  /** Kind of the child run; null for an agent's own run. */
  kind: ChildKind | null;
  notes: string[];
  providers: string[];
  models: string[];
  /** Tools that the run's answers called, the first MAX_TOOLS. */
  tools: string[];
  /** The first program that the headers of the run's requests name; null when they name none. */
  client: string | null;
  /** Trace id of the first `traceparent` header; null without such a header. */
  trace_id: string | null;
  /** Tags from its requests' `x-svc-tags`. */
  request_tags: string[];
  /** Fingerprints of the credentials of its requests. */
  keys: string[];
  exchanges: number;
  turns: number;
  /** Turns that the student answered. */
  student_turns: number;
  /** RFC 3339. */
  started_at: string;
  finished_at: string;
  /** Sums of the providers' counts; null when no provider reported any. */
  input_tokens: number | null;
  output_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  /** Failed calls (no answer, an error status, a turn without an end), and results of failed tools. */
  errors: number;
  aborted: number;
  first_seq: number | null;
  last_seq: number | null;
  /** Ranges of missing seq, both ends included. */
  gaps: [from: number, to: number][];
  /** Outcome of the finished monitor run with this run's id; null: no outcome counts for this run (run-words.ts). */
  outcome: string | null;
  /** A person's mark; null without one. */
  mark: RunMark | null;
  golden: boolean;
  /** Why the run is not golden, in words; empty when golden. */
  reasons: GoldenVerdict['reasons'];
  /** The reasons that the mark overrules. */
  overruled: GoldenVerdict['reasons'];
}

interface RunTable extends RunListEnd {
  /** In the order of their first appearance. */
  runs: RunSummary[];
}

/** Counts of what a list of runs leaves out. */
export interface RunListEnd {
  /**
   * Number of earlier runs that are not listed: the runs beyond the limit or, with a filter by verdict, the runs that
   * were not examined because enough later runs matched. Runs that a command does not keep are included.
   */
  left_out_runs: number;
  /** The sum of all exchanges without a run; null without such exchanges. */
  without_run: RunSummary | null;
  /** Exchanges of the oldest runs, beyond the number of runs that a command keeps. */
  uncounted_exchanges: number;
  /** Exchanges that are not indexed yet. They are in none of the listed runs. */
  not_indexed: number;
}

/** A run while its records are read. */
export interface RunTally {
  summary: RunSummary;
  /** What the run's records contribute to its verdict. */
  golden: GoldenTally;
  /** Reasons from the run's bodies; null when the bodies were not read. */
  found: GoldenReason[] | null;
  first_ms: number;
  last_ms: number;
  /** When the last failed call began; null without one. */
  last_failed_ms: number | null;
  first_id: number;
  last_id: number;
  has_seq: boolean;
}

/** Reasons that an earlier reader found for a run with these records; null when unknown. */
export type KeptVerdict = (tally: RunTally) => GoldenReason[] | null;

/** Which runs a table shows. Without a filter it shows all. */
export interface RunFilter {
  /** Runs that continued at this time or later, in milliseconds since the epoch. */
  since_ms?: number;
  /** true: only golden runs; false: only other runs; absent: both. */
  golden?: boolean;
  /** Maximum number of runs; the latest are shown. */
  limit?: number;
}

/** Called from time to time with the progress, while runs are collected and judged. */
type TellProgress = (done: number) => void;

/**
 * The runs of a capture database. First all records are read, without their bodies; then the runs are judged. The
 * bodies of a run are read only if its records show no fault (run-judge.ts). If they show one, `summarizeRun` may find
 * more faults than the list.
 */
export class RunList {
  readonly #chains = new RunChains();
  readonly #kept: KeptVerdict;
  #withoutRun: RunTally | null = null;

  /** @param kept called before bodies are read */
  constructor(kept: KeptVerdict = () => null) {
    this.#kept = kept;
  }

  /**
   * Reads all records.
   * @param tell receives the id of each record
   */
  async addAll(source: ExchangeSource, tell: TellProgress = () => {}): Promise<void> {
    await this.#chains.addAll(source, (record) => {
      tell(record.id);
      if (record.run_id !== null || record.not_indexed) return;
      this.#withoutRun ??= startTally(null);
      addRecord(this.#withoutRun, record);
    });
  }

  /** Finds a run by its id; undefined if the run does not exist. */
  find(runId: string): unknown {
    return this.#chains.find(runId);
  }

  get size(): number {
    return this.#chains.size;
  }

  /**
   * Yields the matching runs by first appearance, each soon after it is judged. With a filter by verdict and a limit, the
   * runs are yielded after all of them are judged.
   * @param words external statements about runs, by id
   * @param tell receives the number of judged runs
   * @returns what the list leaves out
   */
  async *judge(
    source: ExchangeSource,
    words: ReadonlyMap<string, RunWords>,
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
      const summaries = await judgeRuns(source, chains, runs, { words, kept: this.#kept });
      judged += runs.length;
      tell(judged);
      return summaries;
    };
    if (golden === undefined || limit >= fitting) {
      // Without a filter by verdict, the limit applies before runs are judged.
      const passed = golden === undefined ? Math.max(0, fitting - limit) : 0;
      for (const some of takeSome(skip(chains.runs, fits, passed)))
        for (const run of await judgeNext(some)) if (golden === undefined || run.golden === golden) yield run;
      return this.#end(passed);
    }
    // Judge the newest runs first until enough match. Summaries are kept as text, which takes less memory than objects.
    const found: string[] = [];
    for (const some of takeSome(skip(chains.youngest, fits, 0), SEARCHED_RUNS)) {
      if (found.length >= limit) break;
      for (const run of (await judgeNext(some)).reverse())
        if (run.golden === golden && found.length < limit) found.push(JSON.stringify(run));
    }
    for (let text = found.pop(); text !== undefined; text = found.pop()) yield JSON.parse(text) as RunSummary;
    return this.#end(fitting - judged);
  }

  #end(leftOut: number): RunListEnd {
    return {
      left_out_runs: leftOut + this.#chains.forgotten,
      without_run: this.#withoutRun === null ? null : finishTally(this.#withoutRun),
      uncounted_exchanges: this.#chains.forgotten_exchanges,
      not_indexed: this.#chains.not_indexed,
    };
  }
}

/** Number of runs that are judged at once if a few of the newest runs may suffice. */
const SEARCHED_RUNS = 256;

function* skip<T>(items: Iterable<T>, fits: (item: T) => boolean, passed: number): Generator<T> {
  let left = passed;
  for (const item of items) {
    if (!fits(item)) continue;
    if (left > 0) left -= 1;
    else yield item;
  }
}

/** Divides runs into parts of at most `most` runs and about JUDGED_EXCHANGES exchanges. */
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

/** What is known about runs before their bodies are read. */
interface KnownOfRuns {
  words: ReadonlyMap<string, RunWords>;
  kept: KeptVerdict;
}

/**
 * Judges runs; bodies are read only where the records do not suffice.
 * @returns the summaries of the runs, by first appearance
 */
async function judgeRuns(
  source: ExchangeSource,
  chains: RunChains,
  runs: readonly ChainedRun[],
  known: KnownOfRuns,
): Promise<RunSummary[]> {
  const listed = new Map<string, ListedInOrder>();
  for (const record of readSummaries(source, listIds(chains, runs))) {
    const runId = record.run_id ?? '';
    const run = listed.get(runId) ?? new ListedInOrder(runId);
    listed.set(runId, run);
    run.add(record);
  }
  for (const run of listed.values()) run.end();
  await judgeByBodies(source, listed.values(), known);
  await source.release?.();
  return [...listed].map(([runId, { tally }]) => finishTally(tally, known.words.get(runId)));
}

/** A run whose records are found by id and read in the order of the run. */
class ListedInOrder {
  readonly tally: RunTally;
  /** In the order of the run. */
  readonly ids: number[] = [];
  readonly #order = new RunOrder<ListedExchange>();

  constructor(runId: string) {
    this.tally = startTally(runId);
  }

  add(record: ListedExchange): void {
    this.#take(this.#order.add(record));
  }

  end(): void {
    this.#take(this.#order.end());
  }

  #take(records: ListedExchange[]): void {
    for (const record of records) {
      addRecord(this.tally, record);
      this.ids.push(record.id);
    }
  }
}

/** The ids of all exchanges of the runs, ascending. */
function listIds(chains: RunChains, runs: Iterable<ChainedRun>): Float64Array {
  const ids: number[] = [];
  for (const run of runs) for (const id of chains.idsOf(run)) ids.push(id);
  return Float64Array.from(ids).sort();
}

/** Summarises the runs that the filter selects; without a filter, all runs. */
export async function summarizeRuns(
  source: ExchangeSource,
  words: ReadonlyMap<string, RunWords> = new Map(),
  filter: RunFilter = {},
): Promise<RunTable> {
  const list = new RunList();
  await list.addAll(source);
  const runs: RunSummary[] = [];
  const judged = list.judge(source, words, filter);
  for (;;) {
    const next = await judged.next();
    if (next.done === true) return { runs, ...next.value };
    runs.push(next.value);
  }
}

/** The second pass: reads the turns of the runs that only their bodies can judge. */
async function judgeByBodies(
  source: ExchangeSource,
  runs: Iterable<ListedInOrder>,
  { words, kept }: KnownOfRuns,
): Promise<void> {
  const places: BodyPlace[] = [];
  for (const { tally, ids } of runs) {
    const said = words.get(tally.summary.run_id ?? '') ?? NO_WORDS;
    if (judgeByRecords(tally.golden, said) !== null) continue;
    tally.found = kept(tally);
    if (tally.found !== null) continue;
    const judged: JudgedRun = { tally, left: ids.length, open: null };
    let near = 0;
    for (const id of ids) {
      near = Math.max(near, id);
      places.push({ id, near, judged });
    }
  }
  // Exchanges of one run stay in the run's order. Apart from that, exchanges are in the order of the file, so that most
  // blocks are read once.
  places.sort((a, b) => a.near - b.near);
  for (let at = 0; at < places.length; at += LISTED_EXCHANGES) {
    const some = places.slice(at, at + LISTED_EXCHANGES);
    const ids = Float64Array.from(some, ({ id }) => id).sort();
    // List first: a source can release memory only outside a listing.
    const records = new Map([...readSummaries(source, ids)].map((record) => [record.id, record]));
    for (const { id, judged } of some) {
      const record = records.get(id);
      if (record !== undefined) addRead(judged, record, record.kind === 'turn' ? readTurn(source, id) : null);
      judged.left -= 1;
      if (judged.left > 0) continue;
      judged.tally.found = judged.open?.judge.judge() ?? [];
      judged.open = null;
    }
    await source.release?.();
  }
}

/** An exchange whose body is read. */
interface BodyPlace {
  id: number;
  /** Position at which the exchange is read: its place in the file, but not before the run's preceding exchanges. */
  near: number;
  judged: JudgedRun;
}

/** A run while its bodies are read. */
interface JudgedRun {
  tally: RunTally;
  /** Exchanges not read yet. */
  left: number;
  /** Exists only from the run's first exchange to its last, to save memory: many runs are read side by side. */
  open: { links: LinkFinder; conversations: ConversationFinder; judge: RunJudge } | null;
}

function addRead(judged: JudgedRun, record: ListedExchange, turn: ReadTurn | null): void {
  judged.open ??= { links: new LinkFinder(), conversations: new ConversationFinder(), judge: new RunJudge() };
  const { links, conversations, judge } = judged.open;
  const read = markUnread(record, turn);
  if (turn === null) judge.add({ record: read, turn, link: null, conversation: null });
  else {
    const link = links.find(turn, record);
    judge.add({ record: read, turn, link, conversation: conversations.find(turn, record).conversation });
  }
}

/**
 * Summarises one run with its bodies; null when the database holds no exchange of the run.
 * @param words external statements about the run
 */
export function summarizeRun(
  source: ExchangeSource,
  runId: string,
  words: RunWords = NO_WORDS,
): RunSummary | null {
  let tally: RunTally | null = null;
  const judge = new RunJudge();
  for (const step of readRun(source, runId)) {
    tally ??= startTally(runId);
    addRecord(tally, step.record);
    judge.add(step);
  }
  if (tally !== null) tally.found = judge.judge();
  return tally === null ? null : finishTally(tally, words);
}

/** One exchange of a run, with its bodies read. */
export interface RunStep {
  record: ExchangeRecord;
  /** null for an exchange that is not a turn. */
  turn: ReadTurn | null;
  /** How the turn continues earlier ones; null for an exchange that is not a turn. */
  link: TurnLink | null;
  /** Number of the turn's conversation in the run, from 1 on; null for an exchange that is not a turn. */
  conversation: number | null;
  /** The earlier exchange that this one continues or retries; null when this one starts a conversation. */
  follows: number | null;
  /** Whether this exchange directly follows the answer or failure of the exchange in `follows`. */
  follows_answer: boolean;
  /** The request's messages that no earlier exchange of the run showed, including answers. */
  new_messages: TurnMessage[];
  /** The system prompt if it differs from the previous turn's, otherwise null. */
  new_system: string[] | null;
}

/** Reads a run exchange by exchange, in the order of the run (domain/run-order.ts). */
export function* readRun(source: ExchangeSource, runId: string): Generator<RunStep> {
  const reader = new RunReader();
  for (const record of readInOrder(source, runId)) {
    const turn = readTurn(source, record.id);
    yield reader.read(markUnread(record, turn), turn);
  }
}

/** Finds how each turn of a run follows earlier ones. Keeps a few fingerprints. */
class LinkFinder {
  /** The last turn's whole request; null before the first turn. */
  #asked: string | null = null;
  /** The last answer in the form in which a continuing request contains it. */
  #answered: string | null = null;
  /** The link by which a continuing request refers to the last answer if the provider keeps it. */
  #answeredId: string | null = null;
  /** The last answer without the messages before it. */
  #answerAlone: string | null = null;

  find(turn: ReadTurn, record: ListedExchange): TurnLink {
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

  #compare(turn: ReadTurn): TurnLink {
    const { prefixes, last_answer_alone: lastAnswer } = turn.conversation;
    const { messages } = turn.request;
    if (this.#asked !== null && prefixes.at(-1) === this.#asked) return 'repeats';
    const goesOnElsewhere = countLinks(turn) > 0;
    if (this.#answered === null) return goesOnElsewhere || messages.some(isAnswer) ? 'breaks' : 'starts';
    if (goesOnElsewhere) return prefixes[0] === this.#answeredId ? 'continues' : 'breaks';
    const at = prefixes.lastIndexOf(this.#answered);
    // The last answer is the same, even if earlier messages were rewritten or dropped.
    if (at < 0 && lastAnswer !== null && lastAnswer === this.#answerAlone) return 'continues';
    if (at < 0) return messages.some(isAnswer) ? 'breaks' : 'starts';
    // Only messages of the client may follow the answer. Another answer after it belongs to a turn that was not
    // captured.
    return messages.slice(at + 1).some(isAnswer) ? 'breaks' : 'continues';
  }
}

/** An earlier turn of the run, which a later request may continue. */
interface KnownTurn {
  id: number;
  conversation: number;
}

/** Separates the conversations of a run. A labelled run also contains conversations of sub-agents and side calls. */
class ConversationFinder {
  readonly #known = new Map<string, KnownTurn>();
  #conversations = 0;

  find(
    turn: ReadTurn,
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
      // An equal request after a failed call is a retry. After an answered call it begins another conversation.
      if (hasFailed(record)) this.#remember(`failed ${asked}`, known);
      else this.#known.delete(`failed ${asked}`);
    }
    if (!hasFailed(record)) {
      for (const key of [answered, answered_id, answer_alone]) if (key !== null) this.#remember(key, known);
    }
    return { conversation, follows: before?.id ?? null, follows_answer: exact !== null };
  }

  /** The turn whose answer is the last answer in the request, or a failed turn that the request retries. */
  #findExact(turn: ReadTurn): KnownTurn | null {
    const { prefixes, last_answer_alone: alone, last_answer_at: at } = turn.conversation;
    const failed = this.#known.get(`failed ${prefixes.at(-1)}`);
    if (failed !== undefined) return failed;
    for (let i = prefixes.length - 1; i >= Math.max(at, 0); i -= 1) {
      const found = this.#known.get(prefixes[i]!);
      if (found !== undefined) return found;
    }
    return (alone === null ? undefined : this.#known.get(alone)) ?? null;
  }

  /**
   * The turn whose request, with or without its answer, is the beginning of this longer request. Of several turns, the
   * turn with the longest such beginning.
   */
  #findShorter(turn: ReadTurn): KnownTurn | null {
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

/** Follows a run's conversations and selects what is new in each turn. */
class RunReader {
  readonly #finder = new LinkFinder();
  readonly #conversations = new ConversationFinder();
  readonly #seen = new Set<string>();
  #system: string | null = null;

  read(record: ExchangeRecord, turn: ReadTurn | null): RunStep {
    if (turn === null || record.kind !== 'turn') {
      const none = { turn: null, link: null, conversation: null, follows: null, new_system: null };
      return { record, new_messages: [], follows_answer: false, ...none };
    }
    const link = this.#finder.find(turn, record);
    const place = this.#conversations.find(turn, record);
    const newMessages = this.#takeNewMessages(turn, place.follows === null);
    const texts = turn.request.system.flatMap((block) => (block.type === 'text' ? [block.text] : []));
    const system = texts.join('\n\n');
    const newSystem = system === this.#system ? null : texts;
    this.#system = system;
    return { record, turn, link, ...place, new_messages: newMessages, new_system: newSystem };
  }

  /**
   * Selects the new messages. All messages of a new conversation are new, even if another conversation began with the
   * same words.
   */
  #takeNewMessages(turn: ReadTurn, isStart: boolean): TurnMessage[] {
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

/**
 * Number of a turn's prefixes that belong to no message of its request, but to a link to an answer that the provider
 * keeps.
 */
function countLinks(turn: ReadTurn): number {
  return Math.max(0, turn.conversation.prefixes.length - turn.request.messages.length);
}

function isAnswer(message: TurnMessage): boolean {
  return message.role === 'assistant';
}

/** A stored exchange read as a turn; null if it has no known wire format or does not exist. */
export function readTurn(source: ExchangeSource, id: number): ReadTurn | null {
  const copy = source.copy(id);
  return copy === undefined ? null : readStoredTurn(copy);
}

/** Marks a turn whose bodies cannot be read (any more) as undecodable, whatever was found in them before. */
function markUnread<T extends ListedExchange>(record: T, turn: ReadTurn | null): T {
  const isUnread = turn === null && record.kind === 'turn' && record.shape !== null;
  return isUnread ? { ...record, undecodable: true } : record;
}

// Shared by a hundred thousand runs; never modified.
const NO_NAMES: string[] = [];
const NO_GAPS: RunSummary['gaps'] = [];
const NO_REASONS: RunSummary['reasons'] = [];

/** Starts the tally of a run, without any records. */
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
      tools: NO_NAMES,
      client: null,
      trace_id: null,
      request_tags: NO_NAMES,
      keys: NO_NAMES,
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
      mark: null,
      golden: false,
      reasons: NO_REASONS,
      overruled: NO_REASONS,
    },
    golden: new GoldenTally(GOLDEN_WIRES),
    found: null,
    first_ms: Number.POSITIVE_INFINITY,
    last_ms: Number.NEGATIVE_INFINITY,
    last_failed_ms: null,
    first_id: Number.POSITIVE_INFINITY,
    last_id: 0,
    has_seq: false,
  };
}

/** Adds the record of the run's next exchange. */
export function addRecord(tally: RunTally, record: ListedExchange): void {
  const { summary } = tally;
  summary.session_id ??= record.session_id ?? null;
  summary.parent_run_id ??= record.parent_run_id ?? null;
  summary.kind ??= record.run_kind ?? null;
  if (record.client !== undefined) summary.client ??= shareName(record.client);
  summary.trace_id ??= record.trace_id ?? null;
  for (const tool of record.tools ?? []) summary.tools = addName(summary.tools, tool, MAX_TOOLS);
  for (const tag of record.tags ?? []) summary.request_tags = addName(summary.request_tags, tag, MAX_TAGS);
  summary.keys = addName(summary.keys, record.credential ?? null, MAX_CREDENTIALS);
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
  summary.errors += countErrors(record);
  const started = Date.parse(record.started_at);
  tally.first_ms = Math.min(tally.first_ms, started);
  tally.last_ms = Math.max(tally.last_ms, started + record.duration_ms);
  if (isFailedCall(record)) tally.last_failed_ms = Math.max(tally.last_failed_ms ?? 0, started);
  tally.first_id = Math.min(tally.first_id, record.id);
  tally.last_id = Math.max(tally.last_id, record.id);
  if (record.seq !== null) {
    tally.has_seq = true;
    summary.first_seq = Math.min(summary.first_seq ?? record.seq, record.seq);
    summary.last_seq = Math.max(summary.last_seq ?? record.seq, record.seq);
  }
  tally.golden.add(record);
}

/**
 * Judges a run, and completes its summary in place.
 * @param words external statements about the run
 */
function finishTally(tally: RunTally, words: RunWords = NO_WORDS): RunSummary {
  const { summary } = tally;
  summary.started_at = formatTime(tally.first_ms);
  summary.finished_at = formatTime(tally.last_ms);
  const gaps = tally.golden.gaps();
  if (gaps.length > 0) summary.gaps = gaps;
  if (summary.run_id === null) {
    summary.reasons = [{ code: 'no_turn', words: 'exchanges without a run are never golden' }];
    return summary;
  }
  const found = tally.found ?? judgeByRecords(tally.golden, words) ?? [];
  const { golden, reasons, overruled } = weighWords(found, words);
  Object.assign(summary, words, { golden });
  if (reasons.length > 0) summary.reasons = reasons;
  if (overruled.length > 0) summary.overruled = overruled;
  return summary;
}

/** Returns a new list with one more name. A list that grew in place would use memory for spare capacity. */
function addName(names: string[], name: string | null, most: number = MAX_NAMES): string[] {
  if (name === null || names.length >= most || names.includes(name)) return names;
  const shared = shareName(name);
  if (names.length > 0) return [...names, shared];
  const known = sharedLists.get(shared);
  if (known !== undefined) return known;
  const alone = [shared];
  if (sharedLists.size < MAX_SHARED_NAMES) sharedLists.set(shared, alone);
  return alone;
}

/** Names that many runs have; each name is in memory once. */
const sharedNames = new Map<string, string>();
/** Shared lists with a single name; never modified. */
const sharedLists = new Map<string, string[]>();
const MAX_SHARED_NAMES = 1_000;

/** Returns the shared string for a name that many runs have. Beyond MAX_SHARED_NAMES, names are not shared. */
export function shareName(name: string): string {
  const known = sharedNames.get(name);
  if (known === undefined && sharedNames.size < MAX_SHARED_NAMES) sharedNames.set(name, name);
  return known ?? name;
}

/** Returns a list of shared names, at most MAX_TOOLS. A list with one name is shared, too. */
export function shareNames(names: readonly string[]): string[] {
  return names.reduce<string[]>((all, name) => addName(all, name, MAX_TOOLS), NO_NAMES);
}

function formatTime(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : '';
}
