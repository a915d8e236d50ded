/** The options of a client: their meaning and their defaults. Unknown options are refused. Any thread. */
import { type ModelRouting, readModelRouting } from './difficulty/model-routing.ts';
import { type FsmThresholds, readThresholds } from './difficulty/thresholds.ts';
import type { TokenBudgetReached } from './difficulty/token-budget.ts';
import { readEnvironment, warn } from './environment.ts';

export interface UnderstudyOptions {
  /** A key from the dashboard (`svc_live_…`, `svc_test_…`) or a static key. Default: the variable SVC_API_KEY. */
  apiKey?: string;
  /** The service's address. Default: the variable SVC_BASE_URL, then `http://127.0.0.1:8000`. */
  baseUrl?: string;
  /**
   * A soft cap on the tokens of each run. When it is reached, the client calls `onTokenBudget`; the
   * run continues.
   */
  tokenBudget?: number;
  /** Called once per run, in the step that reaches the budget. */
  onTokenBudget?: (reached: TokenBudgetReached) => unknown;
  /** Thresholds at which the difficulty machine changes its state. */
  fsmThresholds?: Partial<FsmThresholds>;
  /** The model for each state of the difficulty machine. */
  modelRouting?: ModelRouting;
  /** Whether patterns of earlier runs are retrieved. Default true. */
  eTracesEnabled?: boolean;
  /** Accepted but ignored. */
  monitorNames?: readonly string[];
  /** Whether runs and their steps are sent to the service. Default true. */
  liveStreamingEnabled?: boolean;
  /** The profile by which runs are scored. Default `coding`. */
  taskProfile?: string;
  /** The organization, if the key does not determine it (a static key). */
  orgId?: string;
  /** The project, if the key does not determine it. */
  projectId?: string;
  /** The agent's version, for the reports of experiments. Default: this library's. */
  svcVersion?: string;
  /** Time limit of a call in milliseconds, retries included. Default 5,000. */
  timeoutMs?: number;
  /** How many milliseconds the end of the process waits for unsent events. Default 2,000. */
  exitFlushMs?: number;
  /** Maximum number of steps waiting to be sent; further steps are dropped. Default 10,000. */
  maxQueuedSteps?: number;
  /** Maximum approximate memory of the waiting steps, in bytes; further steps are dropped. Default 32 MiB. */
  maxQueuedBytes?: number;
  /** Called once for each kind of problem. Default: a process warning. */
  onWarning?: (warning: ClientWarning) => unknown;
}

export interface ClientWarning {
  /**
   * The kind of problem, a stable name such as `queue_full`, `refused`, `failed`, `unauthorized`,
   * `truncated` or `closed`.
   */
  cause: string;
  message: string;
}

/** The options, with the defaults filled in. */
export interface Settings {
  readonly apiKey: string;
  readonly baseUrl: URL;
  readonly tokenBudget: number | undefined;
  readonly onTokenBudget: ((reached: TokenBudgetReached) => unknown) | undefined;
  readonly fsmThresholds: Readonly<FsmThresholds>;
  readonly modelRouting: Readonly<ModelRouting>;
  readonly eTracesEnabled: boolean;
  readonly liveStreamingEnabled: boolean;
  readonly taskProfile: string;
  readonly orgId: string | undefined;
  readonly projectId: string | undefined;
  readonly svcVersion: string;
  readonly timeoutMs: number;
  readonly exitFlushMs: number;
  readonly maxQueuedSteps: number;
  readonly maxQueuedBytes: number;
  readonly onWarning: (warning: ClientWarning) => unknown;
}

/** This library's version, as in package.json. */
export const CLIENT_VERSION = '0.2.0';

const BASE_URL = 'http://127.0.0.1:8000';
const TIMEOUT_MS = 5_000;
const EXIT_FLUSH_MS = 2_000;
const TIMEOUT_MAX_MS = 600_000;
const QUEUED_STEPS = 10_000;
const QUEUED_BYTES = 32 * 1024 * 1024;

const NAMES: Record<keyof UnderstudyOptions, true> = {
  apiKey: true,
  baseUrl: true,
  tokenBudget: true,
  onTokenBudget: true,
  fsmThresholds: true,
  modelRouting: true,
  eTracesEnabled: true,
  monitorNames: true,
  liveStreamingEnabled: true,
  taskProfile: true,
  orgId: true,
  projectId: true,
  svcVersion: true,
  timeoutMs: true,
  exitFlushMs: true,
  maxQueuedSteps: true,
  maxQueuedBytes: true,
  onWarning: true,
};

/**
 * Checks the options and fills in the environment's values and the defaults. An invalid configuration is reported only
 * here, when the client is created.
 * @throws TypeError or RangeError, which names the option
 */
export function readOptions(options: UnderstudyOptions): Settings {
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(NAMES, name)) throw new TypeError(`Understudy has no option ${name}`);
  }
  const environment = readEnvironment();
  const { onWarning = warnProcess, onTokenBudget, tokenBudget } = options;
  if (tokenBudget !== undefined) readWhole('tokenBudget', tokenBudget, Number.MAX_SAFE_INTEGER);
  for (const [name, value] of Object.entries({ onWarning, onTokenBudget })) {
    if (value !== undefined && typeof value !== 'function') throw new TypeError(`${name} must be a function`);
  }
  return Object.freeze({
    apiKey: readKey(options.apiKey ?? environment.apiKey),
    baseUrl: readBaseUrl(options.baseUrl ?? environment.baseUrl ?? BASE_URL),
    tokenBudget,
    onTokenBudget,
    fsmThresholds: readThresholds(options.fsmThresholds),
    modelRouting: readModelRouting(options.modelRouting),
    eTracesEnabled: readFlag('eTracesEnabled', options.eTracesEnabled),
    liveStreamingEnabled: readFlag('liveStreamingEnabled', options.liveStreamingEnabled),
    taskProfile: readName('taskProfile', options.taskProfile) ?? 'coding',
    orgId: readName('orgId', options.orgId),
    projectId: readName('projectId', options.projectId),
    svcVersion: readName('svcVersion', options.svcVersion) ?? CLIENT_VERSION,
    timeoutMs: readWhole('timeoutMs', options.timeoutMs ?? TIMEOUT_MS, TIMEOUT_MAX_MS),
    exitFlushMs: readWhole('exitFlushMs', options.exitFlushMs ?? EXIT_FLUSH_MS, TIMEOUT_MAX_MS),
    maxQueuedSteps: readWhole('maxQueuedSteps', options.maxQueuedSteps ?? QUEUED_STEPS, 1_000_000),
    maxQueuedBytes: readWhole('maxQueuedBytes', options.maxQueuedBytes ?? QUEUED_BYTES, 2 ** 32),
    onWarning,
  });
}

/**
 * Checks the key and removes spaces around it. The key is sent in a header, so it must be a valid header
 * value. Errors do not contain it.
 */
function readKey(key: unknown): string {
  if (typeof key !== 'string' || key.trim() === '') {
    throw new TypeError('apiKey is required, as an option or in the variable SVC_API_KEY');
  }
  if (!/^[\x21-\x7e]+$/.test(key.trim()))
    throw new TypeError('apiKey contains characters that are not allowed in a key');
  return key.trim();
}

function readBaseUrl(text: unknown): URL {
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '') {
    const given = JSON.stringify(text);
    throw new TypeError(
      `baseUrl must be an http or https address without credentials and query, not ${given}`,
    );
  }
  return url;
}

function readFlag(name: string, value: unknown): boolean {
  if (value === undefined) return true;
  if (typeof value !== 'boolean') throw new TypeError(`${name} must be true or false`);
  return value;
}

function readName(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'string' || value === '')
    throw new TypeError(`${name} must be a text that is not empty`);
  return value;
}

function readWhole(name: string, value: unknown, max: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > max) {
    throw new RangeError(`${name} must be a whole number from 1 to ${max}`);
  }
  return value as number;
}

function warnProcess({ cause, message }: ClientWarning): void {
  warn(message, `UNDERSTUDY_${cause.toUpperCase()}`);
}
