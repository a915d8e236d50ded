/** The proxy for `HTTPS_PROXY`. Main thread. */
import { z } from 'zod';
import { DEFAULT_HOSTS_WORD, PROXY_HOSTS_MAX, type ProxyHost, readProxyHosts } from '../domain/proxy-host.ts';
import { ConfigError } from './config-error.ts';
import { isLoopback } from './local-address.ts';
import { host, port, STATIC_KEYS_MAX, splitList, type Values, type VariableTable } from './values.ts';

export interface ProxyConfig {
  readonly host: string;
  readonly port: number;
  /** Hosts whose tunnels are decrypted. */
  readonly hosts: readonly ProxyHost[];
  /** A client must send one of these keys; empty: the proxy is open. Secret, never print. */
  readonly keys: readonly string[];
  /** Allowed destinations of all other tunnels. */
  readonly blind: 'all' | 'public' | 'off';
}

const proxyHosts = z
  .string()
  .transform((text, context) => {
    const hosts = readProxyHosts(splitList(text).map((word) => word.toLowerCase()));
    if (hosts !== null) return Object.freeze(hosts);
    context.addIssue('not hosts');
    return z.NEVER;
  })
  .describe(
    `must be 1 to ${PROXY_HOSTS_MAX} host names like llm.example.com, or *.example.com for all names below example.com, with a port or without, separated by commas; the word ${DEFAULT_HOSTS_WORD} stands for the hosts of known providers`,
  );

const proxyKeys = z
  .string()
  .transform((text) => splitList(text))
  .refine((list) => list.length <= STATIC_KEYS_MAX && list.every((key) => /^[\w.~-]{16,256}$/.test(key)))
  .describe(
    `must be up to ${STATIC_KEYS_MAX} keys of 16 to 256 letters, digits, dots, dashes, tildes and underscores, separated by commas`,
  );

const blindReach = z.enum(['all', 'public', 'off']).describe('must be all, public or off');

export const PROXY_VARIABLES = {
  GW_PROXY_PORT: [port, undefined],
  GW_PROXY_HOST: [host, '127.0.0.1'],
  GW_PROXY_HOSTS: [proxyHosts, DEFAULT_HOSTS_WORD],
  GW_PROXY_KEYS: [proxyKeys, undefined],
  GW_PROXY_BLIND: [blindReach, undefined],
} as const satisfies VariableTable;

/**
 * Makes the section from its variables.
 * @returns null without a port
 * @throws ConfigError when a network could use the proxy without a key
 */
export function readProxy(v: Values<typeof PROXY_VARIABLES>): ProxyConfig | null {
  const { GW_PROXY_PORT: port, GW_PROXY_HOST: host, GW_PROXY_KEYS: keys, GW_PROXY_BLIND: blind } = v;
  if (port === null) return null;
  const isNear = isLoopback(host);
  if (!isNear && (keys ?? []).length === 0) {
    throw new ConfigError(
      'GW_PROXY_HOST',
      host,
      'a proxy beyond loopback needs keys, because anyone who can connect could use the proxy: set GW_PROXY_KEYS',
    );
  }
  return Object.freeze({
    host,
    port,
    hosts: v.GW_PROXY_HOSTS,
    keys: Object.freeze([...new Set(keys ?? [])]),
    blind: blind ?? (isNear ? 'all' : 'public'),
  });
}
