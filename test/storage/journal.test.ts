/** One suite for the journal stores on LMDB and in memory. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JournalStore, JournalWrite, StoredActor } from '../../src/runtime/journal.ts';
import { MAX_KEY_LENGTH } from '../../src/runtime/protocol.ts';
import { createPrng } from '../../src/std/prng.ts';
import { Environment } from '../../src/storage/lmdb/environment.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'journal-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function event(kind: string, key: string, seq: number, text = `event ${seq}`): JournalWrite {
  return { type: 'event', kind, key, seq, event: Buffer.from(text) };
}

function snapshot(kind: string, key: string, seq: number, text: string, version = 1): JournalWrite {
  return { type: 'snapshot', kind, key, seq, version, state: Buffer.from(text) };
}

function commit(journal: JournalStore, writes: readonly JournalWrite[]): Promise<Error | null> {
  return new Promise((resolve) => journal.commit(writes, resolve));
}

/** The history with bytes as text. */
function readable({ snapshot: stored, events }: StoredActor) {
  return {
    snapshot: stored && { ...stored, state: Buffer.from(stored.state).toString() },
    events: events.map((bytes) => Buffer.from(bytes).toString()),
  };
}

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
];

describe.each(STORES)('a journal in $name', ({ prepare }) => {
  let openAgain: () => JournalStore;
  let journal: JournalStore;

  beforeEach(() => {
    openAgain = prepare();
    journal = openAgain();
  });

  afterEach(() => journal.close());

  it('knows nothing of an actor that never wrote', () => {
    expect(journal.load('run', 'a')).toEqual({ snapshot: null, events: [] });
  });

  it('gives back events in their order, each actor its own', async () => {
    const writes: JournalWrite[] = [];
    for (let seq = 1; seq <= 300; seq++)
      writes.push(event('run', 'a', seq), event('run', 'b', seq, `b${seq}`));
    writes.push(event('ledger', 'a', 1, 'another kind'));
    expect(await commit(journal, writes)).toBeNull();
    expect(readable(journal.load('run', 'a')).events).toEqual(
      Array.from({ length: 300 }, (_, at) => `event ${at + 1}`),
    );
    expect(readable(journal.load('run', 'b')).events[299]).toBe('b300');
    expect(readable(journal.load('ledger', 'a')).events).toEqual(['another kind']);
  });

  it('calls done once, after it has returned, when the writes can be read', async () => {
    let calls = 0;
    const seen = await new Promise<number>((resolve) => {
      journal.commit([event('run', 'a', 1)], () => {
        calls++;
        resolve(journal.load('run', 'a').events.length);
      });
      expect(calls).toBe(0);
    });
    expect(seen).toBe(1);
    expect(await commit(journal, [event('run', 'a', 2)])).toBeNull();
    expect(calls).toBe(1);
  });

  it('replaces events by a snapshot, across commits and within one', async () => {
    await commit(journal, [event('run', 'a', 1), event('run', 'a', 2), event('run', 'ab', 1, 'not mine')]);
    await commit(journal, [event('run', 'a', 3), snapshot('run', 'a', 3, 'three', 7), event('run', 'a', 4)]);
    expect(readable(journal.load('run', 'a'))).toEqual({
      snapshot: { seq: 3, version: 7, state: 'three' },
      events: ['event 4'],
    });
    await commit(journal, [snapshot('run', 'a', 4, 'four')]);
    expect(readable(journal.load('run', 'a'))).toEqual({
      snapshot: { seq: 4, version: 1, state: 'four' },
      events: [],
    });
    expect(readable(journal.load('run', 'ab')).events).toEqual(['not mine']);
  });

  it('forgets an actor whole, and takes what comes behind as its first', async () => {
    await commit(journal, [
      snapshot('run', 'a', 3, 'three'),
      event('run', 'a', 4),
      event('run', 'ab', 1, 'not mine'),
    ]);
    await commit(journal, [event('run', 'a', 5), { type: 'forget', kind: 'run', key: 'a' }]);
    expect(journal.load('run', 'a')).toEqual({ snapshot: null, events: [] });
    expect(readable(journal.load('run', 'ab')).events).toEqual(['not mine']);
    await commit(journal, [
      event('run', 'a', 1),
      { type: 'forget', kind: 'run', key: 'a' },
      event('run', 'a', 1, 'anew'),
      event('run', 'a', 2),
    ]);
    expect(readable(journal.load('run', 'a'))).toEqual({ snapshot: null, events: ['anew', 'event 2'] });
    await journal.close();
    journal = openAgain();
    expect(readable(journal.load('run', 'a')).events).toEqual(['anew', 'event 2']);
  });

  it('is found again by the next one that opens it', async () => {
    await commit(journal, [snapshot('run', 'a', 5, 'five'), event('run', 'a', 6)]);
    await journal.close();
    journal = openAgain();
    expect(readable(journal.load('run', 'a'))).toEqual({
      snapshot: { seq: 5, version: 1, state: 'five' },
      events: ['event 6'],
    });
  });

  it('waits with closing for the outstanding commit', async () => {
    const outcome = commit(journal, [event('run', 'a', 1)]);
    await journal.close();
    expect(await outcome).toBeNull();
    journal = openAgain();
    expect(journal.load('run', 'a').events).toHaveLength(1);
  });

  it('fails commits and loads once it is closed', async () => {
    await journal.close();
    expect(await commit(journal, [event('run', 'a', 1)])).toBeInstanceOf(Error);
    expect(() => journal.load('run', 'a')).toThrow();
    journal = openAgain();
    expect(journal.load('run', 'a').events).toHaveLength(0);
  });

  it('keeps every key apart, the longest and the strangest too', async () => {
    const keys = ['a', 'a\0', 'a\0b', '\0', '\u0001', '\u001b', 'é', '\uffff', '😀', ' ', '0', '00', '1e3'];
    keys.push('€'.repeat(MAX_KEY_LENGTH), `${'€'.repeat(MAX_KEY_LENGTH - 1)}a`);
    const prng = createPrng(7);
    for (let i = 0; i < 200; i++) {
      const length = 1 + prng.below(6);
      keys.push(String.fromCharCode(...Array.from({ length }, () => prng.below(40))));
    }
    const unique = [...new Set(keys)];
    await commit(
      journal,
      unique.map((key, at) => event('run', key, 1, String(at))),
    );
    await commit(
      journal,
      unique.filter((_, at) => at % 2 === 0).map((key) => snapshot('run', key, 1, `snapshot of ${key}`)),
    );
    unique.forEach((key, at) => {
      expect(readable(journal.load('run', key))).toEqual(
        at % 2 === 0
          ? { snapshot: { seq: 1, version: 1, state: `snapshot of ${key}` }, events: [] }
          : { snapshot: null, events: [String(at)] },
      );
    });
  });

  it('refuses a history with a hole', async () => {
    await commit(journal, [event('run', 'a', 1), event('run', 'a', 3)]);
    expect(() => journal.load('run', 'a')).toThrow(/missing/);
  });

  it('returns bytes that no other code writes to', async () => {
    const bytes = Buffer.from('as written');
    const committed = commit(journal, [{ type: 'event', kind: 'run', key: 'a', seq: 1, event: bytes }]);
    await committed;
    bytes.fill(0);
    const first = journal.load('run', 'a').events[0]!;
    first.fill(1);
    expect(readable(journal.load('run', 'a')).events).toEqual(['as written']);
  });

  it('agrees with a plain list under random writes', async () => {
    const prng = createPrng(11);
    const model = new Map<string, { at: number; from: number; state: string | null; events: string[] }>();
    for (let round = 0; round < 60; round++) {
      const writes: JournalWrite[] = [];
      for (let i = prng.below(12); i >= 0; i--) {
        const key = `k${prng.below(5)}`;
        const actor = model.get(key) ?? { at: 0, from: 0, state: null, events: [] };
        model.set(key, actor);
        if (prng.chance(0.2) && actor.at > actor.from) {
          actor.from = actor.at;
          actor.state = `state ${actor.at}`;
          actor.events = [];
          writes.push(snapshot('run', key, actor.at, actor.state));
        } else {
          actor.at++;
          actor.events.push(`${round}/${i}`);
          writes.push(event('run', key, actor.at, `${round}/${i}`));
        }
      }
      expect(await commit(journal, writes)).toBeNull();
      if (prng.chance(0.1)) {
        await journal.close();
        journal = openAgain();
      }
      for (const [key, { from, state, events }] of model) {
        expect(readable(journal.load('run', key))).toEqual({
          snapshot: state === null ? null : { seq: from, version: 1, state },
          events,
        });
      }
    }
  });
});

describe('the journal in LMDB', () => {
  it('reads a snapshot where earlier versions kept it, and the next one replaces it', async () => {
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
    'reports a full disk, keeps what was there, and goes on (%s)',
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
      // The shell's limit on file sizes (512-byte blocks in sh, 1 KiB in bash) stands for the full disk.
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
