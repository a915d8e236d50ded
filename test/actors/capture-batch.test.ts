/** What is written into a batch's shared memory is what is read from it, whatever the sizes, and memory is used again. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExchangeBatch, readBatch, SlabPool } from '../../actors/capture-writer/batch.ts';
import type { FinishedExchange } from '../../src/domain/exchange.ts';
import { CAPTURE_FREE_SLABS, CAPTURE_SLAB_BYTES } from '../../src/limits.ts';
import { makeExchange } from '../storage/captured.ts';

const chunks = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 4 });
const headers = fc.array(
  fc.string({ unit: 'binary-ascii' }).map((text) => text.replaceAll('\n', ' ')),
  {
    maxLength: 3,
  },
);
const exchanges = fc.record({
  path: fc.string(),
  run_id: fc.option(fc.string()),
  seq: fc.option(fc.nat()),
  first_byte_ms: fc.option(fc.double({ min: 0, max: 1e6, noNaN: true })),
  started_at_ms: fc.nat({ max: 2 ** 47 }),
  status: fc.nat({ max: 999 }),
  aborted: fc.boolean(),
  request_headers: headers.map((names) => names.flatMap((name) => [`n${name}`, name])),
  response_headers: headers.map((names) => names.flatMap((name) => [`n${name}`, name])),
  request_chunks: chunks,
  response_chunks: chunks,
});

function finish(parts: Partial<FinishedExchange>): FinishedExchange {
  const { request_body, response_body, ...exchange } = makeExchange({ path: '/' });
  return { ...exchange, request_chunks: [request_body], response_chunks: [response_body], ...parts };
}

/** As the other side reads it. */
function join({ request_chunks, response_chunks, ...exchange }: FinishedExchange) {
  return {
    ...exchange,
    request_body: Buffer.concat(request_chunks),
    response_body: Buffer.concat(response_chunks),
  };
}

describe('a batch', () => {
  it('gives back what it took, in its order', () => {
    fc.assert(
      fc.property(fc.array(exchanges, { maxLength: 8 }), (parts) => {
        const added = parts.map(finish);
        const batch = new ExchangeBatch(new SlabPool());
        for (const exchange of added) batch.add(exchange);
        expect(readBatch(batch.takeSlabs())).toEqual(added.map(join));
      }),
    );
  });

  it('takes more than one slab, and exchanges larger than any', () => {
    const batch = new ExchangeBatch(new SlabPool());
    const sizes = [10, CAPTURE_SLAB_BYTES / 4, CAPTURE_SLAB_BYTES + 5, 0, 1.8e6, 1.8e6, 1.8e6, 3];
    const bodies = sizes.map((size, i) => Buffer.alloc(size, i + 1));
    for (const body of bodies) batch.add(finish({ request_chunks: [body], response_chunks: [] }));
    const slabs = batch.takeSlabs();
    expect(slabs.length).toBeGreaterThan(2);
    const read = readBatch(slabs);
    expect(read.map(({ request_body }) => bodies.findIndex((body) => body.equals(request_body)))).toEqual(
      sizes.map((_, i) => i),
    );
  });

  it('uses memory again once it is released, and only so much of it', () => {
    const pool = new SlabPool();
    const fill = (): { batch: ExchangeBatch; memory: ArrayBufferLike } => {
      const batch = new ExchangeBatch(pool);
      batch.add(finish({}));
      return { batch, memory: batch.takeSlabs()[0]!.buffer };
    };
    const first = fill();
    const second = fill();
    expect(second.memory).not.toBe(first.memory);
    first.batch.release();
    const third = fill();
    expect(third.memory).toBe(first.memory);
    // A second release gives nothing back twice.
    first.batch.release();
    expect(fill().memory).not.toBe(first.memory);
    const many = Array.from({ length: CAPTURE_FREE_SLABS + 3 }, fill);
    for (const { batch } of many) batch.release();
    const known = new Set(many.map(({ memory }) => memory));
    const again = Array.from({ length: CAPTURE_FREE_SLABS + 3 }, fill);
    expect(again.filter(({ memory }) => known.has(memory))).toHaveLength(CAPTURE_FREE_SLABS);
  });
});
