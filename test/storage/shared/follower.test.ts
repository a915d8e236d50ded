/**
 * The follower with a database in memory, whose answers and hints arrive at moments that the test chooses. Test thread.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { MemoryTruth } from '../../../src/storage/memory/truth.ts';
import { type Proposal, type Truth, TruthUnavailableError } from '../../../src/storage/shared/truth.ts';
import { makeFolder } from '../folder.ts';
import { SharedBox } from './shared-box.ts';

async function openBox(truth: Truth, path = join(makeFolder(), 'main.mdb')): Promise<SharedBox> {
  const box = await SharedBox.open(path, truth, { poll_ms: 5 });
  onTestFinished(() => box.close());
  return box;
}

/** A database whose connection can be cut. */
function cutOff(truth: Truth, isAway: () => boolean): Truth {
  const refuse = () => {
    if (isAway()) throw new TruthUnavailableError('the database is unreachable');
  };
  return {
    identity: truth.identity,
    open: async (id, onHint) => {
      refuse();
      const session = await truth.open(id, onHint);
      const { commit, follow } = session;
      return Object.assign(session, {
        commit: async (...call: Parameters<typeof commit>) => {
          refuse();
          return commit.apply(session, call);
        },
        follow: async (since: number) => {
          refuse();
          return follow.call(session, since);
        },
      });
    },
  };
}

/** Adds a row for one more operation, and counts the operation. */
function countUp({ tables }: SharedBox): Promise<void> {
  return tables.transact((tx) => {
    const count = (tx.get<number>('counter', ['all']) ?? 0) + 1;
    tx.write({ op: 'put', table: 'counter', row: ['all'], value: count });
    tx.write({ op: 'put', table: 'ops', row: [count], value: count });
  });
}

/** Reads the number of operation rows, and the counted number. They must be equal at each position. */
function readCounts({ tables }: SharedBox): [number, number] {
  return tables.snapshot(['ops', 'counter'], (reader) => [
    [...reader.range('ops', { prefix: [] })].length,
    reader.get<number>('counter', ['all']) ?? 0,
  ]);
}

it.each(['with its view', 'without a view'])(
  'a box that opens %s while others commit has one session, and rows of one position',
  async (how) => {
    const truth = new MemoryTruth();
    const path = join(makeFolder(), 'main.mdb');
    const former = await openBox(truth, path);
    const other = await openBox(truth);
    await countUp(former);
    await former.close();
    if (how === 'without a view') rmSync(path);
    await countUp(other);
    let opened = 0;
    let isSlow = true;
    const slow: Truth = {
      identity: truth.identity,
      open: async (id, onHint) => {
        opened++;
        const session = await truth.open(id, onHint);
        // Another box has committed, and the hint arrives before the session is open.
        onHint();
        await nextTurn();
        /** Delays the first answer, while other boxes commit. */
        const slowly = async <Answer>(answer: Promise<Answer>): Promise<Answer> => {
          const isFirst = isSlow;
          isSlow = false;
          const kept = await answer;
          for (let n = 0; isFirst && n < 3; n++) await countUp(other);
          return kept;
        };
        const { follow, load } = session;
        return Object.assign(session, {
          follow: (since: number) => slowly(follow.call(session, since)),
          load: (onRows: Parameters<typeof load>[0]) => slowly(load.call(session, onRows)),
        });
      },
    };
    const box = await openBox(slow, path);
    const seen = [readCounts(box)];
    while (box.follower.position < other.follower.position) {
      await nextTurn();
      seen.push(readCounts(box));
    }
    expect(seen.filter(([operations, count]) => operations !== count)).toEqual([]);
    expect(opened).toBe(1);
  },
);

it('reads use the former rows while all rows are loaded again', async () => {
  const truth = new MemoryTruth();
  const seen: [number, number][] = [];
  let box: SharedBox | null = null;
  const far: Truth = {
    identity: truth.identity,
    open: async (id, onHint) => {
      const session = await truth.open(id, onHint);
      const { load, follow } = session;
      return Object.assign(session, {
        // The answer has no rows, as if there were more changes than one answer contains.
        follow: async (since: number) => ({ ...(await follow.call(session, since)), rows: null }),
        load: (onRows: Parameters<typeof load>[0]) =>
          load.call(session, (rows) => {
            for (const row of rows) {
              onRows([row]);
              if (box !== null) seen.push(readCounts(box));
            }
          }),
      });
    },
  };
  const other = await openBox(truth);
  for (let n = 0; n < 3; n++) await countUp(other);
  box = await openBox(far);
  for (let n = 0; n < 3; n++) await countUp(other);
  expect(await box.follower.reach(6, 60_000)).toBe(true);
  expect(readCounts(box)).toEqual([6, 6]);
  expect(seen.length).toBeGreaterThan(6);
  expect(seen.filter(([operations, count]) => operations !== count || count < 3)).toEqual([]);
});

it.each(['waits', 'was sent'])(
  'a transaction that %s when the database is restored from a backup runs again on the rows of the backup',
  async (how) => {
    const truth = new MemoryTruth();
    let isAway = false;
    const box = await openBox(cutOff(truth, () => isAway));
    const other = await openBox(truth);
    const claim = (at: SharedBox, who: string) =>
      at.tables.transact((tx) => {
        if (tx.get('names', ['n']) !== undefined) return false;
        tx.write({ op: 'put', table: 'names', row: ['n'], value: who });
        return true;
      });
    await countUp(other);
    const { position } = truth;
    const rows = new Map(truth.rows);
    await countUp(other);
    expect(await box.follower.reach(2, 60_000)).toBe(true);
    isAway = true;
    if (how === 'waits') await expect.poll(() => box.follower.failure).not.toBeNull();
    const claimed = claim(box, 'box');
    if (how === 'was sent') await expect.poll(() => box.follower.failure).not.toBeNull();
    // The backup is older than the last commit. Then other boxes make as many commits as were lost.
    truth.position = position;
    truth.rows.clear();
    for (const [place, row] of rows) truth.rows.set(place, row);
    truth.tokens.clear();
    truth.tokens.set(position, crypto.randomUUID());
    expect(await claim(await openBox(truth), 'third')).toBe(true);
    isAway = false;
    expect(await claimed).toBe(false);
    expect(truth.position).toBe(2);
    expect(await box.follower.reach(2, 60_000)).toBe(true);
    expect(box.tables.get('names', ['n'])).toBe('third');
    expect(readCounts(box)).toEqual([1, 1]);
  },
);

it('a batch that the database commits late, while all rows are loaded again, counts once', async () => {
  const truth = new MemoryTruth();
  let cut: [number, readonly Proposal[]] | null = null;
  let isCut = false;
  const late: Truth = {
    identity: truth.identity,
    open: async (id, onHint) => {
      const session = await truth.open(id, onHint);
      const { commit, follow } = session;
      const { last_batch } = session;
      // The database still carries out the batch of the session that was cut off. The batch is committed after the new
      // session has read the number of the last batch.
      const running = cut;
      cut = null;
      if (running !== null) {
        const [number, proposals] = running;
        truth.boxes.get(id)!.last = { number, verdicts: proposals.map((proposal) => truth.decide(proposal)) };
      }
      return {
        last_batch,
        commit: async (batch, proposals, since) => {
          if (isCut) return commit.call(session, batch, proposals, since);
          isCut = true;
          cut = [batch, proposals];
          throw new TruthUnavailableError('the connection was cut');
        },
        follow: async (since) => {
          const delta = await follow.call(session, since);
          return running === null ? delta : { ...delta, rows: null };
        },
        load: (onRows) => session.load(onRows),
        knows: (mark) => session.knows(mark),
        tidy: () => session.tidy(),
        close: () => session.close(),
      };
    },
  };
  const box = await openBox(late);
  await countUp(box);
  expect(isCut).toBe(true);
  expect(readCounts(box)).toEqual([1, 1]);
  expect(truth.position).toBe(1);
});

it('commits do not shorten the pause before the next attempt to connect', async () => {
  const truth = new MemoryTruth();
  let isAway = false;
  let attempts = 0;
  const way = cutOff(truth, () => isAway);
  const counted: Truth = {
    identity: truth.identity,
    open: (id, onHint) => {
      attempts++;
      return way.open(id, onHint);
    },
  };
  const box = await SharedBox.open(join(makeFolder(), 'main.mdb'), counted, {
    poll_ms: 1,
    patience_ms: 600_000,
    retry_ms: 600_000,
  });
  isAway = true;
  await expect.poll(() => box.follower.failure).not.toBeNull();
  const waiting = Array.from({ length: 5 }, () => countUp(box));
  for (let n = 0; n < 5; n++) await nextTurn();
  expect(attempts).toBe(1);
  const refused = waiting.map((commit) => expect(commit).rejects.toThrow(/the store was closed/));
  await box.close();
  await Promise.all(refused);
});

it('a journal reports an unreachable database with the error that the runtime expects', async () => {
  const truth = new MemoryTruth();
  let isAway = false;
  const box = await SharedBox.open(
    join(makeFolder(), 'main.mdb'),
    cutOff(truth, () => isAway),
    {
      poll_ms: 5,
      patience_ms: 30,
      retry_ms: 1,
    },
  );
  onTestFinished(() => box.close());
  isAway = true;
  const event = { type: 'event', kind: 'k', key: 'x', seq: 1, event: Buffer.from('e') } as const;
  const error = await new Promise((resolve) => box.journal.commit([event], resolve));
  expect(error).toMatchObject({ name: 'JournalUnavailableError' });
});
