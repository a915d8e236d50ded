/**
 * Entry of the capture reader: reads the capture database for the API, in a process of its own. LMDB maps the database and
 * trusts its pages, so a damaged page can end the process that reads it; here that ends an answer, and neither the service nor
 * capture. Started and watched by `CaptureReaderProcess`. Composition root of this process.
 *
 * It answers one question after the other. It lives as long as its channel; signals that ask a whole group of processes to
 * end are for the parent.
 */
import { constants, setPriority } from 'node:os';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { type HasTime, RunWithin } from '../analysis/captured-runs.ts';
import { type ToldExchange, tellConversation } from '../analysis/conversation.ts';
import { RelegatedSteps, tellDecision } from '../analysis/relegated-steps.ts';
import { explainStep } from '../analysis/step-explanation.ts';
import type { CaptureAnswer, CaptureQuestion } from '../domain/captured-run.ts';
import type { Prices } from '../domain/price.ts';
import { CAPTURE_LIST_READING_MS, CONVERSATION_PAGE_CHARACTERS } from '../limits.ts';
import { decodeExchange } from '../providers/decode.ts';
import { FollowedFiles } from '../storage/capture/followed-files.ts';
import { CaptureList } from './capture-list.ts';
import type { CaptureReaderStart, FromCaptureReader, ToCaptureReader } from './capture-reader-protocol.ts';
import { ExplainingStudents } from './explaining-students.ts';

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
  readonly #list: CaptureList;
  #steps = new RelegatedSteps();
  #kept: KeptConversation | null = null;

  constructor(options: CaptureReaderStart) {
    const { db, data_key, prices, student } = options;
    this.#files = new FollowedFiles(db, { decode: decodeExchange, data_key });
    this.#prices = prices;
    this.#students = new ExplainingStudents(student);
    this.#list = new CaptureList(this.#files, options);
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
    this.#list.catchUp();
    switch (question.name) {
      case 'runs':
        return this.#listRuns(question);
      case 'activity':
        return toJson(this.#list.activity(question.from_ms, question.to_ms));
      case 'run':
        return this.#tellRun(question);
    }
  }

  /** Does a piece of what is left to do. @returns how long to wait until the next one; null: there is none */
  goOn(): number | null {
    return this.#list.goOn();
  }

  /** Keeps what was found out. */
  close(): void {
    this.#list.close();
  }

  #look(): void {
    if (this.#list.look()) return;
    this.#steps = new RelegatedSteps();
    this.#kept = null;
  }

  #listRuns({ limit, before, filter }: Question<'runs'>): CaptureAnswer {
    const page = this.#list.page({ limit, before, filter }, startTime());
    return toJson({
      runs: page.runs,
      next_cursor: page.next === null ? null : String(page.next),
      listed_runs: this.#list.size,
      left_out_runs: this.#list.left_out,
      exchanges_without_run: this.#list.without_run,
      being_read: this.#list.being_read,
    });
  }

  #listSteps({ limit, before, filter }: Question<'steps'>): CaptureAnswer {
    const page = this.#steps.page(this.#files, this.#list.last_id, { limit, before, filter }, startTime());
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
    const runs = this.#list.listOf(run_id);
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
    const parent_is_captured = row.parent_run_id !== null && this.#list.has(row.parent_run_id);
    const head = JSON.stringify({ run: row, parent_is_captured, next_cursor: hasMore ? String(last) : null });
    return { type: 'json', json: Buffer.from(`${head.slice(0, -1)},"turns":[${turns.join(',')}]}`) };
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
    while (waiting === 0) {
      const pause_ms = library!.goOn();
      if (pause_ms === null) return;
      await (pause_ms === 0 ? nextTurn() : pause(pause_ms));
    }
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
process.once('disconnect', () => {
  try {
    library?.close();
  } finally {
    process.exit(0);
  }
});
