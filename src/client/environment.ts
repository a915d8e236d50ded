/**
 * The environment variables of the client library. The only reader of `process.env` in an agent's process; `src/config.ts`
 * reads the service's. Any thread.
 */

interface ClientEnvironment {
  /** `SVC_API_KEY` */
  apiKey: string | undefined;
  /** `SVC_BASE_URL` */
  baseUrl: string | undefined;
}

/** Reports trouble where no `onWarning` does. */
export function warn(message: string, code: string): void {
  process.emitWarning(message, { type: 'UnderstudyWarning', code });
}

/** An empty variable counts as not set. */
export function readEnvironment(): ClientEnvironment {
  const { SVC_API_KEY, SVC_BASE_URL } = process.env;
  return { apiKey: SVC_API_KEY || undefined, baseUrl: SVC_BASE_URL || undefined };
}
