/** The stored record of the last accepted deletion pass: how it is read, damage to it, and messages to the operator. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ClockReading } from '../../src/domain/retention-clock.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { RetentionClock, readClock, readNote, writeNote } from '../../src/storage/retention-clock.ts';
import { makeFolder } from './folder.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START: ClockReading = {
  wall_ms: Date.parse('2026-11-28T12:00:00.000Z'),
  uptime_ms: DAY_MS,
  boot_id: 'e2a9f4b0-0000-4000-8000-000000000001',
};

/** A simulated machine on which time passes, and whose wall clock can jump. */
function makeMachine() {
  const path = join(makeFolder(), 'retention-clock');
  const clock = createManualClock();
  const warnings: { facts: Record<string, unknown>; words: string }[] = [];
  let reading = START;
  const make = () =>
    new RetentionClock({
      path,
      days: { runs: 30, traces: null },
      warn: (facts, words) => warnings.push({ facts: facts as Record<string, unknown>, words }),
      read: () => reading,
      clock,
    });
  return {
    path,
    warnings,
    make,
    read: () => reading,
    pass(ms: number, jumpMs = 0) {
      clock.advance(ms);
      reading = {
        ...reading,
        wall_ms: reading.wall_ms + ms + jumpMs,
        uptime_ms: reading.uptime_ms + ms,
      };
    },
  };
}

describe('the record of the last accepted pass', () => {
  it('belongs to this machine, is readable only for its owner, and survives the process', async () => {
    const path = join(makeFolder(), 'note');
    expect(readNote(path)).toBeNull();
    const now = readClock();
    expect(Math.abs(now.wall_ms - Date.now())).toBeLessThan(HOUR_MS);
    await writeNote(path, now);
    expect(readNote(path)).toEqual(now);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(existsSync(`${path}.new`)).toBe(false);
  });

  it('is invalid with any bit changed or any byte missing', async () => {
    const path = join(makeFolder(), 'note');
    await writeNote(path, START);
    const whole = readFileSync(path);
    for (let at = 0; at < whole.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const damaged = Buffer.from(whole);
        damaged[at]! ^= 1 << bit;
        writeFileSync(path, damaged);
        expect(readNote(path), `bit ${bit} of byte ${at}`).toBe('unreadable');
      }
      writeFileSync(path, whole.subarray(0, at));
      expect(readNote(path), `${at} bytes`).toBe('unreadable');
    }
  });
});

describe('passes of deletion by age', () => {
  it('follow the wall clock while the machine’s uptime agrees with it, also across a start of the service', async () => {
    const { make, pass, read, warnings } = makeMachine();
    let ages = make();
    expect(await ages.nowForAges()).toBe(START.wall_ms);
    for (const ms of [600_000, 600_000, 50 * DAY_MS]) {
      pass(ms);
      expect(await ages.nowForAges()).toBe(read().wall_ms);
      ages = make();
    }
    expect(ages.waits).toBe(false);
    expect(warnings).toEqual([]);
  });

  it('wait after a jump, warn once an hour, and continue once the present clock is accepted', async () => {
    const { make, pass, path, read, warnings } = makeMachine();
    await make().nowForAges();
    pass(600_000, 3_650 * DAY_MS);
    const ages = make();
    for (let count = 0; count < 13; count++) {
      expect(await ages.nowForAges()).toBe(START.wall_ms + DAY_MS);
      expect(ages.waits).toBe(true);
      pass(600_000);
    }
    expect(warnings).toHaveLength(3);
    expect(warnings[0]!.words).toContain('understudy retention --confirm');
    expect(warnings[0]!.facts).toEqual({
      clock: '2036-11-25T12:10:00.000Z',
      last_accepted: '2026-11-28T12:00:00.000Z',
      note: path,
      cutoffs: {
        runs: { deleted_before: '2026-10-30T12:00:00.000Z', confirmed_before: '2036-10-26T12:10:00.000Z' },
      },
    });
    await writeNote(path, read());
    pass(600_000);
    expect(await ages.nowForAges()).toBe(read().wall_ms);
    expect(ages.waits).toBe(false);
  });

  it('continue by themselves when the clock is corrected', async () => {
    const { make, pass, read } = makeMachine();
    const ages = make();
    await ages.nowForAges();
    pass(600_000, 3_650 * DAY_MS);
    await ages.nowForAges();
    pass(600_000, -3_650 * DAY_MS);
    expect(await ages.nowForAges()).toBe(read().wall_ms);
    expect(ages.waits).toBe(false);
  });

  it('delete nothing while the record is damaged, and name it', async () => {
    const { make, path, warnings } = makeMachine();
    writeFileSync(path, 'understudy\n');
    const ages = make();
    expect(await ages.nowForAges()).toBe(0);
    expect(ages.waits).toBe(true);
    expect(warnings[0]!.facts).toMatchObject({ note: path });
    await writeNote(path, START);
    expect(await ages.nowForAges()).toBe(START.wall_ms);
  });

  it('continue if the record cannot be written, and say so', async () => {
    const { make, path, warnings } = makeMachine();
    mkdirSync(`${path}.new`);
    expect(await make().nowForAges()).toBe(START.wall_ms);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]!.facts).toMatchObject({ path });
  });
});
