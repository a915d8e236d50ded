/** The start of the proxy: its authority, its port, its thread. Part of the composition root; main thread. */
import type { Config } from '../config.ts';
import { listDomains } from '../domain/proxy-host.ts';
import { findPort } from '../http/port.ts';
import { PROXY_TUNNEL_DESCRIPTORS, PROXY_TUNNELS_MAX } from '../limits.ts';
import { systemClock } from '../std/clock.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { ProxyThread, type ProxyThreadOptions } from './proxy-thread.ts';

/**
 * @param descriptors that the process may have; 0 where nobody says
 * @returns the thread, listening
 * @throws Error of one line when the address cannot be bound, or the authority's files do not do
 */
export async function startProxy(
  { proxy, data_dir, log_level }: Config,
  parts: Pick<ProxyThreadOptions, 'servers' | 'own_ports' | 'counts' | 'log'>,
  descriptors: number,
): Promise<ProxyThread> {
  const { host, port, hosts, keys, blind } = proxy!;
  // Here, since an error loses what it is on its way between threads. What it loads takes a while.
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
    data_dir,
    log_level,
  });
  await thread.start();
  return thread;
}

/** Where descriptors are few, tunnels have half of them. */
function chooseTunnels(descriptors: number): number {
  if (descriptors === 0) return PROXY_TUNNELS_MAX;
  return Math.min(PROXY_TUNNELS_MAX, Math.ceil(descriptors / 2 / PROXY_TUNNEL_DESCRIPTORS));
}
