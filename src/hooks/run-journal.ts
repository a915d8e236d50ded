/**
 * The state that the hook processes of one run share: the order of the steps, and whether the
 * service knows the run. There is one file per run; each hook appends whole lines, so hooks of
 * parallel tool calls need no lock. The file contains no texts of the agent. Command line.
 */
import { appendFileSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '../std/folder.ts';

/** Files that are older than this are removed. Sessions are shorter. */
const KEPT_MS = 7 * 24 * 3_600_000;
/** Maximum number of files that one clean-up checks. Of more files, each clean-up checks others. */
const SWEPT_FILES = 1_000;
/**
 * Maximum time between the starts of two hooks for one event. A repetition of the same tool call comes later, because
 * the model answers in between.
 */
const SAME_EVENT_MS = 2_000;
/** Time for which an unreachable service is not called, so that not every hook of a session waits for it. */
const OUTAGE_MS = 30_000;

/** Returns the folder of the files, which only this user can access. */
function journalFolder(): string {
  return join(homedir(), '.local', 'state', 'understudy', 'hooks');
}

export class RunJournal {
  readonly #folder: string;
  readonly #path: string;
  #lines: string[];

  /**
   * Reads the file of a run, if there is one.
   * @throws a file system error if the folder cannot be created, or the file cannot be read
   */
  constructor(run_id: string, folder = journalFolder()) {
    makeFolder(folder, 0o700);
    this.#folder = folder;
    this.#path = join(folder, `run-${encodeURIComponent(run_id)}`);
    this.#lines = readLines(this.#path);
  }

  /** Whether the service knows the run. */
  get isStarted(): boolean {
    return this.#lines.includes('started');
  }

  /** How often the session was resumed after its run was finished. A resumed session keeps its name. */
  get resumptions(): number {
    return this.#lines.filter((line) => line === 'resumed').length;
  }

  noteStarted(): void {
    this.#append('started');
  }

  /** Records that the session was resumed, so that a new run is reported to the service. */
  noteResumed(): void {
    this.#append('resumed');
  }

  /**
   * Returns the index of a step, and records the step if it is new.
   * @param key the key of the event
   * @param at_ms when this process started
   * @returns the step's index in the run; the same for the same event, which a client may report to two hooks
   */
  indexOf(key: string, at_ms: number = performance.timeOrigin): number {
    const known = this.#find(key, at_ms);
    if (known >= 0) return known;
    this.#append(`step ${key} ${Math.round(at_ms)}`);
    // Another hook may have recorded the event at the same time, so the first line in the file decides.
    return this.#find(key, at_ms);
  }

  /** Returns the index of a recorded step; −1 for an event that is not recorded. */
  #find(key: string, at_ms: number): number {
    return this.#lines
      .filter((line) => line.startsWith('step '))
      .findIndex((line) => {
        const [, other, began] = line.split(' ');
        return other === key && Math.abs(Number(began) - at_ms) <= SAME_EVENT_MS;
      });
  }

  /**
   * Appends a line. Lines that other processes append at the same time are before or after this line, never inside it.
   */
  #append(line: string): void {
    appendFileSync(this.#path, `${line}\n`, { mode: 0o600 });
    this.#lines = readLines(this.#path);
  }

  get #outage(): string {
    return join(this.#folder, 'outage');
  }

  /** Whether the service did not answer recently. */
  get isOut(): boolean {
    const { mtimeMs } = statSync(this.#outage, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs === undefined) return false;
    const age = Date.now() - mtimeMs;
    return age >= 0 && age < OUTAGE_MS;
  }

  noteOutage(): void {
    rmSync(this.#outage, { force: true });
    appendFileSync(this.#outage, '', { mode: 0o600 });
  }
}

/** Removes files that no session needs, and the record that the service did not answer. */
export function sweepJournals(): void {
  const folder = journalFolder();
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return;
  }
  rmSync(join(folder, 'outage'), { force: true });
  const oldest = Date.now() - KEPT_MS;
  for (const name of pickSome(names.filter((name) => name.startsWith('run-')))) {
    const path = join(folder, name);
    const { mtimeMs = oldest } = statSync(path, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs < oldest) rmSync(path, { force: true });
  }
}

/** Up to SWEPT_FILES successive names from a random one on; the first name follows the last one. */
function pickSome(names: readonly string[]): string[] {
  if (names.length <= SWEPT_FILES) return [...names];
  const from = Math.floor(Math.random() * names.length);
  return [...names.slice(from), ...names.slice(0, from)].slice(0, SWEPT_FILES);
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').slice(0, -1);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw thrown;
  }
}
