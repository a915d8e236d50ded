/**
 * The API's address and the credential for commands on an agent's machine, which may run without the
 * service's package. Main thread.
 */
import { ConfigError } from './config-error.ts';
import { base, headerKey, parseText } from './values.ts';

/** Default port of the API, which its clients use, too. */
export const API_PORT = '8000';

/** The API's address and the credential of an agent. */
export interface AgentConnection {
  /** No trailing slash. */
  readonly base_url: string;
  /** Secret: never print. */
  readonly api_key: string;
}

/**
 * Reads the connection. Without `--url` and SVC_BASE_URL, the address is that of a service on this machine.
 * @param url value of `--url`
 * @throws ConfigError for an invalid value, or without a key
 */
export function readAgentConnection(
  url: string | undefined,
  { SVC_API_KEY: key = '', SVC_BASE_URL }: NodeJS.ProcessEnv,
): AgentConnection {
  if (key === '') throw new ConfigError('SVC_API_KEY', '', 'set it to an API key of the service');
  const [name, text] = url === undefined ? ['SVC_BASE_URL', SVC_BASE_URL] : ['--url', url];
  return {
    base_url: parseText(name, base(), text || `http://127.0.0.1:${API_PORT}`),
    api_key: parseText('SVC_API_KEY', headerKey, key),
  };
}
