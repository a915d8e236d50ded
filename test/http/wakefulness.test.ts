import { expect, test } from 'vitest';
import { Wakefulness } from '../../src/http/wakefulness.ts';

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** @param awake_us how long it polls */
function makeClocked(awake_us: number) {
  const clock = { ms: 1_000 };
  const wakefulness = new Wakefulness(awake_us, () => clock.ms);
  const answer = () => {
    wakefulness.open();
    wakefulness.close();
  };
  return { clock, wakefulness, answer };
}

test('the loop is kept awake after an answer for as long as was asked, and no longer', async () => {
  const { clock, wakefulness, answer } = makeClocked(100);
  expect(wakefulness.isPolling).toBe(false);
  answer();
  expect(wakefulness.isPolling).toBe(true);
  clock.ms += 0.09;
  for (let turn = 0; turn < 5; turn++) await nextTurn();
  expect(wakefulness.isPolling).toBe(true);
  clock.ms += 0.02;
  await nextTurn();
  expect(wakefulness.isPolling).toBe(false);
});

test('each answer begins the time anew', async () => {
  const { clock, wakefulness, answer } = makeClocked(100);
  for (let request = 0; request < 10; request++) {
    answer();
    clock.ms += 0.09;
    await nextTurn();
    expect(wakefulness.isPolling).toBe(true);
  }
  clock.ms += 0.02;
  await nextTurn();
  expect(wakefulness.isPolling).toBe(false);
});

test('several answers in one turn let it sleep, and so do the next ones for a moment', async () => {
  const { clock, wakefulness, answer } = makeClocked(100);
  for (let request = 0; request < 8; request++) answer();
  await nextTurn();
  expect(wakefulness.isPolling).toBe(false);
  clock.ms += 99;
  answer();
  expect(wakefulness.isPolling).toBe(false);
  clock.ms += 2;
  answer();
  expect(wakefulness.isPolling).toBe(true);
});

test('nothing is polled for while another request is worked on', async () => {
  const { wakefulness, answer } = makeClocked(100);
  wakefulness.open();
  answer();
  expect(wakefulness.isPolling).toBe(false);
  wakefulness.close();
  expect(wakefulness.isPolling).toBe(true);
  // One that comes meanwhile and takes its time ends it.
  wakefulness.open();
  await nextTurn();
  expect(wakefulness.isPolling).toBe(false);
});

test('0 never polls', () => {
  const { wakefulness, answer } = makeClocked(0);
  answer();
  expect(wakefulness.isPolling).toBe(false);
});
