/** A reader of a batch's shared memory gets what the writer put in, at all sizes, and memory is reused. */
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BatchReader,
  CAPTURE_FREE_SLABS,
  ExchangeBatch,
  SlabPool,
} from '../../actors/capture-writer/batch.ts';
import { BodyMemory, CAPTURE_FREE_CELL_BYTES } from '../../actors/capture-writer/body-memory.ts';
import { CAPTURE_SLAB_BYTES } from '../../actors/capture-writer/mapped-memory.ts';
import type { FinishedExchange } from '../../src/domain/exchange.ts';
import { Tee } from '../../src/gateway/capture/tee.ts';
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

interface Parts extends Partial<Omit<FinishedExchange, 'request_cells' | 'response_cells'>> {
  request_chunks?: Uint8Array[];
  response_chunks?: Uint8Array[];
}

const sum = (chunks: readonly Uint8Array[]) => chunks.reduce((bytes, chunk) => bytes + chunk.length, 0);

/** An exchange whose bodies do not lie in cells of a `BodyMemory`, so the batch copies them, whatever their length. */
function finish({ request_chunks: request, response_chunks: response, ...parts }: Parts): FinishedExchange {
  const { request_body, response_body, ...exchange } = makeExchange({ path: '/' });
  const [request_cells, response_cells] = [request ?? [request_body], response ?? [response_body]];
  return {
    ...exchange,
    request_form: { headers: parts.request_headers ?? exchange.request_headers, varying: [] },
    request_cells,
    request_kept_bytes: sum(request_cells),
    response_cells,
    response_kept_bytes: sum(response_cells),
    ...parts,
  };
}

/** The exchange as the reader of the batch sees it, with each body in one piece. */
function join(finished: FinishedExchange) {
  const { request_cells, request_kept_bytes, response_cells, response_kept_bytes, ...exchange } = finished;
  return {
    ...exchange,
    request_body: Buffer.concat(request_cells, request_kept_bytes),
    response_body: Buffer.concat(response_cells, response_kept_bytes),
  };
}

const makeBatch = (pool = new SlabPool(), memory = new BodyMemory()) => new ExchangeBatch(pool, memory);
const read = (batch: ExchangeBatch) => new BatchReader().read(batch.take());
const BUDGET = {
  large_bytes: Number.POSITIVE_INFINITY,
  reserve: () => true,
  release: () => {},
  enlist: () => {},
  delist: () => {},
};

describe('a batch', () => {
  it('returns its exchanges in order', () => {
    fc.assert(
      fc.property(fc.array(exchanges, { maxLength: 8 }), (parts) => {
        const added = parts.map(finish);
        const batch = makeBatch();
        for (const exchange of added) batch.add(exchange);
        expect(read(batch)).toEqual(added.map(join));
      }),
    );
  });

  it('returns requests whose forms repeat with other values, in any order and in simultaneous batches', () => {
    const text = fc
      .string({ unit: 'binary-ascii', maxLength: 4 })
      .map((value) => value.replaceAll('\n', ' '));
    const form = fc.array(fc.tuple(text, text, fc.boolean()), { maxLength: 4 }).map((fields) => ({
      headers: fields.flatMap(([name, value]): string[] => [name, value]),
      varying: fields.flatMap(([, , varies], i) => (varies ? [2 * i + 1] : [])),
    }));
    const request = fc.record({
      which: fc.nat({ max: 2 }),
      into: fc.nat({ max: 1 }),
      path: fc.constantFrom('/a', '/b'),
      run_id: fc.option(fc.constantFrom('', 'r', '\n', 'ü€😀', 'a\nb')),
      values: fc.array(text, { minLength: 4, maxLength: 4 }),
    });
    fc.assert(
      fc.property(fc.tuple(form, form, form), fc.array(request, { maxLength: 20 }), (forms, requests) => {
        const batches = [makeBatch(), makeBatch()];
        const expected: ReturnType<typeof join>[][] = [[], []];
        const drawn: number[][] = [[], []];
        for (const { which, into, path, run_id, values } of requests) {
          const request_form = forms[which]!;
          const request_headers = request_form.headers.slice();
          for (const [i, at] of request_form.varying.entries()) request_headers[at] = values[i]!;
          const exchange = finish({ path, run_id, request_headers, request_form });
          batches[into]!.add(exchange);
          expected[into]!.push(join(exchange));
          drawn[into]!.push(which);
        }
        for (const [i, batch] of batches.entries()) {
          const found = read(batch);
          expect(found).toEqual(expected[i]);
          // Exchanges with the same path and the same form share one object for the form.
          const seen = new Map<string, unknown>();
          for (const [at, { path, request_form }] of found.entries()) {
            const key = JSON.stringify([path, drawn[i]![at]]);
            expect(seen.get(key) ?? request_form).toBe(request_form);
            seen.set(key, request_form);
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it('does not confuse heads with the same checksum', () => {
    const seen = new Map<number, string>();
    let pair: [string, string] | null = null;
    for (let i = 0; pair === null; i++) {
      const path = `/${String(Math.imul(i, 2_654_435_761) >>> 0).padStart(10, '0')}${String(i).padStart(9, '0')}`;
      const checksum = crc32(path);
      const other = seen.get(checksum);
      if (other !== undefined) pair = [other, path];
      seen.set(checksum, path);
    }
    // The heads differ only in their paths. Paths with equal checksums therefore make heads with equal checksums.
    const batch = makeBatch();
    for (const path of [pair[0], pair[1], pair[0]]) batch.add(finish({ path }));
    expect(read(batch).map(({ path }) => path)).toEqual([pair[0], pair[1], pair[0]]);
  });

  it('takes more than one slab, and exchanges larger than a slab', () => {
    const batch = makeBatch();
    const sizes = [10, CAPTURE_SLAB_BYTES / 4, CAPTURE_SLAB_BYTES + 5, 0, 1.8e6, 1.8e6, 1.8e6, 3];
    const bodies = sizes.map((size, i) => Buffer.alloc(size, i + 1));
    for (const body of bodies) batch.add(finish({ request_chunks: [body], response_chunks: [] }));
    expect(batch.take().slabs.length).toBeGreaterThan(2);
    expect(
      read(batch).map(({ request_body }) => bodies.findIndex((body) => body.equals(request_body))),
    ).toEqual(sizes.map((_, i) => i));
  });

  it('reuses released memory, and keeps only a limited amount', () => {
    const pool = new SlabPool();
    const fill = (): { batch: ExchangeBatch; memory: ArrayBufferLike } => {
      const batch = makeBatch(pool);
      batch.add(finish({}));
      return { batch, memory: batch.take().slabs[0]!.buffer };
    };
    const first = fill();
    const second = fill();
    expect(second.memory).not.toBe(first.memory);
    first.batch.release();
    const third = fill();
    expect(third.memory).toBe(first.memory);
    // A second release of the same batch returns no memory.
    first.batch.release();
    expect(fill().memory).not.toBe(first.memory);
    const many = Array.from({ length: CAPTURE_FREE_SLABS + 3 }, fill);
    for (const { batch } of many) batch.release();
    const known = new Set(many.map(({ memory }) => memory));
    const again = Array.from({ length: CAPTURE_FREE_SLABS + 3 }, fill);
    expect(again.filter(({ memory }) => known.has(memory))).toHaveLength(CAPTURE_FREE_SLABS);
  });

  it('returns bodies of any length that arrived in pieces of any length', () => {
    const pieces = fc.array(fc.nat({ max: 90_000 }), { maxLength: 6 });
    const memory = new BodyMemory();
    const reader = new BatchReader();
    const pool = new SlabPool();
    let seed = 1;
    fc.assert(
      fc.property(fc.array(fc.tuple(pieces, pieces), { maxLength: 5 }), (bodies) => {
        const batch = makeBatch(pool, memory);
        const expected: Buffer[][] = [];
        // All bodies arrive at the same time. The memory of a chunk is reused as soon as the chunk was added.
        const tees = bodies.map(() => new Tee(BUDGET, memory, 200_000));
        const chunk = Buffer.alloc(90_000);
        for (const [at, sides] of bodies.entries()) {
          const tee = tees[at]!;
          expected.push(
            sides.map((sizes, side) => {
              const whole: Buffer[] = [];
              for (const size of sizes) {
                const piece = chunk.subarray(0, size).fill(seed++ % 251);
                tee.add(side === 0 ? tee.request : tee.response, piece);
                whole.push(Buffer.from(piece));
              }
              chunk.fill(0);
              return Buffer.concat(whole).subarray(0, 200_000);
            }),
          );
        }
        for (const tee of tees) {
          expect(Buffer.concat(tee.request.copyOut())).toHaveLength(tee.request.kept_bytes);
          const { request_body, response_body, ...exchange } = makeExchange({ path: '/' });
          batch.add({
            ...exchange,
            request_form: { headers: exchange.request_headers, varying: [] },
            request_cells: tee.request.cells,
            request_kept_bytes: tee.request.kept_bytes,
            response_cells: tee.response.cells,
            response_kept_bytes: tee.response.kept_bytes,
          });
        }
        const found = reader.read(batch.take());
        for (const [at, [request, response]] of expected.entries()) {
          expect(Buffer.compare(found[at]!.request_body, request!)).toBe(0);
          expect(Buffer.compare(found[at]!.response_body, response!)).toBe(0);
        }
        batch.release();
      }),
      { numRuns: 40 },
    );
  });
});

describe('a body of announced length', () => {
  const copy = (announced: number, sizes: readonly number[]) => {
    const memory = new BodyMemory();
    const tee = new Tee(BUDGET, memory, 4 << 20);
    tee.request.announced_bytes = announced;
    const whole: Buffer[] = [];
    for (const [i, size] of sizes.entries()) {
      const piece = Buffer.alloc(size, i + 1);
      tee.add(tee.request, piece);
      whole.push(piece);
    }
    expect(Buffer.concat(tee.request.copyOut()).equals(Buffer.concat(whole))).toBe(true);
    return tee.request.cells.map(({ length }) => length);
  };

  it('is contiguous, also if only little of it arrives at first', () => {
    expect(copy(300_000, [65_000, 65_000, 170_000])).toHaveLength(1);
    expect(copy(300_000, [10, 8_000, 65_000, 226_990])).toHaveLength(1);
    expect(copy(1 << 20, [200_000, (1 << 20) - 200_000])).toHaveLength(1);
    expect(copy(50_000, [50_000])).toHaveLength(1);
  });

  it('takes memory in proportion to the bytes that have arrived, not to the announced length', () => {
    expect(copy(1 << 20, [10])).toEqual([8_192]);
    expect(copy(1 << 20, [8_192, 10])).toEqual([8_192, 8_192]);
    expect(copy(64 << 20, [10, 8_192])).toEqual([8_192, 8_192]);
  });

  it('is kept whole if more arrives than was announced', () => {
    copy(10_000, [9_000, 1_000, 5_000, 70_000]);
  });
});

describe('memory for bodies', () => {
  it('has cells for any length or for the beginning of a body, and reuses them', () => {
    const memory = new BodyMemory();
    for (const bytes of [0, 1, 8_192, 8_193, 65_536, 400_000, 4 << 20]) {
      const cell = memory.take(bytes);
      expect(cell.length).toBeGreaterThanOrEqual(Math.min(bytes, 64 << 10));
      expect(memory.has(cell)).toBe(true);
      memory.give(cell);
      expect(memory.take(bytes)).toBe(cell);
    }
  });

  it('keeps only a limited amount for reuse, and no memory that it did not hand out', () => {
    const memory = new BodyMemory();
    const most = CAPTURE_FREE_CELL_BYTES / (1 << 20);
    const cells = Array.from({ length: most + 4 }, () => memory.take(1 << 20));
    memory.give(new Uint8Array(1 << 20));
    memory.give(cells[0]!);
    for (const cell of cells) memory.give(cell);
    const again = Array.from({ length: most + 4 }, () => memory.take(1 << 20));
    expect(again.filter((cell) => cells.includes(cell))).toHaveLength(most);
    expect(new Set(again).size).toBe(most + 4);
  });
});
