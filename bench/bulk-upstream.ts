/**
 * The upstream of the stalled-reader bench: sends N MB as fast as the client reads, and remembers when a connection was
 * cut. It uses node:http, because uWebSockets.js aborts a response that makes no progress for 10 seconds. Own process:
 * bench/stall.ts forks it. It sends `{port}` to its parent when it listens, and exits when its parent exits.
 *
 *   GET /bulk?mb=N&id=ID   N × 1 MiB; the byte at offset i is that of makeBulkPattern() at i mod its length
 *   GET /cut?id=ID         {cut_us, sent_bytes}: when transfer ID was cut (monotonic microseconds), null if it was not
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { makeBulkPattern } from './bulk-pattern.ts';

const pattern = makeBulkPattern();
const transfers = new Map<string, { cut_us: number | null; sent_bytes: number }>();

function sendBulk(res: ServerResponse, id: string, bytes: number): void {
  const state = { cut_us: null as number | null, sent_bytes: 0 };
  transfers.set(id, state);
  res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes });
  res.on('close', () => {
    if (!res.writableFinished) state.cut_us = Number(process.hrtime.bigint() / 1000n);
  });
  const pump = (): void => {
    while (state.sent_bytes < bytes && !res.destroyed) {
      const part = pattern.subarray(0, Math.min(pattern.length, bytes - state.sent_bytes));
      state.sent_bytes += part.length;
      if (!res.write(part)) {
        res.once('drain', pump);
        return;
      }
    }
    res.end();
  };
  pump();
}

const server = createServer((req, res) => {
  const url = new URL(req.url ?? '/', 'http://bench');
  const id = url.searchParams.get('id') ?? '';
  if (url.pathname === '/bulk') return sendBulk(res, id, Number(url.searchParams.get('mb')) * 1024 * 1024);
  res.end(JSON.stringify(transfers.get(id) ?? null));
});
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => process.exit(0));
