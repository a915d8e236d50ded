/**
 * Messages between two threads: frames, and the interface of a link that sends them. Implementations:
 * message-port-link.ts and, within one thread, local-link.ts. Any thread.
 */
import type { ErrorData } from './error.ts';
import type { ActorAddress } from './protocol.ts';

/**
 * A message on a link. Payloads are plain data that msgpack can encode; `bodies` are raw bytes beside the payload. If
 * all bodies are in shared memory, they are not copied, and both sides use the same bytes.
 */
export type Frame =
  | {
      type: 'ask';
      id: number;
      to: ActorAddress;
      name: string;
      payload: unknown;
      /** On the process-wide monotonic clock; the message is not handled after it. */
      deadline_ms: number;
      bodies: readonly Uint8Array[];
    }
  | { type: 'tell'; to: ActorAddress; name: string; payload: unknown; bodies: readonly Uint8Array[] }
  | { type: 'reply'; id: number; value: unknown }
  | { type: 'error'; id: number; error: ErrorData }
  | { type: 'subscribe'; topic: string }
  | { type: 'unsubscribe'; topic: string }
  | { type: 'publish'; topic: string; payload: unknown }
  /**
   * Answered with `fenced` when all earlier messages are in mailboxes, and all commits of the receiving thread are
   * visible to other threads, if the store supports that.
   */
  | { type: 'fence'; id: number }
  | { type: 'fenced'; id: number };

/**
 * A payload with a shorter form for links between threads; the receiving thread gets the short form. Within a thread,
 * the payload itself is passed.
 */
export abstract class PackablePayload {
  /** The short form: plain data. */
  abstract pack(): unknown;
}

/** A payload in the form that another thread receives. */
export function packPayload(payload: unknown): unknown {
  return payload instanceof PackablePayload ? payload.pack() : payload;
}

/** Totals since the link was created. */
export interface LinkStats {
  bytes_sent: number;
  batches_sent: number;
  /** Frames that `send` refused because the link was full. */
  refused: number;
  /** Bytes sent that the other side has not received yet. */
  bytes_in_flight: number;
}

/** One end of an ordered, bounded, two-way channel of frames. */
export interface Link {
  /**
   * Queues the frame for the next batch. Its payload and bodies are copied before this returns, except bodies in shared
   * memory.
   * @returns false when the link is closed, or full: `bytes_in_flight` would exceed the limit
   */
  send(frame: Frame): boolean;
  /** Sends the batch now instead of at the end of the tick. A batch of tells alone may wait a moment longer. */
  flush(): void;
  /** Flushes, then closes both ends; frames received but not yet delivered are dropped. */
  close(): void;
  stats(): LinkStats;
  /** Called for each frame, in the order of sending. Set before the first tick ends. */
  onFrame: (frame: Frame) => void;
  /** Called once when either end has closed or the other thread has died. */
  onClose: () => void;
}
