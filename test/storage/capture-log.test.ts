/** The capture database: what was stored can be read, after batches, deltas, rotation, restart and failure. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeBlock, draftRecord, encodeBlock, readBlockHead } from '../../src/storage/capture/codec.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

async function openLog(folder: string, options: Partial<CaptureLogOptions> = {}): Promise<CaptureLog> {
  const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: false, ...options });
  onTestFinished(() => log.close());
  return log;
}

function openReader(path: string): CaptureReader {
  const reader = CaptureReader.open(path);
  onTestFinished(() => reader.close());
  return reader;
}

/** A growing conversation as JSON, with a moving marker. */
function makeTurns(count: number, turnBytes: number, marker: boolean): Buffer[] {
  const messages: unknown[] = [];
  return Array.from({ length: count }, (_, turn) => {
    messages.push({
      role: 'user',
      content: [{ type: 'text', text: `${turn}: ${randomBytes(turnBytes / 2).toString('hex')}` }],
    });
    const marked = messages.map((message, i) =>
      marker && i === messages.length - 1
        ? { ...(message as object), cache_control: { type: 'ephemeral' } }
        : message,
    );
    const body = JSON.stringify({
      model: 'm',
      at: marker ? turn : 0,
      system: 's'.repeat(500),
      messages: marked,
      stream: true,
    });
    messages.push({ role: 'assistant', content: `answer ${turn}` });
    return Buffer.from(body);
  });
}

describe('the capture log', () => {
  it('fails a batch if another writer has used its ids, and stores it with later ids at the retry', async () => {
    const folder = makeFolder();
    const first = await openLog(folder);
    const second = await openLog(folder);
    const batch = (text: string, count: number) =>
      Array.from({ length: count }, (_, i) => makeExchange({ request_body: Buffer.from(`${text} ${i}`) }));
    expect(await first.append(batch('first', 1))).toEqual({ first_id: 1, last_id: 1 });
    await expect(second.append(batch('second', 20))).rejects.toThrow(/another process has written/);
    expect(await second.append(batch('second', 20))).toEqual({ first_id: 2, last_id: 21 });
    await expect(first.append(batch('first', 3))).rejects.toThrow(/another process has written/);
    expect(await first.append(batch('first', 3))).toEqual({ first_id: 22, last_id: 24 });
    const reader = openReader(join(folder, 'capture.mdb'));
    expect(Buffer.from(reader.body(1, 'request')!).toString()).toBe('first 0');
    expect(Buffer.from(reader.body(21, 'request')!).toString()).toBe('second 19');
    expect(Buffer.from(reader.body(24, 'request')!).toString()).toBe('first 2');
  });

  it('returns what was stored, for any batches, bodies and runs', { tags: 'long' }, async () => {
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.string({ maxLength: 2_000 }).map((text) => Buffer.from(text)),
      // Bodies that share long parts, as the bodies of one run do.
      fc
        .tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(40_000), fc.string({ maxLength: 50 }), fc.nat(40_000))
        .map(([seed, size, noise, rest]) =>
          Buffer.concat([repeat(seed, size), Buffer.from(noise), repeat(`${seed}x`, rest)]),
        ),
    );
    const exchange = fc.record({
      run_id: fc.option(fc.constantFrom('r1', 'r2', 'rön "3"')),
      seq: fc.option(fc.nat(1_000)),
      path: fc.constantFrom('/v1/messages', '/v1/models'),
      status: fc.constantFrom(0, 200, 429),
      aborted: fc.boolean(),
      request_headers: fc
        .array(fc.tuple(fc.constantFrom('accept', 'x-thing', 'X-Other'), headerValue()), { maxLength: 6 })
        .map((pairs) => pairs.flat()),
      request_body: body,
      response_body: body,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(exchange, { maxLength: 6 }), { maxLength: 8 }), async (batches) => {
        const folder = makeFolder();
        const path = join(folder, 'capture.mdb');
        const log = await CaptureLog.open({ path, redact: false });
        const written: CapturedExchange[] = [];
        for (const batch of batches) {
          const made = batch.map((part) => makeExchange(part));
          const ids = await log.append(made);
          expect(ids).toEqual({ first_id: written.length + 1, last_id: written.length + batch.length });
          written.push(...made);
        }
        await log.close();
        const reader = CaptureReader.open(path);
        const records = [...reader.exchanges()];
        expect(records.map((record) => record.id)).toEqual(written.map((_, i) => i + 1));
        // Reads in reverse order, so that an earlier read has cached nothing useful.
        for (const [i, given] of [...written.entries()].reverse()) {
          const record = records[i]!;
          expect(same(reader.body(i + 1, 'request'), given.request_body)).toBe(true);
          expect(same(reader.body(i + 1, 'response'), given.response_body)).toBe(true);
          expect(record.run_id).toBe(given.run_id);
          expect(record.seq).toBe(given.seq);
          expect(record.status).toBe(given.status);
          expect(record.aborted).toBe(given.aborted);
          expect(record.request.headers.flat()).toEqual(given.request_headers);
          expect(record.response.headers.flat()).toEqual(given.response_headers);
          expect(record.request.bytes).toBe(given.request_body.length);
          expect(record.started_at).toBe('2025-10-09T08:53:20.000Z');
        }
        await reader.close();
        rmSync(folder, { recursive: true });
      }),
      { numRuns: 40 },
    );
  });

  for (const [name, marker, batch] of [
    ['one at a time', false, 1],
    ['one at a time, with a moving marker and noise', true, 1],
    ['in batches', true, 7],
  ] as const) {
    it(`stores a long run ${name} and reads any turn of it`, async () => {
      const folder = makeFolder();
      const log = await openLog(folder);
      const turns = makeTurns(80, 600, marker);
      for (let i = 0; i < turns.length; i += batch) {
        const part = turns.slice(i, i + batch);
        await log.append(
          part.map((request_body) =>
            makeExchange({ run_id: 'r', request_body, response_body: request_body.subarray(0, 99) }),
          ),
        );
      }
      await log.flush();
      const last = openReader(log.stats().path).body(80, 'request');
      expect(same(last, turns[79]!)).toBe(true);
      const reader = openReader(log.stats().path);
      for (const [i, turn] of turns.entries()) expect(same(reader.body(i + 1, 'request'), turn)).toBe(true);
      const sent = turns.reduce((sum, turn) => sum + turn.length, 0);
      // The live file keeps the pages of the checkpoint before the last one; a sealed file has only the stored data.
      const { sealed } = await log.rotate();
      expect(statSync(sealed!).size).toBeLessThan(sent / 8);
    });
  }

  it('finds the base of requests without a run label', async () => {
    const folder = makeFolder();
    const log = await openLog(folder);
    const runs = [makeTurns(20, 4_000, false), makeTurns(20, 4_000, false), makeTurns(20, 4_000, false)];
    let sent = 0;
    for (let turn = 0; turn < 20; turn++) {
      for (const run of runs) {
        await log.append([makeExchange({ request_body: run[turn]! })]);
        sent += run[turn]!.length;
      }
    }
    await log.flush();
    const reader = openReader(log.stats().path);
    for (let turn = 0; turn < 20; turn++) {
      for (const [i, run] of runs.entries()) {
        expect(same(reader.body(turn * 3 + i + 1, 'request'), run[turn]!)).toBe(true);
      }
    }
    // Random hex digits compress to half their size. Each request contains all turns of the previous request and one
    // more.
    const { sealed } = await log.rotate();
    expect(statSync(sealed!).size).toBeLessThan(sent / 8);
  });

  it('continues the ids after a restart', async () => {
    const folder = makeFolder();
    const first = await openLog(folder);
    await first.append([makeExchange(), makeExchange()]);
    await first.close();
    const second = await openLog(folder);
    expect(await second.append([makeExchange()])).toEqual({ first_id: 3, last_id: 3 });
    expect(await second.append([])).toEqual({ first_id: 4, last_id: 3 });
  });

  it('seals a compacted read-only file, and continues the ids', async () => {
    const folder = makeFolder();
    const log = await openLog(folder);
    expect(await log.rotate()).toEqual({ sealed: null, opened: join(folder, 'capture.mdb') });
    const turns = makeTurns(6, 2_000, true);
    await log.append(turns.slice(0, 3).map((request_body) => makeExchange({ run_id: 'r', request_body })));
    // A rotation and an append run at once. No exchange is lost, and the order is kept.
    const [rotated, appended] = await Promise.all([
      log.rotate(),
      log.append(turns.slice(3).map((request_body) => makeExchange({ run_id: 'r', request_body }))),
    ]);
    expect(rotated.sealed).toBe(join(folder, 'capture.1-3.mdb'));
    expect(appended).toMatchObject({ first_id: 4, last_id: 6 });
    expect(statSync(rotated.sealed!).mode & 0o777).toBe(0o400);
    expect(log.stats().sealed).toBe(1);
    const sealed = openReader(rotated.sealed!);
    const live = openReader(rotated.opened);
    expect(sealed.range()).toMatchObject({ first_id: 1, last_id: 3 });
    expect(live.range()).toMatchObject({ first_id: 4, last_id: 6 });
    for (const [i, turn] of turns.entries()) {
      expect(same((i < 3 ? sealed : live).body(i + 1, 'request'), turn)).toBe(true);
    }
    expect(live.exchange(3)).toBeUndefined();
    expect(sealed.body(4, 'request')).toBeUndefined();
  });

  it('continues the ids if the live file is missing and sealed ones exist', async () => {
    const folder = makeFolder();
    const first = await openLog(folder);
    await first.append([makeExchange(), makeExchange()]);
    await first.rotate();
    await first.close();
    rmSync(join(folder, 'capture.mdb'));
    const second = await openLog(folder);
    expect((await second.append([makeExchange()])).first_id).toBe(3);
  });

  it('continues in its file if the new file cannot be made', async () => {
    const folder = makeFolder();
    const log = await openLog(folder);
    const bodies = ['one', 'two'].map((text) => Buffer.from(text));
    await log.append([makeExchange({ request_body: bodies[0]! })]);
    // There is a folder at the path of the new file, so that it cannot be made.
    mkdirSync(join(folder, 'capture.mdb.new'));
    await expect(log.rotate()).rejects.toThrow();
    expect(log.stats().sealed).toBe(0);
    expect(await log.append([makeExchange({ request_body: bodies[1]! })])).toEqual({
      first_id: 2,
      last_id: 2,
    });
    const reader = openReader(join(folder, 'capture.mdb'));
    for (const [at, body] of bodies.entries()) expect(same(reader.body(at + 1, 'request'), body)).toBe(true);
    rmSync(join(folder, 'capture.mdb.new'), { recursive: true });
    expect((await log.rotate()).sealed).toBe(join(folder, 'capture.1-2.mdb'));
  });

  it('finishes an interrupted rotation', async () => {
    const folder = makeFolder();
    const first = await openLog(folder);
    await first.append([makeExchange({ request_body: Buffer.from('one') })]);
    await first.close();
    const { renameSync } = await import('node:fs');
    renameSync(join(folder, 'capture.mdb'), join(folder, 'capture.1-1.sealing.mdb'));
    writeFileSync(join(folder, 'capture.1-1.mdb.part'), 'half');
    const second = await openLog(folder);
    expect((await second.append([makeExchange()])).first_id).toBe(2);
    // `close` would interrupt the seal.
    const isSealing = () => existsSync(join(folder, 'capture.1-1.sealing.mdb'));
    await expect.poll(isSealing, { timeout: PATIENCE_MS }).toBe(false);
    await second.close();
    expect(readdirSync(folder).sort()).toEqual([
      'capture.1-1.mdb',
      'capture.mdb',
      'capture.mdb-lock',
      'capture.mdb-safe',
    ]);
    expect(Buffer.from(openReader(join(folder, 'capture.1-1.mdb')).body(1, 'request')!).toString()).toBe(
      'one',
    );
  });

  it('uses no id for a failed write, and continues', async () => {
    const folder = makeFolder();
    let failing = false;
    const fault = (): void => {
      if (failing) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    };
    const log = await openLog(folder, { fault });
    const turns = makeTurns(4, 2_000, false);
    const make = (i: number): CapturedExchange => makeExchange({ run_id: 'r', request_body: turns[i]! });
    await log.append([make(0)]);
    failing = true;
    await expect(log.append([make(1), make(2)])).rejects.toThrow('no space');
    await expect(log.append([make(1)])).rejects.toThrow('no space');
    failing = false;
    expect(await log.append([make(1)])).toEqual({ first_id: 2, last_id: 2 });
    expect(await log.append([make(2), make(3)])).toEqual({ first_id: 3, last_id: 4 });
    const reader = openReader(log.stats().path);
    for (const [i, turn] of turns.entries()) expect(same(reader.body(i + 1, 'request'), turn)).toBe(true);
  });

  describe.each([
    ['a few', 4],
    ['a block', 24],
    ['raw blocks', 200, 1],
  ])('an exchange that cannot be encoded, among %s', (_what, count, pressed_rate = 1e6) => {
    const bodies = Array.from({ length: count }, (_, i) => Buffer.from(`body ${i} `.repeat(200)));
    const isBad = (exchange: CapturedExchange | undefined): boolean => exchange?.path === '/bad';
    const makeBatch = (): CapturedExchange[] =>
      bodies.map((request_body, i) =>
        makeExchange({ run_id: 'r', path: i === 2 ? '/bad' : '/good', request_body }),
      );
    const expectOthers = (reader: CaptureReader, from: number): void => {
      const good = bodies.filter((_, i) => i !== 2);
      for (const [i, body] of good.entries())
        expect(same(reader.body(from + i, 'request'), body), `body ${i}`).toBe(true);
      expect(reader.range().last_id).toBe(from + good.length - 1);
    };

    it('is skipped, and the others are stored', async () => {
      const fault = (_point: string, exchange?: CapturedExchange): void => {
        if (isBad(exchange)) throw new RangeError(`a secret: ${Buffer.from(exchange!.request_body)}`);
      };
      const log = await openLog(makeFolder(), { fault, pressed_rate });
      const { set_apart, ...ids } = await log.append(makeBatch());
      expect(ids).toEqual({ first_id: 1, last_id: count - 1 });
      expect(set_apart).toHaveLength(1);
      const [bad] = set_apart!;
      expect(bad).toMatchObject({ cause: 'unstorable', path: '/bad', error: 'RangeError', is_turn: true });
      expect(bad!.at.join()).toContain('capture-log.test.ts');
      expect(JSON.stringify(bad)).not.toContain('body 2');
      expectOthers(openReader(log.stats().path), 1);
    });

    it('is found when the batch fails as a whole, and the others are stored', async () => {
      let encoded: CapturedExchange[] = [];
      const fault = (point: string, exchange?: CapturedExchange): void => {
        if (exchange !== undefined) encoded.push(exchange);
        if (point !== 'commit') return;
        const hadBad = encoded.some(isBad);
        encoded = [];
        if (hadBad) throw new TypeError('unknown cause');
      };
      const log = await openLog(makeFolder(), { fault, pressed_rate });
      const { set_apart, ...ids } = await log.append(makeBatch());
      expect(ids).toEqual({ first_id: 1, last_id: count - 1 });
      expect(set_apart).toMatchObject([{ path: '/bad', error: 'TypeError' }]);
      expectOthers(openReader(log.stats().path), 1);
    });
  });

  it('reports the rest of a batch if the disk fills while its exchanges are stored one by one', async () => {
    let commits = 0;
    const fault = (point: string): void => {
      if (point !== 'commit') return;
      commits++;
      if (commits <= 2) throw new TypeError('unknown cause');
      if (commits === 5) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    };
    const log = await openLog(makeFolder(), { fault });
    const batch = Array.from({ length: 5 }, (_, i) => makeExchange({ request_body: Buffer.from(`${i}`) }));
    const { left, ...ids } = await log.append(batch);
    expect(ids).toEqual({ first_id: 1, last_id: 2, set_apart: [] });
    expect(left).toMatchObject({ exchanges: 3, failure: { code: 'ENOSPC' } });
    expect(await log.append(batch.slice(-3))).toEqual({ first_id: 3, last_id: 5 });
    const reader = openReader(log.stats().path);
    for (let id = 1; id <= 5; id++)
      expect(same(reader.body(id, 'request'), Buffer.from(`${id - 1}`))).toBe(true);
  });

  it('gives decompressed bodies that take at most twice their size in memory', async () => {
    const text = Buffer.from('a few words of an answer, '.repeat(20));
    const block = encodeBlock([draftRecord(0, [], [text], [], [text], text)], null, 'patient');
    const head = readBlockHead(block);
    expect(head.codec).toBe(1);
    const [record] = decodeBlock(head, null);
    expect(record!.buffer.byteLength).toBeLessThanOrEqual(2 * head.raw_bytes);

    const log = await openLog(makeFolder());
    const turns = makeTurns(4, 400, false);
    for (const request_body of turns)
      await log.append([makeExchange({ run_id: 'r', request_body, response_body: text })]);
    // The bound also holds for a block of several exchanges, of which each body is a part.
    await log.append(turns.map((body) => makeExchange({ request_body: body, response_body: text })));
    const reader = openReader(log.stats().path);
    for (let id = 1; id <= 2 * turns.length; id++) {
      const bodies = [reader.body(id, 'request')!, reader.body(id, 'response')!] as const;
      expect(same(bodies[0], turns[(id - 1) % turns.length]!)).toBe(true);
      expect(same(bodies[1], text)).toBe(true);
      const held = [...new Set(bodies.map(({ buffer }) => buffer))];
      const heldBytes = held.reduce((sum, { byteLength }) => sum + byteLength, 0);
      expect(heldBytes).toBeLessThanOrEqual(2 * (bodies[0].length + bodies[1].length));
    }
  });

  it('stores exchanges while a background sync runs, and a flush waits for this sync', async () => {
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    let syncs = 0;
    const log = await CaptureLog.open({
      path: join(makeFolder(), 'capture.mdb'),
      redact: true,
      fault: (point) => {
        if (point !== 'sync' || ++syncs > 1) return;
        begun.resolve();
        return ended.promise;
      },
    });
    await log.append([makeExchange()]);
    await begun.promise;
    expect(await log.append([makeExchange()])).toEqual({ first_id: 2, last_id: 2 });
    const flushed = log.flush();
    expect(await Promise.race([flushed.then(() => 'flushed'), nextTurn('waits')])).toBe('waits');
    expect(syncs).toBe(1);
    ended.resolve();
    await flushed;
    expect(syncs).toBe(2);
    await log.close();
  });

  it('refuses an append after close', async () => {
    const log = await openLog(makeFolder());
    await log.close();
    await expect(log.append([makeExchange()])).rejects.toThrow('closed');
    expect(existsSync(log.stats().path)).toBe(true);
  });
});

function repeat(text: string, size: number): Buffer {
  return size === 0 ? Buffer.alloc(0) : Buffer.alloc(size, text);
}

/** Header values as the wire allows them, in latin1. */
function headerValue(): fc.Arbitrary<string> {
  return fc.string({
    unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => String.fromCharCode(code)),
    maxLength: 30,
  });
}

function same(stored: Uint8Array | undefined, given: Uint8Array): boolean {
  return stored !== undefined && Buffer.compare(stored, given) === 0;
}
