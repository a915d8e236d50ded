/**
 * The admin routes' view of capture: counts of the server threads' queues, and the state of the writer. Server threads.
 */

import { DROP_CAUSES, FAILURE_CAUSES, zeroCounts } from '../../domain/capture-cause.ts';
import { type CaptureHealth, judgeCapture } from '../../domain/capture-health.ts';
import { WITHHELD_CAUSES } from '../../domain/exchange.ts';
import type { LedgerReport } from '../../domain/student-ledger.ts';
import { NOTHING_POSTPONED, type WriterState } from '../../domain/writer-state.ts';
import { CatalogueError } from '../../errors.ts';
import type { StudentFacts, WatchedAgentReport, WatchReport } from '../../student/serving/protocol.ts';
import { addCounters, emptyCounters, type RelegationCounters } from '../relegation/relegation-ledger.ts';
import type { CaptureCounters, CaptureWriter } from './capture-queue.ts';

/** The writer's last report. Before the first report, the optional fields are missing. */
type KnownState = Pick<WriterState, 'bytes' | 'sealed' | 'packing'> & Partial<WriterState>;

/** The writer, with the methods that the admin routes need. */
export interface ControlledWriter extends CaptureWriter {
  readonly alive: boolean;
  flush(): Promise<void>;
  rotate(): Promise<{ sealed: string | null; opened: string }>;
  kill(): Promise<void>;
  state(): Promise<KnownState>;
}

interface CaptureControlOptions {
  version: string;
  db_path: string;
  max_queue: number;
  /** null when capture is switched off. */
  writer: ControlledWriter | null;
  /** All server threads of the process; read at each call. */
  servers: readonly ThreadCapture[];
  /** Milliseconds after which an unanswered append counts as stuck; default `CAPTURE_STUCK_MS`. */
  stuck_ms?: number;
  /** null or absent: relegation is off. */
  relegation?: RelegationState | null;
  /** Returns the connections of the whole process, for the stats. */
  connections?: () => object;
  /** Name of the component that checks request framing; absent: unknown. */
  framing_guard?: () => string;
  /** Why a load balancer should send no more requests, or null; absent: always null. */
  refusal?: () => string | null;
  /** The export of captured turns; null or absent: there is no export. */
  otel?: (() => object) | null;
  /** The proxy's tunnels; absent: there is no proxy. */
  proxy?: () => object;
  /** The databases of the API, by their names; absent: there is no API. */
  databases?: () => object;
}

/** The operator's relegation settings, and the current student. */
export interface RelegationState {
  readonly mode: 'on' | 'shadow';
  /** null while no student is loaded. */
  readonly facts: StudentFacts | null;
  /** Reads the results of the comparisons; null while they are unknown. */
  describeWatch(): Promise<WatchReport | null>;
  /** Reads the ledger as it was last written; null when it cannot be read. */
  readKeptLedger(): Promise<LedgerReport | null>;
}

/** One server thread's queue, on this thread or another. */
export interface ThreadCapture {
  /** null when capture is switched off. */
  counters(): Promise<CaptureCounters | null>;
  /** null when relegation is off. */
  relegation(): Promise<RelegationCounters | null>;
  settle(deadlineMs: number): Promise<void>;
  kill(): Promise<void>;
}

/** How long flush and rotate wait for exchanges that were queued before them. */
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

/** The answers of the admin routes and the health check, for all server threads together. */
export class CaptureControl {
  readonly #options: CaptureControlOptions;
  readonly #startedAtMs = performance.now();
  #lastState: KnownState = { bytes: 0, sealed: 0, packing: NOTHING_POSTPONED };

  constructor(options: CaptureControlOptions) {
    this.#options = options;
  }

  /** Makes the stats record (document 4, "Gateway"). */
  async stats(): Promise<object> {
    const { writer, version, db_path, max_queue, connections, framing_guard, otel, proxy, databases } =
      this.#options;
    if (writer?.alive) {
      // If the writer does not answer, because it is busy or restarts, the last known state is used.
      this.#lastState = await writer.state().catch(() => this.#lastState);
    }
    const { packing, process, withheld, text, ...files } = this.#lastState;
    const { unindexed_s, unsearched: _told, ...waiting } = packing;
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
        packing: waiting,
        indexing_behind: { exchanges: packing.unindexed, seconds: unindexed_s },
        text_index: text ?? null,
        process: process ?? null,
      },
      exchanges: { ...exchanges, withheld_by_cause: withheld ?? zeroCounts(WITHHELD_CAUSES) },
      relegation: await this.#describeRelegation(),
      ...(otel == null ? {} : { otel: otel() }),
      ...(framing_guard === undefined ? {} : { framing_guard: framing_guard() }),
      ...(connections === undefined ? {} : { connections: connections() }),
      ...(proxy === undefined ? {} : { proxy: proxy() }),
      ...(databases === undefined ? {} : { databases: databases() }),
    };
  }

  /** Judges the state of capture, without asking the writer. */
  async health(): Promise<CaptureHealth> {
    return this.#judge(await this.#sum());
  }

  /**
   * Makes the result of the readiness check: why the gateway should get no more requests (null: it may), and
   * the status of capture.
   */
  async readiness(): Promise<{ refusal: string | null; capture: CaptureHealth['status'] }> {
    return { refusal: this.#options.refusal?.() ?? null, capture: (await this.health()).status };
  }

  #judge(sum: CaptureCounters): CaptureHealth {
    const { writer, stuck_ms } = this.#options;
    if (writer === null) return { status: 'ok', reasons: [] };
    return judgeCapture(
      {
        ...sum,
        alive: writer.alive && this.#lastState.process?.pid !== null,
        packing_oldest_s: this.#lastState.packing.oldest_s,
        unindexed_s: this.#lastState.packing.unindexed_s,
        set_aside: this.#lastState.damaged ?? 0,
      },
      stuck_ms,
    );
  }

  /**
   * Waits until every exchange submitted before is captured or dropped, and until the captured ones are safe
   * on disk.
   * @returns the number of exchanges captured since the start
   * @throws CatalogueError `capture_stopped` if capture is off or was stopped; the errors of
   * `CaptureQueue.settle`; the writer's error
   */
  async flush(): Promise<{ flushed: true; written: number }> {
    const writer = await this.#settled();
    await writer.flush();
    return { flushed: true, written: (await this.#sum()).captured };
  }

  /**
   * Seals the capture file, after every exchange submitted before is captured or dropped.
   * @returns the path of the sealed file, null if none was sealed; and the path of the file that is open now
   * @throws as `flush`
   */
  async rotate(): Promise<{ sealed: string | null; opened: string }> {
    const writer = await this.#settled();
    return writer.rotate();
  }

  /** Ends capture until the process restarts. */
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
    const ledger: LedgerReport | null = watch ?? (await state?.readKeptLedger()) ?? null;
    const { audit, shadow, ...counts } = sum;
    return {
      enabled: state !== null,
      mode: state?.mode ?? 'off',
      student: state?.facts?.kind ?? null,
      version: state?.facts?.version ?? null,
      ...counts,
      // The ledger's sum survives restarts; this process has counted only its own part.
      money_saved_usd: ledger?.ledger_total.saved_usd ?? null,
      audit,
      shadow,
      share: watch?.share ?? 1,
      valid_until: watch?.valid_until ?? null,
      expired: watch?.is_expired ?? false,
      suspended: countSuspended(watch?.agents ?? []),
      ledger: ledger?.ledger ?? [],
      ledger_total: ledger?.ledger_total ?? null,
      agents: watch?.agents ?? [],
    };
  }

  /**
   * Waits until every exchange submitted so far is captured or dropped.
   * @returns the writer
   * @throws CatalogueError `capture_stopped` without a writer, or after `kill`; the errors of
   * `CaptureQueue.settle`
   */
  async #settled(): Promise<ControlledWriter> {
    const { writer, servers } = this.#options;
    if (writer === null)
      throw new CatalogueError('capture_stopped', 'Nothing is captured here, because GW_CAPTURE is off');
    if ((await this.#sum()).killed) throw new CatalogueError('capture_stopped');
    await Promise.all(servers.map((server) => server.settle(SETTLE_DEADLINE_MS)));
    return writer;
  }

  /**
   * Sums the counts of all server threads. On each thread, attempted = captured + dropped +
   * in_flight, so this also holds for the sum.
   */
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

/** The methods of CaptureControl. On additional server threads they call the main thread. */
export type CaptureAdmin = { [Name in keyof CaptureControl]: CaptureControl[Name] };

export const CAPTURE_ADMIN_METHODS = Object.getOwnPropertyNames(CaptureControl.prototype).filter(
  (name) => name !== 'constructor',
) as (keyof CaptureAdmin)[];

/**
 * Counts the agents that are not serving, and the suspended kinds of the agents that serve. The kinds of an agent that
 * is not serving are not counted.
 */
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
