/**
 * Entry of the proxy thread: opens the authority and the listener, and serves clients until the
 * main thread stops it over comlink. TLS handshakes cost processor time, and every client can start
 * them. On this thread they delay no server thread. Composition root of the proxy thread.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { listDomains, type ProxyHost } from '../domain/proxy-host.ts';
import { createLog } from '../log.ts';
import { openAuthority } from '../proxy/authority.ts';
import { LeafCertificates } from '../proxy/leaf-certificates.ts';
import { ProxyServer } from '../proxy/proxy-server.ts';
import { TunnelCounts } from '../proxy/tunnel-counts.ts';
import { systemClock } from '../std/clock.ts';
import { createDeferred } from '../std/deferred.ts';
import { runOwnThread } from '../std/own-thread.ts';

/** The input of the proxy thread at its start; the ports are transferred. */
export interface ProxyTask {
  host: string;
  port: number;
  hosts: readonly ProxyHost[];
  /** Secret. */
  keys: readonly string[];
  blind: 'all' | 'public' | 'off';
  own_ports: readonly number[];
  tunnels_max: number;
  /** MAX_CONNECTIONS_PER_ADDRESS; null: the default. */
  by_address: number | null;
  data_dir: string;
  log_level: string;
  /** Memory of `TunnelCounts`. */
  counts: SharedArrayBuffer;
  control: MessagePort;
  /** Port to the main thread's ProxyServices. */
  services: MessagePort;
}

/** The proxy thread's calls to the main thread, through comlink. */
export interface ProxyServices {
  /**
   * Opens a listener of the gateway for a tunnel to a host, or finds the open one.
   * @returns the listener's port, which stays open until `leaveRoute`; null if the gateway can open no listener for this
   *   host now
   */
  openRoute(authority: string, provider: string): Promise<number | null>;
  /** Reports that a tunnel no longer uses the port that `openRoute` returned. */
  leaveRoute(authority: string): void;
}

/** The main thread's calls to the proxy thread, through comlink. */
export interface ProxyControl {
  /** Begins to listen. @returns the port */
  listen(): Promise<number>;
  drain(): void;
  /**
   * Ends the thread after the gateway's drain.
   * @param deadlineMs how long tunnels in use may continue
   */
  stop(deadlineMs: number): Promise<void>;
}

/** Interval at which the expiry of the authority's certificate is checked. */
const LOOK_MS = 6 * 3_600_000;

/** Runs the thread until it is stopped. */
async function proxy(task: ProxyTask): Promise<void> {
  const log = createLog(task.log_level);
  const stopped = createDeferred<void>();
  const services = Comlink.wrap<ProxyServices>(nodeEndpoint(task.services));
  const nowMs = () => systemClock.wallMs();
  const open = () => openAuthority(task.data_dir, listDomains(task.hosts), nowMs());
  let server: ProxyServer | null = null;
  let looking: NodeJS.Timeout | null = null;
  const control: ProxyControl = {
    listen: async () => {
      const authority = await open();
      const leaves = new LeafCertificates(authority, nowMs);
      const renew = async () => {
        try {
          leaves.renew(await open());
        } catch (thrown) {
          log.error({ reason: (thrown as Error).message }, 'the proxy’s authority cannot be renewed');
        }
      };
      looking = setInterval(() => void renew(), LOOK_MS).unref();
      server = new ProxyServer({
        ...task,
        leaves,
        counts: new TunnelCounts(task.counts),
        openRoute: async ({ provider }, { host, port }, over) => {
          const authority = port === 443 ? host : `${host}:${port}`;
          const opened = await services.openRoute(authority, provider);
          if (opened !== null) void over.then(() => services.leaveRoute(authority));
          return opened;
        },
        log,
      });
      return server.listen();
    },
    drain: () => server?.drain(),
    stop: async (deadlineMs) => {
      if (looking !== null) clearInterval(looking);
      server?.drain();
      await server?.waitForTunnels(deadlineMs);
      server?.close();
      stopped.resolve();
    },
  };
  Comlink.expose(control, nodeEndpoint(task.control));
  await stopped.promise;
  setImmediate(() => {
    task.control.close();
    task.services.close();
  });
}

runOwnThread(proxy);
