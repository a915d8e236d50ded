/** The redo log of `runs.mdb`. Every acknowledged event exists exactly once, even if the process was killed. */
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { JournalStore, JournalWrite } from '../../src/runtime/journal.ts';
import { writeBackup } from '../../src/storage/backup.ts';
import { REDO_LOG } from '../../src/storage/lmdb/backlog.ts';
import { type Change, readChanges, writeChange } from '../../src/storage/lmdb/changes.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { databasePaths, redoLogPath, tryStores } from '../../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { WriteTurn } from '../../src/storage/lmdb/write-turn.ts';
import { RedoLog } from '../../src/storage/redo-log.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { drawsOf } from '../long-parts.ts';
import { makeFolder } from './folder.ts';

const JOURNAL = new URL('../../src/storage/lmdb/journal.ts', import.meta.url).href;

function openJournal(folder: string, host = 0, turn?: WriteTurn): LmdbJournal {
  const paths = databasePaths(folder);
  return new LmdbJournal(paths.runs, 'process', {
    path: redoLogPath(paths, host),
    kinds: new Set(['run']),
    tables: new Set(['t', 'counts']),
    ...(turn === undefined ? {} : { turn }),
  });
}

function commit(journal: JournalStore, writes: readonly JournalWrite[]): Promise<Error | null> {
  return new Promise((resolve) => journal.commit(writes, resolve));
}

/** An event with its row and its count, like a step. */
function step(seq: number, key = 'a'): JournalWrite[] {
  const kind = 'run';
  return [
    { type: 'event', kind, key, seq, event: Buffer.from(`event ${seq}`) },
    { type: 'row', kind, key, row: { op: 'put', table: 't', row: [key, seq], value: { at: seq } } },
    {
      type: 'row',
      kind,
      key,
      row: { op: 'add', table: 'counts', row: ['steps'], counts: { steps: 1, sum: seq } },
    },
  ];
}

/** Reads the file in another process, without a question to the process that has it open. */
function readElsewhere(folder: string): { events: number; rows: number; steps: number } {
  const program = `
    import { LmdbJournal } from ${JSON.stringify(JOURNAL)};
    import { LmdbTables } from ${JSON.stringify(new URL('../../src/storage/lmdb/tables.ts', import.meta.url).href)};
    const path = ${JSON.stringify(databasePaths(folder).runs)};
    const [journal, tables] = [new LmdbJournal(path, 'process'), new LmdbTables(path, 'process')];
    const rows = [...tables.range('t', { prefix: [] })].length;
    const steps = tables.get('counts', ['steps'])?.steps ?? 0;
    console.log(JSON.stringify({ events: journal.load('run', 'a').events.length, rows, steps }));
    await Promise.all([journal.close(), tables.close()]);`;
  const { stdout } = spawnSync(process.execPath, [...STRIPPED_FLAGS, '--input-type=module', '-e', program], {
    encoding: 'utf8',
  });
  return JSON.parse(stdout);
}

/**
 * Runs a process that logs steps until it is killed after this many acknowledgements. Each step waits until the
 * previous one was reported, because only the event loop can write a report while the pipe to the test is full.
 * @returns the last acknowledged step
 */
function killWriter(folder: string, from: number, after: number, host = 0, key = 'a'): Promise<number> {
  const program = `
    import { LmdbJournal } from ${JSON.stringify(JOURNAL)};
    const journal = new LmdbJournal(${JSON.stringify(databasePaths(folder).runs)}, 'process', {
      path: ${JSON.stringify(redoLogPath(databasePaths(folder), host))}, kinds: new Set(['run']), tables: new Set(['t', 'counts']) });
    const step = ${step.toString()};
    const go = (seq) => journal.commit(step(seq, ${JSON.stringify(key)}), (error) => {
      if (error !== null) throw error;
      process.stdout.write(seq + '\\n', () => go(seq + 1));
    });
    go(${from});`;
  return new Promise((resolve, reject) => {
    const child = spawn(
      process.execPath,
      [...STRIPPED_FLAGS, '--experimental-transform-types', '--input-type=module-typescript', '-e', program],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let said = '';
    let wrong = '';
    child.stderr.on('data', (text: Buffer) => {
      wrong += text.toString();
    });
    child.stdout.on('data', (text: Buffer) => {
      said += text.toString();
      if (said.split('\n').length > after) child.kill('SIGKILL');
    });
    child.on('close', (_code, signal) => {
      if (signal !== 'SIGKILL') reject(new Error(wrong));
      else resolve(Number(said.slice(0, said.lastIndexOf('\n')).split('\n').at(-1)));
    });
  });
}

describe('commits behind a redo log', () => {
  it('are visible at once in their thread, and elsewhere a moment later', { tags: 'long' }, async () => {
    const folder = makeFolder();
    const journal = openJournal(folder);
    const tables = new LmdbTables(databasePaths(folder).runs, 'process');
    for (let seq = 1; seq <= 5; seq++) {
      expect(await commit(journal, step(seq))).toBeNull();
      expect(tables.get('t', ['a', seq])).toEqual({ at: seq });
      expect(tables.get('counts', ['steps'])).toEqual({ steps: seq, sum: (seq * (seq + 1)) / 2 });
      expect([...tables.range('t', { prefix: ['a'] })]).toHaveLength(seq);
      expect(journal.load('run', 'a').events).toHaveLength(seq);
    }
    // There are no further commits, so the log's own timer writes the last ones to the database.
    for (let seq = 6; seq <= 8; seq++) await commit(journal, step(seq));
    while (readElsewhere(folder).steps < 8) await new Promise((resolve) => setImmediate(resolve));
    expect(readElsewhere(folder)).toEqual({ events: 8, rows: 8, steps: 8 });
    await commit(journal, step(9));
    journal.settle();
    expect(readElsewhere(folder)).toEqual({ events: 9, rows: 9, steps: 9 });
    await Promise.all([journal.close(), tables.close()]);
  });

  it('stay in the log while other actors are read', async () => {
    const folder = makeFolder();
    const journal = openJournal(folder);
    await commit(journal, step(1, 'b'));
    journal.settle();
    await commit(journal, step(1));
    // All of this happens in one tick, so the log's own timer writes nothing.
    expect(journal.load('run', 'b').events).toHaveLength(1);
    expect(journal.load('run', 'aa').events).toHaveLength(0);
    expect(journal.load('rum', 'a').events).toHaveLength(0);
    expect(readElsewhere(folder).events).toBe(0);
    expect(journal.load('run', 'a').events).toHaveLength(1);
    expect(readElsewhere(folder).events).toBe(1);
    await journal.close();
  });

  it('stay in the log while an unchanged row is read', async () => {
    const folder = makeFolder();
    const journal = openJournal(folder);
    const tables = new LmdbTables(databasePaths(folder).runs, 'process');
    await commit(journal, step(1, 'b'));
    journal.settle();
    await commit(journal, step(1));
    // No tick is in between, so the log's own timer writes nothing to the database.
    expect(tables.get('t', ['b', 1])).toEqual({ at: 1 });
    expect(tables.get('t', ['a', 2])).toBeUndefined();
    expect(readElsewhere(folder).rows).toBe(1);
    expect(tables.get('t', ['a', 1])).toEqual({ at: 1 });
    expect(readElsewhere(folder).rows).toBe(2);
    await Promise.all([journal.close(), tables.close()]);
  });

  it('are all read, including snapshots, in any number', async () => {
    const journal = openJournal(makeFolder());
    const keys = Array.from({ length: 100 }, (_, number) => `k${number}`);
    for (const key of keys) await commit(journal, step(1, key));
    for (const key of keys) expect(journal.load('run', key).events).toHaveLength(1);
    const snapshot = {
      type: 'snapshot',
      kind: 'run',
      key: 'k7',
      seq: 1,
      version: 1,
      state: Buffer.of(7),
    } as const;
    await commit(journal, [snapshot]);
    expect(journal.load('run', 'k7')).toEqual({
      snapshot: { seq: 1, version: 1, state: Uint8Array.of(7) },
      events: [],
    });
    await journal.close();
  });

  it('are written directly to the database, after all earlier commits, if other threads wait for their rows', async () => {
    const folder = makeFolder();
    const journal = openJournal(folder);
    await commit(journal, step(1));
    const asked: JournalWrite[] = [
      ...step(2),
      { type: 'row', kind: 'run', key: 'a', row: { op: 'put', table: 'asked', row: ['x'], value: 1 } },
    ];
    expect(await commit(journal, asked)).toBeNull();
    expect(readElsewhere(folder)).toEqual({ events: 2, rows: 2, steps: 2 });
    await journal.close();
  });

  it('survive kills: each exists once, in an unbroken history', { tags: 'long' }, async () => {
    const folder = makeFolder();
    let told = 0;
    for (const after of [3, 1, 200]) {
      const paths = databasePaths(folder);
      told = await killWriter(folder, told + 1, after);
      // Commits in progress may have been acknowledged, so the next process must know them.
      await tryStores(paths);
      const journal = openJournal(folder);
      const tables = new LmdbTables(paths.runs, 'process');
      const { events } = journal.load('run', 'a');
      expect(events.length).toBeGreaterThanOrEqual(told);
      expect(Buffer.from(events.at(-1)!).toString()).toBe(`event ${events.length}`);
      const n = events.length;
      expect(tables.get('counts', ['steps'])).toEqual({ steps: n, sum: (n * (n + 1)) / 2 });
      expect([...tables.range('t', { prefix: [] })]).toHaveLength(n);
      told = n;
      await Promise.all([journal.close(), tables.close()]);
    }
  });

  it('are applied from the logs of all hosts, even if the number of hosts has changed', {
    tags: 'long',
  }, async () => {
    const folder = makeFolder();
    const paths = databasePaths(folder);
    const told = [await killWriter(folder, 1, 50, 0, 'k0'), await killWriter(folder, 1, 30, 7, 'k7')];
    await tryStores(paths);
    const tables = new LmdbTables(paths.runs, 'process');
    const rows = ['k0', 'k7'].map((key) => [...tables.range('t', { prefix: [key] })].length);
    for (const [at, count] of rows.entries()) expect(count).toBeGreaterThanOrEqual(told[at]!);
    expect(tables.get('counts', ['steps'])).toMatchObject({ steps: rows[0]! + rows[1]! });
    await tables.close();
  });

  it('are not counted again if a log was applied before', async () => {
    const folder = makeFolder();
    const paths = databasePaths(folder);
    let journal = openJournal(folder);
    for (let seq = 1; seq <= 4; seq++) await commit(journal, step(seq));
    const log = readFileSync(redoLogPath(paths, 0));
    await journal.close();
    for (let again = 0; again < 3; again++) {
      writeFileSync(redoLogPath(paths, 0), log);
      journal = openJournal(folder);
      await commit(journal, step(5 + again));
      await journal.close();
    }
    expect(readElsewhere(folder)).toEqual({ events: 7, rows: 7, steps: 7 });
  });

  it('are not read from a log that continues another state of the database', async () => {
    const folder = makeFolder();
    const paths = databasePaths(folder);
    let journal = openJournal(folder);
    await commit(journal, step(1));
    const first = readFileSync(redoLogPath(paths, 0));
    journal.settle();
    await commit(journal, step(2));
    const second = readFileSync(redoLogPath(paths, 0));
    await journal.close();
    for (const log of [first, second]) {
      for (const name of ['runs.mdb', 'runs.mdb-lock']) rmSync(join(folder, name), { force: true });
      writeFileSync(redoLogPath(paths, 0), log);
      journal = openJournal(folder);
      expect(journal.load('run', 'a').events).toEqual([]);
      await journal.close();
    }
    journal = openJournal(folder);
    // The log accepts further records.
    await commit(journal, step(1, 'b'));
    await journal.close();
    journal = openJournal(folder);
    expect(journal.load('run', 'b').events).toHaveLength(1);
    await journal.close();
  });

  it('that are too large for the log are written directly to the database', async () => {
    const folder = makeFolder();
    const journal = openJournal(folder);
    await commit(journal, step(1));
    const large: JournalWrite = {
      type: 'event',
      kind: 'run',
      key: 'a',
      seq: 2,
      event: Buffer.alloc(3 << 20, 1),
    };
    expect(await commit(journal, [large])).toBeNull();
    for (let seq = 3; seq < 3_000; seq++) expect(await commit(journal, step(seq))).toBeNull();
    expect(journal.load('run', 'a').events).toHaveLength(2_999);
    await journal.close();
  });

  it.skipIf(process.platform !== 'linux')(
    'that neither the log nor the database accepts are refused, and nothing acknowledged is lost',
    () => {
      const folder = makeFolder();
      const program = `
      import { LmdbJournal } from ${JSON.stringify(JOURNAL)};
      const journal = new LmdbJournal(${JSON.stringify(databasePaths(folder).runs)}, 'process', {
        path: ${JSON.stringify(redoLogPath(databasePaths(folder), 0))}, kinds: new Set(['run']), tables: new Set() });
      const commit = (writes) => new Promise((resolve) => journal.commit(writes, resolve));
      const write = (seq, bytes) => ({ type: 'event', kind: 'run', key: 'a', seq, event: Buffer.alloc(bytes, seq) });
      const told = [];
      let seq = 1;
      for (let i = 0; i < 400; i++) {
        const failed = (await commit([write(seq, 5_000)])) !== null;
        told.push(failed);
        if (!failed) seq++;
      }
      console.log(JSON.stringify({ seq, failures: told.filter(Boolean).length }));
      await journal.close();`;
      const { stdout, status } = spawnSync(
        'bash',
        [
          '-c',
          'trap "" XFSZ; ulimit -f 700; exec "$0" --input-type=module -e "$1"',
          process.execPath,
          program,
        ],
        { encoding: 'utf8' },
      );
      expect(status).toBe(0);
      const { seq, failures } = JSON.parse(stdout);
      expect(failures).toBeGreaterThan(0);
      expect(seq).toBeGreaterThan(50);
      // Once there is space again, every acknowledged record exists.
      const journal = openJournal(folder);
      expect(journal.load('run', 'a').events.length).toBe(seq - 1);
      return journal.close();
    },
  );

  it('are in a backup that is taken before they are in the database', async () => {
    const folder = makeFolder();
    const source = { data_dir: join(folder, 'data'), capture_db: join(folder, 'none.mdb') };
    const target = { data_dir: join(folder, 'again'), capture_db: join(folder, 'again.mdb') };
    await killWriter(source.data_dir, 1, 30);
    const manifest = await writeBackup(source, join(folder, 'copy'), () => {}, 0);
    expect(manifest.files.map(({ name }) => name)).toContain('runs.0.redo');
    await restoreBackup(join(folder, 'copy'), target, () => {});
    const counts: number[] = [];
    for (const { data_dir } of [source, target]) {
      const journal = openJournal(data_dir);
      counts.push(journal.load('run', 'a').events.length);
      await journal.close();
    }
    expect(counts[0]).toBeGreaterThanOrEqual(30);
    expect(counts[1]).toBe(counts[0]);
  });
});

describe('a redo log', () => {
  const put = (text: string) => (into: Buffer, at: number) => at + into.write(text, at, 'latin1');

  it('returns the records before the first damaged one, for any damage', () => {
    const folder = makeFolder();
    const path = join(folder, 'x.redo');
    const log = new RedoLog(path, 65_536);
    // The bytes of old records remain after the new ones.
    for (let n = 0; n < 40; n++) log.append(put(`old record ${n}`));
    log.beginAgain();
    const texts = Array.from({ length: 20 }, (_, n) => `record ${'x'.repeat(n)}`);
    for (const text of texts) expect(log.append(put(text))).toBeGreaterThan(40);
    log.close();
    const whole = readFileSync(path);
    const read = () => {
      const again = new RedoLog(path, 65_536);
      again.close();
      return again.found.map(({ payload }) => payload.toString());
    };
    expect(read()).toEqual(texts);
    fc.assert(
      fc.property(
        fc.integer({ min: 28, max: whole.length - 1 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 255 }),
        (at, isCut, by) => {
          writeFileSync(path, whole);
          if (isCut) truncateSync(path, at);
          else
            writeFileSync(
              path,
              Buffer.concat([whole.subarray(0, at), Buffer.of(whole[at]! ^ by), whole.subarray(at + 1)]),
            );
          const found = read();
          expect(texts.slice(0, found.length)).toEqual(found);
          let end = 28;
          for (const text of found) end += 16 + text.length;
          // Every record that ends before the damage is returned.
          if (found.length < texts.length) expect(end + 16 + texts[found.length]!.length).toBeGreaterThan(at);
        },
      ),
      drawsOf(300),
    );
  });

  it('is made again if the file is not a redo log, and reports when it is full', () => {
    const path = join(makeFolder(), 'x.redo');
    for (const content of ['', 'something else', 'USREDO01short']) {
      rmSync(path, { force: true });
      appendFileSync(path, content);
      const log = new RedoLog(path, 64);
      expect(log.found).toEqual([]);
      expect(log.append((into, at) => (at + 100 > into.length ? -1 : at + 100))).toBe(0);
      expect(log.append(put('fits'))).toBe(1);
      log.close();
      const again = new RedoLog(path, 64);
      expect(again.found.map(({ payload }) => payload.toString())).toEqual(['fits']);
      expect(again.identity).toEqual(log.identity);
      again.close();
    }
    expect(existsSync(path)).toBe(true);
  });

  it('contains changes unchanged', () => {
    const key = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes));
    const database = fc.constantFrom('journal', 'rows:t', 'rows:run_steps');
    const change: fc.Arbitrary<Change> = fc.oneof(
      fc.record({ op: fc.constant('put' as const), database, key, value: key }),
      fc.record({ op: fc.constant('remove' as const), database, key }),
      fc.record({ op: fc.constant('clear' as const), database, key, end: key }),
      fc.record({
        op: fc.constant('add' as const),
        database,
        key,
        counts: fc.dictionary(
          fc.constantFrom('steps', 'tokens', 'runs'),
          fc.integer({ min: 0, max: 2 ** 40 }),
          { noNullPrototype: true },
        ),
      }),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 8 }), (changes) => {
        const bytes = Buffer.alloc(4_096);
        let at = 0;
        for (const change of changes) at = writeChange(change, bytes, at);
        expect(readChanges(bytes.subarray(0, at))).toEqual(changes);
        const small = Buffer.alloc(Math.max(0, at - 1));
        let end = 0;
        for (const change of changes) if (end >= 0) end = writeChange(change, small, end);
        if (changes.length > 0) expect(end).toBe(-1);
      }),
    );
  });
});

describe('the turn of the writing threads', () => {
  const last_yield_ms = REDO_LOG.delay_ms + REDO_LOG.yield_ms * (REDO_LOG.yields_max - 1);

  afterEach(() => {
    vi.useRealTimers();
  });

  /** Makes a journal with one acknowledged step, while another thread has the turn. */
  async function promiseBehindAnother() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const memory = WriteTurn.allocate();
    const other = new WriteTurn(memory, 1);
    other.take();
    const folder = makeFolder();
    const journal = openJournal(folder, 0, new WriteTurn(memory, 0));
    expect(await commit(journal, step(1))).toBeNull();
    return { folder, journal, other, own: new WriteTurn(memory, 0) };
  }

  it('waits for another thread, and writes when that thread is done', async () => {
    const { folder, journal, other } = await promiseBehindAnother();
    vi.advanceTimersByTime(last_yield_ms);
    expect(readElsewhere(folder).rows).toBe(0);
    other.giveBack();
    vi.advanceTimersByTime(REDO_LOG.yield_ms);
    expect(readElsewhere(folder)).toEqual({ events: 1, rows: 1, steps: 1 });
    await journal.close();
  });

  it('stops waiting for a thread that ended with the turn, and takes the turn', async () => {
    const { folder, journal, own } = await promiseBehindAnother();
    expect(own.isTaken).toBe(true);
    vi.advanceTimersByTime(last_yield_ms + REDO_LOG.yield_ms);
    expect(readElsewhere(folder)).toEqual({ events: 1, rows: 1, steps: 1 });
    expect(own.isTaken).toBe(false);
    await journal.close();
  });

  it('does not wait for a read', async () => {
    const { folder, journal, own } = await promiseBehindAnother();
    journal.settle();
    expect(readElsewhere(folder).rows).toBe(1);
    expect(own.isTaken).toBe(false);
    await journal.close();
  });
});
