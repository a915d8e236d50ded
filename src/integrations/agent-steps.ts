/**
 * What all integrations share: it makes answers of a model and results of tools the steps of a
 * run, and keeps interventions until a model has seen them. Any thread.
 *
 * A step is one tool call, with what the model said before it and what came back, or an answer without a tool call (`respond`).
 * It is logged as soon as its result is there, so calls that run side by side are logged in the order in which they end.
 */
import type { Intervention, Run } from '../client/run.ts';

/** What an integration needs of a run. */
export type WatchedRun = Pick<Run, 'step' | 'intervention'>;

/** A tool call as the model asked for it. */
export interface AskedCall {
  id: string;
  name: string;
  input: unknown;
}

/** One answer of a model. */
export interface ModelAnswer {
  text: string;
  /** Its reasoning, where the provider shows it. */
  thinking: string;
  calls: readonly AskedCall[];
  /** Of the request and the answer together. */
  tokens: number;
}

/** What came back of a tool call. */
export interface ToolResult {
  /** '' where the framework names none. */
  id: string;
  /** Of a call that no answer asked for; otherwise those of the answer stand. */
  name?: string;
  input?: unknown;
  observation: unknown;
  isError: boolean;
}

/** Calls that wait for their results; the one asked for first is forgotten when there are more. */
const CALLS_MAX = 1_000;

const stepsOfRuns = new WeakMap<WatchedRun, AgentSteps>();

export class AgentSteps {
  readonly #run: WatchedRun;
  readonly #calls = new Map<string, { call: AskedCall; thought: string }>();
  /** Of answers whose steps are not logged yet. */
  #tokens = 0;
  /** Taken for a call of a model that failed. */
  #returned: Intervention | null = null;

  private constructor(run: WatchedRun) {
    this.#run = run;
  }

  /** @returns the one of the run, so that watchers of parts of the run add to the same steps */
  static of(run: WatchedRun): AgentSteps {
    const known = stepsOfRuns.get(run);
    if (known !== undefined) return known;
    const made = new AgentSteps(run);
    stepsOfRuns.set(run, made);
    return made;
  }

  answered({ text, thinking, calls, tokens }: ModelAnswer): void {
    this.#tokens += tokens > 0 ? tokens : 0;
    if (calls.length === 0) {
      if (text === '') return;
      this.#run.step({ action: 'respond', actionInput: text, thought: thinking, tokens: this.#takeTokens() });
      return;
    }
    // What the agent says beside a call is shorter and clearer than what it thinks to itself. It goes with the first call.
    let thought = text === '' ? thinking : text;
    for (const call of calls) {
      if (this.#calls.size >= CALLS_MAX) this.#calls.delete(this.#calls.keys().next().value!);
      this.#calls.set(call.id, { call, thought });
      thought = '';
    }
  }

  /** Whether an answer asked for the call and nothing has come back yet. */
  awaits(id: string): boolean {
    return this.#calls.has(id);
  }

  returned(result: ToolResult): void {
    const asked = this.#calls.get(result.id);
    this.#calls.delete(result.id);
    this.#run.step({
      action: asked?.call.name || result.name || 'tool',
      actionInput: asked?.call.input ?? result.input,
      thought: asked?.thought ?? '',
      observation: result.observation,
      isError: result.isError,
      tokens: this.#takeTokens(),
    });
  }

  /** @returns what the next call of a model should be told, once; null: nothing */
  takeIntervention(): Intervention | null {
    const returned = this.#returned;
    this.#returned = null;
    return returned ?? this.#run.intervention();
  }

  /** The call of a model that it was taken for failed: the next one is told. */
  giveBack(said: Intervention): void {
    this.#returned = said;
  }

  #takeTokens(): number {
    const tokens = this.#tokens;
    this.#tokens = 0;
    return tokens;
  }
}
