/**
 * What the hooks of one run remember from one process to the next: which steps there were, in which order, and that the service
 * knows the run. One file a run; each hook appends whole lines, so hooks of parallel tool calls need no lock. The file has nothing that
 * the agent said or did. Command line.
 */
import { appendFileSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '../std/folder.ts';

/** Longer than anybody leaves a session open. */
const KEPT_MS = 7 * 24 * 3_600_000;
/** Files that are looked at when the old ones go; what is left goes the next time. */
const SWEPT_FILES = 1_000;
/**
 * Two hooks that one client starts for one event begin within this time; the same call made again begins later, since the model
 * answers in between.
 */
const SAME_EVENT_MS = 2_000;
/** How long a service that did not answer is left alone: each hook of a session would wait for it again. */
const OUTAGE_MS = 30_000;

/** Where the files are: of this user alone. */
function journalFolder(): string {
  return join(homedir(), '.local', 'state', 'understudy', 'hooks');
}

export class RunJournal {
  readonly #folder: string;
  readonly #path: string;
  #lines: string[];

  /** @throws Error of the file system where no folder can be made */
  constructor(run_id: string, folder = journalFolder()) {
    makeFolder(folder, 0o700);
    this.#folder = folder;
    this.#path = join(folder, `run-${encodeURIComponent(run_id)}`);
    this.#lines = readLines(this.#path);
  }

  get isStarted(): boolean {
    return this.#lines.includes('started');
  }

  /** How often the run was finished and went on: a session that is resumed keeps its name. */
  get resumptions(): number {
    return this.#lines.filter((line) => line === 'resumed').length;
  }

  noteStarted(): void {
    this.#append('started');
  }

  /** The service has to be told of the run once more. */
  noteResumed(): void {
    this.#append('resumed');
  }

  /**
   * @param key of the event
   * @param at_ms when this process began
   * @returns the place of the step among all of the run; the same for the same event, which a client may tell to two hooks
   */
  indexOf(key: string, at_ms: number = performance.timeOrigin): number {
    const known = this.#find(key, at_ms);
    if (known >= 0) return known;
    this.#append(`step ${key} ${Math.round(at_ms)}`);
    // Another hook may have told of the event meanwhile: the first line counts.
    return this.#find(key, at_ms);
  }

  /** @returns -1 for an event that is not there */
  #find(key: string, at_ms: number): number {
    return this.#lines
      .filter((line) => line.startsWith('step '))
      .findIndex((line) => {
        const [, other, began] = line.split(' ');
        return other === key && Math.abs(Number(began) - at_ms) <= SAME_EVENT_MS;
      });
  }

  /** Lines that others append meanwhile stand before or behind, never within. */
  #append(line: string): void {
    appendFileSync(this.#path, `${line}\n`, { mode: 0o600 });
    this.#lines = readLines(this.#path);
  }

  get #outage(): string {
    return join(this.#folder, 'outage');
  }

  /** The service did not answer a moment ago. */
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

/** Removes what no session needs any more, and lets the service be asked again. */
export function sweepJournals(folder = journalFolder()): void {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return;
  }
  rmSync(join(folder, 'outage'), { force: true });
  const oldest = Date.now() - KEPT_MS;
  for (const name of names.filter((name) => name.startsWith('run-')).slice(0, SWEPT_FILES)) {
    const path = join(folder, name);
    const { mtimeMs = oldest } = statSync(path, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs < oldest) rmSync(path, { force: true });
  }
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').slice(0, -1);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw thrown;
  }
}
