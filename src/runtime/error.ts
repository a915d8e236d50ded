/**
 * Errors of the actor runtime. A thread boundary strips class and fields from an Error, so errors cross as plain data
 * and are rebuilt on the other side by their code. Any thread.
 */

/** All errors that the runtime itself reports. `retryable`: a retry may succeed. */
const RUNTIME_ERRORS = {
  /** The actor's thread is down. Unless it failed too often or the program ends, it is being started again. */
  host_down: { retryable: true },
  /** The actor's mailbox is full, or the actor keeps too many answers for later. */
  mailbox_full: { retryable: true },
  /** The mailbox was full, and this message was dropped by its overflow rule. */
  message_dropped: { retryable: true },
  /** Too many bytes are in transit to that thread. */
  link_full: { retryable: true },
  /** This thread has too many unanswered asks. */
  too_many_asks: { retryable: true },
  /** No answer within the deadline; whether the message was handled is unknown. */
  deadline_exceeded: { retryable: true },
  /** The handler threw an exception, or requested an effect that is impossible. None of its effects was performed. */
  actor_failed: { retryable: false },
  /**
   * Another process owns the actor now, in a store that several processes share. Nothing of this message was stored.
   */
  actor_moved: { retryable: true },
  /**
   * The actor kept the answer for later, and was restarted, or taken by another process, before it answered. Events of
   * the message may be stored.
   */
  actor_restarted: { retryable: true },
  /** The actor failed too often, or could not be started. After a while, the next message starts it again. */
  actor_stopped: { retryable: true },
  /** The host has its maximum number of actors of that kind, and none of those that it checked is idle. */
  too_many_actors: { retryable: true },
  /**
   * The journal could not store the events, and the actor returns to its stored state; or the journal could not be
   * read.
   */
  storage_unavailable: { retryable: true },
  /** The host is shutting down, or the asking client is closed. */
  draining: { retryable: true },
  /** No such kind of actor. */
  unknown_kind: { retryable: false },
  /** The kind has no such message. */
  unknown_message: { retryable: false },
  /** The handler neither answered nor kept the answer for later, or its answer is not plain data. */
  no_reply: { retryable: false },
  /** The address's key is empty, too long or not valid Unicode. */
  bad_address: { retryable: false },
} as const satisfies Record<string, { retryable: boolean }>;

export type RuntimeErrorCode = keyof typeof RUNTIME_ERRORS;

/** An error as plain data, to cross threads. Actors may refuse with their own codes. */
export interface ErrorData {
  code: string;
  message: string;
  retryable: boolean;
  /** Additional information from the refusing actor; plain data. */
  detail?: unknown;
}

/** A failed ask, rebuilt in the asking thread. Clients of actors also get it for an actor's refusal. */
export class RuntimeError extends Error {
  override readonly name = 'RuntimeError';
  /** A RuntimeErrorCode, or the code of the actor's own refusal. */
  readonly code: string;
  readonly retryable: boolean;
  readonly detail: unknown;

  constructor(data: ErrorData) {
    super(data.message);
    this.code = data.code;
    this.retryable = data.retryable;
    this.detail = data.detail;
  }
}

/** Makes the data of a failure that the runtime reports. */
export function runtimeError(code: RuntimeErrorCode, message: string): ErrorData {
  return { code, message, retryable: RUNTIME_ERRORS[code].retryable };
}

/** Describes any thrown value as a text. */
export function describeError(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}
