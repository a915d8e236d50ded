/**
 * Messages between two threads: frames, and the interface of a link that sends them. Implementations:
 * message-port-link.ts and, within one thread, local-link.ts. Any thread.
 */
import type { ErrorData } from './error.ts';
import type { ActorAddress } from './protocol.ts';

/**
 * A message on a link. Payloads are plain data that msgpack can encode; `bodies` are raw bytes beside the payload. A
 * link between threads copies the bodies, unless all bodies of the frame are in shared memory: then both sides use the
 * same bytes.
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
  /** Returns the short form, which is plain data. */
  abstract pack(): unknown;
}

/** Returns a payload in the form that another thread receives. */
export function packPayload(payload: unknown): unknown {
  return payload instanceof PackablePayload ? payload.pack() : payload;
}

/** Totals since the link was created, and the bytes that are in flight now. */
export interface LinkStats {
  bytes_sent: number;
  batches_sent: number;
  /** Frames that `send` refused because the link was full. */
  refused: number;
  /** Bytes sent that the other side has not read yet, without bodies in shared memory. */
  bytes_in_flight: number;
}

/** One end of an ordered, bounded, two-way channel of frames. */
export interface Link {
  /**
   * Queues the frame for the next batch, after it has copied the payload, and the bodies unless all are in shared
   * memory. A link within a thread copies nothing: the other end handles the frame before this returns.
   * @returns false when the link is closed, or full: `bytes_in_flight` would exceed the limit. A frame larger than the
   *   limit is sent if nothing is in flight
   * @throws msgpack's error if the payload cannot be encoded
   */
  send(frame: Frame): boolean;
  /** Sends the batch now instead of at the end of the tick. A batch of tells without bodies may wait a moment longer. */
  flush(): void;
  /** Flushes, then closes both ends; frames received but not yet delivered are dropped. */
  close(): void;
  stats(): LinkStats;
  /** Called for each frame, in the order of sending. Set before the first tick ends. */
  onFrame: (frame: Frame) => void;
  /** Called once when either end has closed or the other thread has died. */
  onClose: () => void;
}
