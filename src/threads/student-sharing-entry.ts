/**
 * Entry of the thread that shares the student through a bucket or folder: copies the student from
 * the directory to the shared place, or from the shared place to the directory. Runs on its own
 * thread, because the S3 client and the student's files would delay traffic.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createLog, type Log } from '../log.ts';
import { openDataKey } from '../std/data-key.ts';
import { describeRefusal } from '../std/file-place.ts';
import { runOwnThread } from '../std/own-thread.ts';
import { openStore } from '../storage/bucket/open-store.ts';
import { SealedObjects } from '../storage/bucket/sealed-objects.ts';
import { readSourceId } from '../storage/source-id.ts';
import { StudentFollowing, StudentSharing } from '../student/shared-student.ts';
import type { StudentSharingTask } from './student-sharing.ts';

/** Interval of the checks. A gateway checks its directory every three seconds. */
const LOOK_MS = 2_000;
/** Interval at which a continuing failure is logged again. */
const TELL_AGAIN_MS = 600_000;

async function share(task: StudentSharingTask): Promise<never> {
  const { directory, data_dir, data_key, place, role } = task;
  const log = createLog(task.log_level);
  const target = { store: await openStore(place), objects: new SealedObjects(openDataKey(data_key)) };
  const sharing = role === 'share' ? new StudentSharing(directory, target, readSourceId(data_dir)) : null;
  const following = new StudentFollowing(directory, target);
  const report = new Report(log, place);
  for (;;) {
    try {
      const news = sharing === null ? await following.look() : (await sharing.look()) ? 'shared' : null;
      report.noteSuccess(news);
    } catch (thrown) {
      report.noteFailure(thrown);
    }
    await pause(LOOK_MS);
  }
}

const NEWS = {
  shared: 'the student and the orders are shared',
  student: 'another version of the shared student serves, or no version',
  orders: 'other orders about the shared student are in force',
} as const;

/**
 * Logs changes. It logs a failure once, and again only if the failure changes or continues for
 * TELL_AGAIN_MS.
 */
class Report {
  readonly #log: Log;
  readonly #place: string;
  #reason = '';
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(log: Log, place: string) {
    this.#log = log;
    this.#place = place;
  }

  noteSuccess(news: keyof typeof NEWS | null): void {
    if (this.#reason !== '') this.#log.info({ place: this.#place }, 'the student is shared again');
    this.#reason = '';
    if (news !== null) this.#log.info({ place: this.#place }, NEWS[news]);
  }

  noteFailure(thrown: unknown): void {
    const reason = describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
    const now = performance.now();
    if (reason === this.#reason && now - this.#toldMs < TELL_AGAIN_MS) return;
    this.#reason = reason;
    this.#toldMs = now;
    this.#log.warn(
      { place: this.#place, reason },
      'the student cannot be shared now: this gateway keeps its student and tries again',
    );
  }
}

runOwnThread(share);
