/**
 * Sends bytes as they are made: a further piece is made when the network has taken the one before. A failure on the way cuts the
 * connection, so that the reader does not take a part for the whole; a reader that leaves ends the making. Server threads.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventSink, EventStream } from '../contract/handler.ts';
import { CatalogueError } from '../errors.ts';

/** Byte streams of one server thread at a time. */
const BYTE_STREAMS = 8;
/** A reader that takes nothing for so long has left. */
const STALLED_MS = 60_000;

let open = 0;

/** @throws CatalogueError `unavailable` when too many are open */
export function checkByteStreams(): void {
  if (open >= BYTE_STREAMS) throw new CatalogueError('unavailable', 'Too many exports at once');
}

/** @param pieces an empty one sends nothing: there the making ends when the reader has left */
export function streamBytes(pieces: AsyncGenerator<Uint8Array>): EventStream {
  return {
    open: (sink) => {
      const sender = new ByteSender(sink);
      open += 1;
      void sender.send(pieces).finally(() => {
        open -= 1;
      });
      return () => sender.leave();
    },
  };
}

class ByteSender {
  readonly #sink: EventSink;
  #hasLeft = false;
  #wake: () => void = () => undefined;

  constructor(sink: EventSink) {
    this.#sink = sink;
  }

  leave(): void {
    this.#hasLeft = true;
    this.#wake();
  }

  async send(pieces: AsyncGenerator<Uint8Array>): Promise<void> {
    try {
      for await (const piece of pieces) {
        if (this.#hasLeft) return;
        if (piece.length > 0) {
          if (!this.#sink.write(piece)) return;
          await this.#waitUntilTaken();
        }
        await nextTurn();
        if (this.#hasLeft) return;
      }
      this.#sink.close();
    } catch {
      this.#sink.abort();
    }
  }

  async #waitUntilTaken(): Promise<void> {
    const timer = setTimeout(() => this.#sink.abort(), STALLED_MS);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      this.#sink.whenDrained(resolve);
    });
    clearTimeout(timer);
  }
}
