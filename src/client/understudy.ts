/**
 * The client library's entry, `@understudy-gateway/client`. It observes an agent from inside its
 * process without disturbing the agent: runs and steps are sent in the background, requests that
 * the agent waits for have a time limit, and logging never throws into the agent's code. Any
 * thread; a client belongs to the thread that created it.
 */
import { Ambient } from './ambient.ts';
import { type ApiClient, Caller } from './api-client.ts';
import type { CircuitState } from './circuit.ts';
import { scoreStep } from './difficulty/step-score.ts';
import { FindingsClient, type FindingsOptions } from './findings-client.ts';
import { labelRun } from './labelled-run.ts';
import { type LiveEvent, readLiveEvents, SILENCE_MS, type SubscribeOptions } from './live-stream.ts';
import { CLIENT_VERSION, readOptions, type Settings, type UnderstudyOptions } from './options.ts';
import { PATTERN_TOKENS, type Pattern, type RetrieveOptions, renderPatterns } from './patterns-text.ts';
import { Run, type RunCounts } from './run.ts';
import { type RunOptions, toRunStart } from './run-start.ts';
import { Sender } from './sender.ts';
import { cutText } from './step.ts';

export type { ApiClient, CallOptions } from './api-client.ts';
export type { CircuitState } from './circuit.ts';
export type { DifficultyState } from './difficulty/machine.ts';
export type { ModelRouting } from './difficulty/model-routing.ts';
export type { FsmThresholds } from './difficulty/thresholds.ts';
export type { TokenBudgetReached } from './difficulty/token-budget.ts';
export {
  ApiError,
  AuthenticationError,
  CircuitOpenError,
  ConflictError,
  ConnectionError,
  type FieldViolation,
  NotFoundError,
  PermissionError,
  RateLimitError,
  ServerError,
  TimeoutError,
  UnderstudyError,
  UnexpectedAnswerError,
  ValidationError,
} from './errors.ts';
export { type Arm, assignArm } from './experiment-arm.ts';
export type {
  Finding,
  FindingFilter,
  FindingsClient,
  FindingsOptions,
  ListOptions,
  NewFinding,
  RecalledFinding,
  RecallOptions,
  StoreOptions,
} from './findings-client.ts';
export type { LiveEvent, SubscribeOptions } from './live-stream.ts';
export type { AnswerOf, OperationName, RequestOf } from './operations.ts';
export type { ClientWarning, UnderstudyOptions } from './options.ts';
export { estimateTokens, type Pattern, type RetrieveOptions, renderPatterns } from './patterns-text.ts';
export type { Difficulty, Intervention, Run } from './run.ts';
export type { RunMarks } from './run-marks.ts';
export type { RunOptions } from './run-start.ts';
export type { Step } from './step.ts';
export { scoreStep };

/** Counters since the client was made. */
export interface ClientStats {
  runs: { started: number; finished: number };
  steps: {
    /** Steps that the agent has logged. */
    logged: number;
    /** Steps that the service accepted. */
    sent: number;
    /** Steps that wait to be sent. */
    queued: number;
    /** Steps that will never be sent. */
    dropped: number;
    /** Approximate size of the waiting steps in memory. */
    queuedBytes: number;
    /** Number of texts that were cut. */
    truncated: number;
  };
  /** Calls of `run.mark`. */
  marks: {
    said: number;
    /** Calls whose marks the service accepted. */
    sent: number;
    /** Calls whose marks will never be sent. */
    dropped: number;
  };
  interventions: { received: number; handedOver: number };
  requests: { sent: number; repeated: number; failed: number };
  circuit: CircuitState;
}

const ambient = new Ambient<Run>();
/** The client of a run. */
const owners = new WeakMap<Run, Understudy>();

/** How long `flush` and `close` wait by default. */
const FLUSH_MS = 10_000;

/** Returns the current run of any client; null outside of runs. */
export function currentRun(): Run | null {
  return ambient.find(() => true);
}

export class Understudy implements AsyncDisposable {
  /** Every operation of the v1 API, with the names of the wire format. */
  readonly api: ApiClient;
  readonly #settings: Settings;
  readonly #caller: Caller;
  readonly #sender: Sender;
  readonly #counts: RunCounts = {
    runsStarted: 0,
    runsFinished: 0,
    stepsLogged: 0,
    marksSaid: 0,
    textsTruncated: 0,
    interventionsReceived: 0,
    interventionsHandedOver: 0,
  };
  readonly #warned = new Set<string>();
  readonly #closing = new AbortController();

  /** @throws TypeError or RangeError, which names the option. Runs never throw into the agent's code */
  constructor(options: UnderstudyOptions = {}) {
    const settings = readOptions(options);
    this.#settings = settings;
    this.#caller = new Caller({ ...settings, userAgent: `understudy-client/${CLIENT_VERSION}` });
    this.api = this.#caller.api;
    const warn = (cause: string, message: string) => this.#warn(cause, message);
    this.#sender = new Sender(this.#caller, settings, warn);
  }

  /**
   * Calls the function as a run. If the function returns, the run ends as `success`. If the function throws, the run
   * ends as `failure: <ExceptionName>`, and the same error is thrown again. A run that the function has already ended
   * keeps its outcome.
   * @returns what the function returns
   */
  async run<Result>(options: RunOptions, work: (run: Run) => Result | PromiseLike<Result>): Promise<Result> {
    const run = this.start(options);
    try {
      const result = await this.within(run, () => work(run));
      run.finish();
      return result;
    } catch (thrown) {
      run.fail(thrown);
      throw thrown;
    }
  }

  /**
   * Starts a run. The caller ends it with `finish` or `fail`, or by leaving the scope of an `await using`. The run is
   * not ambient unless `within` is used. An enclosing run of this client becomes its parent (`parent_run_id` in the
   * metadata).
   */
  start(options: RunOptions = {}): Run {
    const { liveStreamingEnabled } = this.#settings;
    const warn = (cause: string, message: string) => this.#warn(cause, message);
    const start = toRunStart(options, this.#settings, this.current()?.runId ?? null, warn);
    const run = new Run(start, Boolean(options.framework), {
      settings: this.#settings,
      sender: liveStreamingEnabled ? this.#sender : null,
      retrieve: (task, model, wanted) => this.#retrieve(task, model, wanted),
      counts: this.#counts,
      warn,
    });
    owners.set(run, this);
    return run;
  }

  /**
   * Calls the function with the run as the current one. Its model calls are labelled with the run
   * if labels are installed (`@understudy-gateway/client/label`).
   * @returns what the function returns
   */
  within<Result>(run: Run, work: () => Result): Result {
    return ambient.enter(run, () => labelRun(run, work));
  }

  /** This client's current run, which is kept across every await; null outside of its runs. */
  current(): Run | null {
    return ambient.find((run) => owners.get(run) === this);
  }

  /** Estimates the difficulty of a text, from 0 to 1; 0.5 for a text without words. */
  scoreStep(text: string): number {
    return scoreStep(text);
  }

  /**
   * Returns the functions for findings about a code base. They reject only with a TypeError for a wrong argument.
   * @throws TypeError for a code base without a name, RangeError for an invalid timeout
   */
  findings(codebaseId: string, options?: FindingsOptions): FindingsClient {
    return new FindingsClient(this.#caller, codebaseId, options);
  }

  /**
   * Returns the organization's events as they happen: `for await (const event of understudy.subscribe())`. A
   * broken connection is reopened and continues after the last event; `reset` means that some events were
   * lost. `break`, the signal and `close` end the subscription. The subscription does not depend on
   * `liveStreamingEnabled`, which applies only to the events that this client sends.
   * @throws within the iteration: UnderstudyError if the service refuses or has no stream, or the signal's
   * reason
   */
  subscribe(options: SubscribeOptions = {}): AsyncGenerator<LiveEvent, void, undefined> {
    const pace = { timeoutMs: this.#settings.timeoutMs, silenceMs: SILENCE_MS };
    return readLiveEvents(this.#caller, options, this.#closing.signal, pace);
  }

  /** Returns this client's counters and the state of its circuit. */
  stats(): ClientStats {
    const { runsStarted, runsFinished, stepsLogged, textsTruncated, marksSaid } = this.#counts;
    const { interventionsReceived, interventionsHandedOver } = this.#counts;
    const { queued, queuedBytes, sent, dropped } = this.#sender.counts;
    return {
      runs: { started: runsStarted, finished: runsFinished },
      steps: { logged: stepsLogged, sent, queued, dropped, queuedBytes, truncated: textsTruncated },
      marks: { said: marksSaid, ...this.#sender.markCounts },
      interventions: { received: interventionsReceived, handedOver: interventionsHandedOver },
      requests: { ...this.#caller.counts },
      circuit: this.#caller.circuit.state,
    };
  }

  /**
   * Waits until everything logged so far is sent or dropped. Never rejects.
   * @returns false if the time has run out or the service does not answer: then the remaining events stay queued. Also
   * false if the service refuses the key meanwhile: then they are dropped. True even if single events were refused
   */
  flush({ timeoutMs = FLUSH_MS }: { timeoutMs?: number } = {}): Promise<boolean> {
    return this.#sender.flush(timeoutMs);
  }

  /**
   * Flushes, then stops sending. Runs may continue, but their events are dropped. Subscriptions
   * end. Never rejects.
   * @returns the same as `flush`
   */
  async close({ timeoutMs = FLUSH_MS }: { timeoutMs?: number } = {}): Promise<boolean> {
    const isSent = await this.#sender.flush(timeoutMs, true);
    this.#sender.stop();
    this.#closing.abort();
    this.#caller.close();
    return isSent;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #retrieve(task: string, model: string, wanted: RetrieveOptions): Promise<string> {
    const { context = task, maxTokens = PATTERN_TOKENS, topK, tier, failureType, minSimilarity } = wanted;
    if (!this.#settings.eTracesEnabled || context.trim() === '') return '';
    try {
      const body = {
        context: cutText(context, CONTEXT_UNITS),
        ...(model === '' ? {} : { model }),
        ...(topK === undefined ? {} : { top_k: topK }),
        ...(tier === undefined ? {} : { tier }),
        ...(failureType === undefined ? {} : { failure_type: failureType }),
        ...(minSimilarity === undefined ? {} : { min_similarity: minSimilarity }),
      };
      const { traces } = await this.#caller.call('retrievePatterns', { body });
      return renderPatterns(traces as Pattern[], maxTokens);
    } catch {
      return '';
    }
  }

  #warn(cause: string, message: string): void {
    if (this.#warned.has(cause)) return;
    this.#warned.add(cause);
    try {
      const said: unknown = this.#settings.onWarning({ cause, message });
      if (said instanceof Promise) said.catch(() => {});
    } catch {
      // An error of the agent's callback must not stop the step.
    }
  }
}

/** The service's maximum length of a query. */
const CONTEXT_UNITS = 65_536;
