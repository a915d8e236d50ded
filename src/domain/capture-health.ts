/**
 * The health of capture in one word with reasons, for the stats, `/ready`, `/metrics` and the container's health
 * check. It is derived from what each server thread knows about its batches, so a hanging writer need not be asked.
 * Any thread.
 */
import type { DropCause, FailureCause } from './capture-cause.ts';

/** Age of an unanswered batch at which the writer counts as stuck. A commit takes milliseconds. */
const CAPTURE_STUCK_MS = 10_000;
/** Age of an uncompressed block at which packing counts as behind. */
const PACKING_BEHIND_S = 600;

/**
 * `stopped`: nothing is stored, because an operator has stopped capture or the writer has ended. `degraded`: the writer
 * runs, but there is a problem.
 */
export const CAPTURE_STATUSES = ['ok', 'degraded', 'stopped'] as const;

type CaptureStatus = (typeof CAPTURE_STATUSES)[number];

export const CAPTURE_REASONS = [
  'writer_killed',
  'writer_down',
  'disk_full',
  'disk_error',
  'damaged',
  'stuck',
  'dropping',
  'set_aside',
  'packing_behind',
  'indexing_behind',
] as const;

type CaptureReason = (typeof CAPTURE_REASONS)[number];

export interface CaptureHealth {
  status: CaptureStatus;
  /** Why it is not `ok`, worst reason first, each with a sentence for people. */
  reasons: { reason: CaptureReason; text: string }[];
}

const STOPPED: ReadonlySet<CaptureReason> = new Set(['writer_killed', 'writer_down']);

const PLACE_WORDS: Readonly<Partial<Record<string, string>>> = {
  disk_full: 'the disk is full. Free some space on it',
  disk_error: 'the disk or its file system refuses the write',
  damaged: 'the capture database is damaged',
};

/** Describes the storage problem of a cause; null for a cause that does not concern the storage. */
export function findPlaceWords(cause: FailureCause): string | null {
  return PLACE_WORDS[cause] ?? null;
}

const DROP_WORDS: Readonly<Record<DropCause, string>> = {
  queue_full: 'GW_MAX_QUEUE is reached',
  bytes_full: 'GW_MAX_QUEUE_BYTES is reached',
  disk_full: 'the disk is full',
  disk_error: 'the disk refuses',
  damaged: 'the database is damaged',
  unstorable: 'they made the writer fail',
  writer_down: 'the writer is down',
  lost_with_writer: 'the writer ended, or was too slow, while it had them',
  writer_killed: 'capture was stopped',
  stop: 'the process ends',
};

/** What all server threads together know about the writer. */
export interface CaptureFacts {
  alive: boolean;
  killed: boolean;
  /** Why nothing is stored, and for how long; null: the last batch was stored. */
  failing: { cause: FailureCause; for_ms: number } | null;
  /** For how long the oldest batch has been unanswered; 0: no batch is unanswered. */
  oldest_append_ms: number;
  /** Causes for which exchanges were dropped recently. */
  dropping: DropCause[];
}

/** What is known about capture, together with the work that the writer has postponed. */
export interface JudgedFacts extends CaptureFacts {
  /** How long the oldest block has waited for compression. */
  packing_oldest_s: number;
  /** Age of the oldest exchange that is not indexed, in seconds. */
  unindexed_s: number;
  /** Damaged files that were renamed and still exist. */
  set_aside: number;
}

/** Above this age of the oldest exchange that is not indexed, the index counts as behind. */
const INDEXING_BEHIND_S = 10;

/**
 * Judges the health of capture.
 * @param stuckMs age at which an unanswered batch counts as stuck
 */
export function judgeCapture(
  {
    alive,
    killed,
    failing,
    oldest_append_ms,
    dropping,
    packing_oldest_s,
    unindexed_s,
    set_aside,
  }: JudgedFacts,
  stuckMs: number = CAPTURE_STUCK_MS,
): CaptureHealth {
  const reasons: CaptureHealth['reasons'] = [];
  const add = (reason: CaptureReason, text: string): void => void reasons.push({ reason, text });
  if (killed) {
    add('writer_killed', 'Capture was stopped by POST /__gw/writer/kill; it begins again with the process');
  } else {
    if (!alive) add('writer_down', 'The writer has ended; it is restarted automatically');
    const words = failing === null ? null : findPlaceWords(failing.cause);
    if (words !== null) {
      const reason = failing!.cause as CaptureReason;
      add(reason, `Nothing has been stored for ${countSeconds(failing!.for_ms)} s: ${words}`);
    }
    if (oldest_append_ms >= stuckMs) {
      add('stuck', `The writer has not answered for ${countSeconds(oldest_append_ms)} s: the disk may hang`);
    }
  }
  // A stopped capture drops every exchange, and that is already reported.
  const causes = dropping.filter((cause) => cause !== 'writer_killed');
  if (causes.length > 0) {
    const why = causes.map((cause) => DROP_WORDS[cause]).join('; ');
    add('dropping', `Exchanges were dropped in the last minute: ${why}`);
  }
  if (set_aside > 0) {
    const files = set_aside === 1 ? 'A damaged capture file was' : `${set_aside} damaged capture files were`;
    add('set_aside', `${files} set aside beside the database: see what can be read, then move it away`);
  }
  if (packing_oldest_s >= PACKING_BEHIND_S) {
    const minutes = Math.floor(packing_oldest_s / 60);
    const text = `What was stored ${minutes} minutes ago is not compressed yet: it takes far more room. Give the machine more processor time`;
    add('packing_behind', text);
  }
  if (unindexed_s > INDEXING_BEHIND_S) {
    const text = `The index is ${unindexed_s} s behind: of the exchanges that it lacks, lists show only the newest. Give the machine more processor time`;
    add('indexing_behind', text);
  }
  const isStopped = reasons.some(({ reason }) => STOPPED.has(reason));
  return { status: isStopped ? 'stopped' : reasons.length > 0 ? 'degraded' : 'ok', reasons };
}

function countSeconds(ms: number): number {
  return Math.floor(ms / 1_000);
}
