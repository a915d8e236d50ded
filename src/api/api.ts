/** The whole API as one function from a request to its answer. Server threads. */
import type { AllowedHosts } from '../http/allowed-hosts.ts';
import { CorsPolicy } from '../http/cors.ts';
import { type ApiDispatch, compileDispatch, type SharedAccess } from './dispatch.ts';
import type { ApiMetrics } from './metrics.ts';
import { type ApiServices, apiRoutes } from './routes.ts';

/** The methods of a log that the API calls, a subset of pino's logger. */
export interface ApiLog {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  isLevelEnabled(level: string): boolean;
}

interface ApiOptions {
  /** Origins whose pages may call the API. */
  cors_origins: readonly string[];
  /** Host names under which requests without a credential are answered; absent: any. */
  hosts?: AllowedHosts;
  /** The checks and headers of a box that shares its database; absent: this box shares no database. */
  shared?: SharedAccess;
  log: ApiLog;
  /** Counts answers. */
  metrics?: ApiMetrics;
}

/**
 * Makes the function that answers requests. This function logs the failures that dispatch.ts reports, at most
 * LINES_PER_SECOND, with the path of the request. At LOG_LEVEL=debug it also logs every answer, with its route. Log
 * lines contain no body, no query, and no header except `x-request-id`.
 */
export function createApi(
  services: ApiServices,
  { cors_origins, hosts, shared, log, metrics }: ApiOptions,
): ApiDispatch {
  const budget = new LineBudget();
  const isVerbose = log.isLevelEnabled('debug');
  return compileDispatch(apiRoutes(services), {
    cors: new CorsPolicy(cors_origins),
    ...(hosts === undefined ? {} : { hosts }),
    ...(shared === undefined ? {} : { shared }),
    report: (error, { method, path }, request_id) => {
      const suppressed = budget.spend(performance.now());
      if (suppressed === null) return;
      const count = suppressed === 0 ? {} : { suppressed };
      log.error({ err: error, request_id, method, path, ...count }, error.message);
    },
    observe: (answered) => {
      metrics?.observe(answered);
      if (isVerbose) log.debug(answered, 'answered');
    },
  });
}

/**
 * Maximum number of failures that a thread logs per second. The number is bounded, because log lines
 * are written synchronously, and every request may fail while a database or actor is down.
 */
const LINES_PER_SECOND = 20;

class LineBudget {
  #second = 0;
  #written = 0;
  #suppressed = 0;

  /**
   * Asks for one more line.
   * @returns how many lines were omitted since the last written one; null if this line must be omitted, too
   */
  spend(nowMs: number): number | null {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#written = 0;
    }
    if (this.#written >= LINES_PER_SECOND) {
      this.#suppressed++;
      return null;
    }
    this.#written++;
    const before = this.#suppressed;
    this.#suppressed = 0;
    return before;
  }
}
