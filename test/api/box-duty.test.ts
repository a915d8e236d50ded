/**
 * A duty that one of several boxes has: some box always has the duty or gets it soon, and only one box has it while
 * clocks agree.
 */
import { expect, it } from 'vitest';
import { BoxDuty } from '../../src/api/box-duty.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';

const NOW = Date.parse('2026-11-29T12:00:00Z');

function makeBoxes() {
  const accounts = new TableAccounts(new MemoryTables());
  const clock = createManualClock(NOW);
  return { accounts, clock, a: new BoxDuty(accounts, clock), b: new BoxDuty(accounts, clock) };
}

it('the first box has the duty while it renews it', async () => {
  const { clock, a, b } = makeBoxes();
  expect(await a.renew()).toBe(true);
  for (let at = 0; at < 20; at++) {
    clock.advance(30_000);
    expect([await a.renew(), await b.renew()]).toEqual([true, false]);
  }
  expect([a.is_on, b.is_on]).toEqual([true, false]);
});

it('another box takes the duty when the first one is gone, and the first one does not take it back', async () => {
  const { clock, a, b } = makeBoxes();
  await a.renew();
  clock.advance(119_000);
  expect(await b.renew()).toBe(false);
  clock.advance(2_000);
  expect(await b.renew()).toBe(true);
  expect(await a.renew()).toBe(false);
});

it('a box that stops hands the duty over at once', async () => {
  const { a, b } = makeBoxes();
  await a.renew();
  await a.end();
  expect(await b.renew()).toBe(true);
  // The stopped box has nothing left to hand over.
  await a.end();
  expect(await b.renew()).toBe(true);
});

it('a box whose clock is ahead does not hold the duty for ever', async () => {
  const { accounts, clock, b } = makeBoxes();
  const late = new BoxDuty(accounts, createManualClock(NOW + 30 * 86_400_000));
  await late.renew();
  expect(await b.renew()).toBe(true);
  expect(clock.wallMs()).toBe(NOW);
});

it('no box has the duty while the store cannot be used', async () => {
  const { accounts, a } = makeBoxes();
  await a.renew();
  const { transact } = accounts;
  accounts.transact = () => Promise.reject(new Error('away'));
  await expect(a.renew()).rejects.toThrow('away');
  expect(a.is_on).toBe(false);
  accounts.transact = transact;
  expect(await a.renew()).toBe(true);
});
