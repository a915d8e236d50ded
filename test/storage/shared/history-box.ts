/**
 * A box of the history checker as a process: its clients work until a line arrives on standard input, and it prints
 * each outcome. Own process; arguments: the database's address, the view's path, a name for the clients, a seed.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createPrng } from '../../../src/std/prng.ts';
import { PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import { TruthUnavailableError } from '../../../src/storage/shared/truth.ts';
import { HistoryClient, type Told } from './history.ts';
import { SharedBox } from './shared-box.ts';

const [, , address, path, name, seed] = process.argv;
/** Short, so that a pause of the test is beyond them. */
const ANSWER_MS = 1_000;
const TIMES = { poll_ms: 20, patience_ms: 1_000, retry_ms: 10 };
const CLIENTS = 3;

/** The way to the database may be cut at the start, too. */
async function open(): Promise<SharedBox> {
  for (;;) {
    try {
      return await SharedBox.open(path!, await PostgresTruth.connect(address!, null, ANSWER_MS), TIMES);
    } catch (thrown) {
      if (!(thrown instanceof TruthUnavailableError)) throw thrown;
    }
  }
}

// Synchronous: what was told before a kill arrives.
const tell = (told: Told | { op: 'open' }) => writeSync(1, `${JSON.stringify(told)}\n`);
let isOver = false;
createInterface({ input: process.stdin }).on('line', () => {
  isOver = true;
});
const box = await open();
tell({ op: 'open' });
await Promise.all(
  Array.from({ length: CLIENTS }, async (_, at) => {
    const client = new HistoryClient(`${name}.${at}`, createPrng(Number(seed) + at), tell);
    while (!isOver) {
      await client.step(box);
      // Some steps do not wait for anything, and a loop of only these would block the event loop.
      await nextTurn();
    }
  }),
);
await box.close();
process.stdin.unref?.();
process.exit(0);
