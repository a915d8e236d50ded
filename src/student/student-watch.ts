/**
 * The watch over the student of one thread, with the file in which it is kept: what changes is written soon, a suspension
 * at once. Beside the traffic: nothing waits for the file. The student's thread.
 */

import { WATCH_SAVE_MS } from '../limits.ts';
import {
  type DriftCopy,
  DriftWatch,
  type StudentTerms,
  type Suspension,
  type WatchedAgentReport,
} from './model/drift-watch.ts';
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

  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended' {
    return this.#watch.judge(agent, kind);
  }

  /** A step has been compared; what follows is told in the log. */
  note(agent: string, kind: string, agreed: boolean): void {
    const suspension = this.#watch.note(agent, kind, agreed);
    if (suspension !== null) this.#tell(suspension);
    this.#saveSoon(suspension === null ? WATCH_SAVE_MS : 0);
  }

  report(): WatchedAgentReport[] {
    return this.#watch.report();
  }

  copy(): DriftCopy {
    return this.#watch.copy();
  }

  /** What the thread before this one knew, later than the file. */
  takeOver(copy: DriftCopy): void {
    this.#watch = this.#make(copy);
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
