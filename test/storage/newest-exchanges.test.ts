/**
 * A row with the newest exchanges, which lists read until these are indexed. It is written with the exchanges, is
 * removed when the index is complete, and never contains erased exchanges.
 */
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { CAPTURE_NEWEST } from '../../src/limits.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { giveOrder } from '../../src/storage/capture/erase-order.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { listSealed, sealedPath } from '../../src/storage/capture/layout.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import type { DecodeExchange } from '../../src/storage/capture/stored-copy.ts';
import { findAnywhere, makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const KEPT = CAPTURE_NEWEST.exchanges;

function ask(at: number, part: Partial<CapturedExchange> = {}): CapturedExchange {
  const body = { model: 'claude-x', messages: [{ role: 'user', content: `Question ${at}.` }] };
  return makeExchange({ request_body: Buffer.from(JSON.stringify(body)), started_at_ms: at, ...part });
}

const asked = (from: number, count: number): CapturedExchange[] =>
  Array.from({ length: count }, (_, i) => ask(from + i));

/** A log that stores every exchange as it does under pressure, and indexes no exchange by itself. */
class Pressed {
  readonly folder = makeFolder();
  readonly path = join(this.folder, 'capture.mdb');
  readonly key: Buffer | null;
  log!: CaptureLog;
  readonly files: FollowedFiles;

  constructor(key: Buffer | null = null) {
    this.key = key;
    this.files = new FollowedFiles(this.path, { data_key: key });
    onTestFinished(() => this.files.close());
  }

  async open(options: Partial<CaptureLogOptions> = {}): Promise<this> {
    this.log = await CaptureLog.open({
      path: this.path,
      redact: true,
      data_key: this.key,
      pressed_rate: 0,
      ...options,
    });
    const { log } = this;
    onTestFinished(() => log.close());
    return this;
  }

  async index(): Promise<void> {
    while ((await this.log.indexSome(decodeExchange, 1_000)) > 0);
  }

  /** The ids in the row of a file. */
  rowOf(path: string): number[] {
    const reader = CaptureReader.open(path, { data_key: this.key });
    try {
      return reader.newest().map(({ id }) => id);
    } finally {
      void reader.close();
    }
  }

  /** How many exchanges a list gets from the index, and the ids that it gets from the row, newest first. */
  list(): { listed: number; newest: number[] } {
    const listed = this.files.refresh();
    return { listed, newest: this.files.newestUnlisted().map(({ id }) => id) };
  }
}

const span = (from: number, to: number): number[] =>
  Array.from({ length: Math.abs(from - to) + 1 }, (_, i) => from + (from > to ? -i : i));

describe('the newest exchanges', () => {
  it('are listed from the row until the index has them', async () => {
    const pressed = await new Pressed().open();
    await pressed.log.append([
      ask(1_000, {
        run_id: 'mine',
        path: '/v1/messages',
        query: 'beta=true',
        status: 529,
        duration_ms: 12.5,
      }),
      ask(2_000, { kind: 'other', method: 'GET', path: '/v1/models', provider: 'openai', aborted: true }),
    ]);
    expect(pressed.list()).toEqual({ listed: 0, newest: [2, 1] });
    const [second, first] = pressed.files.newestUnlisted();
    expect(first).toMatchObject({
      id: 1,
      run_id: 'mine',
      provider: 'anthropic',
      kind: 'turn',
      method: 'POST',
      path: '/v1/messages',
      served_by: 'upstream',
      status: 529,
      aborted: false,
      started_at_ms: 1_000,
      duration_ms: 12.5,
      response_bytes: 0,
    });
    expect(first!.request_bytes).toBeGreaterThan(0);
    expect(second).toMatchObject({ run_id: null, kind: 'other', method: 'GET', aborted: true });
    await pressed.index();
    expect(pressed.list()).toEqual({ listed: 2, newest: [] });
    expect(pressed.rowOf(pressed.path)).toEqual([]);
  });

  it('are as many as fit into the row, even if more wait', async () => {
    const pressed = await new Pressed().open();
    await pressed.log.append(asked(1, 3 * KEPT));
    const last = 3 * KEPT;
    expect(pressed.list().newest).toEqual(span(last, last - KEPT + 1));
    // The index has some of the exchanges, but not all.
    while (pressed.log.stats().indexed_id < last - 50) await pressed.log.indexSome(decodeExchange, 0);
    const { listed, newest } = pressed.list();
    expect(newest).toEqual(span(last, listed + 1));
    expect(pressed.files.unlisted).toBe(last - listed);
  });

  it('include only exchanges that were stored', async () => {
    let fails = false;
    const fault = (point: string, exchange?: CapturedExchange) => {
      if (point === 'commit' && fails) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
      if (point === 'encode' && exchange?.path === '/bad') throw new Error('unstorable');
    };
    const pressed = await new Pressed().open({ fault });
    await pressed.log.append([ask(1), ask(2, { path: '/bad' }), ask(3)]);
    fails = true;
    await expect(pressed.log.append([ask(4)])).rejects.toThrow('full');
    fails = false;
    await pressed.log.append([ask(5, { path: '/v1/last' })]);
    await pressed.log.flush();
    expect(pressed.list().newest).toEqual([3, 2, 1]);
    expect(pressed.files.newestUnlisted()[0]).toMatchObject({ started_at_ms: 5, path: '/v1/last' });
  });

  it('are listed without a long name of a run, and with the beginning of a long path', async () => {
    const pressed = await new Pressed().open();
    const run_id = 'r'.repeat(5_000);
    const path = `/${'p'.repeat(5_000)}`;
    await pressed.log.append([ask(1, { run_id, path, query: 'q=1' })]);
    pressed.list();
    const [row] = pressed.files.newestUnlisted();
    expect(row).toMatchObject({ run_id: null, path: path.slice(0, 512), provider: 'anthropic' });
  });

  it('survive a restart', async () => {
    const pressed = await new Pressed().open();
    await pressed.log.append(asked(1, 3));
    await pressed.log.close();
    await pressed.open();
    expect(pressed.list().newest).toEqual([3, 2, 1]);
    await pressed.log.append([ask(4)]);
    await pressed.log.flush();
    expect(pressed.list().newest).toEqual([4, 3, 2, 1]);
    await pressed.index();
    expect(pressed.list()).toEqual({ listed: 4, newest: [] });
  });

  it('are encrypted with the data key', async () => {
    const pressed = await new Pressed(Buffer.alloc(32, 7)).open();
    await pressed.log.append([ask(1, { run_id: 'secret-label', path: '/v1/secret-path' })]);
    expect(pressed.list().newest).toEqual([1]);
    expect(findAnywhere(pressed.folder, 'secret-label')).toEqual([]);
    expect(findAnywhere(pressed.folder, 'secret-path')).toEqual([]);
  });

  it('are not listed with another database that replaces their file', async () => {
    const other = await new Pressed().open();
    await other.log.append([ask(1, { path: '/v1/other' })]);
    await other.log.close();
    const pressed = await new Pressed().open();
    await pressed.log.append(asked(1, 5));
    for (const suffix of ['', '-lock', '-safe']) rmSync(pressed.path + suffix, { force: true });
    renameSync(other.path, pressed.path);
    await pressed.log.append([ask(9, { path: '/v1/new' })]);
    pressed.list();
    expect(pressed.files.newestUnlisted().map(({ path }) => path)).not.toContain('/v1/messages');
  });
});

describe('the newest exchanges of a file that is sealed', () => {
  it('are in the row of the next file', async () => {
    const pressed = await new Pressed().open();
    await pressed.log.append(asked(1, 3));
    const rotated = pressed.log.rotate();
    // This call is answered when the next file is open and the old file is not yet sealed.
    await pressed.log.readFirstStart();
    expect(pressed.list()).toEqual({ listed: 0, newest: [3, 2, 1] });
    expect(pressed.rowOf(listSealed(pressed.path)[0]!.path)).toEqual([]);
    await rotated;
    await pressed.log.append([ask(4)]);
    await pressed.log.flush();
    expect(pressed.rowOf(pressed.path)).toEqual([4]);
  });

  it('are listed until its index is complete, even if later exchanges are already indexed', async () => {
    const pressed = await new Pressed().open();
    const count = 2_000;
    await pressed.log.append(asked(1, count));
    await pressed.log.close();
    renameSync(pressed.path, sealedPath(pressed.path, 1, count, true));
    let isStored = false;
    const seen: { listed: number; newest: number[] }[] = [];
    const decode: DecodeExchange = (copy) => {
      if (isStored && seen.length === 0) seen.push(pressed.list());
      return decodeExchange(copy);
    };
    await pressed.open({ decode });
    await pressed.log.append([ask(count + 1)]);
    isStored = true;
    await vi.waitFor(() => expect(pressed.list().listed).toBe(count + 1), { timeout: 60_000 });
    expect(seen[0]!.listed).toBeLessThan(count);
    expect(seen[0]!.newest).toEqual([count + 1]);
    // The row is removed by the first write after the sealing.
    const isSealed = async () => {
      await pressed.log.flush();
      expect(pressed.rowOf(pressed.path)).toEqual([]);
    };
    await vi.waitFor(isSealed, { timeout: 60_000 });
  });
});

describe('an erased exchange', () => {
  it('is not listed, and others still are', async () => {
    // The decoder is so slow that each pass indexes one exchange.
    const decode: DecodeExchange = (copy) => {
      for (const until = performance.now() + 25; performance.now() < until; );
      return decodeExchange(copy);
    };
    const pressed = await new Pressed().open();
    await pressed.log.append([ask(1, { run_id: 'gone-run', path: '/v1/gone-path' }), ...asked(2, 9)]);
    await pressed.log.close();
    await pressed.open({ decode });
    expect(findAnywhere(pressed.folder, 'gone-path')).not.toEqual([]);
    const order = {
      format: 'understudy_erase_v1' as const,
      ranges: [[1, 1]] as [number, number][],
      last_id: 1,
      run_ids: ['gone-run'],
      marks: [{ id: 1, started_at: new Date(1).toISOString() }],
      followers: [],
      attachments: [],
      is_partial: false,
    };
    expect(giveOrder(pressed.path, order, null)).toBe(true);
    expect(await pressed.log.eraseOrdered()).toBe(true);
    expect(findAnywhere(pressed.folder, 'gone-path')).toEqual([]);
    expect(findAnywhere(pressed.folder, 'gone-run')).toEqual([]);
    await pressed.log.flush();
    const { listed, newest } = pressed.list();
    expect(listed).toBeLessThan(10);
    expect(newest).toEqual(span(10, listed + 1));
  });
});
