/**
 * Starts the proxy: opens its certificate authority, finds its port, and starts its thread. Part of
 * the composition root; main thread.
 */
import type { Config } from '../config.ts';
import { listDomains } from '../domain/proxy-host.ts';
import { findPort } from '../http/port.ts';
import { systemClock } from '../std/clock.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { ProxyThread, type ProxyThreadOptions } from './proxy-thread.ts';

/**
 * Maximum number of concurrent tunnels, terminated or not; a further CONNECT gets 503. If the
 * process may have few descriptors, the limit is lower.
 */
const PROXY_TUNNELS_MAX = 1_024;
/**
 * Maximum number of descriptors that a terminated tunnel needs: the client's, both ends of the connection to the
 * gateway, the upstream's.
 */
const PROXY_TUNNEL_DESCRIPTORS = 4;

/**
 * Starts the proxy's thread.
 * @param descriptors number of descriptors that the process may have; 0 if unknown
 * @returns the thread, which listens
 * @throws Error with a one-line message when the address cannot be bound, or the authority's files are invalid
 */
export async function startProxy(
  { proxy, data_dir, log_level, connections }: Config,
  parts: Pick<ProxyThreadOptions, 'servers' | 'own_ports' | 'counts' | 'log'>,
  descriptors: number,
): Promise<ProxyThread> {
  const { host, port, hosts, keys, blind } = proxy!;
  // This call checks the authority's files on this thread, because an error would lose its class between
  // threads. The module is imported only now, because the import is slow.
  const { openAuthority } = await import('../proxy/authority.ts');
  await openAuthority(data_dir, listDomains(hosts), systemClock.wallMs());
  const thread = new ProxyThread({
    ...parts,
    entry: resolveModuleUrl('./proxy-thread-entry.ts', import.meta.url),
    host,
    port: await findPort(host, port),
    hosts,
    keys,
    blind,
    tunnels_max: chooseTunnels(descriptors),
    by_address: connections.by_address,
    data_dir,
    log_level,
  });
  await thread.start();
  return thread;
}

/** Tunnels may use at most half of the process's descriptors. */
function chooseTunnels(descriptors: number): number {
  if (descriptors === 0) return PROXY_TUNNELS_MAX;
  return Math.min(PROXY_TUNNELS_MAX, Math.ceil(descriptors / 2 / PROXY_TUNNEL_DESCRIPTORS));
}
