/**
 * Handler of `contract/evaluate.ts`: scores posted steps on this thread. Steps of a started run are
 * scored by the run's actor. Server threads.
 */
import { hash } from 'node:crypto';
import type { z } from 'zod';
import { LiveHubClient } from '../../actors/live-hub/client.ts';
import { RunClient } from '../../actors/run/client.ts';
import { type CountReply, UsageMeterClient } from '../../actors/usage-meter/client.ts';
import type { EVALUATE, evaluateBody } from '../contract/evaluate.ts';
import type { HandlersOf } from '../contract/handler.ts';
import { type EvaluatedSteps, levelNumber } from '../domain/evaluated-runs.ts';
import { evaluateSteps, toEvaluation } from '../domain/evaluation.ts';
import type { MonitorStep } from '../domain/monitors/masked-step.ts';
import { toTimestamp } from '../domain/run.ts';
import { projectOf } from '../domain/tenant.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { Stores } from '../storage/ports/stores.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { HiddenRuns } from './hidden-runs.ts';
import { findProfile } from './profiles.ts';

/** How long scoring continues before other requests are handled. */
const SLICE_MS = 3;
/** Length of a digest. At this length, collisions among the digests that a meter remembers are improbable. */
const NAME_BYTES = 16;

export function evaluateHandlers(services: {
  asker: Asker;
  stores: Stores;
  deleted: DeletedView;
}): HandlersOf<typeof EVALUATE> {
  const { asker } = services;
  const { accounts } = services.stores;
  const runs = new RunClient(asker);
  const hidden = new HiddenRuns(services.stores.run_records, services.deleted);
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
      const { task, task_profile, steps = [] } = body;
      const profile = findProfile(accounts, org_id, task_profile);
      const project_id = projectOf(tenant, body.project_id ?? undefined);
      const digests = await runInSlices(digestSteps([project_id, task, task_profile], steps));
      const { outcome, intervention, began } = await runInSlices(
        evaluateSteps(steps.map(placeStep), profile, { task }),
      );
      const pending = intervention === null ? null : { level: levelNumber(intervention.level), began };
      const { due, is_repeat } = await meter.evaluate(org_id, project_id, { ...digests, pending });
      const evaluation = toEvaluation(outcome, due ? intervention : null);
      const { failure_type, level, fired } = evaluation;
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

type PostedStep = NonNullable<z.output<typeof evaluateBody>['steps']>[number];

/** Makes a step for the monitors. A step without an index gets its place in the list as the index. */
function placeStep(step: PostedStep, at: number): MonitorStep {
  return { ...step, step_index: step.step_index ?? at };
}

/**
 * Computes the digests by which steps are recognized. Indices that the request gives are included, because
 * only they identify a window whose first index is above 0.
 * @param run the other values that are the same in all evaluations of a run
 */
function* digestSteps(
  run: readonly string[],
  steps: readonly PostedStep[],
): Generator<undefined, Omit<EvaluatedSteps, 'pending'>> {
  const base = digestOf(JSON.stringify(run));
  const prefixes: string[] = [];
  const windows: string[] = [];
  let prefix = base;
  let before = '';
  for (const step of steps) {
    const own = digestOf(JSON.stringify(step));
    prefix = digestOf(prefix + own);
    prefixes.push(prefix);
    windows.push(digestOf(`window ${base}${before}${own}`));
    before = own;
    yield;
  }
  const isWindow = (steps[0]?.step_index ?? 0) > 0;
  const hasIndices = steps.at(-1)?.step_index !== undefined;
  return {
    prefixes,
    windows: isWindow ? windows : null,
    window: hasIndices ? (windows.at(-1) ?? null) : null,
  };
}

function digestOf(text: string): string {
  return hash('sha256', text, 'buffer').toString('base64url', 0, NAME_BYTES);
}

/**
 * Counts an evaluation of a run before it is answered, so that a crash after the answer loses no count.
 * @param asked identifies the returned intervention, as JSON; null without one. A repeated evaluation (its answer was
 * lost, or it was requested twice) counts as a call but not as an intervention
 */
function count(
  meter: UsageMeterClient,
  orgId: string,
  projectId: string,
  asked: readonly unknown[] | null,
): Promise<CountReply> {
  if (asked === null) return meter.count(orgId, projectId, { evaluations: 1, injections_evaluate: 0 });
  const name = digestOf(JSON.stringify(asked));
  return meter.count(orgId, projectId, { evaluations: 1, injections_evaluate: 1 }, name);
}

/** Runs a generator to its end, in slices of SLICE_MS with other work in between. */
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
