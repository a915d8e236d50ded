/**
 * The reasons why an exchange is not stored, or not yet stored. They are closed lists: counters, messages and
 * monitoring use only these words. Any thread.
 */
import { CatalogueError, type ErrorCode } from '../errors.ts';
import { isFull } from '../std/file-place.ts';

/** Causes of a failed batch. The first three concern the storage. */
export const FAILURE_CAUSES = [
  'disk_full',
  'disk_error',
  'damaged',
  /** The exchange itself made the writer fail. */
  'unstorable',
  /** The writer has ended and is being restarted. */
  'writer_down',
  /** The writer accepts no further batches at the moment. */
  'writer_busy',
  /** The writer ended, or was too slow, while it had the batch, which may or may not be stored. */
  'lost_with_writer',
  'writer_killed',
] as const;

export type FailureCause = (typeof FAILURE_CAUSES)[number];

/** Why an exchange was given up. */
export const DROP_CAUSES = [
  'queue_full',
  'bytes_full',
  'disk_full',
  'disk_error',
  'damaged',
  'unstorable',
  'writer_down',
  'lost_with_writer',
  'writer_killed',
  /** The process ended, and the exchange could not be stored before. */
  'stop',
] as const;

export type DropCause = (typeof DROP_CAUSES)[number];

/** Causes that concern the storage and not the content: the same batch may be retried. */
export type PlaceCause = 'disk_full' | 'disk_error' | 'damaged';

/** A batch that is not stored, or whose state is unknown. With the code `capture_failed` it may be sent again. */
export class CaptureFailure extends CatalogueError {
  readonly why: FailureCause;

  /**
   * @param detail the storage's message, for the operator
   */
  constructor(why: FailureCause, detail?: string, options?: ErrorOptions) {
    super(codeOf(why), detail, options);
    this.why = why;
  }
}

function codeOf(why: FailureCause): ErrorCode {
  if (why === 'writer_killed') return 'capture_stopped';
  return why === 'lost_with_writer' ? 'unavailable' : 'capture_failed';
}

const FAILURES: ReadonlySet<unknown> = new Set(FAILURE_CAUSES);

export function isFailureCause(word: unknown): word is FailureCause {
  return FAILURES.has(word);
}

/** Makes counts that are 0 for every cause. */
export function zeroCounts<Cause extends string>(causes: readonly Cause[]): Record<Cause, number> {
  return Object.fromEntries(causes.map((cause) => [cause, 0])) as Record<Cause, number>;
}

/** LMDB's error numbers for a file with damaged pages. */
const DAMAGE_NUMBERS = new Set([-30797, -30796, -30795, -30794, -30793, -30778]);
/** LMDB's error number for a key or a value that it refuses. */
const BAD_VALUE_NUMBER = -30781;
/** Error codes of a file that is not readable as a capture file. */
const DAMAGE_CODES = new Set(['not_a_capture', 'truncated', 'damaged', 'newer_format']);
/** The form of the system's error codes, such as `ENOSPC`. Node's own codes begin with `ERR_`. */
const SYSTEM_CODE = /^E[A-Z0-9]+$/;

/**
 * Finds the storage problem that made a write fail.
 * @returns null: the error does not concern the storage, so the content or the program is the cause
 */
export function findPlaceCause(thrown: unknown): PlaceCause | null {
  if (!(thrown instanceof Error)) return null;
  const { code, cause } = thrown as { code?: unknown; cause?: unknown };
  if (code === undefined) return cause === undefined ? null : findPlaceCause(cause);
  if (code === BAD_VALUE_NUMBER) return null;
  if (typeof code === 'number') return DAMAGE_NUMBERS.has(code) ? 'damaged' : 'disk_error';
  if (typeof code !== 'string') return null;
  if (isFull(code)) return 'disk_full';
  if (DAMAGE_CODES.has(code)) return 'damaged';
  return SYSTEM_CODE.test(code) || code === 'missing' || code === 'unreadable' ? 'disk_error' : null;
}

/** An exchange that is not stored because of its content, while the rest of its batch is stored. */
export interface SetApart {
  cause: 'unstorable';
  provider: string;
  is_turn: boolean;
  aborted: boolean;
  /** For the operator: path without query, and length. Never the content. */
  path: string;
  bytes: number;
  /** The error's name and stack; its message may quote the exchange. */
  error: string;
  at: string[];
}
