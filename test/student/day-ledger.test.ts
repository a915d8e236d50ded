/**
 * The student's ledger: it counts by day and agent, is bounded, and continues from a file. Answers that were not
 * delivered are subtracted.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  DayLedger,
  KeptLedger,
  LEDGER,
  listLedger,
  readLedgerFile,
  sumLedger,
} from '../../src/student/day-ledger.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { makeFolder } from '../storage/folder.ts';

const DAY_MS = 86_400_000;
const FIRST_MS = Date.UTC(2026, 2, 1, 12);

it('the ledger counts by day and agent, and sums', () => {
  const ledger = new DayLedger();
  ledger.add(FIRST_MS, 'a', { served: 1, input_tokens: 900, output_tokens: 40, saved_micro_usd: 3_000 });
  ledger.add(FIRST_MS, 'a', { compared: 40, wrong: 1 });
  ledger.add(FIRST_MS + DAY_MS, 'a', { served: 2, saved_micro_usd: 1_000, late: 1, late_micro_usd: 9_000 });
  ledger.add(FIRST_MS, 'b', { served: 1 });
  const rows = listLedger(ledger.copy());
  expect(rows.map(({ day, agent, served }) => [day, agent, served])).toEqual([
    ['2026-03-02', 'a', 2],
    ['2026-03-01', 'a', 1],
    ['2026-03-01', 'b', 1],
  ]);
  // The late take-over of this day cost more than the student saved.
  expect(rows[0]).toMatchObject({ saved_usd: -0.008, late: 1, late_usd: 0.009, wrong_at_most: null });
  const [a, b] = sumLedger(ledger.copy());
  expect(a).toMatchObject({ day: '2026-03-01', served: 3, compared: 40, wrong: 1, saved_usd: -0.005 });
  expect(a!.wrong_at_least).toBeGreaterThan(0);
  expect(a!.wrong_at_least).toBeLessThan(1 / 40);
  expect(a!.wrong_at_most).toBeGreaterThan(1 / 40);
  expect(b).toMatchObject({ served: 1, saved_usd: null, wrong_at_least: null });
});

it('answers that were not delivered are subtracted', () => {
  const ledger = new DayLedger();
  ledger.add(FIRST_MS, 'a', { served: 1, input_tokens: 9, saved_micro_usd: 5 });
  ledger.add(FIRST_MS, 'a', { served: -1, input_tokens: -9, saved_micro_usd: -5 });
  expect(sumLedger(ledger.copy())).toMatchObject([{ served: 0, input_tokens: 0, saved_usd: 0 }]);
});

it('the ledger is bounded: old days are dropped, and too many agents become one', () => {
  const ledger = new DayLedger();
  for (let day = 0; day < LEDGER.days + 5; day++) ledger.add(FIRST_MS + day * DAY_MS, 'a', { served: 1 });
  expect(ledger.copy()).toHaveLength(LEDGER.days);
  expect(ledger.copy().map(({ day }) => day)).not.toContain('2026-03-05');
  for (let at = 0; at < LEDGER.agents + 5; at++)
    ledger.add(FIRST_MS + DAY_MS * 50, `agent ${at}`, { served: 1 });
  const rows = listLedger(ledger.copy()).filter(({ agent }) => agent !== 'a');
  expect(rows).toHaveLength(LEDGER.agents);
  expect(rows.find(({ agent }) => agent === '(other)')!.served).toBe(6);
});

it('the ledger is stored in a file, and continues from it', async () => {
  const path = join(makeFolder(), 'data', 'student-ledger.json');
  const told: string[] = [];
  const log = { warn: (_: object, words: string) => told.push(words) };
  const first = await KeptLedger.open(path, log);
  first.add('a', { served: 1, saved_micro_usd: 2 });
  // The ledger writes the first change at once.
  await expect.poll(() => readLedgerFile(path), { timeout: PATIENCE_MS }).not.toBe(null);
  await first.flush();
  const second = await KeptLedger.open(path, log);
  second.add('a', { served: 1 });
  await second.flush();
  expect(sumLedger((await readLedgerFile(path))!)).toMatchObject([{ agent: 'a', served: 2 }]);
  // A ledger that another thread has taken over writes nothing more.
  second.retire();
  second.add('a', { served: 1 });
  await second.flush();
  expect(sumLedger((await readLedgerFile(path))!)).toMatchObject([{ served: 2 }]);
  expect(told).toEqual([]);

  writeFileSync(path, '{"format":');
  await expect(readLedgerFile(path)).rejects.toThrow(/damaged/);
  const third = await KeptLedger.open(path, log);
  expect(told).toEqual([
    'the ledger of the student cannot be read: it starts empty, and will replace the file',
  ]);
  third.takeOver(second.copy());
  await third.flush();
  expect(JSON.parse(readFileSync(path, 'utf8')).days).toHaveLength(1);
});
