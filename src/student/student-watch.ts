/**
 * The watch over a student, with its file. The watch writes changes within seconds and a suspension at once; no step
 * waits for the file. The watch also applies an operator's orders. The student's thread. Server threads and the command
 * line only report what the file contains (`reportWatched`).
 */

import { kindOfForm } from './model/answer-form.ts';
import {
  type DriftCopy,
  DriftWatch,
  type StudentTerms,
  type Suspension,
  type WatchedAgentReport,
} from './model/drift-watch.ts';
import { admitsRun, isSuspendedBy, NO_ORDERS, type Orders, shareOf } from './orders.ts';
import { readWatchFile, writeWatchFile } from './watch-file.ts';

/** How soon a change of the watch is written. */
const WATCH_SAVE_MS = 2_000;

interface StudentWatchOptions {
  /** The watch's file; null: keep the watch only in memory. */
  path: string | null;
  /** Share of covered steps that is audited. */
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

  /** Continues from the file, if there is one. A file that cannot be read is logged, and the watch starts again. */
  static async open(options: StudentWatchOptions, terms: StudentTerms): Promise<StudentWatch> {
    let kept: DriftCopy | null = null;
    try {
      if (options.path !== null) kept = await readWatchFile(options.path);
    } catch (error) {
      const words =
        'the watch file cannot be read: the student is watched as if it were new, including suspended kinds';
      options.log.warn({ reason: (error as Error).message }, words);
    }
    return new StudentWatch(options, terms, kept);
  }

  get terms(): StudentTerms {
    return this.#terms;
  }

  /**
   * Whether a run is in the share of runs that this version serves.
   * @param identityOf computes the run's identity; called only if the version does not serve all runs
   */
  admits(identityOf: () => string): boolean {
    const { version } = this.#terms;
    return this.share === 1 || admitsRun(this.#orders, version, identityOf());
  }

  /**
   * Decides whether a covered step is served, audited or left to the upstream.
   * @param form the answer's form or kind; operators suspend kinds
   */
  judge(agent: string, form: string): 'serve' | 'audit' | 'suspended' {
    if (isSuspendedBy(this.#orders, agent, kindOfForm(form))) return 'suspended';
    return this.#watch.judge(agent, form);
  }

  /** Applies an operator's orders from now on. */
  obey(orders: Orders): void {
    this.#orders = orders;
    let isChanged = false;
    for (const { agent, kind, at_ms } of orders.resumed) {
      const agents = agent === null ? this.#watch.report().map((report) => report.agent) : [agent];
      for (const name of agents) isChanged = this.#watch.resume(name, kind, at_ms) || isChanged;
    }
    if (isChanged) this.#saveSoon(0);
  }

  /** Share of the runs that this version serves. */
  get share(): number {
    return shareOf(this.#orders, this.#terms.version);
  }

  /**
   * Records a comparison of the student's answer with the upstream's. If the comparison leads to a suspension, the
   * suspension is logged, and the file is written at once.
   */
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

  /** Takes over the state of the previous thread, which is newer than the file. */
  takeOver(copy: DriftCopy): void {
    this.#watch = this.#make(copy);
    this.obey(this.#orders);
    this.#saveSoon(0);
  }

  /** Ends the writing, because another thread has taken over and writes the file from now on. */
  retire(): void {
    this.#isRetired = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Writes what has not been written yet, and waits until the file is written. */
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
        log.warn(
          { reason: (error as Error).message },
          'the watch file could not be written: a restart now would lose the latest audits and suspensions',
        ),
      );
  }
}

/**
 * Makes a report from the watch's file, for callers without a running student.
 * @param kept the file's content; null: there is no file
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
    for (const [name] of kept.agents) if (agent === null || agent === name) watch.resume(name, kind, at_ms);
  return markOrders(watch.report(), orders);
}

/** Adds an operator's suspensions to a report, including for agents without any comparison. */
function markOrders(agents: readonly WatchedAgentReport[], orders: Orders): WatchedAgentReport[] {
  const unseen = orders.suspended.flatMap(({ agent }) =>
    agent === null || agents.some((seen) => seen.agent === agent) ? [] : [agent],
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
  return all.map((watched) => {
    const kinds = watched.kinds.map((watchedKind) =>
      isSuspendedBy(orders, watched.agent, kindOfForm(watchedKind.kind))
        ? { ...watchedKind, state: 'suspended' as const }
        : watchedKind,
    );
    for (const { agent, kind } of orders.suspended) {
      if (
        kind === null ||
        (agent !== null && agent !== watched.agent) ||
        kinds.some((candidate) => candidate.kind === kind)
      )
        continue;
      kinds.push({ kind, state: 'suspended', compared: 0, wrong: 0, evidence: 1 });
    }
    return isSuspendedBy(orders, watched.agent, null)
      ? { ...watched, state: 'suspended', suspended_by: 'operator', kinds }
      : { ...watched, kinds };
  });
}
