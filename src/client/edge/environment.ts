/**
 * Replaces src/client/environment.ts: reads the platform's `process.env`, if there is one. Runs in edge functions, on
 * any thread.
 */

interface ClientEnvironment {
  apiKey: string | undefined;
  baseUrl: string | undefined;
}

export function readEnvironment(): ClientEnvironment {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  const { SVC_API_KEY, SVC_BASE_URL } = process?.env ?? {};
  return { apiKey: SVC_API_KEY || undefined, baseUrl: SVC_BASE_URL || undefined };
}

/** Reports a warning if the option `onWarning` is not set. */
export function warn(message: string, code: string): void {
  console.warn(`UnderstudyWarning [${code}]: ${message}`);
}
