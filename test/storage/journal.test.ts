/** The journals of stores that need no server, and properties that only LMDB's journal has. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Environment } from '../../src/storage/lmdb/environment.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';
import { MemoryTruth } from '../../src/storage/memory/truth.ts';
import { commit, describeJournal, event, readable, snapshot } from './journal-suite.ts';
import { SharedBox } from './shared/shared-box.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'journal-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const STORES = [
  { name: 'LMDB', prepare: () => () => new LmdbJournal(join(folder, 'data', 'main.mdb')) },
  {
    name: 'LMDB without syncs',
    prepare: () => () => new LmdbJournal(join(folder, 'data', 'runs.mdb'), 'process'),
  },
  {
    name: 'LMDB behind a redo log',
    prepare: () => () =>
      new LmdbJournal(join(folder, 'data', 'runs.mdb'), 'process', {
        path: join(folder, 'data', 'runs.0.redo'),
        kinds: new Set(['run', 'ledger']),
        tables: new Set(),
      }),
  },
  {
    name: 'memory',
    prepare: () => {
      const disk: MemoryDisk = new Map();
      return () => new MemoryJournal(disk);
    },
  },
  {
    name: 'a view of shared rows',
    prepare: () => {
      const truth = new MemoryTruth();
      return async () => (await SharedBox.open(join(folder, 'data', 'view.mdb'), truth)).journal;
    },
  },
];

for (const { name, prepare } of STORES) describeJournal(name, prepare);

describe('the journal in LMDB', () => {
  it('reads a snapshot where earlier versions stored it, and the next one replaces it', async () => {
    const path = join(folder, 'main.mdb');
    const journal = new LmdbJournal(path);
    await commit(journal, [snapshot('run', 'a', 3, 'three')]);
    const environment = Environment.open(path, 'disk');
    const [snapshots, events] = [environment.named('snapshots'), environment.named('journal')];
    const list = (table: typeof events) =>
      [...table.getRange({})].map(({ value }) => value.toString('latin1'));
    const [{ key, value }] = [...snapshots.getRange({})] as [{ key: Buffer; value: Buffer }];
    await environment.transact(() => {
      events.putSync(key, value);
      snapshots.removeSync(key);
    });
    await commit(journal, [event('run', 'a', 4)]);
    expect(readable(journal.load('run', 'a'))).toMatchObject({ snapshot: { seq: 3 }, events: ['event 4'] });
    await commit(journal, [snapshot('run', 'a', 4, 'four')]);
    expect(readable(journal.load('run', 'a'))).toMatchObject({ snapshot: { state: 'four' }, events: [] });
    expect([list(events), list(snapshots)]).toEqual([[], [expect.stringContaining('four')]]);
    await commit(journal, [{ type: 'forget', kind: 'run', key: 'a' }]);
    expect([list(events), list(snapshots)]).toEqual([[], []]);
    await environment.close();
    await journal.close();
  });

  it('is shared by threads', async () => {
    const path = join(folder, 'main.mdb');
    const journal = new LmdbJournal(path);
    const module = new URL('../../src/storage/lmdb/journal.ts', import.meta.url).href;
    const worker = new Worker(
      `import(${JSON.stringify(module)}).then(({ LmdbJournal }) => {
        const journal = new LmdbJournal(${JSON.stringify(path)});
        const write = { type: 'event', kind: 'run', key: 'theirs', seq: 1, event: Buffer.from('x') };
        journal.commit([write], async () => { await journal.close(); });
      });`,
      { eval: true },
    );
    const left = new Promise((resolve) => worker.once('exit', resolve));
    for (let seq = 1; seq <= 20; seq++) expect(await commit(journal, [event('run', 'mine', seq)])).toBeNull();
    expect(await left).toBe(0);
    expect(journal.load('run', 'theirs').events).toHaveLength(1);
    expect(journal.load('run', 'mine').events).toHaveLength(20);
    await journal.close();
  });

  it.skipIf(process.platform !== 'linux').each(['disk', 'process'])(
    'reports a full disk, keeps its content, and continues (%s)',
    (durability) => {
      const path = join(folder, 'main.mdb');
      const program = `
      import { LmdbJournal } from ${JSON.stringify(new URL('../../src/storage/lmdb/journal.ts', import.meta.url).href)};
      const journal = new LmdbJournal(${JSON.stringify(path)}, '${durability}');
      const commit = (writes) => new Promise((resolve) => journal.commit(writes, resolve));
      const write = (seq, bytes) => ({ type: 'event', kind: 'run', key: 'a', seq, event: Buffer.alloc(bytes, seq) });
      const outcomes = [await commit([write(1, 100)]), await commit([write(2, 4 << 20)]), await commit([write(2, 100)])];
      const lengths = journal.load('run', 'a').events.map((event) => event.length);
      console.log(JSON.stringify({ failed: outcomes.map((error) => error !== null), lengths }));
      await journal.close();`;
      // The shell's limit on file sizes (512-byte blocks in sh, 1 KiB in bash) simulates the full disk.
      const { stdout, status } = spawnSync(
        'bash',
        [
          '-c',
          'trap "" XFSZ; ulimit -f 1024; exec "$0" --input-type=module -e "$1"',
          process.execPath,
          program,
        ],
        { encoding: 'utf8' },
      );
      expect(status).toBe(0);
      expect(JSON.parse(stdout)).toEqual({ failed: [false, true, false], lengths: [100, 100] });
    },
  );
});
