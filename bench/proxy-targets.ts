/**
 * The targets for `HTTPS_PROXY` in the gateway's bench: our proxy with capture and without, and mitmproxy if it is
 * installed. Bench process.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, openSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CertificateFiles } from '../src/std/certificate-files.ts';
import { end, findFreePort, keep, startGateway, type Target } from './targets.ts';

/** `direct` is TLS straight to the upstream. */
export const PROXY_NAMES = ['direct', 'mitmproxy', 'forwarder', 'gateway'] as const;
export type ProxyName = (typeof PROXY_NAMES)[number];

export interface ProxyTarget {
  name: ProxyName;
  /** null for `direct`. */
  proxyPort: number | null;
  pid: number | null;
  /** The gateway whose proxy this is; it has stats. null for `direct` and `mitmproxy`. */
  gateway: Target | null;
  stop: () => Promise<void>;
}

const MITM_START_MS = 20_000;

/** Starts a proxy in front of the upstream. @returns null if the proxy is not installed */
export async function startProxyTarget(
  name: ProxyName,
  upstreamPort: number,
  dir: string,
  { cert }: CertificateFiles,
): Promise<ProxyTarget | null> {
  if (name === 'direct')
    return { name, proxyPort: null, pid: null, gateway: null, stop: async () => undefined };
  const proxyPort = await findFreePort();
  if (name === 'mitmproxy') return startMitmproxy(proxyPort, join(dir, name), cert);
  const gateway = await startGateway(name, upstreamPort, dir, [], undefined, undefined, null, {
    GW_PROXY_PORT: String(proxyPort),
    GW_PROXY_HOSTS: `localhost:${upstreamPort}`,
    GW_UPSTREAM_CA: cert,
  });
  return { name, proxyPort, pid: gateway.pid, gateway, stop: gateway.stop };
}

/**
 * Starts mitmproxy. Like the gateway, it writes the traffic and checks the upstream's certificate.
 * @returns null if it is not installed
 */
async function startMitmproxy(proxyPort: number, dir: string, cert: string): Promise<ProxyTarget | null> {
  if (spawnSync('mitmdump', ['--version']).error !== undefined) return null;
  mkdirSync(dir, { recursive: true });
  const log = openSync(join(dir, 'log'), 'w');
  const options = [`confdir=${dir}`, `ssl_verify_upstream_trusted_ca=${cert}`, 'http2=false'];
  const args = [
    ...['-q', '--listen-host', '127.0.0.1', '-p', String(proxyPort), '-w', join(dir, 'flows')],
    ...options.flatMap((option) => ['--set', option]),
  ];
  const child = keep(spawn('mitmdump', args, { cwd: dir, stdio: ['ignore', log, log] }));
  const until = performance.now() + MITM_START_MS;
  while (!(await listens(proxyPort))) {
    if (child.exitCode !== null || performance.now() > until) throw new Error('mitmproxy did not start');
    await delay(50);
  }
  const stop = async (): Promise<void> => {
    await end(child);
    rmSync(dir, { recursive: true, force: true });
  };
  return { name: 'mitmproxy', proxyPort, pid: child.pid ?? null, gateway: null, stop };
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
