/**
 * Starts and ends the processes that the gateway bench compares. All of them listen on loopback, have their own
 * directories and end with the bench. Bench process.
 */
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CertificateFiles } from '../src/std/certificate-files.ts';
import { bindToCores } from './product.ts';

const ROOT = resolve(import.meta.dirname, '..');
const START_LIMIT_MS = 20_000;

/** `direct` is the upstream itself; `forwarder` the gateway with capture off; `gateway` with capture on. */
export type TargetName = 'direct' | 'nginx' | 'node-http' | 'forwarder' | 'gateway';
export const TARGET_NAMES: TargetName[] = ['direct', 'nginx', 'node-http', 'forwarder', 'gateway'];

export interface Target {
  name: TargetName;
  port: number;
  /** Root of the process tree; null for `direct`, whose cost is not measured. */
  pid: number | null;
  /** Whether clients use TLS to the target. */
  isSecure: boolean;
  /** Where the gateway keeps its database; null for the others. */
  dataDir: string | null;
  /** Ends the target's processes and removes its files. */
  stop: () => Promise<void>;
}

const children = new Set<ChildProcess>();

// No process that the bench started may outlive the bench, however the bench ends.
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1));

/** Makes the process end with the bench, however the bench ends. */
export function keep(child: ChildProcess): ChildProcess {
  children.add(child);
  child.on('exit', () => children.delete(child));
  return child;
}

/** Asks the process to end, and kills it after 5 s. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  await Promise.race([gone, delay(5000, undefined, { ref: false })]);
  child.kill('SIGKILL');
  await gone;
}

/** Waits for the first message of a forked child. Rejects if the child ends before. */
function awaitMessage<T>(child: ChildProcess): Promise<T> {
  return new Promise((done, fail) => {
    child.once('message', (message) => done(message as T));
    child.once('exit', (code) =>
      fail(new Error(`${child.spawnfile} ended with ${code} before it was ready`)),
    );
  });
}

/** Starts one of the bench's own processes (a file of this folder). Resolves with the process and its first message. */
export async function startBenchProcess<T>(
  file: string,
  args: string[] = [],
): Promise<{ child: ChildProcess; first: T }> {
  const child = keep(
    fork(join(import.meta.dirname, file), args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }),
  );
  return { child, first: await awaitMessage<T>(child) };
}

/** Starts a bench process that listens and sends its port. */
export async function startServer(
  file: string,
  args: string[] = [],
): Promise<{ port: number; child: ChildProcess; stop: () => Promise<void> }> {
  const { child, first } = await startBenchProcess<{ port: number }>(file, args);
  return { port: first.port, child, stop: () => end(child) };
}

/** Finds a free port of loopback. */
export function findFreePort(): Promise<number> {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.on('error', fail);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => done(port));
    });
  });
}

/** Sends a request to a server of the bench, without checking its certificate. */
export function askServer(
  { port, isSecure }: Pick<Target, 'port' | 'isSecure'>,
  path: string,
  method = 'GET',
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, method, agent: false, rejectUnauthorized: false };
    const asked = (isSecure ? requestSecure : requestPlain)(options, (answer) => {
      let body = '';
      answer.setEncoding('utf8');
      answer.on('data', (piece: string) => {
        body += piece;
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
      answer.on('error', reject);
    });
    asked.on('error', reject);
    asked.end();
  });
}

/** Polls until `path` answers over HTTP. Throws if the child ends first or after `limitMs`. */
export async function awaitHttp(
  child: ChildProcess,
  port: number,
  path: string,
  logFile: string,
  isSecure = false,
  limitMs = START_LIMIT_MS,
): Promise<void> {
  const until = Date.now() + limitMs;
  for (;;) {
    try {
      const { status } = await askServer({ port, isSecure }, path);
      if (status >= 200 && status < 300) return;
    } catch {
      // Not listening yet.
    }
    if (child.exitCode !== null || child.signalCode !== null || Date.now() > until) {
      const log = readFileSync(logFile, 'utf8').slice(-2000);
      await end(child);
      throw new Error(`${child.spawnfile} did not answer on port ${port}:\n${log}`);
    }
    await delay(50);
  }
}

/**
 * Starts the gateway in front of `upstreamPort`.
 * @param nodeArgs for Node, for example a profiler's flags
 * @param root the checkout whose code the gateway runs
 * @param env further variables
 */
export async function startGateway(
  name: 'gateway' | 'forwarder',
  upstreamPort: number,
  dir: string,
  nodeArgs: string[],
  root = ROOT,
  threads?: number,
  tls: CertificateFiles | null = null,
  env: Readonly<Record<string, string>> = {},
): Promise<Target> {
  const dataDir = join(dir, name);
  mkdirSync(dataDir, { recursive: true });
  const port = await findFreePort();
  const logFile = join(dir, `${name}.log`);
  const log = openSync(logFile, 'w');
  const args = ['gateway', '--port', String(port), '--db', join(dataDir, 'capture.mdb')];
  const line = [process.execPath, ...nodeArgs, join(root, 'src/cli/understudy.mjs'), ...args];
  const [command, ...rest] = bindToCores(line, threads);
  const child = keep(
    spawn(command!, rest, {
      cwd: dataDir,
      stdio: ['ignore', log, log],
      env: {
        // As many threads as nginx has workers.
        SERVER_THREADS: '1',
        ACTOR_THREADS: '1',
        ...process.env,
        ...(threads === undefined ? {} : { SERVER_THREADS: String(threads) }),
        GW_UPSTREAM_BASE: `http://127.0.0.1:${upstreamPort}`,
        DATA_DIR: dataDir,
        ...(name === 'forwarder' ? { GW_CAPTURE: 'off' } : {}),
        ...(tls === null ? {} : { GW_TLS_CERT: tls.cert, GW_TLS_KEY: tls.key }),
        ...env,
      },
    }),
  );
  const isSecure = tls !== null;
  await awaitHttp(child, port, '/__gw/stats', logFile, isSecure);
  const stop = async (): Promise<void> => {
    await end(child);
    // The capture process may still be writing its position.
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  };
  return { name, port, isSecure, pid: child.pid ?? null, dataDir, stop };
}

/** Reads nginx's version; null if nginx is not in PATH. */
export function findNginx(): string | null {
  const found = spawnSync('nginx', ['-v'], { encoding: 'utf8' });
  return found.error ? null : ((found.stderr || found.stdout).trim().split('/')[1] ?? 'unknown');
}

/**
 * Writes nginx's configuration for the gateway's task: pass bytes on as they arrive, keep connections, write no log.
 * bench/README.md gives the reasons for the worker, the buffers, the kept connections and the missing log.
 */
function makeNginxConfig(
  port: number,
  upstreamPort: number,
  dir: string,
  workers: number,
  tls: CertificateFiles | null,
): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${dir}/${kind};`,
  );
  return `
worker_processes ${workers};
daemon off;
user root;
pid ${dir}/nginx.pid;
error_log ${dir}/error.log crit;
events { worker_connections 8192; }
http {
  access_log off;
  ${temporary.join(' ')}
  keepalive_requests 100000000;
  keepalive_timeout 3600s;
  tcp_nodelay on;
  client_max_body_size 0;
  client_body_buffer_size 64k;
  upstream provider {
    server 127.0.0.1:${upstreamPort};
    keepalive 1024;
    keepalive_requests 100000000;
  }
  map $http_upgrade $upgraded {
    default Upgrade;
    '' '';
  }
  server {
    listen 127.0.0.1:${port} backlog=4096${tls === null ? '' : ' ssl'};
    ${tls === null ? '' : `ssl_certificate ${tls.cert}; ssl_certificate_key ${tls.key};`}
    location / {
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $upgraded;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_buffer_size 64k;
      proxy_buffers 8 64k;
      proxy_busy_buffers_size 128k;
      proxy_read_timeout 3600s;
      proxy_send_timeout 3600s;
    }
  }
}
`;
}

async function startNginx(
  upstreamPort: number,
  dir: string,
  threads?: number,
  tls: CertificateFiles | null = null,
): Promise<Target> {
  const own = join(dir, 'nginx');
  mkdirSync(own, { recursive: true });
  const port = await findFreePort();
  let config = makeNginxConfig(port, upstreamPort, own, threads ?? 1, tls);
  if (process.getuid?.() !== 0) config = config.replace('user root;\n', '');
  writeFileSync(join(own, 'nginx.conf'), config);
  const logFile = join(dir, 'nginx.log');
  const log = openSync(logFile, 'w');
  const line = ['nginx', '-p', own, '-c', join(own, 'nginx.conf'), '-e', join(own, 'error.log')];
  const [command, ...rest] = bindToCores(line, threads);
  const child = keep(spawn(command!, rest, { stdio: ['ignore', log, log] }));
  const isSecure = tls !== null;
  await awaitHttp(child, port, '/?reply=4096', logFile, isSecure);
  return { name: 'nginx', port, isSecure, pid: child.pid ?? null, dataDir: null, stop: () => end(child) };
}

/**
 * Starts the named targets in front of an upstream, with their files under `dir`.
 * @param threads server threads or workers of nginx and gateway, on as many cores; by default one, on any core
 * @param tls certificate and key of nginx and the gateway; the other targets do not use TLS
 */
export async function startTargets(
  names: TargetName[],
  upstreamPort: number,
  dir: string,
  nodeArgs: string[] = [],
  threads?: number,
  tls: CertificateFiles | null = null,
): Promise<Target[]> {
  mkdirSync(dir, { recursive: true });
  const start = async (name: TargetName): Promise<Target> => {
    if (name === 'direct') {
      return {
        ...{ name, port: upstreamPort, isSecure: false, pid: null, dataDir: null },
        stop: async () => undefined,
      };
    }
    if (name === 'nginx') return startNginx(upstreamPort, dir, threads, tls);
    if (name === 'node-http') {
      const server = await startServer('node-proxy.ts', [String(upstreamPort)]);
      return {
        ...{ name, port: server.port, isSecure: false, pid: server.child.pid ?? null, dataDir: null },
        stop: server.stop,
      };
    }
    return startGateway(name, upstreamPort, dir, name === 'gateway' ? nodeArgs : [], ROOT, threads, tls);
  };
  const targets: Target[] = [];
  for (const name of names) targets.push(await start(name));
  return targets;
}
