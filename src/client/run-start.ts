/**
 * The options of a run, and the request that starts the run. The request is cut to the service's
 * limits. Any thread.
 */
import { parseExact } from '../std/exact-json.ts';
import { type Arm, assignArm } from './experiment-arm.ts';
import type { Settings } from './options.ts';
import type { RunStartBody } from './run-lane.ts';
import { cutText } from './step.ts';
import { writeJson } from './wire-json.ts';

export interface RunOptions {
  /** The agent's task. The service uses it to find patterns and to measure topic drift. */
  task?: string;
  /** Default: a new id. 1 to 128 printable characters. */
  runId?: string;
  agentName?: string;
  model?: string;
  /** Default: the name of the integration that logs the run, otherwise `custom`. */
  framework?: string;
  /** Default: the client's. */
  taskProfile?: string;
  codebaseId?: string;
  metadata?: Record<string, unknown>;
  /** The experiment of the run. The run gets `arm`, or else the arm to which its unit is assigned. */
  experimentId?: string;
  /** The unit that is assigned to an arm, such as a user or a repository. Default: the run. */
  assignmentUnit?: string;
  /** Share of units that are `on`, from 0 to 1. Default 0.5. */
  onShare?: number;
  /** The arm, if it should not depend on the unit. */
  arm?: Arm;
  /** Default: the client's. */
  svcVersion?: string;
}

/** The service's limits of texts, in UTF-16 code units. */
const NAME_UNITS = 200;
const TASK_UNITS = 65_536;
const ID_UNITS = 128;
/** Maximum length of metadata as JSON, in UTF-16 code units. */
const METADATA_UNITS = 65_536;
/** The service's limits of metadata: levels of nesting, and values. */
const METADATA_DEPTH = 32;
const METADATA_VALUES = 10_000;

/**
 * Makes the request that starts a run. Texts are cut to the service's limits.
 * @param parentRunId the id of the enclosing run; null: there is no enclosing run
 * @param warn called if the metadata cannot be sent and is left out
 */
export function toRunStart(
  options: RunOptions,
  settings: Settings,
  parentRunId: string | null,
  warn: (cause: string, message: string) => void,
): RunStartBody {
  const run_id = text(options.runId, ID_UNITS) || `run_${globalThis.crypto.randomUUID()}`;
  const start: RunStartBody = {
    run_id,
    agent_name: text(options.agentName, NAME_UNITS),
    task: text(options.task, TASK_UNITS),
    model: text(options.model, NAME_UNITS),
    framework: text(options.framework, NAME_UNITS) || 'custom',
    task_profile: text(options.taskProfile, ID_UNITS) || settings.taskProfile,
    codebase_id: text(options.codebaseId, ID_UNITS),
  };
  const metadata = copyMetadata(options.metadata, warn);
  const parent = parentRunId === null ? null : { parent_run_id: parentRunId };
  if (metadata !== null || parent !== null) start.metadata = { ...parent, ...metadata };
  const experiment_id = text(options.experimentId, ID_UNITS);
  if (experiment_id === '') return start;
  const assignment_unit = text(options.assignmentUnit, NAME_UNITS) || run_id;
  const { arm = assignArm(experiment_id, assignment_unit, options.onShare) } = options;
  const svc_version = text(options.svcVersion, NAME_UNITS) || settings.svcVersion;
  return { ...start, experiment_id, arm, assignment_unit, svc_version };
}

function text(value: unknown, units: number): string {
  if (value === undefined || value === null) return '';
  try {
    return cutText(String(value), units).toWellFormed();
  } catch {
    // Untyped code may pass an object that cannot be converted to a string.
    return '';
  }
}

/** Copies the metadata, because the agent may modify its object later. */
function copyMetadata(
  metadata: unknown,
  warn: (cause: string, message: string) => void,
): Record<string, unknown> | null {
  if (metadata === undefined || metadata === null) return null;
  try {
    const json = writeJson(metadata) ?? 'null';
    if (json.length > METADATA_UNITS) throw new RangeError(`it has ${json.length} characters as JSON`);
    const copy: unknown = parseExact(json);
    const fault = findFault(copy);
    if (fault !== null) throw new RangeError(fault);
    return copy as Record<string, unknown>;
  } catch (thrown) {
    warn('truncated', `The metadata of a run is left out: ${String((thrown as Error)?.message)}`);
    return null;
  }
}

/** Finds out why the service would refuse the metadata; null: it accepts the metadata. */
function findFault(metadata: unknown): string | null {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))
    return 'it is not an object';
  let values = 0;
  let fault: string | null = null;
  const visit = (value: unknown, depth: number): void => {
    values += 1;
    if (values > METADATA_VALUES) fault ??= `it has more than ${METADATA_VALUES} values`;
    if (fault !== null || typeof value !== 'object' || value === null) return;
    if (depth > METADATA_DEPTH) fault = `it is nested more than ${METADATA_DEPTH} levels deep`;
    else if (Object.hasOwn(value, '__proto__')) fault = 'it has a key __proto__';
    else for (const item of Object.values(value)) visit(item, depth + 1);
  };
  visit(metadata, 1);
  return fault;
}
