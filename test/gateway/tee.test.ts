/**
 * Lent copies: a request is forwarded from capture's copy, so this memory must not be reused while the exchange is
 * open, even if the copy is dropped. Test thread.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BodyMemory } from '../../actors/capture-writer/body-memory.ts';
import { type ByteBudget, LENT_BYTES_MIN, Tee } from '../../src/gateway/capture/tee.ts';

const KIB = 1024;
const BODY_BYTES_MAX = 2 << 20;

/** A memory that records returned cells, and checks that each is returned once after it was taken. */
class WatchedMemory extends BodyMemory {
  readonly given: Uint8Array[] = [];
  readonly held = new Set<Uint8Array>();

  override take(bytes: number): Uint8Array {
    const cell = super.take(bytes);
    expect(this.held.has(cell)).toBe(false);
    this.held.add(cell);
    return cell;
  }

  override give(cell: Uint8Array): void {
    if (this.has(cell)) expect(this.held.delete(cell)).toBe(true);
    this.given.push(cell);
    super.give(cell);
  }
}

/** A budget of this many bytes. */
class Budget implements ByteBudget {
  readonly large_bytes = Number.POSITIVE_INFINITY;
  left: number;

  constructor(bytes: number) {
    this.left = bytes;
  }

  reserve(bytes: number): boolean {
    if (bytes > this.left) return false;
    this.left -= bytes;
    return true;
  }

  release(bytes: number): void {
    this.left += bytes;
  }

  enlist(): void {}

  delist(): void {}
}

function openTee(announced: number, budgetBytes = 64 << 20) {
  const memory = new WatchedMemory();
  const budget = new Budget(budgetBytes);
  const tee = new Tee(budget, memory, BODY_BYTES_MAX);
  tee.request.announced_bytes = announced;
  return { memory, budget, tee };
}

function fill(bytes: number, value: number): Uint8Array {
  return new Uint8Array(bytes).fill(value);
}

it('the tee lends copies that stay unchanged to the end, and keeps the same bytes', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: LENT_BYTES_MIN, max: 1 << 20 }),
      fc.array(fc.integer({ min: 0, max: 400_000 }), { minLength: 1, maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 200_000 }), { maxLength: 4 }),
      (announced, sizes, answer) => {
        const { memory, budget, tee } = openTee(announced);
        const before = budget.left;
        const lent: { copy: Buffer; value: number }[] = [];
        const sent: Uint8Array[] = [];
        let there = 0;
        for (const [i, size] of sizes.entries()) {
          const chunk = fill(Math.min(size, announced - there), i + 1);
          there += chunk.length;
          sent.push(chunk.slice());
          const copy = tee.lend(chunk);
          if (copy === null) tee.add(tee.request, chunk);
          else lent.push({ copy, value: i + 1 });
          chunk.fill(0);
        }
        for (const size of answer) tee.add(tee.response, fill(size, 200));
        for (const { copy, value } of lent) {
          expect(copy.every((byte) => byte === value)).toBe(true);
          expect(copy.buffer === tee.request.cells[0]!.buffer).toBe(true);
        }
        expect(tee.request.bytes).toBe(there);
        expect(tee.request.kept_bytes).toBe(there);
        expect(Buffer.concat(tee.request.copyOut()).equals(Buffer.concat(sent))).toBe(true);
        // Bytes that arrived in one piece are lent.
        if (sizes[0]! >= announced) expect(lent.length).toBeGreaterThan(0);
        tee.close();
        tee.release();
        expect(budget.left).toBe(before);
        expect(memory.held.size).toBe(0);
      },
    ),
    { numRuns: 100 },
  );
});

it('the tee does not lend a body that is not contiguous', () => {
  for (const announced of [0, (1 << 20) + 1, BODY_BYTES_MAX + 1]) {
    const { tee, budget } = openTee(announced);
    const before = budget.left;
    expect(tee.lend(fill(200 * KIB, 1))).toBeNull();
    expect([budget.left, tee.request.bytes, tee.request.kept_bytes]).toEqual([before, 0, 0]);
  }
  // The announced length and a small part of the body are not enough to get a cell.
  const { tee } = openTee(512 * KIB);
  expect(tee.lend(fill(10 * KIB, 1))).toBeNull();
  expect(tee.request.cells).toEqual([]);
  // A body that is longer than the part that capture keeps.
  const short = new Tee(new Budget(1 << 20), new WatchedMemory(), 100 * KIB);
  short.request.announced_bytes = 100 * KIB + 1;
  expect(short.lend(fill(100 * KIB, 1))).toBeNull();
});

it('the tee moves the bytes that arrived before the loan, and never lent bytes', () => {
  const { memory, tee } = openTee(400 * KIB);
  const first = fill(20 * KIB, 1);
  expect(tee.lend(first)).toBeNull();
  tee.add(tee.request, first);
  const small = tee.request.cells[0]!;
  const copy = tee.lend(fill(100 * KIB, 2))!;
  expect(memory.given).toEqual([small]);
  tee.add(tee.request, fill(280 * KIB, 3));
  expect(memory.given).toEqual([small]);
  expect(tee.request.cells).toHaveLength(1);
  expect(copy.buffer === tee.request.cells[0]!.buffer).toBe(true);
  expect(copy.every((byte) => byte === 2)).toBe(true);
});

const LOSSES: [string, (tee: Tee) => void][] = [
  ['the answer', (tee) => tee.add(tee.response, fill(200 * KIB, 9))],
  ['the rest of the request', (tee) => expect(tee.lend(fill(140 * KIB, 9))).toBeNull()],
  ['the rest of the request, copied elsewhere', (tee) => tee.add(tee.request, fill(140 * KIB, 9))],
];

it.each(LOSSES)('the tee keeps what it has lent when there is no room for %s', (_name, lose) => {
  const { memory, budget, tee } = openTee(300 * KIB, 200 * KIB);
  const copy = tee.lend(fill(100 * KIB, 7))!;
  const cell = tee.request.cells[0]!;
  lose(tee);
  expect(tee.lost).toBe(true);
  expect(budget.left).toBe(200 * KIB);
  expect(memory.given).toEqual([]);
  // The next exchange gets another cell.
  const taken = memory.take(300 * KIB);
  expect(taken === cell).toBe(false);
  taken.fill(0);
  expect(copy.every((byte) => byte === 7)).toBe(true);
  // The cell is returned once, even if it is released twice.
  tee.release();
  expect(memory.given).toEqual([]);
  tee.close();
  tee.release();
  tee.release();
  expect(memory.given).toEqual([cell]);
});

it('the tee lends nothing after the exchange', () => {
  const { tee, budget, memory } = openTee(300 * KIB);
  tee.lend(fill(100 * KIB, 1));
  const cell = tee.request.cells[0]!;
  const before = budget.left;
  tee.close();
  expect(tee.lend(fill(100 * KIB, 2))).toBeNull();
  expect(budget.left).toBe(before);
  expect(cell.subarray(100 * KIB, 200 * KIB).includes(2)).toBe(false);
  expect(memory.given).toEqual([]);
});

it('the tee keeps a short body where it is, within the same bounds', () => {
  const { memory, budget, tee } = openTee(0, 3 * KIB);
  const request = fill(KIB, 1);
  const answer = fill(KIB, 2);
  tee.keepView(tee.request, request);
  tee.keepView(tee.response, answer);
  expect(tee.request.cells[0]).toBe(request);
  expect(tee.response.cells[0]).toBe(answer);
  expect([tee.request.bytes, tee.kept_bytes, budget.left]).toEqual([KIB, 2 * KIB, KIB]);
  // Further bytes are copied.
  tee.add(tee.response, fill(100, 3));
  expect(tee.response.cells).toHaveLength(2);
  expect(Buffer.concat(tee.response.copyOut())).toEqual(Buffer.concat([answer, fill(100, 3)]));
  tee.keepView(tee.response, fill(KIB, 4));
  expect(tee.lost).toBe(true);
  expect([tee.kept_bytes, tee.response.bytes, budget.left]).toEqual([0, 2 * KIB + 100, 3 * KIB]);
  expect(memory.held.size).toBe(0);

  const long = openTee(0);
  long.tee.keepView(long.tee.request, fill(BODY_BYTES_MAX + 1, 5));
  expect([long.tee.truncated, long.tee.request.kept_bytes]).toEqual([true, BODY_BYTES_MAX]);
});
