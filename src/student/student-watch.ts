/**
 * The watch over the student of one thread, with its file. It writes changes soon, and a suspension
 * at once. No traffic waits for the file. It also obeys what an operator orders. The student's thread, and server threads for an operator who looks; the command line
 * reads what it has kept.
 */

import { WATCH_SAVE_MS } from '../limits.ts';
import {
  type DriftCopy,
  DriftWatch,
  type StudentTerms,
  type Suspension,
  type WatchedAgentReport,
} from './model/drift-watch.ts';
import { admitsRun, isSuspendedBy, NO_ORDERS, type Orders, shareOf } from './orders.ts';
import { readWatchFile, writeWatchFile } from './watch-file.ts';

export interface StudentWatchOptions {
  /** null: it is kept in memory alone. */
  path: string | null;
  /** Of covered steps that are audited. */
  share: number;
  log: { warn(fields: object, words: string): void };
}

export class StudentWatch {
  readonly #options: StudentWatchOptions;
  readonly #terms: StudentTerms;
  #watch: DriftWatch;
  #orders: Orders = NO_ORDERS;
  #timer: NodeJS.Timeout | null = null;
  #saving: Promise<void> = Promise.resolve();
  #isRetired = false;

  private constructor(options: StudentWatchOptions, terms: StudentTerms, kept: DriftCopy | null) {
    this.#options = options;
    this.#terms = terms;
    this.#watch = this.#make(kept);
  }

  /** Goes on from the file, if there is one; a damaged one is told and begun anew. */
  static async open(options: StudentWatchOptions, terms: StudentTerms): Promise<StudentWatch> {
    let kept: DriftCopy | null = null;
    try {
      if (options.path !== null) kept = await readWatchFile(options.path);
    } catch (error) {
      const words =
        'what was known of the student is lost: it is watched as if it were new, suspended kinds too';
      options.log.warn({ reason: (error as Error).message }, words);
    }
    return new StudentWatch(options, terms, kept);
  }

  get terms(): StudentTerms {
    return this.#terms;
  }

  /** Whether a run may be served at all, by its identity; where every run may, that is not asked for. */
  admits(identityOf: () => string): boolean {
    const { version } = this.#terms;
    return this.share === 1 || admitsRun(this.#orders, version, identityOf());
  }

  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended' {
    if (isSuspendedBy(this.#orders, agent, kind)) return 'suspended';
    return this.#watch.judge(agent, kind);
  }

  /** What an operator has ordered, from now on. */
  obey(orders: Orders): void {
    this.#orders = orders;
    let isChanged = false;
    for (const { agent, kind, at_ms } of orders.resumed) {
      const agents = agent === null ? this.#watch.report().map((its) => its.agent) : [agent];
      for (const one of agents) isChanged = this.#watch.resume(one, kind, at_ms) || isChanged;
    }
    if (isChanged) this.#saveSoon(0);
  }

  /** Share of the runs that this version serves. */
  get share(): number {
    return shareOf(this.#orders, this.#terms.version);
  }

  /** A step has been compared; what follows is told in the log. */
  note(agent: string, kind: string, agreed: boolean): void {
    const suspension = this.#watch.note(agent, kind, agreed);
    if (suspension !== null) this.#tell(suspension);
    this.#saveSoon(suspension === null ? WATCH_SAVE_MS : 0);
  }

  report(): WatchedAgentReport[] {
    return markOrders(this.#watch.report(), this.#orders);
  }

  copy(): DriftCopy {
    return this.#watch.copy();
  }

  /** What the thread before this one knew, later than the file. */
  takeOver(copy: DriftCopy): void {
    this.#watch = this.#make(copy);
    this.obey(this.#orders);
    this.#saveSoon(0);
  }

  /** Another thread has taken over, and writes the file from now on. */
  retire(): void {
    this.#isRetired = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Writes what is not written yet. */
  async close(): Promise<void> {
    if (this.#timer !== null) this.#save();
    await this.#saving;
  }

  #make(kept: DriftCopy | null): DriftWatch {
    return new DriftWatch(this.#terms, this.#options.share, Math.random, Date.now, kept);
  }

  #tell({ agent, kind, compared, wrong }: Suspension): void {
    const { promise } = this.#terms;
    this.#options.log.warn(
      { agent, kind, compared, wrong, promise },
      `the student is wrong more often than it promises: the upstream serves ${kind === null ? 'this agent' : 'this kind of answer'} ` +
        'until a round has learnt what changed (understudy loop --once)',
    );
  }

  #saveSoon(afterMs: number): void {
    if (this.#options.path === null || this.#isRetired) return;
    if (afterMs === 0) this.#save();
    else this.#timer ??= setTimeout(() => this.#save(), afterMs).unref();
  }

  #save(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const { path, log } = this.#options;
    if (path === null || this.#isRetired) return;
    this.#saving = this.#saving
      .then(() => writeWatchFile(path, this.#watch.copy()))
      .catch((error: unknown) =>
        log.warn({ reason: (error as Error).message }, 'what is known of the student could not be kept'),
      );
  }
}

/**
 * A report of what is kept in a file, for who has no student at hand.
 * @param kept null: nothing
 */
export function reportWatched(kept: DriftCopy | null, orders: Orders): WatchedAgentReport[] {
  if (kept === null) return markOrders([], orders);
  const terms = { version: kept.version, made_at_ms: 0, promise: 0.05, valid_until_ms: null };
  const watch = new DriftWatch(
    terms,
    0,
    () => 1,
    () => 0,
    kept,
  );
  for (const { agent, kind, at_ms } of orders.resumed)
    for (const [one] of kept.agents) if (agent === null || agent === one) watch.resume(one, kind, at_ms);
  return markOrders(watch.report(), orders);
}

/** A report with what an operator has suspended, agents that nothing was compared of among them. */
export function markOrders(agents: readonly WatchedAgentReport[], orders: Orders): WatchedAgentReport[] {
  const unseen = orders.suspended.flatMap(({ agent }) =>
    agent === null || agents.some((its) => its.agent === agent) ? [] : [agent],
  );
  const all: WatchedAgentReport[] = [
    ...agents,
    ...[...new Set(unseen)].map((agent) => ({
      agent,
      state: 'serving' as const,
      suspended_by: null,
      compared: 0,
      wrong: 0,
      kinds: [],
    })),
  ];
  return all.map((its) => {
    const kinds = its.kinds.map((one) =>
      isSuspendedBy(orders, its.agent, one.kind) ? { ...one, state: 'suspended' as const } : one,
    );
    for (const { agent, kind } of orders.suspended) {
      if (kind === null || (agent !== null && agent !== its.agent) || kinds.some((one) => one.kind === kind))
        continue;
      kinds.push({ kind, state: 'suspended', compared: 0, wrong: 0, evidence: 1 });
    }
    return isSuspendedBy(orders, its.agent, null)
      ? { ...its, state: 'suspended', suspended_by: 'operator', kinds }
      : { ...its, kinds };
  });
}
