/**
 * The simulated world: virtual time, one queue of tasks, one source of randomness, and a trace. Everything in a
 * simulation is a task of this queue, so the seed determines all of it.
 */
import { createHash } from 'node:crypto';
import type { Scheduler } from '../../src/runtime/scheduler.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';

/** A violated guarantee of the runtime, with the events before it. */
export class SimulationFailure extends Error {
  override readonly name = 'SimulationFailure';
  readonly seed: number;
  /** The last lines of the trace, oldest first. */
  readonly trail: readonly string[];

  constructor(seed: number, what: string, trail: readonly string[]) {
    super(`seed ${seed}: ${what}`);
    this.seed = seed;
    this.trail = trail;
  }
}

interface Task {
  at_ms: number;
  order: number;
  run: (() => void) | null;
}

const TRAIL_LINES = 60;
const START_WALL_MS = 1_700_000_000_000;
/** Random delay of tasks that are due `soon`, so that turns of different threads interleave. */
const TURN_MS = 0.05;

export class World {
  readonly seed: number;
  readonly prng: Prng;
  nowMs = 0;
  /** Difference between the wall clocks and the virtual time. It jumps at random. */
  wallOffsetMs = 0;
  #heap: Task[] = [];
  #order = 0;
  #lines = 0;
  readonly #hash = createHash('sha256');
  readonly #trail: string[] = [];
  #broken: string | null = null;

  constructor(seed: number) {
    this.seed = seed;
    this.prng = createPrng(seed);
  }

  /** Writes a line of the trace. */
  note(line: string): void {
    const stamped = `${this.nowMs.toFixed(3)} ${line}`;
    this.#lines++;
    this.#hash.update(stamped);
    this.#trail[this.#lines % TRAIL_LINES] = stamped;
  }

  /**
   * Records that a guarantee was violated. Only the first violation is kept. The simulation ends at the next
   * `checkPromises`.
   */
  violate(what: string): void {
    this.#broken ??= what;
    this.note(`VIOLATION ${what}`);
  }

  /** Number of lines, and their hash. */
  finishTrace(): { lines: number; hash: string } {
    return { lines: this.#lines, hash: this.#hash.digest('hex') };
  }

  /** Runs `task` after the delay; the returned function prevents it. */
  after(delayMs: number, run: () => void): () => void {
    return this.at(this.nowMs + Math.max(0, delayMs), run);
  }

  at(at_ms: number, run: () => void): () => void {
    const task: Task = { at_ms, order: this.#order++, run };
    this.#push(task);
    return () => {
      task.run = null;
    };
  }

  /** A number in from … to. */
  between(from: number, to: number): number {
    return from + this.prng.float() * (to - from);
  }

  /**
   * Runs the next task.
   * @returns false without a task
   */
  step(): boolean {
    let task = this.#pop();
    while (task !== undefined && task.run === null) task = this.#pop();
    if (task?.run == null) return false;
    this.nowMs = Math.max(this.nowMs, task.at_ms);
    const { run } = task;
    task.run = null;
    run();
    return true;
  }

  /**
   * @throws SimulationFailure if a guarantee was violated. Handlers cannot throw it, because the runtime would catch it
   */
  checkPromises(): void {
    if (this.#broken !== null) throw new SimulationFailure(this.seed, this.#broken, this.#readTrail());
  }

  /** The scheduler of one thread; its tasks are dropped once `isAlive` returns false. */
  createScheduler(isAlive: () => boolean): Scheduler {
    let turnAt = 0;
    const guard = (task: () => void) => () => {
      if (isAlive()) task();
    };
    return {
      wallMs: () => START_WALL_MS + Math.floor(this.nowMs + this.wallOffsetMs),
      monotonicMs: () => this.nowMs,
      soon: (task) => {
        turnAt = Math.max(turnAt, this.nowMs + this.between(0, TURN_MS));
        this.at(turnAt, guard(task));
      },
      later: (delayMs, task) =>
        delayMs === Number.POSITIVE_INFINITY ? () => {} : this.after(delayMs, guard(task)),
    };
  }

  #readTrail(): string[] {
    const from = Math.max(1, this.#lines - TRAIL_LINES + 1);
    return Array.from(
      { length: this.#lines - from + 1 },
      (_, i) => this.#trail[(from + i) % TRAIL_LINES] ?? '',
    );
  }

  #push(task: Task): void {
    const heap = this.#heap;
    let at = heap.push(task) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(task, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = task;
  }

  #pop(): Task | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Task, b: Task): boolean {
  return a.at_ms < b.at_ms || (a.at_ms === b.at_ms && a.order < b.order);
}
