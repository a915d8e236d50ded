/**
 * Handlers of `contract/runs.ts`: each handler calls the run's actor once, and sends the actor's
 * answer unchanged. Server threads.
 */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { RunClient } from '../../actors/run/client.ts';
import type { HandlerReply, HandlersOf } from '../contract/handler.ts';
import type { RUNS, runStartBody } from '../contract/runs.ts';
import { valueViolation } from '../contract/violation.ts';
import { findBuiltInProfile } from '../domain/monitors/profiles.ts';
import type { RunFacts, RunStart } from '../domain/run.ts';
import { projectOf, type Tenant } from '../domain/tenant.ts';
import type { CatalogueError } from '../errors.ts';
import type { Asker } from '../runtime/actor-client.ts';
import { isRawNumber } from '../std/exact-json.ts';
import type { Stores } from '../storage/ports/stores.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { HiddenRuns } from './hidden-runs.ts';
import { lookUpProfile, unknownProfile } from './profiles.ts';

/**
 * Maximum number of bytes of the identifiers that form the key of an experiment's run. Storage accepts keys of 1,978
 * bytes, separators included.
 */
const RUN_IDS_BYTES_MAX = 1_960;

export function runHandlers(services: {
  asker: Asker;
  stores: Stores;
  deleted: DeletedView;
}): HandlersOf<typeof RUNS> {
  const hidden = new HiddenRuns(services.stores.run_records, services.deleted);
  const runs = new RunClient(services.asker);
  const { accounts } = services.stores;
  return {
    startRun: ({ tenant, body }) => {
      hidden.checkFree(tenant.org_id, body.run_id);
      const start = toStart(tenant, body);
      const profile = lookUpProfile(accounts, tenant.org_id, body.task_profile);
      // The profile was deleted or never existed; a run that began with it still answers a repeated start.
      if (profile === undefined)
        return runs.repeatStart(start).then(toReply, (thrown: CatalogueError) => {
          throw ['not_found', 'conflict'].includes(thrown.code) ? unknownProfile(body.task_profile) : thrown;
        });
      const isBuiltIn = findBuiltInProfile(profile.name) !== null;
      return runs.start({ ...start, profile: isBuiltIn ? null : profile }).then(toReply);
    },
    logStep: ({ tenant, params, body }) => {
      hidden.checkSeen(tenant.org_id, params.id);
      return runs.step(tenant, params.id, body).then(toReply);
    },
    finishRun: ({ tenant, params, body }) => {
      hidden.checkSeen(tenant.org_id, params.id);
      return runs.finish(tenant, params.id, body.outcome).then(toReply);
    },
  };
}

function toReply(json: string): HandlerReply {
  return { json };
}

/**
 * Makes the message that starts a run, with a fingerprint that recognizes a repeated start.
 * @throws SchemaViolation if the identifiers are together too long for a key
 */
export function toStart(tenant: Tenant, body: z.output<typeof runStartBody>): Omit<RunStart, 'profile'> {
  const facts: RunFacts = {
    org_id: tenant.org_id,
    project_id: projectOf(tenant, body.project_id ?? undefined),
    run_id: body.run_id,
    agent_name: body.agent_name,
    model: body.model,
    framework: body.framework,
    task_profile: body.task_profile,
    codebase_id: body.codebase_id,
    experiment_id: body.experiment_id ?? '',
    arm: body.arm ?? '',
    assignment_unit: body.assignment_unit ?? '',
    svc_version: body.svc_version ?? '',
  };
  const ids = facts.org_id + facts.project_id + facts.run_id + facts.experiment_id;
  if (Buffer.byteLength(ids) > RUN_IDS_BYTES_MAX) {
    const reason = `the identifiers of a run may have at most ${RUN_IDS_BYTES_MAX} bytes together`;
    throw valueViolation(['body', 'run_id'], reason, facts.run_id);
  }
  const { task } = body;
  const metadata = body.metadata == null ? '' : JSON.stringify(body.metadata, sortKeys);
  // The fingerprint does not include the API key, because a start repeated with another key is the
  // same start.
  const fingerprint = fingerprintOf([facts, task, metadata]);
  const { type, id } = tenant.actor;
  return { facts: type === 'key' ? { ...facts, key_id: id } : facts, task, metadata, fingerprint };
}

/** Sorts the keys of objects for `JSON.stringify`, so that two objects with the same fields give the same text. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isRawNumber(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function fingerprintOf(parts: unknown): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
