/** Measures echoed WebSocket messages over N sockets, with one message in flight on each. Runs in the load process. */
import { once } from 'node:events';
import WebSocket from 'ws';
import { type Quantiles, Samples } from './quantiles.ts';

export interface MessagesJob {
  port: number;
  sockets: number;
  seconds: number;
  bytes: number;
}

export interface MessagesResult {
  /** Received echoes. */
  messages: number;
  messagesPerS: number;
  /** From a message to its echo, microseconds. */
  latencyUs: Quantiles;
}

/** Runs one load to its end. Rejects if a socket cannot be opened, or closes before the end of the load. */
export async function measureMessages(job: MessagesJob): Promise<MessagesResult> {
  const text = JSON.stringify({ type: 'input', text: 'x'.repeat(Math.max(0, job.bytes - 32)) });
  const all = await Promise.all(
    Array.from({ length: job.sockets }, async () => {
      const socket = new WebSocket(`ws://127.0.0.1:${job.port}/v1/realtime`, { perMessageDeflate: false });
      await once(socket, 'open');
      return socket;
    }),
  );
  const latency = new Samples();
  let messages = 0;
  const from = performance.now();
  const until = from + job.seconds * 1000;
  await Promise.all(
    all.map(
      (socket) =>
        new Promise<void>((resolve, reject) => {
          let sentAt = 0;
          const send = (): void => {
            sentAt = performance.now();
            socket.send(text);
          };
          socket.on('error', reject);
          socket.on('close', () => reject(new Error('the socket ended')));
          socket.on('message', () => {
            const now = performance.now();
            latency.add((now - sentAt) * 1000);
            messages++;
            if (now < until) send();
            else resolve();
          });
          send();
        }),
    ),
  );
  const elapsedS = (performance.now() - from) / 1000;
  for (const socket of all) socket.terminate();
  return { messages, messagesPerS: messages / elapsedS, latencyUs: latency.quantiles() };
}
