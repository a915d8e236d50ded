/**
 * A box of the history checker as a process: its clients work on rows and runs, and it prints each outcome. A line
 * `clock N` on standard input moves its wall clock N milliseconds from the machine's; the line `end` ends it. Own
 * process; arguments: the database's address, the view's path, a name for the clients, a seed.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createPrng } from '../../../src/std/prng.ts';
import { PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import { SharedTables } from '../../../src/storage/shared/tables.ts';
import { TruthUnavailableError } from '../../../src/storage/shared/truth.ts';
import { HistoryClient, type Told } from './history.ts';
import { RunsBox } from './runs-box.ts';
import { RunHistoryClient, RunHost, type RunTold } from './runs-history.ts';

const [, , address, path, name, seed] = process.argv;
/** The timeouts are short, so that the test's pauses exceed them. */
const ANSWER_MS = 1_000;
const TIMES = { poll_ms: 20, patience_ms: 1_000, retry_ms: 10 };
const CLIENTS = 3;
const RUN_CLIENTS = 2;

/** Opens the box, and tries again while the connection to the database is cut. */
async function open(): Promise<RunsBox> {
  for (;;) {
    try {
      const truth = await PostgresTruth.connect(address!, null, ANSWER_MS);
      return await RunsBox.open(path!, { truth, runs: truth.runs }, TIMES);
    } catch (thrown) {
      if (!(thrown instanceof TruthUnavailableError)) throw thrown;
    }
  }
}

const RealDate = Date;
/** Moves the wall clock of the process, whose code reads the time only from Date. */
function moveClock(ms: number): void {
  globalThis.Date = class extends RealDate {
    constructor(...given: [] | [number | string | InstanceType<typeof RealDate>]) {
      if (given.length === 0) super(RealDate.now() + ms);
      else super(given[0]);
    }
    static override now(): number {
      return RealDate.now() + ms;
    }
  } as DateConstructor;
}

// The write is synchronous, so that a printed outcome arrives even if the process is killed next.
const tell = (told: Told | RunTold | { op: 'open' }) => writeSync(1, `${JSON.stringify(told)}\n`);
let isOver = false;
createInterface({ input: process.stdin }).on('line', (line) => {
  const [word, ms] = line.split(' ');
  if (word === 'clock') moveClock(Number(ms));
  else isOver = true;
});
const box = await open();
const tables = new SharedTables(box.view, box.follower);
const host = new RunHost(box);
tell({ op: 'open' });

/** Repeats a step. Some steps need no answer, so without the pause between them no answer could arrive. */
async function repeat(step: () => Promise<void>): Promise<void> {
  while (!isOver) {
    await step();
    await nextTurn();
  }
}

const random = (at: number) => createPrng(Number(seed) + at);
await Promise.all([
  ...Array.from({ length: CLIENTS }, (_, at) => {
    const client = new HistoryClient(`${name}.${at}`, random(at), tell);
    return repeat(() => client.step({ tables, follower: box.follower }));
  }),
  ...Array.from({ length: RUN_CLIENTS }, (_, at) => {
    const client = new RunHistoryClient(`${name}.r${at}`, random(100 + at), tell);
    return repeat(() => client.step(box, host));
  }),
]);
await box.close();
process.stdin.unref?.();
process.exit(0);
