/**
 * Sends requests while the calling thread is blocked: the process is about to end, and its event loop does not turn any more. A
 * worker thread sends, and the caller waits for it at most as long as it is allowed to. Main thread and workers alike.
 *
 * A request that was under way when the process ended is sent again. That is safe: the service takes each event of a run once.
 */
import { Worker } from 'node:worker_threads';

/** What a client has left. */
export interface LastRequests {
  /** Of the service: scheme, host and port. */
  origin: string;
  headers: Record<string, string>;
  /** How long the caller may be blocked. */
  timeoutMs: number;
  /** Each list in order; the lists side by side. */
  lanes: { method: string; target: string; body: string | undefined }[][];
}

/** Connections of the worker. */
const CONNECTIONS_MAX = 12;

/** The worker's source, as a text: a bundler would lose a separate file. */
const SENDER = `
const { workerData } = require('node:worker_threads');
const { signal, requests, connections } = workerData;
const sendOne = (request, agent, { origin, headers }, { method, target, body = '' }) =>
  new Promise((resolve, reject) => {
    const { protocol, hostname, port } = new URL(origin);
    const length = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const options = { protocol, hostname: hostname.replace(/^\\[|\\]$/g, ''), port, path: target, method, agent };
    const outgoing = request({ ...options, headers: { ...headers, ...length } }, (incoming) => {
      incoming.on('end', () => resolve(incoming.statusCode)).on('error', reject).resume();
    });
    outgoing.on('error', reject).end(body);
  });
const sendLane = async (client, lane, ...place) => {
  for (const one of lane) if ([401, 403].includes(await sendOne(...place, client, one))) return;
};
const sendAll = (client) => {
  const { Agent, request } = require(client.origin.startsWith('https:') ? 'node:https' : 'node:http');
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  return client.lanes.map((lane) => sendLane(client, lane, request, agent));
};
Promise.allSettled(requests.flatMap(sendAll)).then(() => {
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});
`;

/** @throws where the platform has no worker threads, or refuses one */
export function sendBlocking(requests: readonly LastRequests[]): void {
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(SENDER, {
    eval: true,
    // Neither what the process preloads nor its options.
    execArgv: [],
    env: {},
    stdout: true,
    stderr: true,
    workerData: { signal, requests, connections: CONNECTIONS_MAX },
  });
  worker.on('error', () => {});
  worker.unref();
  Atomics.wait(signal, 0, 0, Math.max(...requests.map(({ timeoutMs }) => timeoutMs)));
}
