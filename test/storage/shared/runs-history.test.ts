/**
 * The checker of runs over two or three boxes and a database in memory that loses questions and answers. Boxes end and
 * return as others. Each schedule has a seed. Test thread.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createPrng } from '../../../src/std/prng.ts';
import { MemoryRuns } from '../../../src/storage/memory/runs.ts';
import { type MemoryTrouble, MemoryTruth } from '../../../src/storage/memory/truth.ts';
import type { RunsOutcome, RunsSession, RunsTruth } from '../../../src/storage/shared/runs-truth.ts';
import { TruthUnavailableError } from '../../../src/storage/shared/truth.ts';
import { makeFolder } from '../folder.ts';
import { RunsBox } from './runs-box.ts';
import { judgeRuns, RunHistoryClient, RunHost, type RunTold } from './runs-history.ts';

const SEED = Number(process.env.SEED ?? 11);
const TIMES = { poll_ms: 5, patience_ms: 300, retry_ms: 1, held_ms: 1 };
const SCHEDULES = 5;
const STEPS = 60;

interface OpenBox {
  box: RunsBox;
  host: RunHost;
}

/** @param spoil makes a database with a fault */
async function runSchedule(
  seed: number,
  spoil: (runs: MemoryRuns) => RunsTruth = (runs) => runs,
): Promise<string[]> {
  const random = createPrng(seed);
  let troubles = 0;
  const trouble = (): MemoryTrouble => {
    if (!random.chance(troubles)) return null;
    return random.chance(0.5) ? 'lost before' : 'lost after';
  };
  const truth = new MemoryTruth(trouble);
  const memory = new MemoryRuns(truth, () => random.chance(0.3));
  const truths = { truth, runs: spoil(memory) };
  const folder = makeFolder();
  const open = async (at: number): Promise<OpenBox> => {
    for (;;) {
      try {
        const box = await RunsBox.open(join(folder, `${at}.mdb`), truths, TIMES);
        return { box, host: new RunHost(box) };
      } catch (thrown) {
        if (!(thrown instanceof TruthUnavailableError)) throw thrown;
      }
    }
  };
  const boxes = await Promise.all(Array.from({ length: 2 + random.below(2) }, (_, at) => open(at)));
  const told: RunTold[] = [];
  const clients = Array.from(
    { length: 4 },
    (_, at) => new RunHistoryClient(`${at}`, createPrng(seed * 10 + at), (entry) => told.push(entry)),
  );
  troubles = 0.08;
  /** The box that is ended, while the others continue. */
  let away: { at: number; isBack: Promise<void> } | null = null;
  const leave = async (at: number): Promise<void> => {
    await boxes[at]!.box.close();
    boxes[at] = await open(at);
    away = null;
  };
  for (let step = 0; step < STEPS; step++) {
    const present = boxes.filter((_, at) => at !== away?.at);
    await Promise.all(
      clients.map((client) => {
        const { box, host } = present[random.below(present.length)]!;
        return client.step(box, host);
      }),
    );
    if (away !== null || !random.chance(0.15)) continue;
    const at = random.below(boxes.length);
    away = { at, isBack: leave(at) };
  }
  await away?.isBack;
  troubles = 0;
  for (const { box } of boxes) await box.close();
  const last = await RunsBox.open(join(folder, 'last.mdb'), { truth, runs: memory }, TIMES);
  const judged = as(new MemoryRuns(truth), memory, () => false);
  const wrong = await judgeRuns(told, await judged.open('judge'), last.view.tables);
  // With too many faults there would be too little to check.
  if (told.filter((entry) => entry.op === 'step' && typeof entry.place === 'number').length < STEPS)
    wrong.push('too little was done');
  await last.close();
  rmSync(folder, { recursive: true });
  return wrong;
}

it(`boxes lose and double no steps in ${SCHEDULES} schedules`, async () => {
  for (let at = 0; at < SCHEDULES; at++)
    expect(await runSchedule(SEED + at), `seed ${SEED + at}`).toEqual([]);
});

/** Makes a database whose sessions have changed methods. */
function spoilSessions(inner: RunsTruth, change: (session: RunsSession) => Partial<RunsSession>): RunsTruth {
  return {
    open: async (box) => {
      const session = await inner.open(box);
      const plain: RunsSession = {
        get last_batch() {
          return session.last_batch;
        },
        take: (actors) => session.take(actors),
        commit: (batch, commits) => session.commit(batch, commits),
        readRows: (table, keys) => session.readRows(table, keys),
        readRange: (range, limit, reverse) => session.readRange(range, limit, reverse),
        sumCounts: (range) => session.sumCounts(range),
        tidy: () => session.tidy(),
        close: () => session.close(),
      };
      return Object.defineProperties(plain, Object.getOwnPropertyDescriptors(change(session)));
    },
  };
}

/** A faulty database: a take-over has no position, so other boxes do not learn of it. */
class SilentRuns extends MemoryRuns {
  override take(box: string, actors: readonly Buffer[]) {
    const { rows } = this.truth;
    const before = new Set(rows.keys());
    const taken = super.take(box, actors);
    for (const name of rows.keys()) if (!before.has(name)) rows.delete(name);
    return taken;
  }
}

/** A faulty database: it also stores the commits of former owners. */
class GenerousRuns extends MemoryRuns {
  override store(box: string, commits: Parameters<MemoryRuns['store']>[1]): RunsOutcome {
    const owners = new Map(this.owners);
    for (const { actor, term } of commits) this.owners.set(actor.toString('latin1'), { box, term });
    const outcome = super.store(box, commits);
    for (const [name, owner] of owners) this.owners.set(name, owner);
    return outcome;
  }
}

/** Lets a faulty database share the content of another one. */
function as<Runs extends MemoryRuns>(made: Runs, like: MemoryRuns, isHeld = like.isHeld): Runs {
  const { owners, rows, counts } = like;
  return Object.assign(made, { isHeld, owners, rows, counts });
}

it.each<[string, (runs: MemoryRuns) => RunsTruth]>([
  ['stores commits of former owners', (runs) => as(new GenerousRuns(runs.truth), runs)],
  ['does not report take-overs', (runs) => as(new SilentRuns(runs.truth), runs)],
  [
    'acknowledges commits that it skipped',
    (runs) =>
      spoilSessions(runs, (session) => ({
        commit: async (batch, commits) => ({ ...(await session.commit(batch, commits)), lost: [] }),
      })),
  ],
  [
    'forgets the outcome of the last batch',
    (runs) =>
      spoilSessions(runs, (session) => ({
        get last_batch() {
          const { last_batch } = session;
          return last_batch === null || last_batch.number === 1
            ? null
            : { ...last_batch, number: last_batch.number - 1, lost: [], position: null };
        },
        commit: (_, commits) => session.commit((session.last_batch?.number ?? 0) + 1, commits),
      })),
  ],
  [
    'returns a history without its last event',
    (runs) =>
      spoilSessions(runs, (session) => ({
        take: async (actors) =>
          (await session.take(actors)).map((taken) => taken && { ...taken, rows: taken.rows.slice(0, -1) }),
      })),
  ],
])('the checker notices a database that %s', async (_, spoil) => {
  const wrong: string[] = [];
  for (let at = 0; at < 3 && wrong.length === 0; at++)
    wrong.push(...(await runSchedule(SEED + at, spoil).catch((thrown: Error) => [thrown.message])));
  expect(wrong).not.toEqual([]);
});
