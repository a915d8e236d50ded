/**
 * Starts the thread that shares the student through a bucket or folder, if STUDENT_BUCKET_URL is set, and restarts it
 * after an unexpected end. Main thread.
 */
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { OwnThread } from '../std/own-thread.ts';
import { checkPlace } from '../storage/bucket/open-store.ts';

/** Pause before the thread is started again. */
const AGAIN_MS = 10_000;

/** The thread's task. */
export interface StudentSharingTask {
  role: 'share' | 'follow';
  directory: string;
  place: string;
  data_dir: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
  log_level: string;
}

class StudentSharingThread {
  readonly #task: StudentSharingTask;
  readonly #log: Log;
  #thread: OwnThread | null = null;
  #again: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(task: StudentSharingTask, log: Log) {
    this.#task = task;
    this.#log = log;
    this.#start();
  }

  #start(): void {
    const entry = resolveModuleUrl('./student-sharing-entry.ts', import.meta.url);
    const thread = new OwnThread(entry, this.#task);
    this.#thread = thread;
    thread.ended.catch((err: unknown) => {
      if (this.#isClosed) return;
      this.#log.error({ err }, 'the thread that shares the student has ended; it is started again');
      this.#again = setTimeout(() => this.#start(), AGAIN_MS).unref();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#again !== null) clearTimeout(this.#again);
    await this.#thread?.end();
  }
}

/**
 * Starts the thread that shares the student.
 * @returns null if no shared place is configured
 * @throws Error with a one-line message if STUDENT_BUCKET_URL is invalid
 */
export function openStudentSharing(
  { relegation, data_dir, data_key, log_level }: Config,
  log: Log,
): StudentSharingThread | null {
  const shared = relegation?.shared ?? null;
  if (relegation === null || shared === null) return null;
  try {
    checkPlace(shared.place);
  } catch (cause) {
    throw new Error(`STUDENT_BUCKET_URL: ${(cause as Error).message}`, { cause });
  }
  return new StudentSharingThread(
    { ...shared, directory: relegation.directory, data_dir, data_key, log_level },
    log,
  );
}
