/**
 * Reads of runs and of usage return the same from tables of this machine and from the shared database of several boxes.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { GATHERED_STEPS, gatherSteps, type StoredStep } from '../../src/domain/gathered-steps.ts';
import {
  RUN_GATHERED_STEPS,
  RUN_STEP_KEYS,
  RUN_STEPS,
  RUN_TOTALS,
  type RunStepRow,
  runStepKey,
} from '../../src/domain/run-rows.ts';
import { usageWrites } from '../../src/domain/usage.ts';
import type { RowWrite } from '../../src/runtime/protocol.ts';
import { encodeRow } from '../../src/storage/lmdb/tables.ts';
import { MemoryRuns } from '../../src/storage/memory/runs.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { MemoryTruth } from '../../src/storage/memory/truth.ts';
import type { RunReads } from '../../src/storage/ports/run-reads.ts';
import { SharedRunReads } from '../../src/storage/shared/run-reads.ts';
import type { RunsSession } from '../../src/storage/shared/runs-truth.ts';
import { TableRunReads } from '../../src/storage/table-run-reads.ts';

const RUN = { org_id: 'org_a', run_id: 'r' };
const NOW = Date.parse('2026-11-29T12:00:00Z');
const DAY_MS = 86_400_000;
const dayOf = (ago: number) => new Date(NOW - ago * DAY_MS).toISOString().slice(0, 10);

/** The same rows in both stores. */
class BothStores {
  readonly tables = new MemoryTables();
  readonly #sessions: RunsSession[] = [];
  #batch = 0;

  static async open(): Promise<BothStores> {
    const both = new BothStores();
    const runs = new MemoryRuns(new MemoryTruth());
    // Two boxes, so that counters have to be summed.
    for (const box of ['a', 'b']) both.#sessions.push(await runs.open(box));
    return both;
  }

  get session(): RunsSession {
    return this.#sessions[1]!;
  }

  get reads(): RunReads[] {
    return [new TableRunReads(this.tables), new SharedRunReads(this.session)];
  }

  async write(writes: readonly RowWrite[]): Promise<void> {
    await this.tables.transact((tx) => {
      for (const write of writes) tx.write(write);
    });
    for (const [at, session] of this.#sessions.entries()) {
      const actor = Buffer.from(`actor ${at}`);
      const [held] = await session.take([actor]);
      const mine = writes.filter((_, index) => index % 2 === at).map(encodeRow);
      const rows = mine.flatMap((change) =>
        change.op === 'put' ? [{ table: change.database, key: change.key, value: change.value }] : [],
      );
      const counts = mine.flatMap((change) =>
        change.op === 'add'
          ? Object.entries(change.counts).map(([name, by]) => ({
              table: change.database,
              key: change.key,
              name,
              by,
            }))
          : [],
      );
      const phases = [{ removals: [], rows }];
      await session.commit(this.#batch + 1, [{ actor, term: held!.term, phases, common: [], counts }]);
    }
    this.#batch++;
  }

  /** Asks both stores, and expects the same answer. */
  async ask<Value>(question: (reads: RunReads) => Promise<Value>): Promise<Value> {
    const [own, shared] = await Promise.all(this.reads.map(question));
    expect(shared).toEqual(own);
    return own!;
  }
}

const stepOf = (step_index: number): StoredStep => {
  const copy = { action: 'look', action_input: null, thought: '', observation: `${step_index}` };
  const at = new Date(NOW + step_index).toISOString();
  const step: RunStepRow = { answer: [[0.5], 0.25, []], at, is_error: false, tokens: step_index, copy };
  return { step_index, step };
};

/** The writes of steps. The first ones are gathered in one row, as during the work after a finish. */
function stepWrites(indices: readonly number[], gathered: number): RowWrite[] {
  const writes: RowWrite[] = [];
  for (let at = 0; at < gathered; at += GATHERED_STEPS) {
    const part = indices.slice(at, Math.min(at + GATHERED_STEPS, gathered)).map(stepOf);
    const row = runStepKey(RUN, part.at(-1)!.step_index);
    writes.push({ op: 'put', table: RUN_GATHERED_STEPS, row, value: gatherSteps(part) });
  }
  for (const index of indices.slice(gathered))
    writes.push({ op: 'put', table: RUN_STEPS, row: runStepKey(RUN, index), value: stepOf(index).step });
  return writes;
}

it('both stores return the same steps of a run from any index, gathered or single', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.nat(600), { maxLength: 300 }),
      fc.nat(300),
      fc.option(fc.integer({ min: -1, max: 600 })),
      fc.integer({ min: 1, max: 200 }),
      async (some, share, after, limit) => {
        const indices = some.sort((a, b) => a - b);
        const both = await BothStores.open();
        const other = { ...RUN, run_id: 'r2' };
        const noise: RowWrite = {
          op: 'put',
          table: RUN_STEPS,
          row: runStepKey(other, 1),
          value: stepOf(1).step,
        };
        await both.write([...stepWrites(indices, Math.min(share, indices.length)), noise]);
        const expected = indices.filter((index) => after === null || index > after).slice(0, limit);
        const steps = await both.ask((reads) => reads.listSteps(RUN, { after, limit }));
        expect(steps).toEqual(expected.map(stepOf));
        const wanted = after ?? 0;
        const found = await both.ask((reads) => reads.findStep(RUN, wanted, true));
        expect(found).toEqual(indices.includes(wanted) ? stepOf(wanted) : undefined);
      },
    ),
    { numRuns: 60 },
  );
});

it('both stores return the same single steps of a run that has not finished', async () => {
  const both = await BothStores.open();
  expect(await both.ask((reads) => reads.findLastStep(RUN))).toBeUndefined();
  await both.write(stepWrites([0, 1, 7], 0));
  expect(await both.ask((reads) => reads.findLastStep(RUN))).toEqual(stepOf(7));
  expect(await both.ask((reads) => reads.findStep(RUN, 1, false))).toEqual(stepOf(1));
  expect(await both.ask((reads) => reads.findStep(RUN, 2, false))).toBeUndefined();
});

it('both stores return the same reports of a run', async () => {
  const both = await BothStores.open();
  const put = (run_id: string, key: string, value: number | number[]): RowWrite => ({
    op: 'put',
    table: RUN_STEP_KEYS,
    row: ['org_a', run_id, key],
    value,
  });
  await both.write([put('r', 'a', 3), put('r', 'tool x', [1, 0]), put('r2', 'b', 1)]);
  expect(await both.ask((reads) => reads.findReports(RUN, ['b', 'tool x', 'a']))).toEqual([
    ['tool x', [1, 0]],
    ['a', 3],
  ]);
  expect(await both.ask((reads) => reads.findReports(RUN, []))).toEqual([]);
});

it('only the shared store returns the totals that each step stores', async () => {
  const both = await BothStores.open();
  const totals = { run_id: 'r', outcome: '', steps: 2, tokens: 7 };
  await both.write([{ op: 'put', table: RUN_TOTALS, row: ['org_a', 'r'], value: totals }]);
  const [own, shared] = both.reads;
  expect(own!.listTotals).toBeNull();
  const asked = [{ org_id: 'org_a', run_id: 'no' }, RUN];
  expect(await shared!.listTotals!(asked)).toEqual([null, totals]);
  expect(await shared!.listTotals!([])).toEqual([]);
  const cutOff = new SharedRunReads(both.session, () => true);
  await expect(cutOff.listTotals([RUN])).rejects.toThrow('away');
});

it('both stores return the same counters of days and projects, and the same interventions', async () => {
  const both = await BothStores.open();
  const count = (org: string, ago: number, project: string, steps: number, found = 0) =>
    usageWrites(org, NOW - ago * DAY_MS, project, {
      steps,
      ...(found > 0 ? { injections_retrieve: found } : {}),
    });
  await both.write([
    ...count('org_a', 0, 'p', 1, 2),
    ...count('org_a', 0, 'p', 1),
    ...count('org_a', 0, 'q', 4),
    ...count('org_a', 1, 'p', 8),
    ...count('org_a', 9, 'p', 16, 1),
    ...count('org_ab', 0, 'p', 32),
  ]);
  const list = (ago: number) => both.ask((reads) => reads.listCounts('org_a', dayOf(ago)));
  expect((await list(1)).map(({ day, project_id, counts }) => [day, project_id, counts.steps])).toEqual([
    [dayOf(1), 'p', 8],
    [dayOf(0), 'p', 2],
    [dayOf(0), 'q', 4],
  ]);
  expect(await list(9)).toHaveLength(4);
  const days = [dayOf(9), dayOf(1), dayOf(0)];
  const ofProject = await both.ask((reads) => reads.listProjectCounts('org_a', 'p', days));
  expect(ofProject.map(({ counts }) => counts.steps)).toEqual([16, 8, 2]);
  expect(await both.ask((reads) => reads.listProjectCounts('org_a', 'p', [dayOf(2)]))).toEqual([]);
  const sum = (project: string | null) => both.ask((reads) => reads.sumInterventions('org_a', project));
  expect([await sum(null), await sum('p'), await sum('q')]).toMatchObject([
    { injections_retrieve: 3 },
    { injections_retrieve: 3 },
    {},
  ]);
});
