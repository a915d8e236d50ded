/** On which host a movable actor runs: on the first host that has a message for it, until that host has released it. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { allocateClaims, Claims } from '../../src/runtime/claims.ts';
import { Placer } from '../../src/runtime/placer.ts';
import { type Placement, placeAddress } from '../../src/runtime/protocol.ts';

const RUN = { kind: 'run', key: 'org\nrun-1' };
const HUB = { kind: 'hub', key: 'org' };

/** Two actor threads, three server threads. */
function makePlacement(): Placement {
  const servers = { hosts: 3, kinds: ['run', 'hub'] };
  return { hosts: 2, pins: {}, servers, moving: allocateClaims(['run']) };
}

describe('an actor that moves', () => {
  it('runs on the first thread that asks, even if other threads ask later', () => {
    for (const own of [2, 3, 4]) {
      const placement = makePlacement();
      const sender = new Placer(placement, own);
      expect(sender.enter(RUN)).toBe(own);
      for (const other of [-1, 0, 2, 3, 4]) expect(new Placer(placement, other).enter(RUN)).toBe(own);
      expect(placeAddress(placement, RUN)).toBe(own);
    }
  });

  it('runs on the thread that its hash selects, if the asking thread cannot have it', () => {
    const placement = makePlacement();
    const { moving: _, ...still } = placement;
    const expected = placeAddress(still, RUN);
    expect(placeAddress(placement, RUN)).toBe(expected);
    expect(new Placer(placement, 0).enter(RUN)).toBe(expected);
    expect(expected).toBeGreaterThanOrEqual(2);
  });

  it('does not move while a message is in transit to it', () => {
    const placement = makePlacement();
    const [own, other] = [new Placer(placement, 2), new Placer(placement, 3)];
    own.enter(RUN);
    own.enter(RUN); // A message within the thread is never in transit.
    const slot = own.slotOf(RUN);
    expect(other.enter(RUN)).toBe(2);
    expect(other.enter(RUN)).toBe(2);
    expect(own.release(slot, 2)).toBe(false);
    own.arrived(RUN);
    expect(own.release(slot, 2)).toBe(false);
    other.unsent(RUN, 2);
    expect(own.release(slot, 2)).toBe(true);
    expect(other.enter(RUN)).toBe(3);
    expect(own.release(slot, 2)).toBe(false);
  });

  it('does not affect on which threads actors of other kinds run', () => {
    const placement = makePlacement();
    const { moving: _, ...still } = placement;
    for (const own of [-1, 2, 3, 4])
      expect(new Placer(placement, own).enter(HUB)).toBe(placeAddress(still, HUB));
  });

  it('has one owner at a time, even if messages are lost and slots are released', () => {
    const act = fc.record({
      sender: fc.integer({ min: -1, max: 3 }),
      what: fc.constantFrom('send', 'arrive', 'release'),
    });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
        const claims = new Claims(allocateClaims(['run']));
        let [owner, under_way] = [-1, 0];
        for (const { sender, what } of acts) {
          if (what === 'send') {
            const heir = sender < 0 ? 1 : sender;
            const found = claims.enter(7, sender, heir);
            expect(found).toBe(owner < 0 ? heir : owner);
            owner = found;
            if (found !== sender) under_way++;
          } else if (what === 'arrive' && under_way > 0) {
            claims.leave(7);
            under_way--;
          } else if (what === 'release' && sender >= 0) {
            const isFree = owner === sender && under_way === 0;
            expect(claims.release(7, sender)).toBe(isFree);
            if (isFree) owner = -1;
          }
          expect(claims.ownerOf(7)).toBe(owner < 0 ? null : owner);
          expect(claims.ownerOf(8)).toBeNull();
        }
      }),
    );
  });
});
