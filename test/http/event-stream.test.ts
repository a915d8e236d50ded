/** Event streams on real sockets: their head, readers that do not read, readers that leave, and the drain. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { raiseParserHeadLimit } from '../../src/config.ts';
import type { EventSink } from '../../src/contract/handler.ts';
import { serveApi } from '../../src/http/api-listener.ts';
import {
  EVENT_STREAM_HEADERS,
  encodeEvent,
  encodeOpening,
  LIVE_BUFFERED_BYTES,
} from '../../src/http/event-stream.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import { startServer } from '../../src/http/server.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

let server: HttpServer;
let sinks: EventSink[];
let gone: number;
const sockets: Socket[] = [];

beforeEach(async () => {
  raiseParserHeadLimit();
  sinks = [];
  gone = 0;
  const dispatch = () => ({
    status: 200,
    headers: [['content-type', 'text/event-stream'], ...EVENT_STREAM_HEADERS] as [string, string][],
    body: '',
    stream: {
      open: (sink: EventSink) => {
        sinks.push(sink);
        sink.write(Buffer.from(encodeOpening(3_000, 7)));
        return () => {
          gone++;
        };
      },
    },
  });
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    onStream: serveApi(dispatch, { max_body_bytes: 1_000 }),
    describeError: () => '{}',
  });
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.drain(1_000);
});

/** A reader that counts all bytes, but keeps only about the first 10,000. */
async function openReader(method = 'GET'): Promise<{ socket: Socket; text(): string; bytes(): number }> {
  const socket = connect(server.port, '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => {});
  let text = '';
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (text.length < 10_000) text += chunk.toString('latin1');
  });
  await once(socket, 'connect');
  socket.write(`${method} /stream HTTP/1.1\r\nHost: x\r\n\r\n`);
  await vi.waitFor(() => expect(text).toContain('\r\n\r\n'), { timeout: PATIENCE_MS, interval: 2 });
  return { socket, text: () => text, bytes: () => bytes };
}

const until = (check: () => void) => vi.waitFor(check, { timeout: PATIENCE_MS, interval: 5 });

describe('an event stream', () => {
  it('begins with a head that no proxy caches or buffers', async () => {
    const reader = await openReader();
    await until(() => expect(reader.text()).toContain('retry: 3000\nid: 7\n\n'));
    const [head] = reader.text().toLowerCase().split('\r\n\r\n');
    expect(head).toMatch(/^http\/1\.1 200 ok/);
    for (const line of [
      'content-type: text/event-stream',
      'cache-control: no-cache, no-transform',
      'x-accel-buffering: no',
      'transfer-encoding: chunked',
    ]) {
      expect(head).toContain(line);
    }
    expect(head).not.toContain('content-length');
    sinks[0]!.write(Buffer.from(encodeEvent(8, 'step', '{"a":1}')));
    await until(() => expect(reader.text()).toContain('id: 8\nevent: step\ndata: {"a":1}\n\n'));
  });

  it('answers HEAD with the same head, opens nothing, and the connection stays open', async () => {
    const reader = await openReader('HEAD');
    expect(reader.text().toLowerCase()).toContain('content-type: text/event-stream');
    expect(sinks).toHaveLength(0);
    reader.socket.write('GET /stream HTTP/1.1\r\nHost: x\r\n\r\n');
    await until(() => expect(reader.text()).toContain('retry: 3000'));
    expect(sinks).toHaveLength(1);
    expect(server.open).toBe(1);
  });

  it('drops a reader that does not read, at the bound, and no other', async () => {
    const slow = await openReader();
    slow.socket.pause();
    const quick = await openReader();
    const event = Buffer.from(encodeEvent(1, 'step', JSON.stringify({ text: 'x'.repeat(16_000) })));
    let written = 0;
    // The system's socket buffer, whose size the test does not control, is filled first.
    while (gone === 0 && written < 200_000_000) {
      const before = sinks[0]!.buffered_bytes;
      for (const sink of sinks) sink.write(event);
      written += event.length;
      expect(before).toBeLessThanOrEqual(LIVE_BUFFERED_BYTES);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(gone).toBe(1);
    expect(sinks[0]!.write(event)).toBe(false);
    expect(sinks[0]!.buffered_bytes).toBe(0);
    await until(() => expect(quick.bytes()).toBeGreaterThan(written));
    expect(server.open).toBe(1);
    expect(sinks[1]!.write(event)).toBe(true);
  });

  it('waits for a reader that reads slowly, if configured', async () => {
    const reader = await openReader();
    const page = Buffer.from(encodeEvent(1, 'step', 'x'.repeat(100_000)));
    const pages = 300;
    for (let at = 0; at < pages; at++) {
      if (at % 25 === 0) {
        reader.socket.pause();
        setImmediate(() => reader.socket.resume());
      }
      expect(sinks[0]!.write(page)).toBe(true);
      await new Promise<void>((resolve) => sinks[0]!.whenDrained(resolve));
      // Waits a turn of the loop, as for a page from the hub.
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => expect(reader.bytes()).toBeGreaterThan(pages * page.length));
    expect(gone).toBe(0);
  });

  it('is notified once that its reader has left', async () => {
    const readers = [await openReader(), await openReader()];
    readers[0]!.socket.destroy();
    readers[1]!.socket.end();
    await until(() => expect(gone).toBe(2));
    for (const sink of sinks) expect(sink.write(Buffer.from(': \n\n'))).toBe(false);
    expect(server.open).toBe(0);
  });

  it('does not delay a drain when its reader does not read', async () => {
    const slow = await openReader();
    slow.socket.pause();
    const event = Buffer.from(encodeEvent(1, 'step', 'x'.repeat(60_000)));
    while (sinks[0]!.buffered_bytes === 0) {
      expect(sinks[0]!.write(event)).toBe(true);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const drained = server.drain(600_000);
    sinks[0]!.close();
    await drained;
    expect(gone).toBe(1);
  });

  it('ends completely when it is closed, so that a drain does not wait', async () => {
    const readers = [await openReader(), await openReader()];
    const drained = server.drain(60_000);
    for (const sink of sinks) sink.close();
    await drained;
    for (const { text } of readers) await until(() => expect(text()).toMatch(/0\r\n\r\n$/));
    expect(gone).toBe(2);
  });
});
