/**
 * A run: one task of an agent, with its options, steps, interventions and difficulty. No method of a run throws, and no
 * method except `patterns` waits for the service. Any thread.
 */
import { DifficultyMachine, type DifficultyState } from './difficulty/machine.ts';
import { routeModel } from './difficulty/model-routing.ts';
import { scoreStep } from './difficulty/step-score.ts';
import { TokenBudget } from './difficulty/token-budget.ts';
import type { Arm } from './experiment-arm.ts';
import type { Settings } from './options.ts';
import { nameFailure, nameOutcome } from './outcome.ts';
import type { RetrieveOptions } from './patterns-text.ts';
import { noteEnded, noteOpen } from './process-end.ts';
import { type Evaluation, RunLane, type RunStartBody } from './run-lane.ts';
import { boundMarks, type RunMarks } from './run-marks.ts';
import type { Sender } from './sender.ts';
import { boundStep, type Step } from './step.ts';

/** The intervention for the agent before its next model call. */
export interface Intervention {
  /** A system message for the model. */
  text: string;
  /** The monitor that fired. */
  failureType: string;
  /** `nudge`: change course. `stop`: the nudge did not help. */
  level: 'nudge' | 'stop';
}

/** The estimated difficulty of the next step. */
export interface Difficulty {
  /** From 0 to 1. */
  score: number;
  state: DifficultyState;
  /** The model of `modelRouting` for the state; null: the agent's own. */
  model: string | null;
}

/** The parts of the client that a run uses. */
interface RunParts {
  settings: Settings;
  /** null: no events are sent. */
  sender: Sender | null;
  retrieve: (task: string, model: string, options: RetrieveOptions) => Promise<string>;
  counts: RunCounts;
  warn: (cause: string, message: string) => void;
}

export interface RunCounts {
  runsStarted: number;
  runsFinished: number;
  stepsLogged: number;
  marksSaid: number;
  textsTruncated: number;
  interventionsReceived: number;
  interventionsHandedOver: number;
}

/**
 * Maximum number of interventions that wait to be read. The service sends at most two while a
 * problem lasts: a nudge and a stop.
 */
const INTERVENTIONS_MAX = 16;
/**
 * Maximum time for which the start waits for an integration to name the framework. The first step and the end
 * of the run end the wait; a mark does not.
 */
const FRAMEWORK_WAIT_MS = 2_000;
/** Maximum time for which the end waits for the rest of a stream that began in the run. Each step restarts the wait. */
const LATE_STREAM_MS = 60_000;

export class Run implements AsyncDisposable {
  readonly runId: string;
  readonly task: string;
  readonly model: string;
  /**
   * Arm of the experiment; null: the run is in no experiment. With `off`, the run gets no patterns and no
   * interventions.
   */
  readonly arm: Arm | null;
  readonly #parts: RunParts;
  readonly #lane: RunLane | null;
  readonly #machine: DifficultyMachine;
  readonly #budget: TokenBudget;
  readonly #interventions: Intervention[] = [];
  #stepIndex = 0;
  #outcome: string | null = null;
  /** Streams in progress that integrations watch. */
  #streams = 0;

  /**
   * @internal Runs are made by `Understudy.run` and `Understudy.start`.
   * @param isFrameworkNamed false: an integration may name the framework
   */
  constructor(start: RunStartBody, isFrameworkNamed: boolean, parts: RunParts) {
    this.runId = start.run_id;
    this.task = start.task ?? '';
    this.model = start.model ?? '';
    this.arm = start.arm === 'on' || start.arm === 'off' ? start.arm : null;
    this.#parts = parts;
    const { settings, sender, counts } = parts;
    this.#machine = new DifficultyMachine(settings.fsmThresholds);
    this.#budget = new TokenBudget(settings.tokenBudget, settings.onTokenBudget);
    const onIntervention = this.arm === 'off' ? null : (said: Evaluation) => this.#take(said);
    this.#lane =
      sender === null ? null : new RunLane(start, !isFrameworkNamed, settings.maxQueuedSteps, onIntervention);
    counts.runsStarted += 1;
    if (this.#lane === null) return;
    noteOpen(this);
    sender!.open(this.#lane, isFrameworkNamed ? 0 : FRAMEWORK_WAIT_MS);
  }

  /**
   * Retrieves patterns of earlier runs for this task, as text for the system prompt. Never rejects.
   * @returns '' without patterns, in the arm `off`, if patterns are disabled, if the context (by default the task)
   * is empty, or if the request fails
   */
  async patterns(options: RetrieveOptions = {}): Promise<string> {
    if (this.arm === 'off') return '';
    return this.#parts.retrieve(this.task, this.model, options);
  }

  /** Logs a step. Returns at once and never throws. Texts over 131,072 characters are cut, with a warning. */
  step(step: Step): void {
    try {
      this.#log(step);
    } catch (thrown) {
      this.#parts.sender?.drop(1, 'failed');
      this.#parts.warn('failed', `A step could not be read: ${String(thrown)}`);
    }
  }

  /**
   * Marks the run: good or bad, tags, a note, a score, during the run or after it. Absent fields stay
   * unchanged. Returns at once and never throws. Values that the service would refuse are left out, with a
   * warning.
   */
  mark(mark: 'good' | 'bad' | RunMarks, more: RunMarks = {}): void {
    const { sender, counts, warn } = this.#parts;
    const leaveOut = (what: string) =>
      warn('unfit_mark', `A part of the mark of run ${this.runId} was left out: ${what}`);
    counts.marksSaid += 1;
    try {
      const said = typeof mark === 'object' ? { ...mark, ...more } : { ...more, mark };
      const body = boundMarks(said, leaveOut);
      if (this.#lane === null) return;
      if (body === null) return sender!.dropMark();
      sender!.mark(this.#lane, body, leaveOut);
    } catch (thrown) {
      sender?.dropMark();
      leaveOut(String(thrown));
    }
  }

  /**
   * Returns the next intervention; null if no intervention waits. Each is returned once, in the order of
   * arrival.
   */
  intervention(): Intervention | null {
    const next = this.#interventions.shift() ?? null;
    if (next !== null) this.#parts.counts.interventionsHandedOver += 1;
    return next;
  }

  /**
   * Updates the difficulty with the text of the latest or the next step.
   * @param text absent: the difficulty does not change
   */
  difficulty(text?: string): Difficulty {
    const score = scoreStep(typeof text === 'string' ? text : '');
    const state = typeof text === 'string' ? this.#machine.observe(score) : this.#machine.state;
    return { score, state, model: routeModel(this.#parts.settings.modelRouting, state) };
  }

  /** Tokens of the run's steps so far, and whether they have reached `tokenBudget`. */
  get tokens(): { spent: number; isBudgetReached: boolean } {
    return { spent: this.#budget.spent, isBudgetReached: this.#budget.is_reached };
  }

  /** null while the run is running. */
  get outcome(): string | null {
    return this.#outcome;
  }

  /**
   * Ends the run. Only the first call has an effect. Returns at once. While an integration watches a stream, the run
   * accepts further steps. The end is sent at most a minute after the last step.
   */
  finish(outcome = 'success'): void {
    this.#end(nameOutcome(outcome), this.#streams > 0 ? LATE_STREAM_MS : 0);
  }

  /** Ends the run as `failure: <ExceptionName>`. Returns at once. */
  fail(thrown: unknown): void {
    this.#end(nameFailure(thrown), 0);
  }

  /** @internal Called by integrations: sets the framework, unless the run has one. */
  nameFramework(name: string): void {
    if (this.#lane !== null) this.#parts.sender!.nameFramework(this.#lane, name);
  }

  /**
   * @internal Called by integrations when streams begin or end.
   * @param streams number of streams that have begun; -1: a stream has ended
   */
  expect(streams: number): void {
    this.#streams += streams;
    // The stream of a model call of the run may begin after the run has ended, so the end is held back again.
    if (streams > 0 && this.#outcome === 'success' && this.#lane !== null) {
      this.#parts.sender!.reopen(this.#lane, LATE_STREAM_MS);
    }
    if (this.#streams === 0 && this.#lane?.held === 'end') this.#parts.sender!.release(this.#lane);
  }

  /** @internal Whether the run has ended and takes no more steps. */
  get isClosed(): boolean {
    if (this.#outcome === null) return false;
    return this.#lane === null ? this.#streams === 0 : this.#lane.isClosed;
  }

  /**
   * For `await using`: ends the run as a success if it has not ended. The disposal is not informed
   * of exceptions, so code that may throw must call `fail` or use `Understudy.run`.
   */
  [Symbol.asyncDispose](): Promise<void> {
    this.finish();
    return Promise.resolve();
  }

  #end(outcome: string, holdMs: number): void {
    if (this.#outcome !== null) return;
    this.#outcome = outcome;
    this.#parts.counts.runsFinished += 1;
    if (this.#lane === null) return;
    noteEnded(this);
    this.#parts.sender!.end(this.#lane, outcome, holdMs);
  }

  #log(step: Step): void {
    const { sender, counts } = this.#parts;
    const stepIndex = this.#stepIndex;
    this.#stepIndex += 1;
    counts.stepsLogged += 1;
    this.#budget.spend(step.tokens);
    if (this.#lane === null) return;
    if (this.isClosed) return this.#dropLate();
    const { body, bytes, truncated } = boundStep(stepIndex, step);
    if (truncated.length > 0) {
      counts.textsTruncated += truncated.length;
      this.#parts.warn(
        'truncated',
        `Step ${stepIndex} of run ${this.runId} is long: ${truncated.join(', ')}`,
      );
    }
    sender!.push(this.#lane, body, bytes);
  }

  #dropLate(): void {
    if (!this.#parts.sender!.drop(1, 'closed')) return;
    this.#parts.warn(
      'closed',
      `Run ${this.runId} has ended, and its later steps are lost. Read a stream within its run, or at most ` +
        `${LATE_STREAM_MS / 1_000} s later`,
    );
  }

  #take({ intervention_text, failure_type, level }: Evaluation): void {
    this.#parts.counts.interventionsReceived += 1;
    // Drop the oldest intervention if the agent does not read them.
    if (this.#interventions.length === INTERVENTIONS_MAX) this.#interventions.shift();
    this.#interventions.push({
      text: intervention_text,
      failureType: failure_type,
      level: level === 'stop' ? 'stop' : 'nudge',
    });
  }
}
