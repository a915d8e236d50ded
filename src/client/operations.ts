/**
 * The operations of document 2 as the client needs them: method, path, and whether the same request may be sent twice. What
 * they take and give is typed from `src/contract`, whose schemas stay with the server: no validator is loaded into an agent.
 * Any thread.
 */
import type { z } from 'zod';
import type { Endpoint } from '../contract/endpoint.ts';
import type { EVALUATE } from '../contract/evaluate.ts';
import type { EXPERIMENTS } from '../contract/experiments.ts';
import type { FINDINGS } from '../contract/findings.ts';
import type { health } from '../contract/health.ts';
import type { PATTERNS } from '../contract/patterns.ts';
import type { PROFILES } from '../contract/profiles.ts';
import type { RETRIEVE } from '../contract/retrieve.ts';
import type { RUN_RECORDS } from '../contract/run-records.ts';
import type { RUNS } from '../contract/runs.ts';
import type { STREAM } from '../contract/stream.ts';
import type { TRACES } from '../contract/traces.ts';

/** What the client has to know of an operation. */
export interface Operation {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /** The same request sent again changes nothing and counts nothing: it is safe to repeat whatever happened to it. */
  isRepeatable: boolean;
}

/** The declarations that the types of a call come from. */
interface Declared {
  health: typeof health;
  retrievePatterns: (typeof RETRIEVE)['retrieve'];
  importPatterns: (typeof PATTERNS)['importPatterns'];
  listPatterns: (typeof PATTERNS)['listPatterns'];
  readPattern: (typeof PATTERNS)['readPattern'];
  deletePattern: (typeof PATTERNS)['deletePattern'];
  startRun: (typeof RUNS)['startRun'];
  logStep: (typeof RUNS)['logStep'];
  finishRun: (typeof RUNS)['finishRun'];
  listRuns: (typeof RUN_RECORDS)['listRuns'];
  readRun: (typeof RUN_RECORDS)['readRun'];
  listRunSteps: (typeof RUN_RECORDS)['listRunSteps'];
  streamTicket: (typeof STREAM)['streamTicket'];
  deleteRun: (typeof RUN_RECORDS)['deleteRun'];
  evaluate: (typeof EVALUATE)['evaluate'];
  submitTrace: (typeof TRACES)['submitTrace'];
  listTraces: (typeof TRACES)['listTraces'];
  readTrace: (typeof TRACES)['readTrace'];
  deleteTrace: (typeof TRACES)['deleteTrace'];
  listProfiles: (typeof PROFILES)['listProfiles'];
  putProfile: (typeof PROFILES)['putProfile'];
  deleteProfile: (typeof PROFILES)['deleteProfile'];
  listExperiments: (typeof EXPERIMENTS)['listExperiments'];
  reportExperiment: (typeof EXPERIMENTS)['reportExperiment'];
  storeFinding: (typeof FINDINGS)['store'];
  listCodebases: (typeof FINDINGS)['listCodebases'];
  readFinding: (typeof FINDINGS)['read'];
  deleteFinding: (typeof FINDINGS)['delete'];
  listFindings: (typeof FINDINGS)['list'];
  recallFindings: (typeof FINDINGS)['recall'];
  invalidateFindings: (typeof FINDINGS)['invalidate'];
  findingsCoverage: (typeof FINDINGS)['coverage'];
  clearFindings: (typeof FINDINGS)['clear'];
}

export type OperationName = keyof Declared;

function operation(method: Operation['method'], path: string, isRepeatable: boolean): Operation {
  return { method, path, isRepeatable };
}

/** Held against the contract by a test. The live stream is no call: `subscribe` reads it (live-stream.ts). */
export const OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  health: operation('GET', '/health', true),
  // One that found something counts as an intervention, each time.
  retrievePatterns: operation('POST', '/v1/traces/retrieve', false),
  // A near-duplicate raises the support of the pattern that is there.
  importPatterns: operation('POST', '/v1/patterns', false),
  listPatterns: operation('GET', '/v1/patterns', true),
  readPattern: operation('GET', '/v1/patterns/{pattern_id}', true),
  deletePattern: operation('DELETE', '/v1/patterns/{pattern_id}', false),
  startRun: operation('POST', '/v1/monitor/runs', true),
  logStep: operation('POST', '/v1/monitor/runs/{id}/steps', true),
  finishRun: operation('POST', '/v1/monitor/runs/{id}/finish', true),
  listRuns: operation('GET', '/v1/monitor/runs', true),
  readRun: operation('GET', '/v1/monitor/runs/{id}', true),
  listRunSteps: operation('GET', '/v1/monitor/runs/{id}/steps', true),
  streamTicket: operation('POST', '/v1/monitor/stream/tickets', true),
  // Sent again it would delete a run that was begun anew in between, or answer that there is none.
  deleteRun: operation('DELETE', '/v1/monitor/runs/{id}', false),
  // Posted steps are counted each time, a run's own once a step.
  evaluate: operation('POST', '/v1/monitors/evaluate', false),
  submitTrace: operation('POST', '/v1/traces', true),
  listTraces: operation('GET', '/v1/traces', true),
  readTrace: operation('GET', '/v1/traces/{trace_id}', true),
  deleteTrace: operation('DELETE', '/v1/traces/{trace_id}', false),
  listProfiles: operation('GET', '/v1/monitor/profiles', true),
  putProfile: operation('POST', '/v1/monitor/profiles', true),
  deleteProfile: operation('DELETE', '/v1/monitor/profiles/{name}', false),
  listExperiments: operation('GET', '/v1/monitor/experiments', true),
  reportExperiment: operation('GET', '/v1/monitor/experiments/{experiment_id}/report', true),
  storeFinding: operation('POST', '/v1/findings/{codebase_id}', true),
  listCodebases: operation('GET', '/v1/findings', true),
  readFinding: operation('GET', '/v1/findings/{codebase_id}/{finding_id}', true),
  deleteFinding: operation('DELETE', '/v1/findings/{codebase_id}/{finding_id}', false),
  listFindings: operation('GET', '/v1/findings/{codebase_id}', true),
  recallFindings: operation('POST', '/v1/findings/{codebase_id}/recall', true),
  invalidateFindings: operation('POST', '/v1/findings/{codebase_id}/invalidate', true),
  findingsCoverage: operation('POST', '/v1/findings/{codebase_id}/coverage', true),
  clearFindings: operation('DELETE', '/v1/findings/{codebase_id}', true),
};

type InputOf<Schema> = Schema extends z.ZodType ? z.input<Schema> : never;

/** Of a static key or a JWT; a customer's key has its own. */
interface TenantNames {
  org_id?: string;
  project_id?: string;
}

/** What a call sends: the parts that the endpoint declares, in the words of the wire. */
type RequestFor<E extends Endpoint> = (E['params'] extends z.ZodType
  ? { params: InputOf<E['params']> }
  : unknown) &
  (E['query'] extends z.ZodType ? { query?: InputOf<E['query']> & TenantNames } : { query?: TenantNames }) &
  (E['body'] extends z.ZodType ? { body: InputOf<E['body']> & TenantNames } : unknown);

type BodyOf<Reply> = Reply extends { schema: infer Schema extends z.ZodType } ? z.output<Schema> : undefined;
type SuccessOf<Replies> = BodyOf<Replies[keyof Replies & (200 | 201 | 202 | 204)]>;

/** What an operation takes. */
export type RequestOf<Name extends OperationName> = RequestFor<Declared[Name]>;

/** What it gives. */
export type AnswerOf<Name extends OperationName> = SuccessOf<Declared[Name]['replies']>;
