/**
 * Releases memory when a thread has become quiet after work. Otherwise V8 and glibc keep most of this memory, and a
 * process stays as large as it was at its busiest time. A watch always releases the free parts of its thread's caches
 * and pools (std/spare-memory.ts). Options say whether it also releases V8's garbage, and pages that the C library
 * keeps for later allocations. With both options it also releases such pages now and then while the thread is busy.
 * Server threads, main thread, capture process, capture reader, OpenTelemetry export process.
 */
import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { memoryEngine } from '../../native/memory-engine.ts';
import { releaseAllSpare } from '../std/spare-memory.ts';

/** Interval of the checks of the thread. */
const LOOK_MS = 5_000;
/** A thread is quiet if it worked for less than this share of each of the last QUIET_LOOKS intervals. */
const QUIET_SHARE = 0.1;
const QUIET_LOOKS = 2;
/** After less work than this since the last release, too little garbage is left to be worth a release. */
const WORTH_MS = 1_000;
/**
 * While it is busy, a thread with both options (`collects`, `trims`) returns the C library's pages once in this many
 * checks.
 */
const BUSY_LOOKS = 6;

interface QuietWatchOptions {
  /**
   * Whether V8 collects all garbage when the thread is quiet. If `trims` is set as well, pages are returned while the
   * thread is busy, too. Either takes up to some hundred milliseconds, in which the thread does nothing else. So threads
   * that serve do not set this option.
   */
  collects: boolean;
  /**
   * Whether pages of the C library are returned. The pages belong to the process, so one thread of the process does
   * this.
   */
  trims: boolean;
}

/** The effects and measurements of a watch; replaced in tests. */
interface QuietActions {
  /** How long the thread has worked so far, in milliseconds. */
  worked_ms(): number;
  release(): void;
  collect(): void;
  trim(): void;
}

const ACTIONS: QuietActions = {
  worked_ms: () => performance.eventLoopUtilization().active,
  release: releaseAllSpare,
  collect: collectGarbage,
  trim: () => {
    memoryEngine.trimMemory(0);
  },
};

export class QuietWatch {
  readonly #options: QuietWatchOptions;
  readonly #actions: QuietActions;
  readonly #timer: NodeJS.Timeout;
  #workedMs: number;
  /** The value of `worked_ms` at the last release. */
  #releasedAtMs = 0;
  #quietLooks = 0;
  /** Number of checks since the last trim at which the thread was not quiet. */
  #busyLooks = 0;

  /** Begins to watch this thread. */
  constructor(options: QuietWatchOptions, actions: QuietActions = ACTIONS) {
    this.#options = options;
    this.#actions = actions;
    this.#workedMs = actions.worked_ms();
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Called once per LOOK_MS. */
  look(): void {
    const { collects, trims } = this.#options;
    const worked = this.#actions.worked_ms();
    const isQuiet = worked - this.#workedMs < LOOK_MS * QUIET_SHARE;
    this.#workedMs = worked;
    this.#quietLooks = isQuiet ? this.#quietLooks + 1 : 0;
    if (!isQuiet) this.#busyLooks += 1;
    if (this.#quietLooks >= QUIET_LOOKS) {
      if (worked - this.#releasedAtMs >= WORTH_MS) this.#giveBack();
    } else if (collects && trims && this.#busyLooks >= BUSY_LOOKS) this.#trim();
  }

  #giveBack(): void {
    this.#actions.release();
    if (this.#options.collects) this.#actions.collect();
    if (this.#options.trims) this.#trim();
    // The time that the release took does not count as work.
    this.#workedMs = this.#actions.worked_ms();
    this.#releasedAtMs = this.#workedMs;
  }

  #trim(): void {
    this.#busyLooks = 0;
    this.#actions.trim();
  }
}

type Collect = (how: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void;

/**
 * Collects all garbage of this thread. V8 shrinks the young generation, too, only if it collects as a last
 * resort. A new context contains the function `gc` only if it is made while the flag is set.
 */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
