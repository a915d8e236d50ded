/**
 * Sends bytes while they are made: the next piece is made after the network has accepted the previous one. A
 * failure cuts the connection, so that the reader does not mistake a part for the whole. If the reader
 * disconnects, no more pieces are made. Server threads.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventSink, EventStream } from '../contract/handler.ts';
import { CatalogueError } from '../errors.ts';

/** Concurrent byte streams of one server thread. */
const BYTE_STREAMS = 8;
/** A reader that accepts nothing for this long counts as disconnected. */
const STALLED_MS = 60_000;

let open = 0;

/** @throws CatalogueError `unavailable` if too many are open */
export function checkByteStreams(): void {
  if (open >= BYTE_STREAMS)
    throw new CatalogueError('unavailable', 'Too many exports are running; try again later');
}

/** @param pieces an empty piece sends nothing, but stops the iteration if the reader has disconnected */
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
