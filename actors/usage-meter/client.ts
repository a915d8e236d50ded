/** Sends messages to usage meters. No other file does so. Server threads. */
import type { EvaluatedSteps } from '../../src/domain/evaluated-runs.ts';
import type { UsageCounts } from '../../src/domain/usage.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { askOwner } from '../../src/runtime/ask-owner.ts';
import {
  type CountReply,
  type CountRequest,
  type EvaluateStepsReply,
  type InterveneReply,
  USAGE_METER_KIND,
  type UsageMeterProtocol,
} from './protocol.ts';

export type { CountReply, InterveneReply } from './protocol.ts';

/** Deadline of every request. A commit without a sync takes microseconds, or a second on an overloaded machine. */
const DEADLINE_MS = 5_000;

export class UsageMeterClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /**
   * Counts a retrieval that found patterns: always the call, and the intervention if the cap is not reached. Both are
   * stored when this resolves.
   * @param orgId 1 … 512 UTF-16 units
   * @param cap maximum number of interventions in this UTC month; null for no cap
   * @param patterns number of patterns that were found, ≥ 1
   * @throws CatalogueError `unavailable` if it cannot be counted now; the patterns must then not be served
   */
  intervene(orgId: string, projectId: string, cap: number | null, patterns: number): Promise<InterveneReply> {
    return this.#ask(orgId, 'intervene', { project_id: projectId, cap, patterns });
  }

  /**
   * Adds to the counters of this day. Stored when this resolves.
   * @param counts whole numbers ≥ 0
   * @param once names the intervention in `counts`. It is counted only once while its name is among the organization's
   *   last {@link USAGE_ONCE_NAMES}; the other counts are added each time
   * @throws CatalogueError `unavailable` if it cannot be counted now
   */
  count(orgId: string, projectId: string, counts: Partial<UsageCounts>, once?: string): Promise<CountReply> {
    const request: CountRequest = { project_id: projectId, counts };
    if (once !== undefined) request.once = once;
    return this.#ask(orgId, 'count', request);
  }

  /**
   * Counts an evaluation of posted steps, and its intervention when it is returned for the first time. Stored when
   * this resolves. The same steps get the same answer, on all server threads, while the meter remembers the evaluation.
   * @throws CatalogueError `unavailable` if it cannot be counted now
   */
  evaluate(orgId: string, projectId: string, steps: EvaluatedSteps): Promise<EvaluateStepsReply> {
    return this.#ask(orgId, 'evaluate', { project_id: projectId, steps });
  }

  /**
   * Returns the number of interventions in this UTC month so far.
   * @throws CatalogueError `unavailable`
   */
  async used(orgId: string): Promise<number> {
    return (await this.#ask(orgId, 'used', null)).used;
  }

  async #ask<N extends keyof UsageMeterProtocol>(
    orgId: string,
    name: N,
    payload: UsageMeterProtocol[N]['request'],
  ): Promise<UsageMeterProtocol[N]['reply']> {
    try {
      return (await askOwner(this.#asker, { kind: USAGE_METER_KIND, key: orgId }, name, payload, {
        deadline_ms: DEADLINE_MS,
      })) as UsageMeterProtocol[N]['reply'];
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}
