/**
 * Entry of the capture reader, a separate process that reads the capture database for the API. LMDB maps the
 * database and trusts its pages, so a damaged page can crash the process that reads it. In a separate
 * process, such a crash fails only questions about captures: those that wait, and those of the next moments.
 * It affects neither the traffic nor capture. Started and watched by `CaptureReaderProcess`. Composition root
 * of this process. It answers one question at a time, and runs until its channel closes. It ignores signals
 * that are sent to a whole process group, because the parent handles them.
 */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { showExchange, tellBeingIndexed } from '../captures/being-indexed.ts';
import { readRunCache } from '../captures/cache-page.ts';
import { type HasTime, RunWithin } from '../captures/captured-runs.ts';
import { type ToldExchange, tellConversation } from '../captures/conversation.ts';
import { LimitTraffic } from '../captures/limits-ahead.ts';
import { RunTexts } from '../captures/run-texts.ts';
import { readHitPage } from '../captures/text-hits.ts';
import { tellDecision } from '../captures/told-decision.ts';
import type { CaptureAnswer, CapturedRunRow, CaptureQuestion } from '../domain/captured-run.ts';
import type { SearchedExchanges } from '../domain/placed-text.ts';
import type { Prices } from '../domain/price.ts';
import { SHIPPED_PRICES } from '../domain/price-table.ts';
import { writeRunCursor } from '../domain/run-query/cursor.ts';
import { describeFigureRuns, type FigureQuestion } from '../domain/traffic-figures.ts';
import { writeRunSpans } from '../otel/run-spans.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { systemClock } from '../std/clock.ts';
import { openDataKey } from '../std/data-key.ts';
import { type FollowedCaptures, FollowedFiles } from '../storage/capture/followed-files.ts';
import { Gathering } from '../storage/offload/gathering.ts';
import { allowFetching } from '../storage/offload/offloaded-reads.ts';
import { parseTextQuery, TextQueryError } from '../storage/text-index/text-query.ts';
import { TextSearch } from '../storage/text-index/text-search.ts';
import { RelegatedSteps } from '../teaching/relegated-steps.ts';
import { explainStep } from '../teaching/step-explanation.ts';
import { chooseRest } from './background-rest.ts';
import { CaptureList } from './capture-list.ts';
import type { CaptureReaderStart, FromCaptureReader, ToCaptureReader } from './capture-reader-protocol.ts';
import { ExplainingStudents } from './explaining-students.ts';
import { QuietWatch } from './quiet-watch.ts';

/** Longest time that one list spends on reading bodies. First words and verdicts that are not read by then are null. */
const CAPTURE_LIST_READING_MS = 15;
/**
 * Longest time for a filtered page that has no result yet. It is longer than for other pages, because after
 * an empty page the client must send another request.
 */
const CAPTURE_EMPTY_PAGE_MS = 60;
/** How long a page of an export reads bodies. Other questions wait meanwhile. */
const CAPTURE_EXPORT_READING_MS = 100;
/** Longest time for reading bodies for a run that is requested by its id. */
const CAPTURE_RUN_READING_MS = 250;
/** Longest time that a page of search results spends on reading texts. */
const CAPTURE_SEARCH_READING_MS = 60;
/** Longest time for comparing the prompts of one run; the answer says if there were more turns. */
const CAPTURE_CACHE_READING_MS = 3_000;
/**
 * Longest time for examining turns for the sum of cache losses over a period; the answer says if there are
 * more turns.
 */
const CAPTURE_CACHE_SUM_MS = 300;
/** Longest time for the sum of cache losses if background work examines the remaining turns. */
const CAPTURE_CACHE_SUM_AHEAD_MS = 30;
/** Longest time for reading bodies for the sum over a window; runs that are not read by then do not count. */
const CAPTURE_WINDOW_READING_MS = 200;
/**
 * Longest time for reading older exchanges for figures; the answer says if there are more, and the next request
 * continues.
 */
const CAPTURE_FIGURES_READING_MS = 60;
/**
 * While no question waits, the reader searches for relegated steps for this time and then pauses.
 */
const STEPS_READING_AHEAD_MS = 5;
const STEPS_PAUSE_MS = 15;
/**
 * While questions come, new exchanges are read at this interval, so that only a few remain to be read when
 * the next question comes.
 */
const FOLLOW_EVERY_MS = 500;
/**
 * Parts of background work are done without a pause until a piece took this long, because reading the clock of processor
 * time took a tenth of the work.
 */
const PIECE_MS = 2;
/** For this time after a question, further questions are likely. */
const FOLLOW_MS = 30_000;
/** Number of turns whose spans are one line of an export. */
const SPAN_PAGE_TURNS = 500;
/** Maximum number of JSON characters in one page of a conversation. Its last turn may exceed it. */
const CONVERSATION_PAGE_CHARACTERS = 4 << 20;

type Question<Name extends CaptureQuestion['name']> = Extract<CaptureQuestion, { name: Name }>;

/** Questions about many runs. */
const LISTS: ReadonlySet<CaptureQuestion['name']> = new Set([
  'runs',
  'values',
  'window',
  'activity',
  'figures',
  'limits',
]);

const MISSING: CaptureAnswer = { type: 'missing' };

/** The rest of a conversation, after the last page that was sent. */
interface KeptConversation {
  run_id: string;
  /** Id of the last exchange on the last page. */
  after: number;
  epoch: number;
  last_id: number;
  rest: Iterator<ToldExchange>;
}

class CaptureLibrary {
  readonly #files: FollowedCaptures;
  readonly #gathering: Gathering | null;
  readonly #prices: Prices;
  readonly #wires: CaptureReaderStart['wires'];
  readonly #students: ExplainingStudents;
  readonly #list: CaptureList;
  readonly #texts: TextSearch;
  readonly #runTexts: RunTexts;
  #steps = new RelegatedSteps();
  #limits = new LimitTraffic();
  readonly #readsAhead: boolean;
  readonly #cacheSumMs: number;
  #kept: KeptConversation | null = null;

  constructor(options: CaptureReaderStart) {
    const { db, data_key, student } = options;
    const prices = options.prices ?? SHIPPED_PRICES;
    const { read_from } = options;
    this.#gathering = read_from === null ? null : new Gathering(read_from, data_key);
    this.#files = this.#gathering?.files ?? new FollowedFiles(db, { data_key });
    this.#prices = prices;
    this.#readsAhead = options.reads_ahead;
    this.#cacheSumMs = options.reads_ahead ? CAPTURE_CACHE_SUM_AHEAD_MS : CAPTURE_CACHE_SUM_MS;
    this.#students = new ExplainingStudents(student);
    this.#wires = options.wires;
    this.#texts = new TextSearch(this.#gathering?.texts ?? db, openDataKey(data_key));
    this.#runTexts = new RunTexts(this.#files, this.#texts);
    this.#list = new CaptureList(this.#files, { ...options, prices }, this.#runTexts);
  }

  /**
   * Answers a question.
   * @throws CaptureFileError, or another error of reading
   */
  async answer(question: CaptureQuestion): Promise<CaptureAnswer> {
    // A list does not wait for a bucket: first words and verdicts that are only in the bucket stay unknown.
    allowFetching(!LISTS.has(question.name));
    await this.#gathering?.begin();
    this.#look();
    switch (question.name) {
      case 'exchange':
        return toJson(this.#files.record(question.id));
      case 'body': {
        const bytes = this.#files.body(question.id, question.side);
        return bytes === undefined ? MISSING : { type: 'bytes', bytes };
      }
      case 'steps':
        return this.#listSteps(question);
      case 'explain':
        return this.#explain(question.id);
      case 'figures':
        return this.#tellFigures(question.question);
      case 'cache':
        return this.#tellCounts(this.#list.sumCache(question.question, startTime(this.#cacheSumMs)));
      case 'limits':
        return toJson(
          this.#limits.tell(
            this.#files,
            { first_id: this.#files.first_id, last_id: this.#list.last_id },
            question.now_ms,
          ),
        );
      case 'search':
        return this.#search(question);
    }
    this.#list.catchUp();
    switch (question.name) {
      case 'runs':
        return this.#listRuns(question);
      case 'values': {
        const { name: _name, ...values } = question;
        return toJson(this.#list.countValues({ ...values, now_ms: systemClock.wallMs() }));
      }
      case 'window': {
        const { name: _name, ...window } = question;
        const now_ms = systemClock.wallMs();
        return toJson(this.#list.sumWindow({ ...window, now_ms }, startTime(CAPTURE_WINDOW_READING_MS)));
      }
      case 'activity':
        return this.#tellCounts(this.#list.activity(question.from_ms, question.to_ms));
      case 'run':
        return this.#tellRun(question);
      case 'run_cache':
        return this.#examineRun(question.run_id);
      case 'run_spans':
        return this.#writeSpans(question);
    }
  }

  /**
   * Does a part of the background work.
   * @returns how long to wait until the next part; null: no work is left
   */
  goOn(): number | null {
    // Bodies of gathered captures are in the bucket, and lists do not wait for it. Background work fetches them, so that
    // later lists can show first words.
    allowFetching(this.#gathering !== null);
    const pause_ms = this.#list.goOn();
    if (pause_ms !== null || !this.#readsAhead) return pause_ms;
    const hasTime = startTime(STEPS_READING_AHEAD_MS);
    return this.#steps.readAhead(this.#files, this.#list.last_id, hasTime) ? STEPS_PAUSE_MS : null;
  }

  /**
   * Finds out which exchanges are new, so that background work reads them.
   * @returns false for captures gathered from a bucket: only questions look for new ones of these
   * @throws CaptureFileError
   */
  follow(): boolean {
    if (this.#gathering !== null) return false;
    this.#look();
    return true;
  }

  /** Number of runs in which this process found a request that repeats the previous answer differently. */
  get differing_runs(): number {
    return this.#list.differing_runs;
  }

  /** Saves the lists and indexes. */
  close(): void {
    this.#list.close();
    this.#texts.close();
    this.#gathering?.close();
  }

  #look(): void {
    if (this.#list.look()) return;
    this.#steps = new RelegatedSteps();
    this.#limits = new LimitTraffic();
    this.#kept = null;
  }

  #listRuns({ name: _, ...asked }: Question<'runs'>): CaptureAnswer {
    const { query, is_read = false } = asked;
    const now_ms = systemClock.wallMs();
    const page = this.#list.page(
      { ...asked, now_ms },
      is_read ? startTime(CAPTURE_EXPORT_READING_MS) : startPage(),
    );
    const hasTime = startTime(CAPTURE_SEARCH_READING_MS);
    const being_indexed =
      asked.after === null
        ? tellBeingIndexed(this.#files.newestUnlisted(), {
            ...asked,
            now_ms,
            stored: this.#files.unlisted,
            isListed: (run_id) => this.#list.shows(run_id),
          })
        : null;
    return toJson({
      runs: page.runs,
      found: page.runs.flatMap(({ run_id }) =>
        this.#runTexts.placesIn(run_id, hasTime).map((place) => ({ run_id, ...place })),
      ),
      searched: this.#runTexts.searched(this.#files.ranges),
      next_cursor: page.next === null ? null : writeRunCursor(query.sort, page.next),
      matched_runs: page.matched,
      unread_runs: page.unread,
      scanned_runs: page.scanned,
      listed_runs: this.#list.size,
      left_out_runs: this.#list.left_out,
      exchanges_without_run: this.#list.without_run,
      being_read: this.#list.being_read,
      being_indexed,
      gathered: this.#gathering?.state() ?? null,
    });
  }

  #search({ q, limit, before }: Question<'search'>): CaptureAnswer {
    try {
      const query = parseTextQuery(q);
      this.#texts.refresh();
      const matches = this.#texts.find(query);
      const hasTime = startTime(CAPTURE_SEARCH_READING_MS);
      const { hits, next } = readHitPage(this.#files, matches, { limit, before }, hasTime);
      const { missing } = matches;
      const searched: SearchedExchanges = {
        not_searched: missing.countAll(this.#files.ranges),
        cut: missing.cut,
      };
      const next_cursor = next === null ? null : String(next);
      return toJson({ hits, next_cursor, runs: matches.runs, searched });
    } catch (thrown) {
      if (thrown instanceof TextQueryError) return { type: 'unfit', detail: thrown.message };
      throw thrown;
    }
  }

  #listSteps({ limit, before, filter }: Question<'steps'>): CaptureAnswer {
    const page = this.#steps.page(this.#files, this.#list.last_id, { limit, before, filter }, startPage());
    return toJson({ steps: page.steps, next_cursor: page.next === null ? null : String(page.next) });
  }

  /**
   * Explains a decision with the student version that made it. If that version cannot be loaded any more,
   * explains the decision with the version that serves now.
   */
  async #explain(id: number): Promise<CaptureAnswer> {
    const recorded = this.#files.exchange(id)?.relegation;
    const { student, problem } = await this.#students.find(recorded?.student_version ?? null);
    const explanation = explainStep(this.#files, id, student, this.#wires);
    if (explanation === null) return MISSING;
    const { opinion } = explanation;
    if (opinion?.agent != null)
      opinion.agent_name = (await this.#students.nameOf(opinion.agent)) ?? opinion.agent_name;
    const { recorded: _answer, ...told } = explanation;
    return toJson({
      ...told,
      problem: problem === '' ? explanation.problem : problem,
      relegation: recorded === undefined ? null : tellDecision({ relegation: recorded }),
    });
  }

  #tellRun({ run_id: asked, limit, after }: Question<'run'>): CaptureAnswer {
    const run_id = this.#list.capturedIdOf(asked);
    const runs = this.#list.listOf(run_id);
    const hasTime = startTime(CAPTURE_RUN_READING_MS);
    const row = runs.row(this.#files, run_id, hasTime, systemClock.wallMs());
    const range = runs.rangeOf(run_id);
    if (row !== undefined && range === undefined)
      return toJson({
        run: row,
        parent_is_captured: false,
        children: [],
        turns: [],
        being_indexed: [],
        next_cursor: null,
      });
    if (row === undefined || range === undefined) return MISSING;
    const rest = this.#resume(run_id, after, range.last_id) ?? this.#begin(run_id, range, after);
    const turns: string[] = [];
    let characters = 0;
    let last = after ?? 0;
    let next = rest.next();
    while (next.done !== true && turns.length < limit && characters < CONVERSATION_PAGE_CHARACTERS) {
      const text = JSON.stringify(next.value);
      turns.push(text);
      characters += text.length;
      last = next.value.exchange_id;
      next = rest.next();
    }
    const hasMore = next.done !== true;
    const { epoch } = this.#files;
    this.#kept = hasMore
      ? { run_id, after: last, epoch, last_id: range.last_id, rest: startWith(next.value, rest) }
      : null;
    const parent_is_captured = row.parent_run_id !== null && this.#list.has(row.parent_run_id);
    const children = this.#tellChildren(row.child_runs, hasTime);
    const next_cursor = hasMore ? String(last) : null;
    const being_indexed = hasMore ? [] : this.#listBeingIndexed(run_id);
    const head = JSON.stringify({ run: row, parent_is_captured, children, being_indexed, next_cursor });
    return { type: 'json', json: Buffer.from(`${head.slice(0, -1)},"turns":[${turns.join(',')}]}`) };
  }

  /**
   * Lists exchanges of the run that are stored but not in the index yet: those among the newest exchanges
   * whose requests name the run, in the order in which they ended.
   */
  #listBeingIndexed(runId: string) {
    const newest = this.#files.newestUnlisted().filter(({ run_id }) => run_id === runId);
    return newest.reverse().map((row) => showExchange(row, () => true));
  }

  /** Describes the child runs that still exist. */
  #tellChildren(names: CapturedRunRow['child_runs'], hasTime: HasTime) {
    const now_ms = systemClock.wallMs();
    return names.flatMap(({ run_id }) => {
      const row = this.#list.listOf(run_id).row(this.#files, run_id, hasTime, now_ms);
      if (row === undefined) return [];
      const { kind, task, started_at, duration_ms, turns, errors, cost_usd } = row;
      return [{ run_id, kind, task, started_at, duration_ms, turns, errors, cost_usd }];
    });
  }

  #tellFigures(question: FigureQuestion): CaptureAnswer {
    const report = this.#list.sumFigures(question, startTime(CAPTURE_FIGURES_READING_MS));
    const rows = report.rows.map((row) => ({ ...row, query: describeFigureRuns(question, row.name) }));
    return this.#tellCounts({ ...report, rows });
  }

  /** Adds to counts of traffic the number of stored exchanges that are not counted yet. */
  #tellCounts(counts: object): CaptureAnswer {
    return toJson({ ...counts, not_indexed: this.#files.unlisted });
  }

  #examineRun(runId: string): CaptureAnswer {
    const range = this.#list.listOf(runId).rangeOf(runId);
    if (range === undefined) return MISSING;
    const place = { run_id: runId, ...range };
    return toJson(readRunCache(this.#files, place, this.#prices, startTime(CAPTURE_CACHE_READING_MS)));
  }

  /**
   * Writes the spans of the next SPAN_PAGE_TURNS turns of the run. A tool call whose result is in a later
   * part has no span.
   */
  #writeSpans({ run_id, after }: Question<'run_spans'>): CaptureAnswer {
    const range = this.#list.listOf(run_id).rangeOf(run_id);
    if (range === undefined) return toJson({ otlp: null, next: null });
    const files = this.#files;
    const part = new RunWithin(files, Math.max(range.first_id, after + 1), range.last_id);
    let last = after;
    let left = SPAN_PAGE_TURNS;
    function* turns() {
      for (const { id } of part.summaries({ run_id })) {
        last = id;
        const record = files.exchange(id);
        if (record?.kind !== 'turn') continue;
        const copy = files.copy(id);
        yield { record, turn: copy === undefined ? null : normalizeTurn(copy) };
        if (--left === 0) return;
      }
    }
    const bytes = writeRunSpans(turns());
    const next = left === 0 && last < range.last_id ? last : null;
    const otlp = bytes === null ? 'null' : Buffer.from(bytes).toString();
    return { type: 'json', json: Buffer.from(`{"otlp":${otlp},"next":${next}}`) };
  }

  /**
   * Returns the rest of the conversation that the last page left. null: the caller continues another
   * page, or the run's last exchange or the files have changed since.
   */
  #resume(runId: string, after: number | null, lastId: number): Iterator<ToldExchange> | null {
    const kept = this.#kept;
    if (kept === null || kept.run_id !== runId || kept.after !== after) return null;
    return kept.epoch === this.#files.epoch && kept.last_id === lastId ? kept.rest : null;
  }

  /**
   * Computes the conversation from the beginning, because what a turn adds depends on the turns before it, and passes
   * over the exchanges up to `after`.
   */
  #begin(
    runId: string,
    { first_id, last_id }: { first_id: number; last_id: number },
    after: number | null,
  ): Iterator<ToldExchange> {
    const told = tellConversation(new RunWithin(this.#files, first_id, last_id), runId, this.#prices);
    return passOver(told, after);
  }
}

/** Yields the exchanges after `after`: none if that exchange is unknown, all if `after` is null. */
function* passOver(told: Iterable<ToldExchange>, after: number | null): Generator<ToldExchange> {
  let isBehind = after === null;
  for (const exchange of told) {
    if (isBehind) yield exchange;
    isBehind ||= exchange.exchange_id === after;
  }
}

function* startWith(first: ToldExchange, rest: Iterator<ToldExchange>): Generator<ToldExchange> {
  yield first;
  for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value;
}

function startPage(): HasTime {
  const hasTime = startTime();
  const mayBeEmpty = startTime(CAPTURE_EMPTY_PAGE_MS);
  return (found = 1) => (found === 0 ? mayBeEmpty() : hasTime());
}

/**
 * Makes a function that returns whether there is still time. The time starts at its first call, so that
 * earlier work, such as a full-text search, does not count as reading.
 */
function startTime(ms = CAPTURE_LIST_READING_MS): HasTime {
  let until: number | null = null;
  return () => {
    until ??= performance.now() + ms;
    return performance.now() < until;
  };
}

function toJson(value: object | undefined): CaptureAnswer {
  return value === undefined ? MISSING : { type: 'json', json: Buffer.from(JSON.stringify(value)) };
}

let library: CaptureLibrary | null = null;
/** Resolves when all questions received so far are answered. */
let tail: Promise<void> = Promise.resolve();
let waiting = 0;
let isWorking = false;
/** When the last question came, by performance.now(). */
let askedAt = 0;

async function answer(id: number, question: CaptureQuestion): Promise<void> {
  let answered: CaptureAnswer;
  try {
    answered = await library!.answer(question);
  } catch (thrown) {
    answered = { type: 'refused', detail: (thrown as Error).message };
  }
  tell({ type: 'answer', id, answer: answered });
  tellDiffering();
}

/** Sends a message to the parent. Ignores the error if the parent has ended. */
function tell(message: FromCaptureReader): void {
  if (process.connected) process.send!(message, undefined, undefined, () => {});
}

let toldDiffering = 0;
function tellDiffering(): void {
  const { differing_runs } = library!;
  if (differing_runs > toldDiffering) tell({ type: 'differing', runs: differing_runs - toldDiffering });
  toldDiffering = differing_runs;
}

function take(message: ToCaptureReader): void {
  if (message.type === 'open') {
    // With gathered captures nothing is read ahead, because the bodies are in the bucket.
    const reads_ahead = message.options.reads_ahead && message.options.read_from === null;
    library = new CaptureLibrary({ ...message.options, reads_ahead });
    return;
  }
  waiting++;
  askedAt = performance.now();
  tail = tail.then(async () => {
    await answer(message.id, message.question);
    waiting--;
  });
  void tail.then(work);
}

/**
 * Finds new exchanges while further questions are likely.
 * @returns false if no further questions are likely, or if only questions look for new exchanges
 */
function followsOn(): boolean {
  return performance.now() - askedAt < FOLLOW_MS && library!.follow();
}

/** Does background work until a question comes or no work is left. */
async function work(): Promise<void> {
  if (isWorking) return;
  isWorking = true;
  try {
    while (waiting === 0) {
      const started = performance.now();
      const { user, system } = process.cpuUsage();
      let pause_ms: number | null;
      do pause_ms = library!.goOn();
      while (pause_ms === 0 && performance.now() - started < PIECE_MS);
      pause_ms ??= followsOn() ? FOLLOW_EVERY_MS : null;
      tellDiffering();
      if (pause_ms === null) return;
      const used = process.cpuUsage();
      const cpuMs = (used.user - user + used.system - system) / 1_000;
      const rest = Math.max(pause_ms, chooseRest(performance.now() - started, cpuMs));
      await (rest === 0 ? nextTurn() : pause(rest));
    }
  } catch {
    // The next question reports the error.
  } finally {
    isWorking = false;
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('message', take);
new QuietWatch({ collects: true, trims: true });
process.once('disconnect', () => {
  try {
    library?.close();
  } finally {
    process.exit(0);
  }
});
