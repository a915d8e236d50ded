/**
 * Measures requests through N CONNECT tunnels of a proxy that terminates TLS. Each tunnel has one request in flight.
 * Also measures how long a tunnel takes to open. Runs in the load process.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { Line } from './load-latency.ts';
import { type Quantiles, Samples } from './quantiles.ts';
import { makePlainRequests } from './workload.ts';

export interface ProxiedJob {
  /** null: straight to the upstream over TLS. */
  proxyPort: number | null;
  /** Port at `localhost`. */
  upstreamPort: number;
  tunnels: number;
  seconds: number;
  bytes: number;
}

export interface ProxiedResult {
  answered: number;
  requestsPerS: number;
  latencyUs: Quantiles;
  /** From a tunnel's connection to the end of its handshake, microseconds. Tunnels are opened one after the other. */
  openUs: Quantiles;
}

/** Runs one load to its end. Rejects if a tunnel cannot be opened, or closes before the end of the load. */
export async function measureProxied(job: ProxiedJob): Promise<ProxiedResult> {
  const opening = new Samples();
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < job.tunnels; i++) {
    const from = performance.now();
    sockets.push(await openTunnel(job));
    opening.add((performance.now() - from) * 1000);
  }
  const latency = new Samples();
  let answered = 0;
  const from = performance.now();
  const until = from + job.seconds * 1000;
  const lines = sockets.map(
    (socket) => new Line(socket, makePlainRequests(job.bytes, `localhost:${job.upstreamPort}`)),
  );
  await Promise.all(
    lines.map(async (line) => {
      for (let now = from; now < until; ) {
        await line.ask();
        const then = performance.now();
        latency.add((then - now) * 1000);
        answered++;
        now = then;
      }
    }),
  );
  const elapsedS = (performance.now() - from) / 1000;
  for (const line of lines) line.end();
  return {
    answered,
    requestsPerS: answered / elapsedS,
    latencyUs: latency.quantiles(),
    openUs: opening.quantiles(),
  };
}

async function openTunnel({ proxyPort, upstreamPort }: ProxiedJob): Promise<TLSSocket> {
  const socket = connect({ port: proxyPort ?? upstreamPort, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  if (proxyPort !== null) await askForTunnel(socket, `localhost:${upstreamPort}`);
  const options = { socket, servername: 'localhost', ALPNProtocols: ['http/1.1'], rejectUnauthorized: false };
  const secure = connectTls(options);
  await once(secure, 'secureConnect');
  return secure;
}

async function askForTunnel(socket: Socket, target: string): Promise<void> {
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  let head = '';
  while (!head.includes('\r\n\r\n')) head += ((await once(socket, 'data')) as [Buffer])[0].toString('latin1');
  if (!head.startsWith('HTTP/1.1 200')) throw new Error(`CONNECT was answered ${head.split('\r\n', 1)[0]}`);
  socket.removeAllListeners('data').pause();
}
