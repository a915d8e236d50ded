/** The copies of the pieces of a body stay unchanged until they are released. */
import { setImmediate as nextTick } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BodyPieces } from '../../src/http/body-pieces.ts';

const sizes = fc.oneof(fc.nat(100), fc.nat(20_000), fc.nat(600_000));

it('pieces of any length stay unchanged, whatever happens to those of other bodies', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          pieces: fc.array(fc.record({ size: sizes, givenBack: fc.boolean() }), { maxLength: 6 }),
          released: fc.boolean(),
        }),
        {
          maxLength: 6,
        },
      ),
      (bodies) => {
        let seed = 0;
        const held: { kept: Buffer; value: number }[] = [];
        for (const { pieces, released } of bodies) {
          const body = new BodyPieces();
          for (const { size, givenBack } of pieces) {
            const value = ++seed % 256;
            const source = new Uint8Array(size).fill(value);
            const kept = body.keep(source.buffer);
            source.fill(0);
            expect(kept.length).toBe(size);
            if (givenBack) body.giveBack(kept);
            else if (!released) held.push({ kept, value });
          }
          if (released) body.release();
          for (const { kept, value } of held) expect(kept.every((byte) => byte === value)).toBe(true);
        }
      },
    ),
    { numRuns: 30 },
  );
});

it('the memory of released pieces is reused by one body at a time', () => {
  const body = new BodyPieces();
  const first = body.keep(new ArrayBuffer(460_000));
  body.release();
  body.release();
  const second = new BodyPieces().keep(new ArrayBuffer(450_000));
  expect(second.buffer === first.buffer).toBe(true);
  expect(new BodyPieces().keep(new ArrayBuffer(450_000)).buffer === first.buffer).toBe(false);
});

it('the next piece uses the memory of a returned one, throughout a long body', () => {
  const body = new BodyPieces();
  const memories = new Set<ArrayBufferLike>();
  for (let i = 0; i < 100; i++) {
    const piece = body.keep(new ArrayBuffer(i % 2 === 0 ? 500_000 : 501_000));
    memories.add(piece.buffer);
    body.giveBack(piece);
  }
  expect(memories.size).toBe(1);
});

it('only the beginning of a body stays in memory if its pieces are forwarded as they arrive', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const body = new BodyPieces();
  collect();
  const before = process.memoryUsage().arrayBuffers;
  const piece = new ArrayBuffer(300_000);
  for (let i = 0; i < 400; i++) body.keep(piece);
  const measure = () => process.memoryUsage().arrayBuffers - before;
  // The garbage collector frees buffers in the background, some time after it has found them.
  for (let i = 0; i < 200 && measure() > 4_000_000; i++) {
    collect();
    await nextTick();
  }
  expect(measure()).toBeLessThan(4_000_000);
  body.release();
});
