/**
 * The watch over a student: which steps are audited, when a kind or an agent is suspended, and when a suspension ends.
 */
import { describe, expect, it } from 'vitest';
import { createPrng } from '../../../src/std/prng.ts';
import { DRIFT, DriftWatch } from '../../../src/student/model/drift-watch.ts';

const TERMS = { version: 1, made_at_ms: 1_000, promise: 0.05, valid_until_ms: null };
const make = (share = 0.05, at = 5_000) => {
  const prng = createPrng(7);
  return new DriftWatch(
    TERMS,
    share,
    () => prng.float(),
    () => at,
  );
};
const kindOf = (watch: DriftWatch, kind: string) =>
  watch.report().flatMap((agent) => agent.kinds.filter((entry) => entry.kind === kind))[0];
const shareAudited = (watch: DriftWatch, kind: string) => {
  let audited = 0;
  for (let at = 0; at < 4_000; at++) if (watch.judge('a', kind) === 'audit') audited++;
  return audited / 4_000;
};
/** Notes answers that differ until something is suspended. */
const suspend = (watch: DriftWatch, kind: string) => {
  for (let at = 0; at < 50; at++) {
    const suspension = watch.note('a', kind, false);
    if (suspension !== null) return suspension;
  }
  throw new Error('never suspended');
};

describe('the audits', () => {
  it('include more steps of a young kind, and later only the configured share', () => {
    const watch = make();
    expect(shareAudited(watch, 'look')).toBeGreaterThan(0.3);
    for (let at = 0; at < DRIFT.trusted; at++) watch.note('a', 'look', true);
    const share = shareAudited(watch, 'look');
    expect(share).toBeGreaterThan(0.03);
    expect(share).toBeLessThan(0.07);
    expect(kindOf(watch, 'look')).toMatchObject({ state: 'trusted', compared: 70, wrong: 0 });
  });

  it('include all steps of a kind that was wrong once, until it is cleared; other kinds keep the configured share', () => {
    const watch = make();
    for (const kind of ['look', 'text']) for (let at = 0; at < 100; at++) watch.note('a', kind, true);
    watch.note('a', 'look', false);
    expect(shareAudited(watch, 'look')).toBe(1);
    expect(shareAudited(watch, 'text')).toBeLessThan(0.07);
    expect(kindOf(watch, 'look')?.state).toBe('suspect');
    let more = 0;
    for (; kindOf(watch, 'look')?.state === 'suspect'; more++) watch.note('a', 'look', true);
    expect(more).toBeLessThan(60);
    expect(shareAudited(watch, 'look')).toBeLessThan(0.07);
  });

  it('include all steps of a new form whose kind was suspended under an earlier version', () => {
    const before = make();
    suspend(before, 'look');
    const next = (version: number, made_at_ms: number) =>
      new DriftWatch(
        { ...TERMS, version, made_at_ms },
        0.05,
        () => 0.99,
        () => 9_000,
        before.copy(),
      );
    const newer = next(2, 8_000);
    expect(newer.judge('a', 'look after task')).toBe('audit');
    newer.note('a', 'look after task', true);
    expect(kindOf(newer, 'look after task')?.state).toBe('suspect');
    expect(newer.judge('a', 'text after look')).toBe('serve');
    // A version that is older than the suspension stays suspended, because it has learnt nothing new.
    expect(next(3, 1_000).judge('a', 'look after task')).toBe('suspended');
  });

  it('include no step with a share of 0, and all with 1', () => {
    expect(shareAudited(make(0), 'look')).toBe(0);
    expect(shareAudited(make(1), 'look')).toBe(1);
  });
});

describe('a suspension', () => {
  it('applies to the kind that went wrong', () => {
    const watch = make();
    for (const kind of ['look', 'text']) for (let at = 0; at < 500; at++) watch.note('a', kind, true);
    expect(suspend(watch, 'look')).toMatchObject({ agent: 'a', kind: 'look' });
    expect(watch.judge('a', 'look')).toBe('suspended');
    expect(watch.judge('a', 'text')).not.toBe('suspended');
    expect(watch.judge('b', 'look')).not.toBe('suspended');
  });

  it('applies to the agent if all of its answers go wrong', () => {
    const watch = make();
    let whole = null;
    for (let at = 0; whole === null; at++) {
      const suspension = watch.note('a', `kind ${at}`, false);
      if (suspension?.kind === null) whole = suspension;
      expect(at).toBeLessThan(30);
    }
    expect(watch.judge('a', 'never seen')).toBe('suspended');
    expect(watch.report()[0]).toMatchObject({ agent: 'a', state: 'suspended' });
  });

  it('survives a restart, and applies to a student that was made before it', () => {
    const watch = make();
    suspend(watch, 'look');
    const again = (terms: Partial<typeof TERMS>) =>
      new DriftWatch(
        { ...TERMS, ...terms },
        0.05,
        () => 1,
        () => 9_000,
        JSON.parse(JSON.stringify(watch.copy())),
      );
    expect(again({}).judge('a', 'look')).toBe('suspended');
    expect(again({}).report()).toEqual(watch.report());
    expect(again({ version: 2, made_at_ms: 4_999 }).judge('a', 'look')).toBe('suspended');
  });

  it('ends with a student that was made later, which is audited in full until it is cleared', () => {
    const watch = make();
    suspend(watch, 'look');
    const prng = createPrng(3);
    const next = new DriftWatch(
      { ...TERMS, version: 2, made_at_ms: 6_000 },
      0.05,
      () => prng.float(),
      () => 9_000,
      watch.copy(),
    );
    expect(shareAudited(next, 'look')).toBe(1);
    for (let at = 0; at < 60; at++) next.note('a', 'look', true);
    expect(shareAudited(next, 'look')).toBeLessThan(0.2);
    // A version whose answers are as wrong as those of the previous version never serves.
    const same = new DriftWatch(
      { ...TERMS, version: 2, made_at_ms: 6_000 },
      0.05,
      () => 1,
      () => 9_000,
      watch.copy(),
    );
    for (let at = 0; same.judge('a', 'look') === 'audit'; at++) {
      same.note('a', 'look', false);
      expect(at).toBeLessThan(50);
    }
    expect(same.judge('a', 'look')).toBe('suspended');
  });

  it('ends by an operator’s later order', () => {
    const watch = make();
    suspend(watch, 'look');
    expect(watch.resume('a', 'look', 4_000)).toBe(false);
    expect(watch.judge('a', 'look')).toBe('suspended');
    expect(watch.resume('a', null, 6_000)).toBe(true);
    expect(watch.judge('a', 'look')).toBe('audit');
  });
});

describe('the watch', () => {
  it('holds a limited number of agents, and of kinds for each', () => {
    const watch = make();
    for (let at = 0; at < DRIFT.agents + 50; at++) watch.note(`agent ${at}`, 'look', true);
    for (let at = 0; at < DRIFT.kinds + 50; at++) watch.note('agent 0', `kind ${at}`, true);
    const { agents } = watch.copy();
    expect(agents).toHaveLength(DRIFT.agents);
    expect(Math.max(...agents.map(([, { kinds }]) => kinds.length))).toBe(DRIFT.kinds);
  });

  it('hardly ever suspends an agent that keeps its promise, in ten thousand steps', () => {
    let suspended = 0;
    for (let seed = 1; seed <= 150; seed++) {
      const prng = createPrng(seed);
      const watch = new DriftWatch(
        TERMS,
        0.05,
        () => prng.float(),
        () => 1,
      );
      for (let at = 0; at < 10_000; at++) {
        const kind = `kind ${at % 5}`;
        const verdict = watch.judge('a', kind);
        if (verdict === 'audit') watch.note('a', kind, prng.float() >= 0.05);
        if (verdict !== 'suspended') continue;
        suspended++;
        break;
      }
    }
    expect(suspended).toBeLessThanOrEqual(1);
  });
});
