/**
 * The operations of document 2 for the client: method, path, and whether the same request may be sent twice.
 * Their inputs and answers are in operation-types.ts, without schemas, so that an agent's project needs no
 * validator. Any thread.
 */
import type { Operations } from './operation-types.ts';

/** The properties of an operation that the client needs. */
interface Operation {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /**
   * Whether the client may repeat a request whose answer it did not get. False if a repeat would change or count
   * something again, or could get 404.
   */
  isRepeatable: boolean;
}

export type OperationName = keyof Operations;

function operation(method: Operation['method'], path: string, isRepeatable: boolean): Operation {
  return { method, path, isRepeatable };
}

/**
 * A test compares this list with the contract. The list does not include the live stream, which
 * `subscribe` reads (live-stream.ts).
 */
export const OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  health: operation('GET', '/health', true),
  // Not repeatable: each request that finds a pattern counts as an intervention.
  retrievePatterns: operation('POST', '/v1/traces/retrieve', false),
  // Not repeatable: a near-duplicate raises the support of the existing pattern.
  importPatterns: operation('POST', '/v1/patterns', false),
  listPatterns: operation('GET', '/v1/patterns', true),
  readPattern: operation('GET', '/v1/patterns/{pattern_id}', true),
  deletePattern: operation('DELETE', '/v1/patterns/{pattern_id}', false),
  startRun: operation('POST', '/v1/monitor/runs', true),
  logStep: operation('POST', '/v1/monitor/runs/{id}/steps', true),
  finishRun: operation('POST', '/v1/monitor/runs/{id}/finish', true),
  listRuns: operation('GET', '/v1/monitor/runs', true),
  listRunValues: operation('GET', '/v1/monitor/run-values', true),
  readRun: operation('GET', '/v1/monitor/runs/{id}', true),
  readRunMarks: operation('GET', '/v1/runs/{id}/marks', true),
  markRun: operation('POST', '/v1/runs/{id}/marks', true),
  clearRunMarks: operation('DELETE', '/v1/runs/{id}/marks', true),
  listRunSteps: operation('GET', '/v1/monitor/runs/{id}/steps', true),
  streamTicket: operation('POST', '/v1/monitor/stream/tickets', true),
  // Not repeatable: a repeated request could delete a run that was started again in between, or get
  // 404.
  deleteRun: operation('DELETE', '/v1/monitor/runs/{id}', false),
  // Not repeatable: an evaluation of posted steps is counted each time. (An evaluation of a run's steps is counted
  // once.)
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

/** The parts of an operation's request. */
export type RequestOf<Name extends OperationName> = Operations[Name]['request'];

/** The answer of an operation. */
export type AnswerOf<Name extends OperationName> = Operations[Name]['answer'];
