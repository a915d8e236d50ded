/** The follower over a database in memory whose answers and hints come at chosen moments. Test thread. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { MemoryTruth } from '../../../src/storage/memory/truth.ts';
import type { Truth } from '../../../src/storage/shared/truth.ts';
import { makeFolder } from '../folder.ts';
import { SharedBox } from './shared-box.ts';

async function openBox(truth: Truth, path = join(makeFolder(), 'main.mdb')): Promise<SharedBox> {
  const box = await SharedBox.open(path, truth, { poll_ms: 5 });
  onTestFinished(() => box.close());
  return box;
}

/** Counts one more operation, with a row for it. */
function countUp({ tables }: SharedBox): Promise<void> {
  return tables.transact((tx) => {
    const count = (tx.get<number>('counter', ['all']) ?? 0) + 1;
    tx.write({ op: 'put', table: 'counter', row: ['all'], value: count });
    tx.write({ op: 'put', table: 'ops', row: [count], value: count });
  });
}

/** Operations, and how many there should be: equal at each position. */
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
        // Another box commits, and the hint arrives before the session is open.
        onHint();
        await nextTurn();
        /** The first answer takes long, and others commit meanwhile. */
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
