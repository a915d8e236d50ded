/** When the event loop polls without waiting after an answer, with a clock that the test sets. */
import { expect, test } from 'vitest';
import { BusyPoll } from '../../src/http/busy-poll.ts';

const nextTick = () => new Promise((resolve) => setImmediate(resolve));

/** @param busy_poll_us how long the loop polls after an answer */
function makeClocked(busy_poll_us: number) {
  const clock = { ms: 1_000 };
  const busyPoll = new BusyPoll(busy_poll_us, () => clock.ms);
  const answer = () => {
    busyPoll.open();
    busyPoll.close();
  };
  return { clock, busyPoll, answer };
}

test('the loop busy-polls after an answer for the configured time, and no longer', async () => {
  const { clock, busyPoll, answer } = makeClocked(100);
  expect(busyPoll.isPolling).toBe(false);
  answer();
  expect(busyPoll.isPolling).toBe(true);
  clock.ms += 0.09;
  for (let tick = 0; tick < 5; tick++) await nextTick();
  expect(busyPoll.isPolling).toBe(true);
  clock.ms += 0.02;
  await nextTick();
  expect(busyPoll.isPolling).toBe(false);
});

test('each answer restarts the time', async () => {
  const { clock, busyPoll, answer } = makeClocked(100);
  for (let request = 0; request < 10; request++) {
    answer();
    clock.ms += 0.09;
    await nextTick();
    expect(busyPoll.isPolling).toBe(true);
  }
  clock.ms += 0.02;
  await nextTick();
  expect(busyPoll.isPolling).toBe(false);
});

test('after several answers in one turn the loop does not poll, and neither after the next ones for a moment', async () => {
  const { clock, busyPoll, answer } = makeClocked(100);
  for (let request = 0; request < 8; request++) answer();
  await nextTick();
  expect(busyPoll.isPolling).toBe(false);
  clock.ms += 99;
  answer();
  expect(busyPoll.isPolling).toBe(false);
  clock.ms += 2;
  answer();
  expect(busyPoll.isPolling).toBe(true);
});

test('the loop does not poll while another request is in progress', async () => {
  const { busyPoll, answer } = makeClocked(100);
  busyPoll.open();
  answer();
  expect(busyPoll.isPolling).toBe(false);
  busyPoll.close();
  expect(busyPoll.isPolling).toBe(true);
  // A request that arrives meanwhile ends the polling.
  busyPoll.open();
  await nextTick();
  expect(busyPoll.isPolling).toBe(false);
});

test('with 0 the loop never polls', () => {
  const { busyPoll, answer } = makeClocked(0);
  answer();
  expect(busyPoll.isPolling).toBe(false);
});
