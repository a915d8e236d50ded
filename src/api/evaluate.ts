/**
 * Handler of `contract/evaluate.ts`: scores posted steps here; a run's actor scores its own. Server threads.
 */
import { hash } from 'node:crypto';
import type { z } from 'zod';
import { LiveHubClient } from '../../actors/live-hub/client.ts';
import { RunClient } from '../../actors/run/client.ts';
import { type CountReply, UsageMeterClient } from '../../actors/usage-meter/client.ts';
import type { EVALUATE, evaluateBody } from '../contract/evaluate.ts';
import type { HandlersOf } from '../contract/handler.ts';
import { evaluateSteps } from '../domain/evaluation.ts';
import { toTimestamp } from '../domain/run.ts';
import { projectOf } from '../domain/tenant.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { Stores } from '../storage/stores.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { HiddenRuns } from './hidden-runs.ts';
import { findProfile } from './profiles.ts';

/** Scoring has the thread for so long before other requests have their turn. */
const SLICE_MS = 3;
/** Of an intervention's name: two that meet by chance are not to be expected among those that a meter knows. */
const NAME_BYTES = 16;

export function evaluateHandlers(services: {
  asker: Asker;
  stores: Stores;
  deleted: DeletedView;
}): HandlersOf<typeof EVALUATE> {
  const { asker } = services;
  const { main } = services.stores;
  const runs = new RunClient(asker);
  const hidden = new HiddenRuns(services.stores.runs, services.deleted);
  const live = new LiveHubClient(asker);
  const meter = new UsageMeterClient(asker);
  return {
    evaluate: async ({ tenant, body }) => {
      const { org_id } = tenant;
      if (body.run_id != null) {
        hidden.checkSeen(org_id, body.run_id);
        const { json, inject, steps, project_id } = await runs.evaluate(tenant, body.run_id);
        await count(meter, org_id, project_id, inject ? ['run', body.run_id, steps] : null);
        return { json };
      }
      const steps = readSteps(body);
      const { task, task_profile } = body;
      const profile = findProfile(main, org_id, task_profile);
      const evaluation = await runInSlices(evaluateSteps(steps, profile, { task }));
      const { inject, failure_type, level, fired } = evaluation;
      const project_id = projectOf(tenant, body.project_id ?? undefined);
      const asked = inject ? ['steps', project_id, task, task_profile, steps] : null;
      const { is_repeat } = await count(meter, org_id, project_id, asked);
      if (failure_type !== '' && level !== '' && !is_repeat) {
        live.publish({
          event: 'intervention',
          org_id,
          project_id,
          run_id: null,
          at: toTimestamp(Date.now()),
          step_index: null,
          failure_type,
          level,
          fired,
        });
      }
      return { body: evaluation };
    },
  };
}

/** The schema has seen to it that there are some where there is no run. */
function readSteps({ steps = [] }: z.output<typeof evaluateBody>) {
  return steps.map((step, at) => ({ ...step, step_index: step.step_index ?? at }));
}

/**
 * Counts an evaluation before it is answered: a crash after the answer loses nothing.
 * @param asked what the intervention was handed out for, as JSON has it; null: none was. The same again, when an answer was
 *   lost or somebody looks twice, counts as a call and not as an intervention
 */
function count(
  meter: UsageMeterClient,
  orgId: string,
  projectId: string,
  asked: readonly unknown[] | null,
): Promise<CountReply> {
  if (asked === null) return meter.count(orgId, projectId, { evaluations: 1, injections_evaluate: 0 });
  const name = hash('sha256', JSON.stringify(asked), 'buffer').toString('base64url', 0, NAME_BYTES);
  return meter.count(orgId, projectId, { evaluations: 1, injections_evaluate: 1 }, name);
}

/** Runs a generator to its end, giving way to other work now and then. */
async function runInSlices<Result>(work: Generator<undefined, Result>): Promise<Result> {
  let sliceEndsAt = performance.now() + SLICE_MS;
  for (;;) {
    const next = work.next();
    if (next.done) return next.value;
    if (performance.now() < sliceEndsAt) continue;
    await new Promise<void>((resolve) => setImmediate(resolve));
    sliceEndsAt = performance.now() + SLICE_MS;
  }
}
