/**
 * Why an exchange is not stored, or not yet, as closed lists: what is counted, told and watched uses these words and no
 * others. Any thread.
 */
import { CatalogueError, type ErrorCode } from '../errors.ts';
import { isFull } from '../std/file-place.ts';

/** What the writer meets with a batch. The first three are of the place that it writes to. */
export const FAILURE_CAUSES = [
  'disk_full',
  'disk_error',
  'damaged',
  /** The exchange itself made the writer fail. */
  'unstorable',
  /** The writer is not there: it has ended and starts again. */
  'writer_down',
  /** The writer takes no more for the moment. */
  'writer_busy',
  /** The writer ended, or was too slow, with the batch in its hands: it may be stored or not. */
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
  /** The process ended, and it could not be put aside for the next one. */
  'stop',
] as const;

export type DropCause = (typeof DROP_CAUSES)[number];

/** Causes that lie in the place and not in what is written: the same batch may be tried again. */
export type PlaceCause = 'disk_full' | 'disk_error' | 'damaged';

/** A batch that is not stored, or whose state is unknown. Its code says whether it may be sent again: `capture_failed`. */
export class CaptureFailure extends CatalogueError {
  readonly why: FailureCause;

  /** @param detail the storage's own words, for the operator */
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

/** Every cause with 0. */
export function zeroCounts<Cause extends string>(causes: readonly Cause[]): Record<Cause, number> {
  return Object.fromEntries(causes.map((cause) => [cause, 0])) as Record<Cause, number>;
}

/** LMDB's own numbers of a file whose pages are not what they should be. */
const DAMAGE_NUMBERS = new Set([-30797, -30796, -30795, -30794, -30793, -30778]);
/** A key or value that LMDB does not take. */
const BAD_VALUE_NUMBER = -30781;
/** Codes of a capture file that cannot be read as one. */
const DAMAGE_CODES = new Set(['not_a_capture', 'truncated', 'damaged', 'newer_format']);
/** As the system names what it refuses: `ENOSPC`. Node's own codes begin with `ERR_`. */
const SYSTEM_CODE = /^E[A-Z0-9]+$/;

/**
 * What of the place made a write fail.
 * @returns null when the error says nothing of the place: then it is of what was to be written, or of the program
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

/** An exchange that is not stored because of what it holds; the others of its batch are. */
export interface SetApart {
  cause: 'unstorable';
  provider: string;
  is_turn: boolean;
  aborted: boolean;
  /** For the operator's eyes: where it went, without its query, and how long it was. Never what it held. */
  path: string;
  bytes: number;
  /** The error's name and the places in the program; its words may quote the exchange. */
  error: string;
  at: string[];
}
