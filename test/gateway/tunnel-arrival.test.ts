/**
 * The arrival time of a compressed message is that of its bytes, even if another request arrives before the message is
 * decompressed. Real frames and a real capture queue. Test thread.
 */
import { deflateRawSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { BodyMemory } from '../../actors/capture-writer/body-memory.ts';
import type { FinishedExchange } from '../../src/domain/exchange.ts';
import { CaptureQueue, type CaptureWriter } from '../../src/gateway/capture/capture-queue.ts';
import { TunnelCapture } from '../../src/gateway/tunnel/tunnel-capture.ts';

/** A compressed WebSocket frame of one text message. @param isMasked from the client; with a mask of zeros */
function frame(message: object, isMasked: boolean): Buffer {
  const deflated = deflateRawSync(JSON.stringify(message), { finishFlush: 2 /* Z_SYNC_FLUSH */ });
  const payload = deflated.subarray(0, -4);
  const mask = isMasked ? [0, 0, 0, 0] : [];
  return Buffer.concat([Buffer.from([0xc1, (isMasked ? 0x80 : 0) | payload.length, ...mask]), payload]);
}

it('a message that is decompressed later has the time at which its bytes arrived', async () => {
  const captured = Promise.withResolvers<FinishedExchange>();
  const writer: CaptureWriter = {
    memory: new BodyMemory(),
    openBatch: () => ({ add: captured.resolve }),
    append: async () => [],
  };
  const queue = new CaptureQueue(writer, { max_queue: 9, max_queue_bytes: 1e6, max_capture_bytes: 1e5 });
  const [context, stream, destination, filtered] = [
    { capture: queue, note: '' },
    { head: { method: 'GET', path: '/v1/responses', query: null, headers: [] } },
    { route: { api: 'openai' }, provider: 'openai', path: '/v1/responses' },
    { run_id: null, form: { headers: [] } },
  ] as unknown as [never, never, never, never];
  const tunnel = new TunnelCapture(context, queue, stream, destination, filtered);
  tunnel.open(101, ['sec-websocket-extensions', 'permessage-deflate']);
  tunnel.fromClient(frame({ type: 'response.create', input: 'a' }, true));
  tunnel.fromUpstream(frame({ type: 'response.completed', response: { id: 'resp_a' } }, false));
  // The client has the answer, and continues over another connection.
  const next = queue.begin()!;
  tunnel.close(false);
  const { kind, arrival } = await captured.promise;
  expect(kind).toBe('turn');
  expect(arrival).toBeLessThan(next.arrival);
});
