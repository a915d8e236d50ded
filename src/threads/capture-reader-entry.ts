/**
 * Entry of the capture reader: reads the capture database for the API, in a process of its own. LMDB maps the database and
 * trusts its pages, so a damaged page can end the process that reads it; here that ends an answer, and neither the service nor
 * capture. Started and watched by `CaptureReaderProcess`. Composition root of this process.
 *
 * It answers one question after the other. It lives as long as its channel; signals that ask a whole group of processes to
 * end are for the parent.
 */
import { constants, setPriority } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { RecentExchanges } from '../analysis/captured-activity.ts';
import { CapturedRuns, type HasTime, RunWithin } from '../analysis/captured-runs.ts';
import { type ToldExchange, tellConversation } from '../analysis/conversation.ts';
import { RelegatedSteps, tellDecision } from '../analysis/relegated-steps.ts';
import { explainStep } from '../analysis/step-explanation.ts';
import type { CaptureAnswer, CapturedActivity, CaptureQuestion } from '../domain/captured-run.ts';
import type { Prices } from '../domain/price.ts';
import { CAPTURE_CATCH_UP_MS, CAPTURE_LIST_READING_MS, CONVERSATION_PAGE_CHARACTERS } from '../limits.ts';
import { decodeExchange } from '../providers/decode.ts';
import { FollowedFiles } from '../storage/capture/followed-files.ts';
import type { CaptureReaderOptions, FromCaptureReader, ToCaptureReader } from './capture-reader-protocol.ts';
import { ExplainingStudents } from './explaining-students.ts';

/** Exchanges that are added to the list at a time; then a question may be answered. */
const ADDED_AT_ONCE = 4_096;

type Question<Name extends CaptureQuestion['name']> = Extract<CaptureQuestion, { name: Name }>;

const MISSING: CaptureAnswer = { type: 'missing' };

/** A conversation that was told as far as a page's end. */
interface KeptConversation {
  run_id: string;
  /** The last exchange that was told. */
  after: number;
  epoch: number;
  last_id: number;
  rest: Iterator<ToldExchange>;
}

class CaptureLibrary {
  readonly #files: FollowedFiles;
  readonly #prices: Prices;
  readonly #students: ExplainingStudents;
  #runs: CapturedRuns;
  #recent: RecentExchanges;
  #steps = new RelegatedSteps();
  #lastId = 0;
  #kept: KeptConversation | null = null;

  constructor({ db, data_key, prices, student }: CaptureReaderOptions) {
    this.#files = new FollowedFiles(db, { decode: decodeExchange, data_key });
    this.#prices = prices;
    this.#students = new ExplainingStudents(student);
    this.#runs = new CapturedRuns({ prices });
    this.#recent = new RecentExchanges({ prices });
  }

  /** @throws CaptureFileError; whatever else reading throws */
  async answer(question: CaptureQuestion): Promise<CaptureAnswer> {
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
    }
    const refused = await this.#catchUp();
    if (refused !== null) return refused;
    switch (question.name) {
      case 'runs':
        return this.#listRuns(question);
      case 'activity':
        return toJson({
          ...this.#recent.sum(question.from_ms, question.to_ms),
          golden: this.#runs.countGolden(this.#files),
        } satisfies CapturedActivity);
      case 'run':
        return this.#tellRun(question);
    }
  }

  /** Does a piece of what is left to do. @returns false when there is nothing */
  goOn(): boolean {
    if (this.#runs.last_id < this.#lastId) {
      this.#addSome();
      return true;
    }
    return this.#runs.readWanted(this.#files);
  }

  #look(): void {
    this.#lastId = this.#files.refresh();
    if (this.#lastId >= this.#runs.last_id) return;
    // Another database lies there now.
    this.#runs = new CapturedRuns({ prices: this.#prices });
    this.#recent = new RecentExchanges({ prices: this.#prices });
    this.#steps = new RelegatedSteps();
    this.#kept = null;
  }

  /** @returns what to answer while much is left to read in */
  async #catchUp(): Promise<CaptureAnswer | null> {
    const until = performance.now() + CAPTURE_CATCH_UP_MS;
    while (this.#runs.last_id < this.#lastId) {
      this.#addSome();
      if (performance.now() > until && this.#runs.last_id < this.#lastId) {
        const detail = `The captures are being read in: ${this.#runs.last_id} of ${this.#lastId} exchanges so far`;
        return { type: 'refused', detail };
      }
      await nextTurn();
    }
    return null;
  }

  #addSome(): void {
    let added = 0;
    for (const record of this.#files.summaries({ from_id: this.#runs.last_id + 1 })) {
      this.#runs.add(record);
      this.#recent.add(record);
      if (++added === ADDED_AT_ONCE) return;
    }
    // The last ones are damaged.
    this.#runs.last_id = this.#lastId;
  }

  #listRuns({ limit, before, filter }: Question<'runs'>): CaptureAnswer {
    const page = this.#runs.page(this.#files, { limit, before, filter }, startTime());
    return toJson({
      runs: page.runs,
      next_cursor: page.next === null ? null : String(page.next),
      listed_runs: this.#runs.size,
      left_out_runs: this.#runs.left_out,
      exchanges_without_run: this.#runs.without_run,
    });
  }

  #listSteps({ limit, before, filter }: Question<'steps'>): CaptureAnswer {
    const page = this.#steps.page(this.#files, this.#lastId, { limit, before, filter }, startTime());
    return toJson({ steps: page.steps, next_cursor: page.next === null ? null : String(page.next) });
  }

  /** By the version that decided, where it is kept; else by the one that serves. */
  async #explain(id: number): Promise<CaptureAnswer> {
    const recorded = this.#files.exchange(id)?.relegation;
    const { student, problem } = await this.#students.find(recorded?.student_version ?? null);
    const explanation = explainStep(this.#files, id, student);
    if (explanation === null) return MISSING;
    const { recorded: _answer, ...told } = explanation;
    return toJson({
      ...told,
      problem: problem === '' ? explanation.problem : problem,
      relegation: recorded === undefined ? null : tellDecision({ relegation: recorded }),
    });
  }

  #tellRun({ run_id, limit, after }: Question<'run'>): CaptureAnswer {
    const runs = this.#runs.left_out > 0 ? this.#findAlone(run_id) : this.#runs;
    const row = runs.row(this.#files, run_id, startTime());
    const range = runs.rangeOf(run_id);
    if (row === undefined || range === undefined) return MISSING;
    const rest = this.#resume(run_id, after, range.last_id) ?? this.#begin(run_id, range, after);
    const turns: string[] = [];
    let characters = 0;
    let last = after ?? 0;
    while (turns.length < limit && characters < CONVERSATION_PAGE_CHARACTERS) {
      const { done, value } = rest.next();
      if (done) break;
      const text = JSON.stringify(value);
      turns.push(text);
      characters += text.length;
      last = value.exchange_id;
    }
    const hasMore = turns.length > 0 && last < range.last_id;
    const { epoch } = this.#files;
    this.#kept = hasMore ? { run_id, after: last, epoch, last_id: range.last_id, rest } : null;
    const head = JSON.stringify({ run: row, next_cursor: hasMore ? String(last) : null });
    return { type: 'json', json: Buffer.from(`${head.slice(0, -1)},"turns":[${turns.join(',')}]}`) };
  }

  /** One that had to leave the list may be there all the same. */
  #findAlone(runId: string): CapturedRuns {
    if (this.#runs.rangeOf(runId) !== undefined) return this.#runs;
    const alone = new CapturedRuns({ max: 1, prices: this.#prices });
    for (const record of this.#files.summaries({ run_id: runId })) alone.add(record);
    return alone;
  }

  /** The conversation as the last page left it; null when that is another one, or there is more of it by now. */
  #resume(runId: string, after: number | null, lastId: number): Iterator<ToldExchange> | null {
    const kept = this.#kept;
    if (kept === null || kept.run_id !== runId || kept.after !== after) return null;
    return kept.epoch === this.#files.epoch && kept.last_id === lastId ? kept.rest : null;
  }

  /** What a turn adds, only those before it tell: so it is told from the beginning. */
  #begin(
    runId: string,
    { first_id, last_id }: { first_id: number; last_id: number },
    after: number | null,
  ): Iterator<ToldExchange> {
    const told = tellConversation(new RunWithin(this.#files, first_id, last_id), runId, this.#prices);
    return passOver(told, after ?? 0);
  }
}

function* passOver(told: Iterable<ToldExchange>, after: number): Generator<ToldExchange> {
  for (const one of told) if (one.exchange_id > after) yield one;
}

function startTime(): HasTime {
  const until = performance.now() + CAPTURE_LIST_READING_MS;
  return () => performance.now() < until;
}

function toJson(value: object | undefined): CaptureAnswer {
  return value === undefined ? MISSING : { type: 'json', json: Buffer.from(JSON.stringify(value)) };
}

let library: CaptureLibrary | null = null;
/** The end of the queue: questions, and pieces of work between them. */
let tail: Promise<void> = Promise.resolve();
let waiting = 0;
let isWorking = false;

async function answer(id: number, question: CaptureQuestion): Promise<void> {
  let answered: CaptureAnswer;
  try {
    answered = await library!.answer(question);
  } catch (thrown) {
    answered = { type: 'refused', detail: (thrown as Error).message };
  }
  // A parent that is gone is told nothing.
  if (process.connected)
    process.send!({ id, answer: answered } satisfies FromCaptureReader, undefined, undefined, () => {});
}

function take(message: ToCaptureReader): void {
  if (message.type === 'open') {
    library = new CaptureLibrary(message.options);
    return;
  }
  waiting++;
  tail = tail.then(async () => {
    await answer(message.id, message.question);
    waiting--;
  });
  void tail.then(work);
}

/** As long as nobody asks. */
async function work(): Promise<void> {
  if (isWorking) return;
  isWorking = true;
  try {
    while (waiting === 0 && library!.goOn()) await nextTurn();
  } catch {
    // The next question is told what is wrong.
  } finally {
    isWorking = false;
  }
}

// Whoever serves goes before who looks.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('message', take);
process.once('disconnect', () => process.exit(0));
