/**
 * Drives runs of an agent through a gateway, one request at a time, and judges what the student served. Bench process.
 *
 * A run in which the student served a wrong answer ends there.
 */

import {
  type ArrivedRequest,
  type FakeProvider,
  startFakeProvider,
} from '../../../src/demo/fake-provider.ts';
import { createPrng } from '../../../src/std/prng.ts';
import { type AgentClient, openClient } from './agent-client.ts';
import { answerStep, movesNow } from './frontier.ts';
import type { Answer, HeldBackAgent, Result, Run, RunKind, ToolCall, Turn } from './held-back-agent.ts';
import { judgeAnswer } from './truth.ts';

/** A run with more steps is stuck in a loop. */
const STEPS_MAX = 40;
/** Share of tool calls that fail for a moment. */
const TRANSIENT_SHARE = 0.02;
const TRANSIENT_ERRORS = [
  'error: the service did not answer in time, please try again',
  'HTTP 503: temporarily unavailable',
];
/** Share of the runs that their client abandons while golden runs are recorded. Such a run is not golden. */
const GIVEN_UP_SHARE = 0.03;

/** A step of a trial. */
export interface TrialStep {
  /** Number of the exchange in the capture database. */
  exchange: number;
  agent: HeldBackAgent;
  run: Run;
  /** The turns before the answer. */
  turns: readonly Turn[];
  answer: Answer;
  is_served: boolean;
  /** Why the served answer is wrong; null: it is right, or the upstream served. */
  fault: string | null;
}

export interface TrialRun {
  steps: TrialStep[];
  is_given_up: boolean;
}

/** A fake provider, which answers as the frontier model of the present run. */
export class TrialProvider {
  readonly #fake: FakeProvider;
  readonly #asked: { answer: (() => Answer) | null };

  private constructor(fake: FakeProvider, asked: { answer: (() => Answer) | null }) {
    this.#fake = fake;
    this.#asked = asked;
  }

  static async start(): Promise<TrialProvider> {
    const asked: { answer: (() => Answer) | null } = { answer: null };
    const fake = await startFakeProvider({
      script: () => {
        const { text, calls } = asked.answer!();
        return { text, tool_calls: calls };
      },
    });
    return new TrialProvider(fake, asked);
  }

  get url(): string {
    return this.#fake.url;
  }

  /** Sets the answer to the next request. Requests come one after the other. */
  expect(answer: () => Answer): void {
    this.#asked.answer = answer;
  }

  /** Returns the last requests that arrived, oldest first. */
  lastRequests(count: number): ArrivedRequest[] {
    return this.#fake.requests.slice(-count);
  }

  close(): Promise<void> {
    return this.#fake.close();
  }
}

/** Drives runs against one gateway, and numbers their exchanges as capture does. */
export class TrialDriver {
  readonly #url: string;
  readonly #provider: TrialProvider;
  #exchanges = 0;

  /** @param url of a gateway that has captured nothing yet */
  constructor(url: string, provider: TrialProvider) {
    this.#url = url;
    this.#provider = provider;
  }

  /** Drives a run to its end. @param mayGiveUp whether the clients of some runs abandon them */
  async drive(agent: HeldBackAgent, seed: number, kind: RunKind, mayGiveUp = false): Promise<TrialRun> {
    const prng = createPrng(seed ^ 0x5bd1e995);
    const run = agent.start(seed, kind);
    const client = openClient(agent, run, this.#url, `${agent.name.replaceAll(' ', '-')}-${kind}-${seed}`);
    const givesUpAfter = mayGiveUp && prng.chance(GIVEN_UP_SHARE) ? 1 : STEPS_MAX;
    const turns: Turn[] = [];
    const steps: TrialStep[] = [];
    while (steps.length < givesUpAfter) {
      const step = await this.#ask(agent, run, client, turns, prng.uint32());
      steps.push(step);
      const { calls } = step.answer;
      if (calls.length === 0 || step.fault !== null) return { steps, is_given_up: false };
      const results = calls.map((call) => performCall(run, call, prng.float()));
      client.tell(results);
      turns.push({ answer: step.answer, results });
    }
    if (givesUpAfter === STEPS_MAX)
      throw new Error(`${agent.name} ${seed}: the run did not end within ${STEPS_MAX} steps`);
    return { steps, is_given_up: true };
  }

  async #ask(
    agent: HeldBackAgent,
    run: Run,
    client: AgentClient,
    turns: readonly Turn[],
    seed: number,
  ): Promise<TrialStep> {
    const before = [...turns];
    this.#provider.expect(() => answerStep(agent, run, before, seed));
    const { answer, is_served } = await client.ask();
    this.#exchanges++;
    const fault = is_served ? judgeAnswer(agent, run, movesNow(run, before), answer) : null;
    return { exchange: this.#exchanges, agent, run, turns: before, answer, is_served, fault };
  }
}

/** Performs a call of a tool. @param draw from 0 to 1: decides whether the tool fails for a moment, and how */
export function performCall(run: Run, call: ToolCall, draw: number): Result {
  if (draw >= TRANSIENT_SHARE) return run.perform(call);
  const text = TRANSIENT_ERRORS[Math.floor((draw / TRANSIENT_SHARE) * TRANSIENT_ERRORS.length)]!;
  return { text, is_error: true, is_transient: true };
}
