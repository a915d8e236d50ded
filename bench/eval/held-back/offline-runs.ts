/**
 * Runs of the held-back agents with only their frontier models, recorded as the provider saw them. The clients are the
 * official SDKs, as in the live trial, but there is no gateway in between. Bench process.
 */

import type { HeldBackAgent } from './held-back-agent.ts';
import { type RunSeries, Seeds, worldOf } from './seeds.ts';
import { TrialDriver, TrialProvider, type TrialStep } from './trial-run.ts';

export interface RecordedStep extends TrialStep {
  /** The request's body. */
  body: Buffer;
  /** The request's headers as flat [name, value, …]. */
  headers: readonly string[];
}

export interface RecordedRun {
  seed: number;
  steps: RecordedStep[];
}

export class RunRecorder {
  readonly #provider: TrialProvider;
  readonly #driver: TrialDriver;
  readonly #seeds: Seeds;

  private constructor(provider: TrialProvider, seed: number) {
    this.#provider = provider;
    this.#driver = new TrialDriver(provider.url, provider);
    this.#seeds = new Seeds(seed);
  }

  static async start(seed: number): Promise<RunRecorder> {
    return new RunRecorder(await TrialProvider.start(), seed);
  }

  /** Runs `from` to `to` of a series, without the golden runs that their client abandoned. */
  async record(agent: HeldBackAgent, series: RunSeries, from: number, to: number): Promise<RecordedRun[]> {
    const recorded: RecordedRun[] = [];
    for (let at = from; at < to; at++) {
      const seed = this.#seeds.of(series, agent, at);
      const run = await this.#driver.drive(agent, seed, worldOf(series), series === 'golden');
      if (run.is_given_up) continue;
      const requests = this.#provider.lastRequests(run.steps.length);
      const steps = run.steps.map((step, i) => {
        const { body, raw_headers } = requests[i]!;
        return { ...step, body, headers: raw_headers };
      });
      recorded.push({ seed, steps });
    }
    return recorded;
  }

  close(): Promise<void> {
    return this.#provider.close();
  }
}
