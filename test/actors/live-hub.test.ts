/** The live hub: its numbers continue, its ring forgets old events, and a reader that returns gets the right events. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LIVE_RING_EVENTS, liveHub, liveHubOf, silentLiveHub } from '../../actors/live-hub/behaviour.ts';
import { liveEventTell, liveForgetTell } from '../../actors/live-hub/client.ts';
import type { LivePublication, NumberedEvent, ReplayReply } from '../../actors/live-hub/protocol.ts';
import { EventRing } from '../../actors/live-hub/ring.ts';
import type { LiveEvent } from '../../src/domain/live-event.ts';
import { ActorKit } from '../../src/runtime/kit.ts';

const event = (run_id: string, project_id: string | null = 'p'): LiveEvent => ({
  event: 'run_finish',
  org_id: 'org_a',
  project_id,
  run_id,
  at: '2026-01-01T00:00:00.000Z',
  outcome: 'success',
  steps: 1,
  tokens: 2,
  duration_ms: 3,
  max_total_score: 0.5,
  fired: {},
});

function replay(kit: ActorKit, after_id: number | null, project_id: string | null = null, limit = 20_000) {
  const answer = kit.ask('replay', { after_id, project_id, limit });
  if (answer.type !== 'reply') throw new Error(answer.type);
  return answer.value as ReplayReply;
}

function publish(kit: ActorKit, run_id: string, project_id: string | null = 'p'): LivePublication {
  kit.tell('publish', liveEventTell(event(run_id, project_id)).payload);
  const [effect] = kit.takeEffectsOf('publish');
  expect(effect!.topic).toBe('live:org_a');
  return effect!.payload as LivePublication;
}

const openHub = () => new ActorKit(liveHub, { key: 'org_a' });

describe('a live hub', () => {
  it('numbers events consecutively, tells the number of each predecessor, and remembers them', () => {
    const kit = openHub();
    const published = ['a', 'b', 'c'].map((run) => publish(kit, run));
    expect(published.map(({ id, previous_id }) => [id, previous_id])).toEqual([
      [1, 0],
      [2, 1],
      [3, 2],
    ]);
    expect(JSON.parse(published[1]!.data)).toMatchObject({ run_id: 'b', org_id: 'org_a', project_id: 'p' });
    expect(replay(kit, 1)).toMatchObject({
      is_reset: false,
      last_id: 3,
      more: false,
      events: [{ id: 2 }, { id: 3 }],
    });
    expect(replay(kit, null)).toEqual({ is_reset: false, events: [], last_id: 3, more: false });
  });

  it('writes once for thousands of events, and continues above every published number', () => {
    const kit = openHub();
    let last = 0;
    for (let i = 0; i < 9_000; i++) last = publish(kit, 'r').id;
    expect(last).toBe(9_000);
    expect(kit.eventCount).toBe(1);
    kit.restart();
    const after = publish(kit, 'after');
    expect(after.id).toBeGreaterThan(last);
    expect(replay(kit, last)).toMatchObject({
      is_reset: true,
      events: [{ id: after.id }],
      last_id: after.id,
    });
    for (let i = 0; i < 25_000; i++) {
      const { id, previous_id } = publish(kit, 'r');
      expect(id).toBe(previous_id + 1);
    }
    expect(kit.eventCount).toBeLessThan(6);
  });

  it('sends a reset for a position that it never gave, such as a later id or a negative one', () => {
    const kit = openHub();
    expect(replay(kit, 0)).toMatchObject({ is_reset: false, events: [], last_id: 0 });
    expect(replay(kit, 5)).toMatchObject({ is_reset: true, last_id: 0 });
    publish(kit, 'a');
    expect(replay(kit, 0)).toMatchObject({ is_reset: false, events: [{ id: 1 }] });
    expect(replay(kit, 2)).toMatchObject({ is_reset: true, events: [{ id: 1 }] });
    expect(replay(kit, -1)).toMatchObject({ is_reset: true, events: [{ id: 1 }] });
  });

  it('keeps the last ten thousand', () => {
    const kit = openHub();
    for (let i = 0; i < LIVE_RING_EVENTS + 5; i++) publish(kit, 'r');
    expect(replay(kit, 5)).toMatchObject({ is_reset: false });
    expect(replay(kit, 5).events).toHaveLength(LIVE_RING_EVENTS);
    expect(replay(kit, 4)).toMatchObject({ is_reset: true });
  });

  it('shows a project only its own events, and skips the others', () => {
    const kit = openHub();
    for (const project of ['p', 'q', null, 'q', 'p']) publish(kit, 'r', project);
    expect(replay(kit, 0, 'q')).toMatchObject({ events: [{ id: 2 }, { id: 4 }], last_id: 5, more: false });
    expect(replay(kit, 0, 'q', 1)).toMatchObject({ events: [{ id: 2 }], last_id: 2, more: true });
    expect(replay(kit, 4, 'q')).toMatchObject({ events: [], last_id: 5, more: false });
  });
});

describe('a silent hub', () => {
  it('stores, writes and publishes nothing', () => {
    const kit = new ActorKit(silentLiveHub, { key: 'org_a' });
    for (let i = 0; i < 100; i++) kit.tell('publish', liveEventTell(event('r')).payload);
    expect(kit.takeEffects()).toEqual([]);
    expect(kit.eventCount).toBe(0);
    expect(replay(kit, 0)).toEqual({ is_reset: false, events: [], last_id: 0, more: false });
  });
});

describe('events to be forgotten', () => {
  it('are those of a deleted run; all others are kept, and no reader is reset', () => {
    const kit = openHub();
    for (const run of ['a', 'b', 'a', 'c']) publish(kit, run);
    const { to, name, payload } = liveForgetTell('org_a', { run_id: 'a' });
    expect(to.key).toBe('org_a');
    kit.tell(name, payload);
    expect(replay(kit, 0)).toMatchObject({ is_reset: false, last_id: 4, events: [{ id: 2 }, { id: 4 }] });
    expect(publish(kit, 'd')).toMatchObject({ id: 5, previous_id: 4 });
    expect(replay(kit, 3).events.map(({ id }) => id)).toEqual([4, 5]);
  });

  it('are those older than the retention', () => {
    const day = 86_400_000;
    const start = Date.parse('2026-01-01T00:00:00.000Z');
    const kit = new ActorKit(liveHubOf(day), { key: 'org_a', now_ms: start });
    publish(kit, 'a');
    kit.setWallClock(start + day);
    expect(replay(kit, 0).events).toHaveLength(1);
    kit.setWallClock(start + day + 1);
    expect(replay(kit, 0)).toMatchObject({ is_reset: true, events: [], last_id: 1 });
  });
});

describe('the ring of events', () => {
  it('behaves like a plain list, under any additions and reads', () => {
    const step = fc.record({
      gap: fc.integer({ min: 1, max: 5 }),
      project_id: fc.constantFrom('p', 'q', null),
      bytes: fc.integer({ min: 0, max: 400 }),
    });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 120 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 0, max: 50 }),
        fc.array(
          fc.record({ after: fc.integer({ min: -1, max: 400 }), limit: fc.integer({ min: 1, max: 9 }) }),
        ),
        (steps, capacity, base, reads) => {
          const maxBytes = 4_000;
          const ring = new EventRing(capacity, maxBytes);
          ring.beginAfter(base);
          const model: NumberedEvent[] = [];
          let id = base;
          let lost = base;
          for (const { gap, project_id, bytes } of steps) {
            id += gap;
            const data = 'x'.repeat(bytes);
            const next: NumberedEvent = { id, name: 'step', project_id, run_id: null, at_ms: 0, data };
            ring.push(next);
            model.push(next);
            const size = () => model.reduce((sum, { data }) => sum + data.length + 100, 0);
            while (model.length > capacity || (size() > maxBytes && model.length > 1))
              lost = model.shift()!.id;
          }
          expect(ring.size).toBe(model.length);
          for (const { after, limit } of reads) {
            const isReset = after < lost || after > id;
            const wanted = model.filter((entry) => isReset || entry.id > after);
            // The pages together contain each event once.
            const seen: number[] = [];
            let cursor = after;
            for (let page = ring.read(cursor, null, limit); ; page = ring.read(cursor, null, limit)) {
              expect(page.is_reset).toBe(cursor < lost || cursor > id);
              expect(page.events.length).toBeLessThanOrEqual(limit);
              seen.push(...page.events.map((entry) => entry.id));
              cursor = page.last_id;
              if (!page.more) break;
            }
            expect(seen).toEqual(wanted.map((entry) => entry.id));
            expect(cursor).toBe(id);
          }
        },
      ),
    );
  });
});
