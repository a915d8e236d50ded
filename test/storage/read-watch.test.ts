/**
 * A process that reads the live file in one transaction for too long is first reported and then ended. Processes that
 * do not have the file open, or that renew their transactions, are not ended. Without such a long transaction the file
 * does not grow while it is read.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { closeStores, databasePaths, openStores } from '../../src/storage/lmdb/stores.ts';
import { type OldRead, ReadWatch } from '../../src/storage/read-watch.ts';
import { StoreReads } from '../../src/storage/store-reads.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const AGES = { told_ms: 10, asked_ms: 100, killed_ms: 200 };

async function openLog(): Promise<{ path: string; log: CaptureLog }> {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  onTestFinished(() => log.close());
  return { path, log };
}

const say = (n: number) =>
  makeExchange({
    run_id: `r${n % 5}`,
    request_body: Buffer.from(`{"messages":[{"role":"user","content":"${n}"}]}`),
  });

describe('the watch over reads', () => {
  it('reports a process that reads for a long time, and then ends it', async () => {
    const { path, log } = await openLog();
    await log.append([say(1)]);
    const holder = spawn(process.execPath, [join(import.meta.dirname, 'read-holder.ts'), path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(holder, 'close');
    await once(holder.stdout!, 'data');
    const clock = createManualClock(0);
    const told: OldRead[] = [];
    const watch = new ReadWatch({
      path,
      listReads: () => log.listReads(),
      tell: (read) => told.push(read),
      ages: AGES,
      clock,
    });
    for (const ms of [0, 50, 20, 20]) {
      clock.advance(ms);
      watch.look();
    }
    expect(told).toEqual([{ pid: holder.pid, seconds: 0, done: 'told' }]);
    clock.advance(20);
    watch.look();
    expect(told.at(-1)).toMatchObject({ pid: holder.pid, done: 'asked' });
    expect((await ended)[1]).toBe('SIGTERM');
    expect(log.listReads().filter(({ pid }) => pid === holder.pid)).toEqual([]);
  });

  it('ends no process that has not opened the file, and no process whose transactions are short', async () => {
    const { path } = await openLog();
    const clock = createManualClock(0);
    const told: OldRead[] = [];
    let txn = 1;
    // A listed process may run in another container, and its id may belong to a different process here. The process
    // that the test starts here has opened no capture file.
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' });
    await once(stranger, 'spawn');
    const ended = once(stranger, 'close');
    const watch = new ReadWatch({
      path,
      listReads: () => [
        { pid: stranger.pid!, thread: 'a', txn: 1 },
        { pid: stranger.pid!, thread: 'b', txn: txn++ },
      ],
      tell: (read) => told.push(read),
      ages: AGES,
      clock,
    });
    for (let look = 0; look < 10; look++) {
      watch.look();
      clock.advance(50);
    }
    expect(told).toEqual([{ pid: stranger.pid, seconds: 0, done: 'told' }]);
    clock.advance(1_500);
    expect(watch.oldest_s).toBe(2);
    stranger.kill('SIGKILL');
    expect((await ended)[1]).toBe('SIGKILL');
  });
});

describe('the watch over reads of main.mdb and runs.mdb', () => {
  /**
   * Starts a process that reads the file in one transaction.
   * @param shell whether a shell starts it, and not this process
   */
  async function holdRead(path: string, shell: boolean) {
    const entry = join(import.meta.dirname, 'read-holder.ts');
    const argv = shell
      ? ['sh', '-c', '"$0" "$@" & wait $!', process.execPath, entry, path]
      : [process.execPath, entry, path];
    const holder = spawn(argv[0]!, argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(holder, 'close');
    await once(holder.stdout!, 'data');
    return { holder, ended };
  }

  async function openReads() {
    const paths = databasePaths(makeFolder());
    const { main, runs } = openStores(paths);
    await main.transact((tx) => tx.write({ op: 'put', table: 't', row: [1], value: 'x' }));
    const told: (OldRead & { path: string })[] = [];
    const reads = new StoreReads(paths, {
      tell: (path, read) => told.push({ path, ...read }),
      ages: { told_ms: 0, asked_ms: 0, killed_ms: 1_000_000 },
    });
    onTestFinished(async () => {
      await reads.stop();
      await Promise.all([main.close(), runs.close()]);
    });
    return { paths, reads, told };
  }

  it('leaves enough space for all tables in a file that it opens first', async () => {
    const paths = databasePaths(makeFolder());
    await closeStores(openStores(paths));
    const reads = new StoreReads(paths, { tell: () => {} });
    const { main, runs } = openStores(paths);
    onTestFinished(async () => {
      await reads.stop();
      await Promise.all([main.close(), runs.close()]);
    });
    for (let at = 0; at < 40; at++)
      await main.transact((tx) => tx.write({ op: 'put', table: `t${at}`, row: [1], value: at }));
    expect(main.get('t39', [1])).toBe(39);
  });

  it('ends a command that reads for a long time, and says how old the oldest read is', async () => {
    const { paths, reads, told } = await openReads();
    reads.look();
    expect(reads.ages()).toEqual({ 'main.mdb': { oldest_read_s: 0 }, 'runs.mdb': { oldest_read_s: 0 } });
    const { ended } = await holdRead(paths.main, true);
    reads.look();
    expect(told).toMatchObject([{ path: paths.main, done: 'asked' }]);
    // The shell exits with 128 plus the number of SIGTERM.
    expect((await ended)[0]).toBe(143);
    reads.look();
    expect(told).toHaveLength(1);
  });

  it('names a process of the service itself, and does not end it', async () => {
    const { paths, reads, told } = await openReads();
    const { holder, ended } = await holdRead(paths.runs, false);
    reads.look();
    reads.look();
    expect(told).toMatchObject([{ path: paths.runs, pid: holder.pid, done: 'told' }]);
    holder.kill('SIGKILL');
    expect((await ended)[1]).toBe('SIGKILL');
  });
});

describe('a long scan during writes', () => {
  /** Writes 150 times, each time between two exchanges of a scan. @returns the size of the file */
  async function writeBeside(kind: 'none' | 'reader' | 'one transaction'): Promise<number> {
    const { path, log } = await openLog();
    await log.append(Array.from({ length: 150 }, (_, n) => say(n)));
    await log.flush();
    const reader = CaptureReader.open(path);
    const held = openCaptureEnv(path, 'read');
    const read = kind === 'one transaction' ? held.root.useReadTransaction() : null;
    const scan =
      kind === 'reader' ? reader.summaries() : Array.from({ length: 150 }, (_, at) => ({ id: at + 1 }));
    for (const { id } of scan) {
      if (kind === 'reader') reader.body(id, 'request');
      await log.append([say(id)]);
      await log.flush();
    }
    read?.done();
    await reader.close();
    await held.root.close();
    return statSync(path).size;
  }

  it('does not make the file grow', { tags: 'long' }, async () => {
    const alone = await writeBeside('none');
    expect(await writeBeside('reader')).toBeLessThan(1.1 * alone);
    // This checks that a single transaction would make the file grow.
    expect(await writeBeside('one transaction')).toBeGreaterThan(2 * alone);
  });
});
