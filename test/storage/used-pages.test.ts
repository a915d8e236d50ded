/**
 * A database file that is shorter than its head says: whether the missing pages are in use. Also files with any content
 * of their pages.
 */
import { appendFileSync, copyFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { open, type RootDatabase } from 'lmdb';
import { describe, expect, it } from 'vitest';
import { checkFileHead, FileHeadError } from '../../src/storage/lmdb/file-head.ts';
import { tryStores } from '../../src/storage/lmdb/stores.ts';
import { makeFolder } from './folder.ts';

const PAGE = 4_096;
/** Offsets in the head of the number of allocated pages and of the transaction (liblmdb's mdb.c). */
const LAST_PAGE_AT = 24 + 24 + 96;

function openFile(path: string): RootDatabase<Buffer, string> {
  return open<Buffer, string>({ path, noSubdir: true, encoding: 'binary', pageSize: PAGE, maxDbs: 4 });
}

function countTaken(path: string): number {
  const bytes = readFileSync(path);
  const [a, b] = [LAST_PAGE_AT, PAGE + LAST_PAGE_AT];
  const newest = bytes.readBigUInt64LE(b + 8) > bytes.readBigUInt64LE(a + 8) ? b : a;
  return Number(bytes.readBigUInt64LE(newest)) + 1;
}

function readRows(path: string): Map<string, string> {
  const root = openFile(path);
  try {
    const table = root.openDB<Buffer, string>({ name: 'a', encoding: 'binary' });
    return new Map([...table.getRange({})].map(({ key, value }) => [key, value.toString('base64')]));
  } finally {
    void root.close();
  }
}

/**
 * Writes and removes many rows, until a transaction has allocated pages at the end of the file and freed them without
 * writing them.
 */
async function makeShortFile(path: string, keep: number): Promise<void> {
  const root = openFile(path);
  const table = root.openDB<Buffer, string>({ name: 'a', encoding: 'binary' });
  for (let i = 0; i < 5; i++) table.putSync(`long ${i}`, Buffer.alloc(20_000, i));
  for (let rows = 2_000; rows < 20_000; rows += 500) {
    const putAll = () => {
      for (let i = 0; i < rows; i++) table.putSync(`row ${i}`, Buffer.alloc(100, i));
    };
    const removeFrom = (first: number) => {
      for (let i = first; i < rows; i++) table.removeSync(`row ${i}`);
    };
    root.transactionSync(() => {
      putAll();
      removeFrom(keep);
    });
    root.transactionSync(putAll);
    root.transactionSync(() => removeFrom(keep));
    if (statSync(path).size < (countTaken(path) - 1) * PAGE) break;
  }
  await root.close();
  expect(statSync(path).size).toBeLessThan(countTaken(path) * PAGE);
}

describe('a file that is shorter than its head says', () => {
  it('is opened if only free pages are missing', async () => {
    const dir = makeFolder();
    const paths = { main: join(dir, 'main.mdb'), runs: join(dir, 'runs.mdb'), data_key: null };
    await makeShortFile(paths.runs, 0);
    expect(checkFileHead(paths.runs)).toBeGreaterThan(0);
    await tryStores(paths);
  });

  it('is refused if a page in use is missing', async () => {
    const path = join(makeFolder(), 'a.mdb');
    await makeShortFile(path, 60);
    truncateSync(path, 6 * PAGE);
    expect(() => checkFileHead(path)).toThrow(FileHeadError);
    expect(() => checkFileHead(path)).toThrow(/cut off: 24576 bytes of/);
  });

  it('is checked without a crash when its pages contain noise', {
    tags: 'long',
  }, async () => {
    const path = join(makeFolder(), 'a.mdb');
    await makeShortFile(path, 60);
    const whole = readFileSync(path);
    const noise = fc.record({
      at: fc.integer({ min: 2 * PAGE, max: 60 * PAGE }),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 64 }),
    });
    let refused = 0;
    fc.assert(
      fc.property(fc.array(noise, { minLength: 1, maxLength: 40 }), (noises) => {
        const copy = Buffer.from(whole);
        for (const { at, bytes } of noises) copy.set(bytes, at);
        writeFileSync(`${path}.noise`, copy);
        try {
          checkFileHead(`${path}.noise`);
        } catch (error) {
          expect(error).toBeInstanceOf(FileHeadError);
          refused++;
        }
      }),
      { numRuns: 100 },
    );
    expect(refused).toBeGreaterThan(0);
  });

  it('has the same rows when its dispensable pages contain other bytes', { tags: 'long' }, async () => {
    const dir = makeFolder();
    const path = join(dir, 'a.mdb');
    await makeShortFile(path, 40);
    const rows = readRows(path);
    expect(rows.size).toBe(45);
    let accepted = 0;
    let refused = 0;
    for (let pages = Math.ceil(statSync(path).size / PAGE); pages >= 2; pages--) {
      const copy = join(dir, `cut-${pages}.mdb`);
      copyFileSync(path, copy);
      truncateSync(copy, pages * PAGE);
      try {
        checkFileHead(copy);
      } catch {
        refused++;
        continue;
      }
      accepted++;
      expect(refused, 'a file is accepted although a longer one was refused').toBe(0);
      if (accepted > 3 && accepted % 25 !== 0) continue;
      appendFileSync(copy, Buffer.alloc((countTaken(path) - pages) * PAGE, 0xff));
      expect(readRows(copy)).toEqual(rows);
    }
    expect(accepted).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(1);
  });
});
