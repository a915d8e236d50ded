/** The usage meter's decisions without threads, and the storing and reading of its counters. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { USAGE_ONCE_NAMES, usageMeter } from '../../actors/usage-meter/behaviour.ts';
import type { InterveneReply } from '../../actors/usage-meter/protocol.ts';
import { ActorKit } from '../../src/runtime/kit.ts';
import type { RowWrite } from '../../src/runtime/protocol.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { readUsage, sumUsage } from '../fixtures/usage-days.ts';

const NOON = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;

function createMeter(now_ms = NOON) {
  const kit = new ActorKit(usageMeter, { key: 'org_1', now_ms });
  const tables = new MemoryTables();
  const settle = async () => {
    const rows = kit.takeEffectsOf('persist').flatMap((effect) => effect.rows as RowWrite[]);
    await tables.transact((transaction) => {
      for (const row of rows) transaction.write(row);
    });
  };
  const intervene = (cap: number | null, project_id = 'web') => {
    const answer = kit.ask('intervene', { project_id, cap, patterns: 2 });
    if (answer.type !== 'reply') throw new Error(`answered with ${answer.type}`);
    return answer.value as InterveneReply;
  };
  return { kit, tables, settle, intervene };
}

describe('the usage meter', () => {
  it('allows exactly as many interventions as the cap says, and counts every call', async () => {
    const { tables, settle, intervene } = createMeter();
    const allowed = Array.from({ length: 6 }, () => intervene(4));
    expect(allowed.map((reply) => reply.allowed)).toEqual([true, true, true, true, false, false]);
    expect(allowed.map((reply) => reply.used)).toEqual([1, 2, 3, 4, 4, 4]);
    await settle();
    const [day] = readUsage([tables], 'org_1', '2026-11-21', '2026-11-21');
    expect(day).toMatchObject({
      date: '2026-11-21',
      counts: { retrievals: 6, injections_retrieve: 4, evaluations: 0 },
    });
  });

  it('allows no intervention at a cap of 0, and any number without a cap', () => {
    expect(createMeter().intervene(0)).toEqual({ allowed: false, used: 0 });
    const { intervene } = createMeter();
    for (let n = 1; n <= 10; n++) expect(intervene(null)).toEqual({ allowed: true, used: n });
  });

  it('counts evaluations towards the cap, but never refuses them', () => {
    const { kit, intervene } = createMeter();
    const counts = { evaluations: 1, injections_evaluate: 1 };
    for (let n = 1; n <= 3; n++)
      expect(kit.ask('count', { project_id: 'web', counts })).toEqual({
        type: 'reply',
        value: { used: n, is_repeat: false },
      });
    expect(intervene(3)).toEqual({ allowed: false, used: 3 });
    const four = { type: 'reply', value: { used: 4, is_repeat: false } };
    expect(kit.ask('count', { project_id: 'web', counts })).toEqual(four);
    expect(kit.ask('count', { project_id: 'web', counts: { retrievals: 1 } })).toEqual(four);
  });

  it('counts an intervention once while its name is among the latest, and counts each of its calls', async () => {
    const { kit, tables, settle } = createMeter();
    const counts = { evaluations: 1, injections_evaluate: 1 };
    const count = (once: string) => kit.ask('count', { project_id: 'web', counts, once });
    expect(count('first')).toEqual({ type: 'reply', value: { used: 1, is_repeat: false } });
    expect(count('first')).toEqual({ type: 'reply', value: { used: 1, is_repeat: true } });
    for (let n = 0; n < USAGE_ONCE_NAMES; n++) count(`next ${n}`);
    // So many other names followed that this one is forgotten.
    const used = USAGE_ONCE_NAMES + 2;
    expect(count('first')).toEqual({ type: 'reply', value: { used, is_repeat: false } });
    await settle();
    const [day] = readUsage([tables], 'org_1', '2026-11-21', '2026-11-21');
    expect(day).toMatchObject({ counts: { evaluations: used + 1, injections_evaluate: used } });
  });

  it('restarts at 0 with a UTC month, to the millisecond', () => {
    const { kit, intervene } = createMeter(Date.parse('2026-11-30T23:59:59.998Z'));
    expect(intervene(1)).toEqual({ allowed: true, used: 1 });
    kit.advance(1);
    expect(intervene(1)).toEqual({ allowed: false, used: 1 });
    kit.advance(1);
    expect(kit.ask('used', null)).toEqual({ type: 'reply', value: { used: 0 } });
    expect(intervene(1)).toEqual({ allowed: true, used: 1 });
    kit.setWallClock(Date.parse('2027-01-01T00:00:00Z'));
    expect(intervene(1)).toEqual({ allowed: true, used: 1 });
  });

  it('gives nothing back when the clock jumps to the previous month', () => {
    const { kit, intervene } = createMeter(Date.parse('2026-12-01T00:00:01Z'));
    expect(intervene(1).allowed).toBe(true);
    kit.setWallClock(Date.parse('2026-11-30T23:59:59Z'));
    expect(intervene(1).allowed).toBe(false);
    kit.setWallClock(Date.parse('2026-12-01T00:00:02Z'));
    expect(intervene(1).allowed).toBe(false);
  });

  it('continues in the present month after the clock was months ahead for a moment', () => {
    const { kit, intervene } = createMeter();
    for (let n = 1; n <= 3; n++) expect(intervene(4)).toEqual({ allowed: true, used: n });
    kit.setWallClock(Date.parse('2031-05-05T00:00:00Z'));
    expect(intervene(4)).toEqual({ allowed: true, used: 1 });
    kit.setWallClock(NOON + 1_000);
    kit.restart();
    expect(kit.ask('used', null)).toEqual({ type: 'reply', value: { used: 3 } });
    expect(intervene(4)).toEqual({ allowed: true, used: 4 });
    expect(intervene(4)).toEqual({ allowed: false, used: 4 });
    kit.setWallClock(Date.parse('2026-12-01T00:00:00Z'));
    expect(intervene(4)).toEqual({ allowed: true, used: 1 });
  });

  it('stores in its snapshot what evaluations have returned', () => {
    const { kit } = createMeter();
    const evaluate = (calls: number) => {
      const prefixes = Array.from({ length: calls }, (_, at) => `prefix ${at}`);
      const pending = calls < 3 ? null : { level: 1 as const, began: 3 };
      const steps = { prefixes, windows: null, window: null, pending };
      return kit.ask('evaluate', { project_id: 'web', steps });
    };
    const told = { type: 'reply', value: { due: true, is_repeat: false } };
    expect([evaluate(2), evaluate(3)]).toEqual([
      { type: 'reply', value: { due: false, is_repeat: false } },
      told,
    ]);
    const { encode, decode, version } = usageMeter.persistence!.snapshot!;
    const stored = JSON.parse(JSON.stringify(encode(kit.state as never))) as unknown;
    expect(decode(stored, version)).toEqual(kit.state);
    expect([evaluate(4), evaluate(3)]).toEqual([
      { type: 'reply', value: { due: false, is_repeat: false } },
      { type: 'reply', value: { due: true, is_repeat: true } },
    ]);
  });

  it('reads a snapshot without a previous month', () => {
    const { snapshot, apply } = usageMeter.persistence!;
    const meter = snapshot.decode({ month: '2026-11', used: 7 }, 1);
    expect(meter).toEqual({ month: '2026-11', used: 7, before: null, names: [], evaluated: [] });
    const counted = { at_ms: NOON, project_id: 'web', counts: { injections_retrieve: 1 } };
    expect(apply(meter, counted)).toMatchObject({ month: '2026-11', used: 8 });
  });

  it('applies a changed cap at once', () => {
    const { intervene } = createMeter();
    intervene(1);
    expect(intervene(1).allowed).toBe(false);
    expect(intervene(2).allowed).toBe(true);
    expect(intervene(1).allowed).toBe(false);
  });

  it('persists, replies and counts at an intervention, and does nothing else', () => {
    const { kit } = createMeter();
    kit.ask('intervene', { project_id: 'web', cap: 0, patterns: 2 });
    const kinds = kit.takeEffects().map(({ type }) => type);
    expect(kinds).toEqual(['persist', 'reply', 'count']);
  });

  it('serves exactly the interventions that it counts, through restarts and many days', async () => {
    const step = fc.oneof(
      fc.record({
        op: fc.constant('intervene' as const),
        by: fc.nat(4),
        project: fc.constantFrom('web', 'app'),
      }),
      fc.record({ op: fc.constant('count' as const), by: fc.nat(4), project: fc.constantFrom('web', 'app') }),
      fc.record({ op: fc.constant('advance' as const), by: fc.nat(20 * DAY_MS), project: fc.constant('') }),
      fc.record({ op: fc.constant('restart' as const), by: fc.nat(1), project: fc.constant('') }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const { kit, tables, settle, intervene } = createMeter();
        let served = 0;
        let counted = 0;
        const byMonth = new Map<string, number>();
        for (const { op, by, project } of steps) {
          const month = new Date(kit.now_ms).toISOString().slice(0, 7);
          const used = byMonth.get(month) ?? 0;
          if (op === 'intervene') {
            const { allowed } = intervene(by, project);
            expect(allowed).toBe(used < by);
            if (allowed) {
              served++;
              byMonth.set(month, used + 1);
            }
          } else if (op === 'count') {
            kit.ask('count', { project_id: project, counts: { evaluations: 1, injections_evaluate: by } });
            counted += by;
            byMonth.set(month, used + by);
          } else if (op === 'advance') kit.advance(by);
          else kit.restart();
        }
        await settle();
        const days = readUsage([tables], 'org_1', '2026-11-21', '2032-01-01');
        expect(sumUsage(days)).toMatchObject({ injections_retrieve: served, injections_evaluate: counted });
        for (const [month, used] of byMonth) {
          const { injections_retrieve, injections_evaluate } = sumUsage(
            days.filter(({ date }) => date.startsWith(month)),
          );
          expect(injections_retrieve + injections_evaluate).toBe(used);
        }
      }),
      { seed: 3, numRuns: 100 },
    );
  });
});

describe('reading usage', () => {
  it('sums projects and databases, day by day, for one organization', async () => {
    const [main, runs] = [new MemoryTables(), new MemoryTables()];
    const add = (tables: MemoryTables, row: string[], counts: Record<string, number>) =>
      tables.transact((transaction) => transaction.write({ op: 'add', table: 'usage', row, counts }));
    await add(runs, ['org_1', '2026-11-19', 'web'], { steps: 100 });
    await add(runs, ['org_1', '2026-11-20', 'web'], { steps: 5, tokens: 7 });
    await add(runs, ['org_1', '2026-11-20', 'app'], { steps: 2 });
    await add(main, ['org_1', '2026-11-20', 'web'], { traces: 3 });
    await add(runs, ['org_1', '2026-11-22', 'web'], { runs: 1 });
    await add(runs, ['org_1', '2026-11-23', 'web'], { runs: 50 });
    await add(runs, ['org_10', '2026-11-20', 'web'], { steps: 1_000 });
    const days = readUsage([main, runs], 'org_1', '2026-11-20', '2026-11-22');
    expect(days.map(({ date }) => date)).toEqual(['2026-11-20', '2026-11-22']);
    expect(days[0]!.counts).toMatchObject({ steps: 7, tokens: 7, traces: 3, runs: 0 });
    expect(sumUsage(days)).toMatchObject({ steps: 7, runs: 1 });
    expect(readUsage([main, runs], 'org_1', '2026-11-20', '2026-11-22', 'app')).toMatchObject([
      { date: '2026-11-20', counts: { steps: 2, traces: 0 } },
    ]);
    expect(readUsage([main, runs], 'org_2', '2026-01-01', '2026-12-31')).toEqual([]);
  });
});
