/**
 * Captured exchanges are deleted by age while the log is open: whole sealed files, and attachments without a reference.
 * Younger exchanges stay byte for byte the same, even if they repeat parts of deleted ones.
 */
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { noteTouching } from '../../src/storage/capture/attachment-ages.ts';
import { CaptureExpiry } from '../../src/storage/capture/expiry.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-11-23T12:00:00.000Z');
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A log whose clock and files have the age that a test sets. */
class AgedLog {
  readonly path = join(makeFolder(), 'capture.mdb');
  /** The captured bodies by id. */
  readonly bodies = new Map<number, Buffer>();
  readonly key: Uint8Array | null;
  log!: CaptureLog;

  constructor(key: Uint8Array | null = null) {
    this.key = key;
  }

  async open(): Promise<this> {
    noteTouching(this.path, NOW - 50 * DAY_MS);
    this.log = await CaptureLog.open({
      path: this.path,
      redact: true,
      decode: decodeExchange,
      data_key: this.key,
    });
    onTestFinished(() => this.log.close());
    return this;
  }

  /** Captures at a given time, and dates the named attachments as the machine would have. */
  async capture(daysAgo: number, body: Buffer): Promise<void> {
    const atMs = NOW - daysAgo * DAY_MS;
    vi.useFakeTimers({ toFake: ['Date'], now: atMs });
    const before = new Set(this.attachments());
    const part = { run_id: 'r', started_at_ms: atMs, request_body: body, response_body: body };
    const { last_id } = await this.log.append([makeExchange(part)]);
    await this.log.indexSome(decodeExchange, 1_000);
    vi.useRealTimers();
    for (const name of this.attachments())
      if (!before.has(name)) utimesSync(join(`${this.path}.files`, name), atMs / 1_000, atMs / 1_000);
    this.bodies.set(last_id, body);
  }

  expiry(days: number): CaptureExpiry {
    const { path, log } = this;
    return new CaptureExpiry({ path, data_key: this.key, days, log, clock: createManualClock(NOW) });
  }

  attachments(): string[] {
    const folder = `${this.path}.files`;
    return existsSync(folder) ? readdirSync(folder).sort() : [];
  }

  /** The remaining ids, after a check that each reads as it was stored. */
  read(): number[] {
    const files = new FollowedFiles(this.path, { data_key: this.key });
    files.refresh();
    const ids = [...files.summaries()].map(({ id }) => id);
    for (const id of ids)
      for (const side of ['request', 'response'] as const)
        expect(Buffer.compare(files.body(id, side)!, this.bodies.get(id)!), `${side} ${id}`).toBe(0);
    files.close();
    return ids;
  }
}

const withImage = (text: string, image: Buffer) =>
  Buffer.from(
    JSON.stringify({
      text,
      source: { type: 'base64', media_type: 'image/png', data: image.toString('base64') },
    }),
  );

describe('expired captures', () => {
  for (const key of [null, randomBytes(32)]) {
    it(`are removed with their attachments; newer ones stay byte for byte${key === null ? '' : ', encrypted'}`, async () => {
      const aged = await new AgedLog(key).open();
      const [gone, shared, young] = [0, 1, 2].map(() => randomBytes(20_000));
      // One conversation in which each turn repeats the previous one.
      let talk = randomBytes(3_000).toString('hex');
      const turn = () => {
        talk += randomBytes(200).toString('hex');
        return talk;
      };
      await aged.capture(40, withImage(turn(), gone!));
      await aged.capture(39, withImage(turn(), shared!));
      await aged.log.rotate();
      await aged.capture(38, Buffer.from(turn()));
      await aged.log.rotate();
      await aged.capture(20, withImage(turn(), shared!));
      await aged.capture(10, Buffer.from(turn()));
      await aged.log.rotate();
      await aged.capture(0.5, withImage(turn(), young!));
      expect(aged.attachments()).toHaveLength(3);
      expect(aged.read()).toEqual([1, 2, 3, 4, 5, 6]);

      const expiry = aged.expiry(30);
      await expiry.pass();
      expect(aged.read()).toEqual([4, 5, 6]);
      expect(expiry.expired).toMatchObject({ files: 2, exchanges: 3, attachments: 1 });
      expect(expiry.expired.passed_at_s).toBe(NOW / 1_000);
      expect(aged.attachments()).toHaveLength(2);
      if (key === null) expect(aged.attachments()).toEqual([sha256(shared!), sha256(young!)].sort());
      expect(aged.log.stats().sealed).toBe(1);
      // The log continues, with consecutive ids.
      await aged.capture(0, withImage(turn(), gone!));
      expect(aged.read()).toEqual([4, 5, 6, 7]);
      await expiry.pass();
      expect(aged.read()).toEqual([4, 5, 6, 7]);
      expect(expiry.expired).toMatchObject({ files: 2, exchanges: 3, attachments: 1 });
    });
  }

  it('are removed from the live file too, which is sealed when it is a day old; ids are not used again', async () => {
    const aged = await new AgedLog().open();
    await aged.capture(12, Buffer.from('old'));
    const expiry = aged.expiry(10);
    await expiry.pass();
    expect(aged.read()).toEqual([]);
    expect(aged.log.stats()).toMatchObject({ sealed: 0, last_id: 1 });
    await aged.log.close();
    await aged.open();
    await aged.capture(0, Buffer.from('new'));
    expect(aged.read()).toEqual([2]);
    await aged.expiry(10).pass();
    expect(aged.read()).toEqual([2]);
    expect(listSealed(aged.path)).toEqual([]);
  });

  it('leave no attachments, even if the process ended between the removals', async () => {
    const aged = await new AgedLog().open();
    await aged.capture(40, withImage('old', randomBytes(20_000)));
    const { sealed } = await aged.log.rotate();
    await aged.capture(0, Buffer.from('new'));
    rmSync(sealed!);
    await aged.expiry(30).pass();
    expect(aged.attachments()).toEqual([]);
    expect(aged.read()).toEqual([2]);
  });

  it('keep attachments that are older than the record of their users', async () => {
    const aged = new AgedLog();
    const image = randomBytes(20_000);
    await aged.open();
    await aged.capture(40, withImage('old', image));
    await aged.log.rotate();
    await aged.capture(20, withImage('not so old', image));
    // Simulates an earlier version: the file has the time of the first exchange, and there is no note beside the file.
    const file = join(`${aged.path}.files`, sha256(image));
    utimesSync(file, (NOW - 40 * DAY_MS) / 1_000, (NOW - 40 * DAY_MS) / 1_000);
    writeFileSync(`${aged.path}.touched-since`, `${NOW - 5 * DAY_MS}\n`);
    await aged.expiry(30).pass();
    expect(aged.read()).toEqual([2]);
    expect(aged.attachments()).toEqual([sha256(image)]);
  });

  it('keep attachments while a damaged file that was set aside may refer to them', async () => {
    const aged = await new AgedLog().open();
    await aged.capture(40, withImage('old', randomBytes(20_000)));
    await aged.log.rotate();
    await aged.capture(0, Buffer.from('new'));
    const aside = aged.path.replace('.mdb', '.damaged-20261122T190709123.mdb');
    writeFileSync(aside, '');
    await aged.expiry(30).pass();
    expect(aged.attachments()).toHaveLength(1);
    rmSync(aside);
    await aged.expiry(30).pass();
    expect(aged.attachments()).toHaveLength(0);
  });

  it('never include new exchanges or their attachments, in any order of arrival', {
    tags: 'long',
  }, async () => {
    const images = Array.from({ length: 4 }, () => randomBytes(3_000));
    const step = fc.record({
      days: fc.integer({ min: 0, max: 6 }),
      image: fc.nat({ max: 5 }),
      rotates: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 14 }),
        fc.integer({ min: 1, max: 40 }),
        async (steps, bound) => {
          const aged = await new AgedLog().open();
          let daysAgo = 50;
          const made: { id: number; daysAgo: number }[] = [];
          for (const { days, image, rotates } of steps) {
            daysAgo = Math.max(0, daysAgo - days);
            const text = `turn ${made.length} ${'x'.repeat(500)}`;
            await aged.capture(daysAgo, image < 4 ? withImage(text, images[image]!) : Buffer.from(text));
            made.push({ id: made.length + 1, daysAgo });
            if (rotates) await aged.log.rotate();
            if (image === 5) await aged.expiry(45).pass();
          }
          await aged.expiry(bound).pass();
          const left = aged.read();
          // No newer exchange was removed.
          for (const { id, daysAgo: age } of made) if (age < bound) expect(left, `${id}`).toContain(id);
          // The remaining exchanges are the latest ones.
          expect(left).toEqual(made.map(({ id }) => id).slice(made.length - left.length));
          const oldest = made.at(-left.length)?.daysAgo ?? 0;
          if (left.length > 0 && oldest > bound) expect(listSealed(aged.path).length).toBeGreaterThan(0);
          await aged.log.close();
        },
      ),
      { numRuns: 25 },
    );
  });
});
