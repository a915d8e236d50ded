/**
 * The admin routes' view of capture: counts of the front's queue beside the state of the writer. Front threads.
 */

import { CatalogueError } from '../errors.ts';
import type { CaptureAdmin } from './admin.ts';
import type { CaptureCounters, CaptureQueue, CaptureWriter } from './capture-queue.ts';

/** What the writer tells of its files. */
export interface WriterState {
  bytes: number;
  /** Sealed files of this database. */
  sealed: number;
}

/** The writer with everything that the admin routes need of it. */
export interface ControlledWriter extends CaptureWriter {
  readonly alive: boolean;
  flush(): Promise<void>;
  rotate(): Promise<{ sealed: string | null; opened: string }>;
  kill(): Promise<void>;
  state(): Promise<WriterState>;
}

export interface CaptureControlOptions {
  version: string;
  db_path: string;
  max_queue: number;
  /** null with capture switched off. */
  writer: ControlledWriter | null;
  queue: CaptureQueue | null;
}

/** How long flush and rotate wait for what is queued before them. */
const SETTLE_DEADLINE_MS = 20_000;

const NO_COUNTERS: CaptureCounters = {
  killed: false,
  queue_depth: 0,
  queue_bytes: 0,
  errors: 0,
  attempted: 0,
  captured: 0,
  dropped: 0,
  in_flight: 0,
  turns: 0,
  aborted: 0,
  by_provider: {},
};

export class CaptureControl implements CaptureAdmin {
  readonly #options: CaptureControlOptions;
  readonly #startedAtMs = Date.now();
  #lastState: WriterState = { bytes: 0, sealed: 0 };

  constructor(options: CaptureControlOptions) {
    this.#options = options;
  }

  async stats(): Promise<object> {
    const { writer, queue, version, db_path, max_queue } = this.#options;
    if (writer?.alive) {
      // A writer that is busy or restarting must not keep the health check waiting: the last known state will do.
      this.#lastState = await writer.state().catch(() => this.#lastState);
    }
    const { killed, queue_depth, queue_bytes, errors, ...exchanges } = queue?.counters() ?? NO_COUNTERS;
    return {
      status: 'ok',
      version,
      uptime_s: Math.floor((Date.now() - this.#startedAtMs) / 1000),
      db: { path: db_path, ...this.#lastState },
      writer: {
        alive: (writer?.alive ?? false) && !killed,
        queue_depth,
        queue_bytes,
        max_queue,
        written: exchanges.captured,
        dropped: exchanges.dropped,
        errors,
      },
      exchanges,
      relegation: { enabled: false, served: 0, fallback: 0, errors: 0 },
    };
  }

  async flush(): Promise<{ flushed: true; written: number }> {
    const { writer, queue } = this.#living();
    await queue.settle(SETTLE_DEADLINE_MS);
    await writer.flush();
    return { flushed: true, written: queue.counters().captured };
  }

  async rotate(): Promise<{ sealed: string | null; opened: string }> {
    const { writer, queue } = this.#living();
    await queue.settle(SETTLE_DEADLINE_MS);
    return writer.rotate();
  }

  async kill(): Promise<{ alive: false }> {
    const { writer, queue } = this.#options;
    queue?.kill();
    await writer?.kill();
    return { alive: false };
  }

  #living(): { writer: ControlledWriter; queue: CaptureQueue } {
    const { writer, queue } = this.#options;
    if (writer === null || queue === null || queue.counters().killed)
      throw new CatalogueError('capture_stopped');
    return { writer, queue };
  }
}
