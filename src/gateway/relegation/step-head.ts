/**
 * Reads run, session, number, betas and API version of a step from the headers of its request. Server threads.
 */
import { readClientRun } from '../../domain/client-run.ts';
import {
  API_VERSIONS,
  type ApiVersion,
  type FallbackReason,
  type RelegationWire,
} from '../../student/serving/protocol.ts';
import { parseSeq, readRunId } from '../headers.ts';
import type { StepHead } from './student-link.ts';

/**
 * The values for the student that the headers contain; `refusal`, the reason why the student may not be asked, null if
 * it may; and `label`.
 */
export interface ReadStepHead extends StepHead {
  refusal: FallbackReason | null;
  /** The value of `x-svc-run` in the form that capture keeps; null if absent. */
  label: string | null;
}

/**
 * Reads a step's headers. The result contains no credentials.
 * @param origin where the request arrived, as named by `nameOrigin`
 * @param runHeaders the operator's headers that name runs (SVC_RUN_HEADERS)
 * @param isKeyed whether the route adds a credential
 */
export function readStepHead(
  wire: RelegationWire,
  headers: readonly string[],
  origin = '',
  runHeaders: readonly string[] = [],
  isKeyed = false,
): ReadStepHead {
  const isMessages = wire === 'messages';
  let hasCredential = isKeyed;
  let isJson = false;
  let isEncoded = false;
  let version: string | null = null;
  const step: ReadStepHead = {
    wire,
    run_id: null,
    session_id: null,
    label: null,
    seq: null,
    betas: [],
    api_version: API_VERSIONS[0],
    origin,
    refusal: null,
  };
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1]!;
    switch (headers[at]) {
      case 'x-api-key':
      case 'api-key':
      case 'authorization':
        hasCredential ||= value.trim() !== '';
        break;
      case 'content-type':
        isJson = /^application\/json\s*(;|$)/i.test(value);
        break;
      case 'content-encoding':
        isEncoded ||= value.trim().toLowerCase() !== 'identity';
        break;
      case 'anthropic-version':
        version = value.trim();
        break;
      case 'anthropic-beta':
        if (isMessages) step.betas.push(value);
        break;
      case 'openai-beta':
        if (!isMessages) step.betas.push(value);
        break;
      case 'x-svc-run':
        step.label = readRunId(value);
        break;
      case 'x-svc-seq':
        step.seq = parseSeq(value);
        break;
    }
  }
  nameRun(step, headers, runHeaders);
  if (!hasCredential) step.refusal = 'no_credential';
  else if (!isJson || isEncoded) step.refusal = 'encoded';
  else if (!isMessages) return step;
  else if (version === null) step.refusal = 'bad_request';
  else if (API_VERSIONS.includes(version as ApiVersion)) step.api_version = version as ApiVersion;
  else step.refusal = 'unsupported';
  return step;
}

/**
 * Sets `run_id` and `session_id` of a step. `x-svc-run` names both. Without it, the session is that of the client's own
 * headers, and `run_id` is set only if one of `runHeaders` names the run. A coding agent's session has several
 * conversations: sub-agents, titles, summaries. A version's share includes all conversations of a session or none of
 * them, but each conversation is served independently of the others.
 */
function nameRun(step: ReadStepHead, headers: readonly string[], runHeaders: readonly string[]): void {
  step.run_id = step.session_id = step.label;
  if (step.label !== null) return;
  const pairs: [string, string][] = [];
  for (let at = 0; at < headers.length; at += 2) pairs.push([headers[at]!, headers[at + 1]!]);
  const run = readClientRun(pairs, runHeaders);
  if (run === null) return;
  step.session_id = run.session_id;
  const isOwn = pairs.some(([name, value]) => value === run.run_id && runHeaders.includes(name));
  if (isOwn) step.run_id = run.run_id;
}
