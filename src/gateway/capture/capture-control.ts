/**
 * The admin routes' view of capture: counts of the server thread's queue beside the state of the writer. Server threads.
 */

import { DROP_CAUSES, FAILURE_CAUSES, zeroCounts } from '../../domain/capture-cause.ts';
import { type CaptureHealth, judgeCapture } from '../../domain/capture-health.ts';
import { WITHHELD_CAUSES, type WithheldCause } from '../../domain/exchange.ts';
import { CatalogueError } from '../../errors.ts';
import type { StudentFacts, WatchedAgentReport, WatchReport } from '../../student/serving/protocol.ts';
import type { CaptureAdmin } from '../admin.ts';
import { addCounters, emptyCounters, type RelegationCounters } from '../relegation/relegation-ledger.ts';
import type { CaptureCounters, CaptureWriter } from './capture-queue.ts';

/** What the writer tells of its files. */
export interface WriterState {
  bytes: number;
  /** Sealed files of this database. */
  sealed: number;
  packing: PackingState;
  /** Bodies that are not kept since nobody could tell what is in them, since the writer opened its files. */
  withheld?: Record<WithheldCause, number>;
  /** Damaged files that were set aside and lie there still. */
  damaged?: number;
  process?: CaptureProcessState;
  /** What has gone by age since the capture process began; null: all is kept. */
  expired?: { files: number; exchanges: number; attachments: number; passed_at_s: number } | null;
}

/** The process that writes them. */
export interface CaptureProcessState {
  /** null while there is none. */
  pid: number | null;
  /** Times that it ended by itself. */
  restarts: number;
  /** For how long it has not answered; 0 when it answers. */
  silent_ms: number;
  memory_bytes: number;
}

/** What the writer put off while exchanges came: blocks that are not compressed yet, exchanges that are not indexed. */
export interface PackingState {
  waiting_blocks: number;
  waiting_bytes: number;
  oldest_s: number;
  unindexed: number;
  /** Part of one core that it gets while exchanges come. */
  share: number;
}

const NOTHING_WAITS: PackingState = {
  waiting_blocks: 0,
  waiting_bytes: 0,
  oldest_s: 0,
  unindexed: 0,
  share: 0,
};

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
  /** Every server thread of the process; read at each call. */
  servers: readonly ThreadCapture[];
  /** From when on an append that is not answered counts as stuck; `CAPTURE_STUCK_MS` when not given. */
  stuck_ms?: number;
  /** null or left out: relegation is off. */
  relegation?: RelegationState | null;
  /** Of the whole process, for the stats. */
  connections?: () => object;
  /** The export of captured turns; null or left out: there is none. */
  otel?: (() => object) | null;
  /** Of the proxy's tunnels; left out: there is no proxy. */
  proxy?: () => object;
}

/** Relegation as the operator has it, and the student that there is. */
export interface RelegationState {
  readonly mode: 'on' | 'shadow';
  readonly has_prices: boolean;
  /** null while there is none to ask. */
  readonly facts: StudentFacts | null;
  /** How right it has been; null while nobody can say. */
  describeWatch(): Promise<WatchReport | null>;
}

/** One server thread's queue, on this thread or another. */
export interface ThreadCapture {
  /** null with capture switched off. */
  counters(): Promise<CaptureCounters | null>;
  /** null with relegation off. */
  relegation(): Promise<RelegationCounters | null>;
  settle(deadlineMs: number): Promise<void>;
  kill(): Promise<void>;
}

/** How long flush and rotate wait for what is queued before them. */
const SETTLE_DEADLINE_MS = 20_000;

const NO_COUNTERS: CaptureCounters = {
  killed: false,
  queue_depth: 0,
  queue_bytes: 0,
  errors: 0,
  errors_by_cause: zeroCounts(FAILURE_CAUSES),
  attempted: 0,
  captured: 0,
  dropped: 0,
  dropped_by_cause: zeroCounts(DROP_CAUSES),
  in_flight: 0,
  turns: 0,
  aborted: 0,
  by_provider: {},
  failing: null,
  oldest_append_ms: 0,
  dropping: [],
};

export class CaptureControl implements CaptureAdmin {
  readonly #options: CaptureControlOptions;
  readonly #startedAtMs = performance.now();
  #lastState: WriterState = { bytes: 0, sealed: 0, packing: NOTHING_WAITS };

  constructor(options: CaptureControlOptions) {
    this.#options = options;
  }

  async stats(): Promise<object> {
    const { writer, version, db_path, max_queue, connections, otel, proxy } = this.#options;
    if (writer?.alive) {
      // A writer that is busy or restarting must not keep the health check waiting: the last known state will do.
      this.#lastState = await writer.state().catch(() => this.#lastState);
    }
    const { packing, process, withheld, ...files } = this.#lastState;
    const sum = await this.#sum();
    const { killed, queue_depth, queue_bytes, errors, errors_by_cause, ...rest } = sum;
    const { failing: _failing, oldest_append_ms, dropping: _dropping, ...exchanges } = rest;
    return {
      ...this.#judge(sum),
      version,
      uptime_s: Math.floor((performance.now() - this.#startedAtMs) / 1000),
      db: { path: db_path, ...files },
      writer: {
        alive: (writer?.alive ?? false) && !killed,
        queue_depth,
        queue_bytes,
        max_queue,
        written: exchanges.captured,
        dropped: exchanges.dropped,
        errors,
        errors_by_cause,
        oldest_append_ms: Math.round(oldest_append_ms),
        packing,
        process: process ?? null,
      },
      exchanges: { ...exchanges, withheld_by_cause: withheld ?? zeroCounts(WITHHELD_CAUSES) },
      relegation: await this.#describeRelegation(),
      ...(otel == null ? {} : { otel: otel() }),
      ...(connections === undefined ? {} : { connections: connections() }),
      ...(proxy === undefined ? {} : { proxy: proxy() }),
    };
  }

  async health(): Promise<CaptureHealth> {
    return this.#judge(await this.#sum());
  }

  #judge(sum: CaptureCounters): CaptureHealth {
    const { writer, stuck_ms } = this.#options;
    if (writer === null) return { status: 'ok', reasons: [] };
    return judgeCapture(
      {
        ...sum,
        alive: writer.alive && this.#lastState.process?.pid !== null,
        packing_oldest_s: this.#lastState.packing.oldest_s,
        set_aside: this.#lastState.damaged ?? 0,
      },
      stuck_ms,
    );
  }

  async flush(): Promise<{ flushed: true; written: number }> {
    const writer = await this.#settled();
    await writer.flush();
    return { flushed: true, written: (await this.#sum()).captured };
  }

  async rotate(): Promise<{ sealed: string | null; opened: string }> {
    const writer = await this.#settled();
    return writer.rotate();
  }

  async kill(): Promise<{ alive: false }> {
    await Promise.all(this.#options.servers.map((server) => server.kill()));
    await this.#options.writer?.kill();
    return { alive: false };
  }

  async #describeRelegation(): Promise<object> {
    const state = this.#options.relegation ?? null;
    const sum = emptyCounters();
    if (state !== null) {
      for (const counters of await Promise.all(this.#options.servers.map((server) => server.relegation()))) {
        if (counters !== null) addCounters(sum, counters);
      }
    }
    const watch = (await state?.describeWatch()) ?? null;
    const { saved_micro_usd: saved, audit, shadow, ...counts } = sum;
    return {
      enabled: state !== null,
      mode: state?.mode ?? 'off',
      student: state?.facts?.kind ?? null,
      version: state?.facts?.version ?? null,
      ...counts,
      money_saved_usd: state?.has_prices ? Math.round(saved) / 1_000_000 : null,
      audit,
      shadow,
      share: watch?.share ?? 1,
      valid_until: watch?.valid_until ?? null,
      expired: watch?.is_expired ?? false,
      suspended: countSuspended(watch?.agents ?? []),
      ledger: watch?.ledger ?? [],
      agents: watch?.agents ?? [],
    };
  }

  /** The writer, once it has everything that was captured so far. */
  async #settled(): Promise<ControlledWriter> {
    const { writer, servers } = this.#options;
    if (writer === null || (await this.#sum()).killed) throw new CatalogueError('capture_stopped');
    await Promise.all(servers.map((server) => server.settle(SETTLE_DEADLINE_MS)));
    return writer;
  }

  /** Counts of all server threads. Each keeps its own balance, so the sum keeps it, too. */
  async #sum(): Promise<CaptureCounters> {
    const sum: CaptureCounters = structuredClone(NO_COUNTERS);
    for (const counters of await Promise.all(this.#options.servers.map((server) => server.counters()))) {
      if (counters === null) continue;
      sum.killed ||= counters.killed;
      for (const name of SUMMED) sum[name] += counters[name];
      for (const cause of FAILURE_CAUSES) sum.errors_by_cause[cause] += counters.errors_by_cause[cause];
      for (const cause of DROP_CAUSES) sum.dropped_by_cause[cause] += counters.dropped_by_cause[cause];
      const { failing, oldest_append_ms, dropping } = counters;
      if ((failing?.for_ms ?? -1) > (sum.failing?.for_ms ?? -1)) sum.failing = failing;
      sum.oldest_append_ms = Math.max(sum.oldest_append_ms, oldest_append_ms);
      sum.dropping = [...new Set([...sum.dropping, ...dropping])];
      for (const [provider, { captured, turns }] of Object.entries(counters.by_provider)) {
        const before = sum.by_provider[provider];
        sum.by_provider[provider] = {
          captured: (before?.captured ?? 0) + captured,
          turns: (before?.turns ?? 0) + turns,
        };
      }
    }
    return sum;
  }
}

/** An agent that is suspended counts once, whatever its kinds are. */
function countSuspended(agents: readonly WatchedAgentReport[]): { agents: number; kinds: number } {
  const serving = agents.filter(({ state }) => state === 'serving');
  const kinds = serving.flatMap((agent) => agent.kinds.filter(({ state }) => state === 'suspended'));
  return { agents: agents.length - serving.length, kinds: kinds.length };
}

const SUMMED = [
  'queue_depth',
  'queue_bytes',
  'errors',
  'attempted',
  'captured',
  'dropped',
  'in_flight',
  'turns',
  'aborted',
] as const satisfies (keyof CaptureCounters)[];
