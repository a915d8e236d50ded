/**
 * Deletes runs, traces and findings that are older than the operator's limit (`RETENTION_DAYS…`), a few at a time, with
 * pauses for requests. After a stop or a crash it continues where it was, because each pass examines what exists. Live
 * events are deleted with their hub (actors/live-hub). Server threads; one instance serves all of them.
 */

import type { FindingsClient } from '../../actors/findings-index/client.ts';
import type { PatternMakerClient } from '../../actors/pattern-maker/client.ts';
import type { RunClient } from '../../actors/run/client.ts';
import type { AuditActor } from '../domain/account.ts';
import { RETENTION } from '../domain/retention-clock.ts';
import type { RunRow } from '../domain/run-rows.ts';
import { CatalogueError } from '../errors.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { forgetRunMarks } from '../storage/accounts/run-marks.ts';
import type { ListPlace, OldestFirst } from '../storage/ports/page.ts';
import type { RunReads } from '../storage/ports/run-reads.ts';
import type { Stores } from '../storage/ports/stores.ts';

/** The kinds of data with an age limit. */
export const EXPIRING_KINDS = ['runs', 'traces', 'findings'] as const;
export type ExpiringKind = (typeof EXPIRING_KINDS)[number];

/** Maximum age in days; null: no limit. */
type RetentionDays = Readonly<Record<ExpiringKind, number | null>>;

interface RetentionParts {
  days: RetentionDays;
  stores: Stores;
  runs: Pick<RunClient, 'delete'>;
  traces: Pick<PatternMakerClient, 'delete'>;
  findings: Pick<FindingsClient, 'expire'>;
  /** Called for each deleted portion. */
  count(kind: ExpiringKind, deleted: number): void;
  /** Called before each pass: whether another box does the deletion; absent: no other box does. */
  isElsewhere?(): boolean;
  /** Called at the end of each complete pass. */
  onPass?(): void;
  /** Called for each item that cannot be deleted, and when a pass fails; the next pass starts over. */
  report(thrown: unknown): void;
  /** Called once per pass: the time from which ages count (storage/retention-clock.ts); default: the wall clock. */
  nowForAges?(): Promise<number>;
  clock?: Clock;
}

const DAY_MS = 86_400_000;
/** The actor named in the audit log. */
const BY_AGE: AuditActor = { type: 'operator', id: 'retention', address: '' };

export class Retention {
  readonly #parts: RetentionParts;
  readonly #clock: Clock;
  #isOver = false;
  #running: Promise<void> = Promise.resolve();
  #wake: () => void = () => {};

  constructor(parts: RetentionParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
  }

  /** Starts periodic passes; call it once. Does nothing if no kind has a limit. */
  start(): void {
    if (EXPIRING_KINDS.every((kind) => this.#parts.days[kind] === null)) return;
    this.#running = this.#run();
  }

  /** Stops, and resolves when the current portion is done. */
  async end(): Promise<void> {
    this.#isOver = true;
    this.#wake();
    await this.#running;
  }

  /**
   * Deletes what is too old now, except for runs and traces that are still at work. An item that cannot be deleted is
   * reported and stays until a later pass. After {@link end}, the pass stops early.
   * @throws what the clock, the lists or the audit log throw
   */
  async pass(): Promise<void> {
    const { days } = this.#parts;
    const nowMs = (await this.#parts.nowForAges?.()) ?? this.#clock.wallMs();
    if (days.runs !== null) await this.#expireRuns(nowMs - days.runs * DAY_MS);
    if (days.traces !== null) await this.#expireTraces(nowMs - days.traces * DAY_MS);
    if (days.findings !== null) await this.#expireFindings(nowMs - days.findings * DAY_MS);
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      if (this.#parts.isElsewhere?.() !== true) await this.#tryPass();
      await this.#pause(RETENTION.every_ms);
    }
  }

  async #tryPass(): Promise<void> {
    try {
      await this.pass();
      if (!this.#isOver) this.#parts.onPass?.();
    } catch (thrown) {
      this.#parts.report(thrown);
    }
  }

  /** Deletes runs by the time of their start, but keeps a running one whose last step is recent. */
  async #expireRuns(beforeMs: number): Promise<void> {
    const { stores, runs } = this.#parts;
    for (const org_id of stores.run_records.listOrganizations())
      await this.#expireList('runs', org_id, beforeMs, stores.run_records, async (place) => {
        const run = stores.run_records.find(place)?.row;
        if (
          run === undefined ||
          (run.status === 'running' && (await isActive(stores.run_reads, run, beforeMs)))
        )
          return false;
        const { run_id } = place;
        const isGone = await isDone(runs.delete({ org_id, project_id: null }, run_id, null));
        if (isGone) await forgetRunMarks(stores.accounts, { org_id, run_id });
        return isGone;
      });
  }

  /** Deletes traces by the time of their submission, but keeps one that still waits for pattern making. */
  async #expireTraces(beforeMs: number): Promise<void> {
    const { traces, stores } = this.#parts;
    const stored = stores.accounts.traces;
    for (const org_id of stored.listOrganizations())
      await this.#expireList('traces', org_id, beforeMs, stored, async (address) => {
        const trace = stored.findExact(address);
        if (trace === undefined || trace.status === 'queued' || trace.status === 'distilling') return false;
        return isDone(traces.delete(address, null));
      });
  }

  async #expireFindings(beforeMs: number): Promise<void> {
    const { findings, stores } = this.#parts;
    const before = new Date(beforeMs).toISOString();
    for (const codebase of [...stores.accounts.findings.listExpirable(before)]) {
      try {
        for (let deleted: number = RETENTION.rows; deleted === RETENTION.rows && !this.#isOver; ) {
          ({ deleted } = await findings.expire(codebase, before, RETENTION.rows, null));
          await this.#tell('findings', codebase.org_id, deleted, before);
          await this.#pause(RETENTION.pause_ms);
        }
      } catch (thrown) {
        this.#parts.report(thrown);
      }
      if (this.#isOver) return;
    }
  }

  /**
   * Deletes the old items of an organization's list in portions, oldest first.
   * @param remove returns whether it has deleted the item
   */
  async #expireList<Item extends { place: ListPlace }>(
    kind: ExpiringKind,
    org_id: string,
    before_ms: number,
    list: { listOldest(portion: OldestFirst): Item[] },
    remove: (item: Item) => Promise<boolean>,
  ): Promise<void> {
    let after: ListPlace | null = null;
    while (!this.#isOver) {
      const portion = { org_id, project_id: null, before_ms, after, limit: RETENTION.rows };
      const old: Item[] = list.listOldest(portion);
      if (old.length === 0) return;
      // An item that cannot be deleted now must not delay the others; the next pass finds it again.
      const gone = await Promise.all(
        old.map((item) =>
          remove(item).catch((thrown: unknown) => {
            this.#parts.report(thrown);
            return false;
          }),
        ),
      );
      await this.#tell(kind, org_id, gone.filter(Boolean).length, new Date(before_ms).toISOString());
      if (old.length < RETENTION.rows) return;
      after = old.at(-1)!.place;
      await this.#pause(RETENTION.pause_ms);
    }
  }

  /**
   * Writes one audit entry per portion. With one entry per run, entries about people's actions
   * would be hard to find.
   */
  async #tell(kind: ExpiringKind, org_id: string, deleted: number, before: string): Promise<void> {
    if (deleted === 0) return;
    this.#parts.count(kind, deleted);
    await this.#parts.stores.accounts.transact((tx) =>
      tx.audit.add(BY_AGE, this.#clock.wallMs(), {
        org_id,
        action: `retention.${kind}`,
        target: org_id,
        after: { deleted, before },
      }),
    );
  }

  #pause(ms: number): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/**
 * Whether the run has a recent step. The step with the highest number is usually the newest. If it is not, the run
 * looks older than it is, never newer.
 */
async function isActive(reads: RunReads, run: RunRow, beforeMs: number): Promise<boolean> {
  const last = await reads.findLastStep(run);
  return last !== undefined && Date.parse(last.step.at) >= beforeMs;
}

/**
 * Waits for a deletion.
 * @returns false when another request has deleted the item
 * @throws what the deletion throws, except for `not_found`
 */
async function isDone(deletion: Promise<void>): Promise<boolean> {
  try {
    await deletion;
    return true;
  } catch (thrown) {
    if (thrown instanceof CatalogueError && thrown.code === 'not_found') return false;
    throw thrown;
  }
}
