/**
 * Which exchanges belong to which run: the stored columns compared with a plain map, and the runs that are dropped if
 * there are too many.
 */
import { describe, expect, it } from 'vitest';
import type { ListedExchange } from '../../src/captures/exchange-source.ts';
import { keyOfRun, RunChains, readSummaries } from '../../src/captures/run-chains.ts';
import { createPrng } from '../../src/std/prng.ts';
import { MadeSource } from './made-run.ts';

const record = (id: number, run_id: string | null, over: Partial<ListedExchange> = {}): ListedExchange =>
  ({
    id,
    run_id,
    kind: 'turn',
    started_at: new Date(id).toISOString(),
    duration_ms: 1,
    status: 200,
    usage: {},
    ...over,
  }) as ListedExchange;

describe('chains of runs', () => {
  it('behave like a map of lists, with missing ids, exchanges without a run, and interleaved runs', () => {
    const random = createPrng(18);
    const chains = new RunChains();
    const expected = new Map<string, number[]>();
    let id = 1_000;
    for (let at = 0; at < 30_000; at++) {
      // A jump of ids, as if a file were missing.
      id += random.chance(0.001) ? 100_000 : 1;
      const runId = random.chance(0.05) ? null : `run-${random.below(5_000)}`;
      chains.add(record(id, runId));
      if (runId !== null) expected.set(runId, [...(expected.get(runId) ?? []), id]);
    }
    expect(chains.size).toBe(expected.size);
    expect([...chains.runs].map((run) => [...chains.idsOf(run)])).toEqual([...expected.values()]);
    expect([...chains.runs].map(({ key }) => key)).toEqual([...expected.keys()].map(keyOfRun));
    for (const [runId, ids] of expected)
      expect(chains.find(runId)).toMatchObject({
        key: keyOfRun(runId),
        exchanges: ids.length,
        first_id: ids[0],
        last_id: ids.at(-1),
        finished_ms: ids.at(-1)! + 1,
      });
    expect(chains.find('unknown')).toBeUndefined();
    const ends = [...chains.newest].map(({ last_id }) => last_id);
    expect(ends).toEqual(ends.toSorted((a, b) => b - a));
    expect([...chains.youngest]).toEqual([...chains.runs].reverse());
  });

  it('have another mark if an exchange differs, although all ids are the same', () => {
    const markOf = (over: Partial<ListedExchange>): string => {
      const chains = new RunChains();
      for (const id of [1, 2, 3]) chains.add(record(id, 'a', id === 2 ? over : {}));
      return [...chains.runs][0]!.mark;
    };
    const marks = [
      {},
      { started_at: '2026-03-01T10:00:00.000Z' },
      { duration_ms: 2 },
      { status: 500 },
      { model: 'other' },
      { request_bytes: 7 },
    ].map(markOf);
    expect(new Set(marks).size).toBe(marks.length);
    expect(markOf({})).toBe(marks[0]);
  });

  it('drop the runs whose last exchange is oldest, and say how many', () => {
    const chains = new RunChains(null, 100);
    for (let id = 1; id <= 1_000; id++) {
      chains.add(record(2 * id, `run-${id}`));
      // One run continues all the time.
      chains.add(record(2 * id + 1, 'run-1'));
    }
    expect(chains.size).toBeLessThanOrEqual(100);
    expect(chains.size + chains.forgotten).toBe(1_000);
    const kept = [...chains.runs].reduce((sum, { exchanges }) => sum + exchanges, 0);
    expect(kept + chains.forgotten_exchanges).toBe(2_000);
    expect(chains.find('run-1000')).toMatchObject({ first_id: 2_000 });
    expect([...chains.idsOf(chains.find('run-1')!)]).toHaveLength(1_001);
    expect(chains.find('run-2')).toBeUndefined();
  });

  it('recognize side calls by their records alone', () => {
    const chains = new RunChains();
    chains.add(record(1, 'own'));
    chains.add(record(2, 'title', { run_kind: 'title' }));
    chains.add(record(3, 'agent', { run_kind: 'subagent' }));
    expect([...chains.runs].map(({ is_side }) => is_side)).toEqual([false, true, false]);
  });
});

it('the records of given ids are read, whatever lies between the ids', () => {
  const source = new MadeSource();
  for (let id = 1; id <= 500; id++) source.add({ run_id: `${id}` });
  const ids = [1, 2, 70, 134, 135, 400, 500, 501];
  expect([...readSummaries(source, ids)].map(({ id }) => id)).toEqual(ids.slice(0, -1));
});
