/** The live hub of a box that shares its stream: what it forwards, in which order, and what it reports after a loss. */
import { describe, expect, it } from 'vitest';
import { liveEventTell, liveForgetTell } from '../../actors/live-hub/client.ts';
import { sharedLiveHub } from '../../actors/live-hub/shared-behaviour.ts';
import { ActorKit, type EffectOf } from '../../src/runtime/kit.ts';
import type { LiveBatch } from '../../src/storage/shared/live.ts';

const openHub = () => new ActorKit(sharedLiveHub, { key: 'org_a' });

function publish(kit: ActorKit, run_id: string, project_id: string | null = 'p'): void {
  const event = {
    event: 'run_start',
    org_id: 'org_a',
    project_id,
    run_id,
    at: '2026-01-01T00:00:00.000Z',
    agent_name: '',
    model: '',
    framework: '',
    task_profile: '',
  } as const;
  kit.tell('publish', liveEventTell(event).payload);
}

const forget = (kit: ActorKit, fields: Parameters<typeof liveForgetTell>[1]) =>
  kit.tell('forget', liveForgetTell('org_a', fields).payload);

type Send = EffectOf<'io'>;

/** Takes the batches that the hub has sent to the store thread. */
function takeSends(kit: ActorKit): Send[] {
  const sends = kit.takeEffectsOf('io');
  for (const { adapter, operation } of sends) expect([adapter, operation]).toEqual(['live-outbox', 'send']);
  return sends;
}

const batchOf = ({ input }: Send) => input as LiveBatch;
const runsOf = (send: Send) => batchOf(send).events.map(({ run_id }) => run_id);
const AWAY = { code: 'unavailable', message: 'the database is away', retryable: true };

describe('the hub of a box that shares its stream', () => {
  it('sends one batch at a time, with all events since the previous one', () => {
    const kit = openHub();
    publish(kit, 'a');
    const [first] = takeSends(kit);
    expect(batchOf(first!)).toMatchObject({ org_id: 'org_a', has_lost: false, forgets: [] });
    expect(batchOf(first!).events[0]).toMatchObject({ name: 'run_start', project_id: 'p', run_id: 'a' });
    for (const run of ['b', 'c']) publish(kit, run);
    expect(takeSends(kit)).toEqual([]);
    kit.finish(first!, null);
    const [second] = takeSends(kit);
    expect(runsOf(second!)).toEqual(['b', 'c']);
    kit.finish(second!, null);
    expect(takeSends(kit)).toEqual([]);
  });

  it('sends many events in several batches', () => {
    const kit = openHub();
    const runs = Array.from({ length: 1_201 }, (_, at) => `r${at}`);
    for (const run of runs) publish(kit, run);
    const sent: (string | null)[][] = [];
    for (let [send] = takeSends(kit); send !== undefined; [send] = takeSends(kit)) {
      sent.push(runsOf(send));
      kit.finish(send, null);
    }
    expect(sent.map(({ length }) => length)).toEqual([1, 500, 500, 200]);
    expect(sent.flat()).toEqual(runs);
  });

  it('forgets waiting events, and asks the database to forget stored ones', () => {
    const kit = openHub();
    publish(kit, 'first');
    const [first] = takeSends(kit);
    for (const [run, project] of [
      ['a', 'p'],
      ['b', 'q'],
      ['a', 'p'],
      ['c', 'p'],
    ] as const)
      publish(kit, run, project);
    forget(kit, { run_id: 'a' });
    forget(kit, { project_id: 'q' });
    publish(kit, 'a');
    kit.finish(first!, null);
    const [second] = takeSends(kit);
    expect(runsOf(second!)).toEqual(['c', 'a']);
    expect(batchOf(second!).forgets).toEqual([
      { run_id: 'a', project_id: null, before_ms: 0 },
      { run_id: null, project_id: 'q', before_ms: 0 },
    ]);
  });

  it('after a failure tries again, reports lost events, and still forgets deleted ones', () => {
    const kit = openHub();
    forget(kit, { run_id: 'gone' });
    const [first] = takeSends(kit);
    publish(kit, 'a');
    kit.fail(first!, AWAY);
    forget(kit, { before_ms: 7 });
    expect(takeSends(kit)).toEqual([]);
    kit.advance(1_000);
    const [again] = takeSends(kit);
    expect(batchOf(again!)).toMatchObject({
      has_lost: true,
      forgets: [
        { run_id: 'gone', before_ms: 0 },
        { run_id: null, before_ms: 7 },
      ],
    });
    expect(runsOf(again!)).toEqual(['a']);
    kit.finish(again!, null);
    publish(kit, 'b');
    expect(takeSends(kit).map(batchOf)).toMatchObject([{ has_lost: false, forgets: [] }]);
  });

  it('drops the waiting events beyond its bounds, and reports it', () => {
    const kit = openHub();
    publish(kit, 'first');
    const [first] = takeSends(kit);
    for (let at = 0; at < 10_001; at++) publish(kit, `r${at}`);
    for (let at = 0; at < 1_001; at++) forget(kit, { run_id: `gone${at}` });
    kit.finish(first!, null);
    expect(takeSends(kit).map(batchOf)).toEqual([
      {
        org_id: 'org_a',
        has_lost: true,
        forgets: [{ run_id: null, project_id: null, before_ms: 0 }],
        events: [],
      },
    ]);
  });
});
