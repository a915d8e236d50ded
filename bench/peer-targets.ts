/**
 * Starts the gateway and the other proxies that `npm run bench -- peers` compares, if they are installed. Runs in the
 * bench's own process.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { awaitHttp, end, findFreePort, findNginx, keep, startTargets } from './targets.ts';

export const PEERS = ['nginx', 'haproxy', 'mitmproxy', 'portkey', 'litellm', 'forwarder', 'gateway'] as const;
export type PeerName = (typeof PEERS)[number];

export interface Peer {
  name: PeerName;
  /** The version that the peer reports; '' for ours. */
  version: string;
  port: number;
  pid: number;
  /** Headers that requests to the peer need, each with its CRLF. */
  headers: string;
  stop: () => Promise<void>;
}

/**
 * Where the Portkey gateway is expected. It is not a dependency of this project, because it needs a hundred packages
 * that nothing else uses.
 */
const PORTKEY = join(import.meta.dirname, '../node_modules/.peers/node_modules/@portkey-ai/gateway');
/** How to install the peers that come from npm or PyPI. */
export const INSTALL: Partial<Record<PeerName, string>> = {
  portkey:
    'npm install --prefix node_modules/.peers --no-package-lock --ignore-scripts @portkey-ai/gateway@1.15.2',
  mitmproxy: 'in a virtual environment of Python: pip install mitmproxy; its bin in PATH',
  litellm: "in another virtual environment of Python: pip install 'litellm[proxy]'; its bin in PATH",
};

/** Reads the first line of the command's version output; null if the command is not installed. */
function findVersion(command: string, flag: string): string | null {
  const found = spawnSync(command, [flag], { encoding: 'utf8' });
  return found.error === undefined ? (found.stdout.split('\n', 1)[0] ?? '') : null;
}

/**
 * Starts the peer in front of the upstream. Every peer has one worker or one server thread, and the same task: it
 * forwards, keeps connections and writes no log of requests. Only mitmproxy and `gateway` store the traffic.
 * @returns null if the peer is not installed
 */
export async function startPeer(name: PeerName, upstreamPort: number, dir: string): Promise<Peer | null> {
  if (name === 'haproxy' || name === 'mitmproxy') {
    const version = name === 'haproxy' ? findVersion('haproxy', '-v') : findVersion('mitmdump', '--version');
    return version === null ? null : startOther(name, version, upstreamPort, join(dir, name));
  }
  if (name === 'litellm') return startLitellm(upstreamPort, join(dir, name));
  if (name === 'portkey') return existsSync(PORTKEY) ? startPortkey(upstreamPort, join(dir, name)) : null;
  const nginx = findNginx();
  if (name === 'nginx' && nginx === null) return null;
  const [target] = await startTargets([name], upstreamPort, dir);
  const { port, pid, stop } = target!;
  return { name, version: name === 'nginx' ? nginx! : '', port, pid: pid!, headers: '', stop };
}

async function startOther(
  name: 'haproxy' | 'mitmproxy',
  version: string,
  upstreamPort: number,
  dir: string,
): Promise<Peer> {
  mkdirSync(dir, { recursive: true });
  const port = await findFreePort();
  const logFile = join(dir, 'log');
  const log = openSync(logFile, 'w');
  const [command, args] =
    name === 'haproxy' ? haproxyLine(port, upstreamPort, dir) : mitmLine(port, upstreamPort, dir);
  const child = keep(spawn(command, args, { cwd: dir, stdio: ['ignore', log, log] }));
  await awaitHttp(child, port, '/?reply=4096', logFile);
  return { name, version, port, pid: child.pid!, headers: '', stop: () => end(child) };
}

/** Starts the Portkey gateway. Each request names its destination. The peer keeps no log and captures nothing. */
async function startPortkey(upstreamPort: number, dir: string): Promise<Peer> {
  mkdirSync(dir, { recursive: true });
  const port = await findFreePort();
  const log = openSync(join(dir, 'log'), 'w');
  const entry = join(PORTKEY, 'build/start-server.js');
  const args = [entry, `--port=${port}`, '--headless'];
  const child = keep(spawn(process.execPath, args, { cwd: dir, stdio: ['ignore', log, log] }));
  await awaitHttp(child, port, '/', join(dir, 'log'));
  // After the first answer, the start takes a few more seconds.
  await delay(PORTKEY_BANNER_MS);
  const { version } = JSON.parse(readFileSync(join(PORTKEY, 'package.json'), 'utf8')) as { version: string };
  const headers = `x-portkey-provider: anthropic\r\nx-portkey-custom-host: http://127.0.0.1:${upstreamPort}/v1\r\n`;
  return { name: 'portkey', version, port, pid: child.pid!, headers, stop: () => end(child) };
}

const PORTKEY_BANNER_MS = 3_000;

/** Maximum time of LiteLLM's start. On a busy machine, it loads its modules for a minute. */
const LITELLM_START_MS = 180_000;

/**
 * Starts LiteLLM's proxy with one worker, without a database and without logs. Like the gateway, it passes Messages
 * requests to a provider whose wire format is Messages.
 * @returns null if it is not installed
 */
async function startLitellm(upstreamPort: number, dir: string): Promise<Peer | null> {
  // Without this variable, LiteLLM fetches a table of prices at each start.
  const env = { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' };
  const told = spawnSync('litellm', ['--version'], { encoding: 'utf8', env });
  if (told.error !== undefined) return null;
  const version = /\d[\d.]*/.exec(told.stdout)?.[0] ?? 'unknown';
  mkdirSync(dir, { recursive: true });
  const port = await findFreePort();
  const config = join(dir, 'config.yaml');
  writeFileSync(
    config,
    `model_list:
  - model_name: claude-sonnet-4-5
    litellm_params:
      model: anthropic/claude-sonnet-4-5
      api_base: http://127.0.0.1:${upstreamPort}
      api_key: bench
litellm_settings:
  telemetry: false
general_settings:
  dangerously_permit_weak_or_unset_master_key: true
`,
  );
  const logFile = join(dir, 'log');
  const log = openSync(logFile, 'w');
  const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'];
  const child = keep(spawn('litellm', args, { cwd: dir, stdio: ['ignore', log, log], env }));
  await awaitHttp(child, port, '/health/liveliness', logFile, false, LITELLM_START_MS);
  return { name: 'litellm', version, port, pid: child.pid!, headers: '', stop: () => end(child) };
}

function haproxyLine(port: number, upstreamPort: number, dir: string): [string, string[]] {
  const file = join(dir, 'haproxy.cfg');
  writeFileSync(
    file,
    `global
  nbthread 1
  maxconn 8192
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  http-reuse always
frontend agents
  bind 127.0.0.1:${port}
  default_backend provider
backend provider
  server provider 127.0.0.1:${upstreamPort} pool-max-conn 1024
`,
  );
  return ['haproxy', ['-db', '-f', file]];
}

/** Makes the command line of mitmproxy, which writes the traffic to a file, as the gateway does. */
function mitmLine(port: number, upstreamPort: number, dir: string): [string, string[]] {
  const upstream = `reverse:http://127.0.0.1:${upstreamPort}`;
  const args = ['-q', '--mode', upstream, '--listen-host', '127.0.0.1', '-p', String(port)];
  return ['mitmdump', [...args, '-w', join(dir, 'flows'), '--set', `confdir=${dir}`]];
}
