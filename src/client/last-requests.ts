/**
 * Sends requests while the calling thread is blocked, because the process is about to end and its event loop has
 * stopped. A worker thread sends them, and the caller waits for it up to a time limit. Runs on the main thread and on
 * workers. A request that was in progress when the event loop stopped is sent again. That is safe: the service counts
 * each event of a run once.
 */
import { Worker } from 'node:worker_threads';

/** The remaining requests of a client. */
export interface LastRequests {
  /** The service's scheme, host and port. */
  origin: string;
  headers: Record<string, string>;
  /** How long the caller may be blocked. */
  timeoutMs: number;
  /** The requests of one list are sent in order. Different lists are sent concurrently. */
  lanes: { method: string; target: string; body: string | undefined }[][];
}

/** Maximum number of connections of the worker. */
const CONNECTIONS_MAX = 12;

/** The worker's source as text, because a bundler would lose a separate file. */
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

/**
 * Sends the requests in a worker, and blocks this thread until they are sent, or until the longest of the
 * time limits has passed. Requests that fail are lost.
 * @throws if the platform has no worker threads, or refuses to start one
 */
export function sendBlocking(requests: readonly LastRequests[]): void {
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(SENDER, {
    eval: true,
    // The worker inherits neither the process's preloads nor its options.
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
