/**
 * The history checker over two or three boxes and a database in memory that loses questions and answers. Boxes end and
 * return, some with their view and some without. Each schedule has a seed. Test thread.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createPrng } from '../../../src/std/prng.ts';
import { type MemoryTrouble, MemoryTruth } from '../../../src/storage/memory/truth.ts';
import { type Truth, type TruthSession, TruthUnavailableError } from '../../../src/storage/shared/truth.ts';
import { makeFolder } from '../folder.ts';
import { beginHistory, HistoryClient, judgeHistory, type Told } from './history.ts';
import { SharedBox } from './shared-box.ts';

const SEED = Number(process.env.SEED ?? 7);
const TIMES = { poll_ms: 5, patience_ms: 300, retry_ms: 1 };
const SCHEDULES = 12;
const STEPS = 40;

async function runSchedule(
  seed: number,
  makeTruth: (trouble: () => MemoryTrouble) => Truth,
): Promise<string[]> {
  const random = createPrng(seed);
  let troubles = 0;
  const truth = makeTruth(() => {
    if (!random.chance(troubles)) return null;
    return random.chance(0.5) ? 'lost before' : 'lost after';
  });
  const folder = makeFolder();
  const path = (at: number) => join(folder, `${at}.mdb`);
  const open = (at: number) => SharedBox.open(path(at), truth, TIMES);
  const boxes = await Promise.all(Array.from({ length: 2 + random.below(2) }, (_, at) => open(at)));
  await beginHistory(boxes[0]!);
  const told: Told[] = [];
  const clients = Array.from(
    { length: 4 },
    (_, at) => new HistoryClient(`${at}`, createPrng(seed * 10 + at), (entry) => told.push(entry)),
  );
  troubles = 0.1;
  /** The box that is ended, while the others continue. */
  let away: { at: number; isBack: Promise<void> } | null = null;
  const leave = async (at: number, isLost: boolean): Promise<void> => {
    await boxes[at]!.close();
    if (isLost) rmSync(path(at));
    for (;;) {
      try {
        boxes[at] = await open(at);
        break;
      } catch (thrown) {
        if (!(thrown instanceof TruthUnavailableError)) throw thrown;
      }
    }
    away = null;
  };
  for (let step = 0; step < STEPS; step++) {
    const present = boxes.filter((_, at) => at !== away?.at);
    await Promise.all(clients.map((client) => client.step(present[random.below(present.length)]!)));
    if (away !== null || !random.chance(0.3)) continue;
    const at = random.below(boxes.length);
    away = { at, isBack: leave(at, random.chance(0.3)) };
  }
  await away?.isBack;
  troubles = 0;
  for (const box of boxes) await box.close();
  const last = await open(9);
  const wrong = judgeHistory(told, last.tables);
  // With too many faults there would be too little to check.
  if (told.filter((entry) => entry.op === 'count' && entry.count !== null).length < STEPS)
    wrong.push('too little was done');
  await last.close();
  rmSync(folder, { recursive: true });
  return wrong;
}

it(`boxes lose and double nothing in ${SCHEDULES} schedules`, async () => {
  for (let at = 0; at < SCHEDULES; at++)
    expect(await runSchedule(SEED + at, (trouble) => new MemoryTruth(trouble)), `seed ${SEED + at}`).toEqual(
      [],
    );
});

/** Makes a database with a fault, which the checker must notice. */
function spoil(inner: Truth, change: (session: TruthSession) => Partial<TruthSession>): Truth {
  return {
    identity: inner.identity,
    open: async (box, onHint) => {
      const session = await inner.open(box, onHint);
      const plain: TruthSession = {
        get last_batch() {
          return session.last_batch;
        },
        commit: (batch, proposals, since) => session.commit(batch, proposals, since),
        follow: (since) => session.follow(since),
        load: (onRows) => session.load(onRows),
        knows: (mark) => session.knows(mark),
        tidy: () => session.tidy(),
        close: () => session.close(),
      };
      return Object.defineProperties(plain, Object.getOwnPropertyDescriptors(change(session)));
    },
  };
}

it.each<[string, (session: TruthSession) => Partial<TruthSession>]>([
  [
    'ignores what a transaction read',
    (session) => ({
      commit: (batch, proposals, since) =>
        session.commit(
          batch,
          proposals.map((proposal) => ({ ...proposal, reads: [] })),
          since,
        ),
    }),
  ],
  [
    'acknowledges conflicts',
    (session) => ({
      commit: async (batch, proposals, since) => {
        const { verdicts, delta } = await session.commit(batch, proposals, since);
        return { verdicts: verdicts.map((verdict) => verdict ?? 1), delta };
      },
    }),
  ],
  [
    'omits a changed row',
    (session) => ({
      follow: async (since) => {
        const delta = await session.follow(since);
        return { ...delta, rows: delta.rows?.slice(1) ?? null };
      },
    }),
  ],
])('the checker notices a database that %s', async (_, change) => {
  const wrong = await runSchedule(SEED, (trouble) => spoil(new MemoryTruth(trouble), change)).catch(
    (thrown: Error) => [thrown.message],
  );
  expect(wrong).not.toEqual([]);
});
