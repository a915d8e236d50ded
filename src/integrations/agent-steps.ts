/**
 * Makes steps of a run from the model answers and tool results that an integration reports, and keeps an intervention
 * until a model has received it. Any thread.
 *
 * A step is one tool call with the model's text before it and the result, or an answer without a tool call
 * (`respond`). A step is logged when its result arrives, so parallel calls are logged in the order in which
 * they end. The tokens of an answer belong to the answer's own calls, so an agent that is a tool of another
 * agent has separate tokens.
 */
import type { Intervention, Run } from '../client/run.ts';

/** The part of a run that an integration uses. */
export type WatchedRun = Pick<Run, 'step' | 'intervention'>;

/** Additional members of the client's runs. */
type RunParts = WatchedRun & Partial<Pick<Run, 'nameFramework' | 'expect'>>;

/** A tool call in a model's answer. */
export interface AskedCall {
  id: string;
  name: string;
  input: unknown;
}

/** One answer of a model. */
export interface ModelAnswer {
  text: string;
  /** The model's reasoning, if the provider returns it. */
  thinking: string;
  calls: readonly AskedCall[];
  /** Tokens of the request and the answer together. */
  tokens: number;
}

/** The result of a tool call. */
export interface ToolResult {
  /** '' if the framework gives none. */
  id: string;
  /** Used if no answer contains the call. Otherwise the values in the answer are used. */
  name?: string;
  input?: unknown;
  observation: unknown;
  isError: boolean;
}

/** A call that waits for its result. */
interface PendingCall {
  call: AskedCall;
  thought: string;
  /** The tokens of the answer, shared by its calls. The first call that ends gets them. */
  answer: { tokens: number };
}

/** Maximum number of calls that wait for their results; with more, the oldest is forgotten. */
const CALLS_MAX = 1_000;

const stepsOfRuns = new WeakMap<WatchedRun, AgentSteps>();

export class AgentSteps {
  readonly #run: RunParts;
  /**
   * Waiting calls by id. If several calls have the same id, their results are assigned in the order
   * of the calls.
   */
  readonly #calls = new Map<string, PendingCall[]>();
  #callCount = 0;
  /**
   * Tokens of answers that made no step, because they have neither text nor calls, or because their calls never end.
   * The next step gets these tokens.
   */
  #tokens = 0;
  /** The intervention of a failed model call. The next model call gets it. */
  #returned: Intervention | null = null;
  #isFrameworkNamed = false;

  private constructor(run: WatchedRun) {
    this.#run = run;
  }

  /** Returns the steps of the run. All integrations of a run share this object. */
  static of(run: WatchedRun): AgentSteps {
    const known = stepsOfRuns.get(run);
    if (known !== undefined) return known;
    const made = new AgentSteps(run);
    stepsOfRuns.set(run, made);
    return made;
  }

  /** Sets the framework of the run, unless the run has one. */
  nameFramework(name: string): void {
    if (this.#isFrameworkNamed) return;
    this.#isFrameworkNamed = true;
    this.#run.nameFramework?.(name);
  }

  /**
   * Announces a stream that may be read after the scope of the run. The run takes steps until the stream ends.
   * @returns a function to call at the stream's end. Only the first call has an effect
   */
  expectStream(): () => void {
    this.#run.expect?.(1);
    let isOver = false;
    return () => {
      if (!isOver) this.#run.expect?.(-1);
      isOver = true;
    };
  }

  /** Records an answer of a model. */
  answered({ text, thinking, calls, tokens: told }: ModelAnswer): void {
    const tokens = told > 0 ? told : 0;
    if (calls.length === 0) {
      this.#tokens += tokens;
      if (text === '') return;
      this.#run.step({ action: 'respond', actionInput: text, thought: thinking, tokens: this.#takeTokens() });
      return;
    }
    // The text of an answer is preferred to the reasoning, because it is shorter and clearer. It belongs to the first
    // call.
    let thought = text === '' ? thinking : text;
    // Forget earlier calls with the same id, because they get no result any more.
    for (const { id } of calls) while (this.#forget(id));
    const answer = { tokens };
    for (const call of calls) {
      if (this.#callCount >= CALLS_MAX) this.#forget(this.#calls.keys().next().value!);
      const waiting = this.#calls.get(call.id);
      if (waiting === undefined) this.#calls.set(call.id, [{ call, thought, answer }]);
      else waiting.push({ call, thought, answer });
      this.#callCount += 1;
      thought = '';
    }
  }

  /** Whether an answer contains the call and the call has no result yet. */
  awaits(id: string): boolean {
    return this.#calls.has(id);
  }

  /** Like `awaits`, for a framework without call ids: whether a call of this tool has no result yet. */
  awaitsTool(name: string): boolean {
    for (const waiting of this.#calls.values())
      if (waiting.some(({ call }) => call.name === name)) return true;
    return false;
  }

  /** Records the result or the error of a tool. */
  returned(result: ToolResult): void {
    const pending = this.#take(result.id);
    let tokens = this.#takeTokens();
    if (pending !== undefined) {
      tokens += pending.answer.tokens;
      pending.answer.tokens = 0;
    }
    this.#run.step({
      action: pending?.call.name || result.name || 'tool',
      actionInput: pending === undefined ? result.input : pending.call.input,
      thought: pending?.thought ?? '',
      observation: result.observation,
      isError: result.isError,
      tokens,
    });
  }

  /** Returns the intervention for the next model call, once; null: none. */
  takeIntervention(): Intervention | null {
    const returned = this.#returned;
    this.#returned = null;
    return returned ?? this.#run.intervention();
  }

  /** Returns an intervention whose model call failed, so that the next call gets it. */
  giveBack(said: Intervention): void {
    this.#returned = said;
  }

  /** Removes and returns the first call with that id that waits for its result; undefined: no call waits. */
  #take(id: string): PendingCall | undefined {
    const waiting = this.#calls.get(id);
    const pending = waiting?.shift();
    if (pending === undefined) return undefined;
    if (waiting!.length === 0) this.#calls.delete(id);
    this.#callCount -= 1;
    return pending;
  }

  /** Drops a call but keeps its tokens. @returns false if there is no such call */
  #forget(id: string): boolean {
    const pending = this.#take(id);
    if (pending === undefined) return false;
    this.#tokens += pending.answer.tokens;
    pending.answer.tokens = 0;
    return true;
  }

  #takeTokens(): number {
    const tokens = this.#tokens;
    this.#tokens = 0;
    return tokens;
  }
}
