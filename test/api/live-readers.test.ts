/**
 * The readers of the live stream on real hubs, without sockets: a reader gets each event of its scope once and in
 * order, or a reset, even if messages between hub and server thread are lost.
 */

import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { liveHub } from '../../actors/live-hub/behaviour.ts';
import { LiveHubClient, LiveHubReader, type LiveSource } from '../../actors/live-hub/client.ts';
import { LIVE_HUB_KIND } from '../../actors/live-hub/protocol.ts';
import { LiveReaders, type LiveReadersOptions, type MayStay } from '../../src/api/live-readers.ts';
import { Revocations } from '../../src/auth/revocations.ts';
import type { EventSink } from '../../src/contract/handler.ts';
import type { LiveEvent } from '../../src/domain/live-event.ts';
import { MONITOR_NAMES, type MonitorScores } from '../../src/domain/monitors/names.ts';
import { KitAsker } from '../fixtures/kit-asker.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

/** An event as a browser parses it from the bytes. */
interface Received {
  id: number | null;
  event: string;
  data: Record<string, unknown>;
}

class TestSink implements EventSink {
  text = '';
  is_open = true;
  buffered_bytes = 0;
  onGone: () => void = () => {};

  write(bytes: Uint8Array): boolean {
    if (!this.is_open) return false;
    this.text += Buffer.from(bytes).toString();
    return true;
  }

  whenDrained(listener: () => void): void {
    queueMicrotask(listener);
  }

  abort(): void {
    this.close();
  }

  close(): void {
    this.leave();
  }

  leave(): void {
    if (!this.is_open) return;
    this.is_open = false;
    this.onGone();
  }

  get events(): Received[] {
    return this.text
      .split('\n\n')
      .map((block) => Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s))))
      .filter((fields) => fields.data !== undefined)
      .map(({ id, event, data }) => ({
        id: id === undefined ? null : Number(id),
        event: event as string,
        data: JSON.parse(data as string) as Record<string, unknown>,
      }));
  }

  get runs(): unknown[] {
    return this.events.map(({ event, data }) => (event === 'reset' ? 'reset' : data.run_id));
  }
}

function setUp(options: Partial<LiveReadersOptions> = {}) {
  const asker = new KitAsker([liveHub]);
  const client = new LiveHubClient(asker);
  const revocations = new Revocations(Revocations.allocate());
  const hub = new LiveHubReader(asker);
  const readers = new LiveReaders(hub, revocations, { ask_again_ms: 1, ...options });
  const open = (
    org_id: string,
    project_id: string | null = null,
    afterId: number | null = null,
    mayStay: MayStay | null = null,
  ) => {
    const sink = new TestSink();
    const gone = readers.stream({ org_id, project_id }, afterId, mayStay).open(sink);
    sink.onGone = gone;
    if (!sink.is_open) gone();
    return sink;
  };
  return { asker, client, revocations, readers, open };
}

const step = (org_id: string, run_id: string, project_id: string | null = 'p'): LiveEvent => ({
  event: 'step',
  org_id,
  project_id,
  run_id,
  at: '2026-01-01T00:00:00.000Z',
  step_index: 0,
  action: 'bash',
  is_error: false,
  tokens: 1,
  scores: Object.fromEntries(MONITOR_NAMES.map((name) => [name, 0])) as MonitorScores,
  total_score: 0,
  max_score: 0,
  alarm: false,
  fired: [],
});

const until = (check: () => void) => vi.waitFor(check, { timeout: PATIENCE_MS, interval: 2 });
const opened = (sink: TestSink) => until(() => expect(sink.text).toContain('retry: '));

describe('readers of the live stream', () => {
  it('receive the events after the start of their stream, with a cursor to resume', async () => {
    const { client, open } = setUp();
    client.publish(step('a', 'before'));
    const sink = open('a');
    await opened(sink);
    expect(sink.text).toBe('retry: 3000\nid: 1\n\n');
    client.publish(step('a', 'after'));
    await until(() => expect(sink.runs).toEqual(['after']));
    expect(sink.events[0]).toMatchObject({
      id: 2,
      event: 'step',
      data: { run_id: 'after', org_id: 'a', project_id: 'p', at: '2026-01-01T00:00:00.000Z', step_index: 0 },
    });
  });

  it('resume from their cursor, page by page, or get a reset if events are missing', async () => {
    const { asker, client, open } = setUp({ page_events: 7 });
    const runs = Array.from({ length: 50 }, (_, at) => `r${at + 1}`);
    for (const run of runs) client.publish(step('a', run));
    const sink = open('a', null, 20);
    await until(() => expect(sink.runs).toEqual(runs.slice(20)));
    const lost = open('a', null, 1_000);
    await until(() => expect(lost.runs).toEqual(['reset', ...runs]));
    asker.restart({ kind: LIVE_HUB_KIND, key: 'a' });
    const back = open('a', null, 50);
    await until(() => expect(back.runs).toEqual(['reset']));
    const [reset] = back.events;
    client.publish(step('a', 'new'));
    await until(() => expect(back.runs).toEqual(['reset', 'new']));
    expect(back.events[1]!.id).toBeGreaterThan(50);
    // A reader can resume from the reset.
    const again = open('a', null, reset!.id);
    await until(() => expect(again.runs).toEqual(['new']));
    // Readers that stayed connected may have missed events in between, so they get a reset as well.
    await until(() => expect(sink.runs.slice(-2)).toEqual(['reset', 'new']));
  });

  it('receive only events of their organization, and only those of their project if they name one', async () => {
    const { client, open } = setUp();
    const scopes = [
      ['a', null],
      ['a', 'p'],
      ['a', 'q'],
      ['b', null],
      ['b', 'p'],
    ] as const;
    const sinks = scopes.map(([org, project]) => open(org, project));
    const replayed = scopes.map(([org, project]) => open(org, project, 0));
    for (const sink of sinks) await opened(sink);
    for (const [org, project] of [
      ['a', 'p'],
      ['b', 'p'],
      ['a', 'q'],
      ['a', null],
      ['b', null],
    ] as const) {
      client.publish(step(org, `${org}-${project}`, project));
    }
    const expected = [['a-p', 'a-q', 'a-null'], ['a-p'], ['a-q'], ['b-p', 'b-null'], ['b-p']];
    for (const set of [sinks, replayed]) {
      for (const [at, sink] of set.entries()) await until(() => expect(sink.runs).toEqual(expected[at]));
    }
  });

  it('miss nothing when publications are lost on the way', async () => {
    const { asker, client, open } = setUp({ page_events: 3 });
    const sinks = [open('a'), open('a', 'p'), open('a', 'q')];
    for (const sink of sinks) await opened(sink);
    client.publish(step('a', '1'));
    await until(() => expect(sinks[0]!.runs).toEqual(['1']));
    asker.isHeard = false;
    for (let i = 2; i <= 12; i++) client.publish(step('a', `${i}`, i % 2 === 0 ? 'p' : 'q'));
    await asker.ask({ kind: LIVE_HUB_KIND, key: 'a' }, 'replay', {
      after_id: null,
      project_id: null,
      limit: 1,
    });
    asker.isHeard = true;
    client.publish(step('a', '13', 'q'));
    const all = Array.from({ length: 13 }, (_, at) => `${at + 1}`);
    await until(() => expect(sinks[0]!.runs).toEqual(all));
    await until(() => expect(sinks[1]!.runs).toEqual(['1', '2', '4', '6', '8', '10', '12']));
    await until(() => expect(sinks[2]!.runs).toEqual(['3', '5', '7', '9', '11', '13']));
  });

  it('connect while the hub is down, and continue when it is back', async () => {
    const { asker, client, open } = setUp();
    client.publish(step('a', '1'));
    await asker.ask({ kind: LIVE_HUB_KIND, key: 'a' }, 'replay', {
      after_id: null,
      project_id: null,
      limit: 1,
    });
    asker.isUp = false;
    const sink = open('a', null, 0);
    await opened(sink);
    asker.isUp = true;
    await until(() => expect(sink.runs).toEqual(['1']));
    expect(sink.text.match(/retry: /g)).toHaveLength(1);
  });

  it('leave nothing behind when they disconnect at once or after their first page', async () => {
    const { asker, readers, open } = setUp();
    for (let round = 0; round < 3; round++) {
      const sinks = Array.from({ length: 2_000 }, (_, at) => open(`org-${at % 50}`, null, at % 3 ? null : 7));
      // Half of them disconnect at once, the others after their first page.
      for (const sink of sinks.slice(0, 1_000)) sink.leave();
      for (const sink of sinks.slice(1_000)) await opened(sink);
      for (const sink of sinks.slice(1_000)) sink.leave();
    }
    expect(readers.size).toBe(0);
    expect(readers.audiences).toBe(0);
    expect(asker.topics).toBe(0);
  });

  it('are refused beyond the bound, and disconnected when the service stops', async () => {
    const { readers, open } = setUp({ max_readers: 2 });
    const first = open('a');
    const promised = readers.stream({ org_id: 'a', project_id: null }, null);
    open('b');
    expect(() => open('c')).toThrowError(expect.objectContaining({ code: 'unavailable' }));
    const late = new TestSink();
    promised.open(late);
    expect(late.is_open).toBe(false);
    first.leave();
    const last = open('c');
    readers.close();
    expect(last.is_open).toBe(false);
    expect(readers.size).toBe(0);
    const closed = open('d');
    expect(closed.is_open).toBe(false);
    expect(readers.size).toBe(0);
  });

  it('are kept alive by comments that cannot be mistaken for events', async () => {
    const { open, readers } = setUp({ heartbeat_ms: 60 });
    const sinks = Array.from({ length: 120 }, () => open('a'));
    for (const sink of sinks) {
      await until(() => expect(sink.text.match(/^: $/gm)?.length).toBeGreaterThan(2));
      expect(sink.events).toEqual([]);
    }
    readers.close();
  });

  it('are disconnected when their credential is no longer valid', async () => {
    const { asker, readers } = setUp({ heartbeat_ms: 60 });
    let holds = true;
    const join = (mayStay: (() => Promise<boolean>) | null) => {
      const sink = new TestSink();
      sink.onGone = readers.stream({ org_id: 'a', project_id: null }, null, mayStay).open(sink);
      return sink;
    };
    const [held, free, revoked] = [join(async () => true), join(null), join(async () => holds)];
    await until(() => expect(revoked.text.match(/^: $/gm)?.length).toBeGreaterThan(4));
    expect(revoked.is_open).toBe(true);
    holds = false;
    await until(() => expect(revoked.is_open).toBe(false));
    expect([held.is_open, free.is_open]).toEqual([true, true]);
    expect(readers.size).toBe(2);
    readers.close();
    expect(asker.topics).toBe(0);
  });

  it('receive nothing after a revocation in their organization until their access is confirmed', async () => {
    const { client, revocations, open } = setUp();
    /** The unanswered checks of whether readers may stay. */
    const asked: PromiseWithResolvers<boolean>[] = [];
    const ask = () => {
      asked.push(Promise.withResolvers<boolean>());
      return asked.at(-1)!.promise;
    };
    const join = async (org_id: string) => {
      const sink = open(org_id, null, null, ask);
      await until(() => expect(asked).toHaveLength(1));
      asked.pop()!.resolve(true);
      await opened(sink);
      return sink;
    };
    const [first, second, other] = [await join('a'), await join('a'), await join('b')];
    const free = open('a');
    await opened(free);
    client.publish(step('a', '1'));
    await until(() => expect([first.runs, second.runs]).toEqual([['1'], ['1']]));
    expect(asked, 'nothing was revoked').toEqual([]);

    revocations.announce('a');
    client.publish(step('a', '2'));
    client.publish(step('b', 'b'));
    await until(() => expect([free.runs, other.runs]).toEqual([['1', '2'], ['b']]));
    await until(() => expect(asked).toHaveLength(2));
    expect([first.runs, second.runs]).toEqual([['1'], ['1']]);
    asked[0]!.resolve(true);
    asked[1]!.resolve(false);
    await until(() => expect([first.runs, second.is_open]).toEqual([['1', '2'], false]));
    expect(second.runs).toEqual(['1']);
    expect([first.is_open, other.is_open, free.is_open]).toEqual([true, true, true]);
  });

  it('receive every event of their scope once and in order, whatever happens in between', async () => {
    const action = fc.oneof(
      fc.record({ do: fc.constant('publish' as const), project: fc.constantFrom('p', 'q', null) }),
      fc.record({ do: fc.constant('join' as const), project: fc.constantFrom('p', 'q', null) }),
      fc.record({ do: fc.constant('lose' as const), project: fc.constant(null) }),
      fc.record({ do: fc.constant('revoke' as const), project: fc.constant(null) }),
      fc.record({ do: fc.constant('wait' as const), project: fc.constant(null) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), async (actions) => {
        const { asker, client, revocations, readers, open } = setUp({ page_events: 2 });
        const published: { id: string; project: string | null }[] = [];
        const joined: { sink: TestSink; project: string | null }[] = [];
        for (const { do: act, project } of actions) {
          if (act === 'publish') {
            published.push({ id: `${published.length + 1}`, project });
            client.publish(step('a', published.at(-1)!.id, project));
          } else if (act === 'join') {
            joined.push({ sink: open('a', project, 0, async () => true), project });
          } else if (act === 'lose') {
            asker.isHeard = !asker.isHeard;
          } else if (act === 'revoke') {
            revocations.announce('a');
          } else {
            await asker.ask({ kind: LIVE_HUB_KIND, key: 'a' }, 'replay', {
              after_id: null,
              project_id: null,
              limit: 1,
            });
          }
        }
        asker.isHeard = true;
        published.push({ id: 'last', project: 'p' });
        client.publish(step('a', 'last', 'p'));
        for (const { sink, project } of joined) {
          const expected = published.filter((entry) => project === null || entry.project === project);
          await until(() => expect(sink.runs).toEqual(expected.map(({ id }) => id)));
          const ids = sink.events.map(({ id }) => id!);
          expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
        }
        readers.close();
      }),
      { numRuns: 60 },
    );
  });
});

describe('a stream with an external source', () => {
  /** A source whose notices the test sends. */
  function setUpSource() {
    let tell: { publish(id: number): void; ahead(id: number): void } | null = null;
    const source: LiveSource = {
      subscribe(_orgId, onPublication, onAhead) {
        tell = {
          publish: (id) =>
            onPublication({
              id,
              previous_id: id - 1,
              name: 'step',
              project_id: null,
              run_id: null,
              at_ms: 1,
              data: `{"run_id":"r${id}"}`,
            }),
          ahead: onAhead,
        };
        return () => {};
      },
      replay: async (_orgId, { after_id }) => {
        asked.push(after_id);
        return { is_reset: false, events: [], last_id: Math.max(last_id, after_id ?? 0), more: false };
      },
    };
    const asked: (number | null)[] = [];
    let last_id = 4;
    const readers = new LiveReaders(source, new Revocations(Revocations.allocate()), { ask_again_ms: 1 });
    const sink = new TestSink();
    sink.onGone = readers.stream({ org_id: 'org_a', project_id: null }, 4, null).open(sink);
    return {
      sink,
      asked,
      tell: () => tell!,
      setLast: (id: number) => {
        last_id = id;
      },
    };
  }

  it('asks its source for events only if the source says that it is ahead', async () => {
    const { sink, asked, tell, setLast } = setUpSource();
    await vi.waitFor(() => expect(asked).toEqual([4]));
    await new Promise((resolve) => setImmediate(resolve));
    tell().publish(5);
    tell().ahead(5);
    expect(sink.runs).toEqual(['r5']);
    setLast(9);
    tell().ahead(9);
    await vi.waitFor(() => expect(asked).toEqual([4, 5]));
    expect(sink.is_open).toBe(true);
  });

  it('ends for its readers when the source numbers events from a lower id again', async () => {
    const { sink, asked, tell } = setUpSource();
    await vi.waitFor(() => expect(asked).toEqual([4]));
    await new Promise((resolve) => setImmediate(resolve));
    tell().ahead(2);
    expect(sink.is_open).toBe(false);
  });
});
