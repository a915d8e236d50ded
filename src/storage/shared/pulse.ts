/**
 * Reports at intervals that the box is alive, over a separate connection, and runs rounds of other work over the same
 * connection. Any thread; only one thread of a box has an instance.
 */
import { randomUUID } from 'node:crypto';
import type { LiveSession, LiveTruth } from './live.ts';

/** Work that uses the pulse's session. */
interface PulseWork {
  /** Time in milliseconds until the next round is due. */
  readonly due_in_ms: number;
  /** Does the work that is due. @throws TruthUnavailableError */
  round(session: LiveSession): Promise<void>;
  /**
   * Called when the pulse could not connect, or a call of the session has failed. The database may or may not have
   * received that call.
   */
  fail(error: Error): void;
}

/** The ids of this box and of all live boxes. */
interface LiveBoxes {
  box: string;
  live: ReadonlySet<string>;
}

/** Called after each report that the box is alive. @throws TruthUnavailableError */
type OnBeat = (session: LiveSession, boxes: LiveBoxes) => Promise<void>;

interface PulseTimes {
  /** Interval at which the box reports that it is alive. */
  beat_ms: number;
  /** Pause between attempts to connect. */
  retry_ms: number;
  /** Interval at which the box removes data from the database that no box needs any more. */
  tidy_ms: number;
}

const PULSE_TIMES: PulseTimes = { beat_ms: 2_000, retry_ms: 500, tidy_ms: 60_000 };
/**
 * A box counts as live if it is in one of the last answers, of which there are this many. The first answers after a
 * crash of the database lack boxes that have not reported again.
 */
const ANSWERS = 3;

export class Pulse {
  readonly #truth: LiveTruth;
  readonly #work: PulseWork;
  readonly #onBeat: OnBeat;
  readonly #times: PulseTimes;
  readonly #box = randomUUID();
  readonly #answers: string[][] = [];
  #session: LiveSession | null = null;
  #beatAtMs = 0;
  #tidyAtMs = 0;
  #closed = false;
  #isDue = false;
  #wake: (() => void) | null = null;
  #running: Promise<void> = Promise.resolve();

  static async start(
    truth: LiveTruth,
    work: PulseWork,
    onBeat: OnBeat,
    times: Partial<PulseTimes> = {},
  ): Promise<Pulse> {
    const pulse = new Pulse(truth, work, onBeat, { ...PULSE_TIMES, ...times });
    // If the database answers now, the live boxes are known from the start.
    await pulse.#round();
    pulse.#running = pulse.#run();
    return pulse;
  }

  private constructor(truth: LiveTruth, work: PulseWork, onBeat: OnBeat, times: PulseTimes) {
    this.#truth = truth;
    this.#work = work;
    this.#onBeat = onBeat;
    this.#times = times;
    this.#tidyAtMs = performance.now() + times.tidy_ms;
  }

  /** Call it when the work has become due earlier. */
  wake(): void {
    this.#isDue = true;
    this.#wake?.();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wake?.();
    await this.#session?.close();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      const untilBeatMs = this.#beatAtMs - performance.now();
      const isConnected = this.#session !== null;
      const dueMs = isConnected ? Math.min(untilBeatMs, this.#work.due_in_ms) : this.#times.retry_ms;
      // Without a session nothing ends the pause, because each attempt to connect would follow at once.
      if (dueMs > 0 && !(isConnected && this.#isDue)) await this.#pause(dueMs);
      this.#isDue = false;
      if (!this.#closed) await this.#round();
    }
  }

  /** Waits for the time, or until `#wake` ends the pause. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#wake = () => {
        if (this.#session !== null || this.#closed) end();
      };
    });
  }

  async #round(): Promise<void> {
    try {
      const session = await this.#connect();
      const now = performance.now();
      if (now >= this.#beatAtMs) {
        const live = this.#note(await session.beat());
        this.#beatAtMs = now + this.#times.beat_ms;
        await this.#onBeat(session, { box: this.#box, live });
      }
      if (now >= this.#tidyAtMs) {
        this.#tidyAtMs = now + this.#times.tidy_ms;
        await session.tidy();
      }
      await this.#work.round(session);
    } catch (thrown) {
      const session = this.#session;
      this.#session = null;
      this.#beatAtMs = 0;
      this.#work.fail(thrown instanceof Error ? thrown : new Error(String(thrown)));
      if (!this.#closed) await session?.close();
    }
  }

  async #connect(): Promise<LiveSession> {
    if (this.#session !== null) return this.#session;
    const session = await this.#truth.openLive(this.#box);
    this.#session = session;
    // `close` may have been called while the session was being opened.
    if (this.#closed) {
      await session.close();
      throw new Error('the pulse is closed');
    }
    return session;
  }

  #note(boxes: string[]): Set<string> {
    this.#answers.push(boxes);
    if (this.#answers.length > ANSWERS) this.#answers.shift();
    return new Set(this.#answers.flat());
  }
}
