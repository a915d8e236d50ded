/**
 * Reads the environment variables of the client library. No other file of the library reads
 * `process.env`. Any thread.
 */

interface ClientEnvironment {
  /** `SVC_API_KEY` */
  apiKey: string | undefined;
  /** `SVC_BASE_URL` */
  baseUrl: string | undefined;
}

/** Reports a warning if the option `onWarning` is not set. */
export function warn(message: string, code: string): void {
  process.emitWarning(message, { type: 'UnderstudyWarning', code });
}

/** Reads the variables. An empty variable counts as not set. */
export function readEnvironment(): ClientEnvironment {
  const { SVC_API_KEY, SVC_BASE_URL } = process.env;
  return { apiKey: SVC_API_KEY || undefined, baseUrl: SVC_BASE_URL || undefined };
}
