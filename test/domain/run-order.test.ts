/** The order of a run's exchanges does not depend on the order in which they were stored. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inRunOrder, orderRun, type PlacedExchange, standsBehind } from '../../src/domain/run-order.ts';

const AT = Date.UTC(2026, 0, 2);
/** The first arrival stamp of a counter that started at this time. */
const STAMP = AT * 1_024;

function place(id: number, part: Partial<PlacedExchange> = {}): PlacedExchange {
  return { id, seq: null, started_at: new Date(AT).toISOString(), ...part };
}

function idsOf(exchanges: Iterable<PlacedExchange>): number[] {
  return Array.from(exchanges, ({ id }) => id);
}

/** How a client's exchanges indicate their order. */
const PROOFS = {
  numbers: (at: number) => ({ seq: at + 1 }),
  'stamps of arrival': (at: number) => ({ arrival: STAMP + at }),
  'numbers, though they arrived the other way round': (at: number) => ({
    seq: at + 1,
    arrival: STAMP + 1_000 - at,
  }),
  'times of start': (at: number) => ({ started_at: new Date(AT + at).toISOString() }),
  histories: (at: number, ids: readonly number[]) => ({ ...(at === 0 ? {} : { follows: ids[at - 1]! }) }),
} satisfies Record<string, (at: number, ids: readonly number[]) => Partial<PlacedExchange>>;

describe('the order of a run', () => {
  it.each(Object.entries(PROOFS))('follows %s, whatever the ids are', (_name, prove) => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray([...Array(24).keys()], { minLength: 1 }),
        fc.boolean(),
        (places, odd) => {
          const ids = places.map((place) => place + 1);
          const sent = ids.map((id, at) => place(id, prove(at, ids)));
          const stored = [...sent].sort((a, b) => (odd ? a.id - b.id : b.id - a.id));
          expect(idsOf(orderRun(stored))).toEqual(ids);
          expect(idsOf(inRunOrder(stored))).toEqual(ids);
        },
      ),
    );
  });

  it('places exchanges without a number between the others by their arrival', () => {
    const run = [
      place(1, { seq: 2, arrival: STAMP + 9 }),
      place(2, { arrival: STAMP + 5 }),
      place(3, { seq: 1, arrival: STAMP + 4 }),
      place(4, { arrival: STAMP + 20 }),
    ];
    expect(idsOf(orderRun(run))).toEqual([3, 2, 1, 4]);
  });

  it('trusts numbers before histories, and histories before the clock', () => {
    const numbered = [place(1, { seq: 1, follows: 2 }), place(2, { seq: 2 })];
    expect(idsOf(orderRun(numbered))).toEqual([1, 2]);
    const clocked = [place(1, { arrival: STAMP, follows: 2 }), place(2, { arrival: STAMP + 7 })];
    expect(idsOf(orderRun(clocked))).toEqual([2, 1]);
  });

  it('is found even if exchanges name each other as predecessors in a circle', () => {
    const run = [
      place(1, { follows: 2 }),
      place(2, { follows: 3 }),
      place(3, { follows: 1 }),
      place(4, { follows: 4 }),
    ];
    expect(idsOf(orderRun(run)).sort()).toEqual([1, 2, 3, 4]);
  });

  it('puts records without a stamp before those of later versions', () => {
    const old = place(9, { started_at: new Date(AT - 1).toISOString() });
    expect(idsOf(orderRun([place(1, { arrival: STAMP }), old]))).toEqual([9, 1]);
  });

  it('is found within a window of exchanges, even if some were stored a little late', () => {
    const sent = Array.from({ length: 100 }, (_, at) => place(at ^ 3, { arrival: STAMP + at }));
    const stored = [...sent].sort((a, b) => a.id - b.id);
    expect(idsOf(inRunOrder(stored, 16))).toEqual(idsOf(sent));
  });

  it('says which of two exchanges comes later', () => {
    expect(standsBehind(place(1, { seq: 2 }), place(2, { seq: 1 }))).toBe(true);
    expect(standsBehind(place(3, { arrival: STAMP }), place(2, { arrival: STAMP + 1 }))).toBe(false);
    expect(standsBehind(place(3, { seq: 4, arrival: STAMP + 1 }), place(2, { seq: 4, arrival: STAMP }))).toBe(
      true,
    );
  });
});
