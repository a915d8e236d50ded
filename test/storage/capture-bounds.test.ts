/** Bodies that are made to stop the writer: whatever they hold, the exchange is prepared, and the next one too. */
import { describe, expect, it } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { type PreparedExchange, Preparer } from '../../src/storage/capture/preparation.ts';
import { makeExchange } from './captured.ts';

const preparer = new Preparer(true, 64 << 20);

async function store(
  exchange: CapturedExchange,
): Promise<{ request: Buffer; response: Buffer; prepared: PreparedExchange }> {
  const prepared = await preparer.prepare(exchange);
  const request = preparer.editRequest(prepared, null, 0).stored;
  const response = preparer.editResponse(prepared, null, 0).stored;
  return { request, response, prepared };
}

describe('an unbroken run of megabytes that begins like a key', () => {
  const run = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9'.repeat(230_000);

  it('is stored, in a body and in a stream, and masked where it is one', async () => {
    const request = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: `see ${run} here` }] }));
    const stream = Buffer.from(
      `data: {"delta":{"text":"it is"}}\n\ndata: {"delta":{"text":"${run}"}}\n\ndata: {"delta":{"text":".e30.c2ln"}}\n\n`,
    );
    const stored = await store(
      makeExchange({
        request_body: request,
        response_headers: ['content-type', 'text/event-stream'],
        response_body: stream,
      }),
    );
    expect(stored.request.equals(request)).toBe(true);
    expect(stored.response.toString()).toBe(
      'data: {"delta":{"text":"it is"}}\n\ndata: {"delta":{"text":"[redacted]"}}\n\ndata: {"delta":{"text":"[redacted]"}}\n\n',
    );
  });

  it('is masked whole as one token, also where it goes on what an earlier body ended with', async () => {
    const begin = Buffer.from(`{"text":"${run}`);
    const whole = Buffer.from(`{"text":"${run}.e30.c2ln"}`);
    const first = await preparer.prepare(makeExchange({ request_body: begin }));
    const base = preparer.editRequest(first, null, 0);
    const second = await preparer.prepare(makeExchange({ request_body: whole }));
    expect(preparer.editRequest(second, base, begin.length).stored.toString()).toBe('{"text":"[redacted]"}');
    expect(preparer.editRequest(second, null, 0).stored.toString()).toBe('{"text":"[redacted]"}');
  });
});
