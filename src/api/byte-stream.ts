/**
 * Sends bytes while they are produced: the next piece is produced after the socket has accepted the
 * previous one. A failure closes the connection, so that the reader does not mistake a part for the
 * whole. If the reader disconnects, no more pieces are made. Server threads.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventSink, EventStream } from '../contract/handler.ts';
import { CatalogueError } from '../errors.ts';

/**
 * Maximum number of concurrent byte streams on a server thread (`all`), and of one organization
 * (`own`), so that other organizations can export, too.
 */
const BYTE_STREAMS = { all: 8, own: 3 } as const;
/** If the socket has not accepted a piece after this time, the connection is closed. */
const STALLED_MS = 60_000;

/** Number of open streams by organization; '' is the operator. */
const open = new Map<string, number>();

function count(owner: string, by: 1 | -1): void {
  const now = (open.get(owner) ?? 0) + by;
  if (now === 0) open.delete(owner);
  else open.set(owner, now);
}

/**
 * Begins work that will become a byte stream. While `begin` runs, it counts as an open stream; later, {@link
 * streamBytes} counts the stream while it is open.
 * @param owner the organization that asks; '': the operator
 * @throws CatalogueError `unavailable` if too many streams are open; errors of `begin`
 */
export async function beginByteStream<Begun>(owner: string, begin: () => Promise<Begun>): Promise<Begun> {
  if ((open.get(owner) ?? 0) >= BYTE_STREAMS.own)
    throw new CatalogueError(
      'unavailable',
      `You have ${BYTE_STREAMS.own} exports in progress: wait until one has ended`,
    );
  let all = 0;
  for (const own of open.values()) all += own;
  if (all >= BYTE_STREAMS.all)
    throw new CatalogueError('unavailable', 'Too many exports at once: try again later');
  count(owner, 1);
  try {
    return await begin();
  } finally {
    count(owner, -1);
  }
}

/**
 * Makes a stream that sends pieces of bytes. While the stream is open, it counts as one of the owner's streams.
 * @param pieces an empty piece sends nothing, but stops the iteration if the reader has disconnected
 */
export function streamBytes(owner: string, pieces: AsyncGenerator<Uint8Array>): EventStream {
  return {
    open: (sink) => {
      const sender = new ByteSender(sink);
      count(owner, 1);
      void sender.send(pieces).finally(() => count(owner, -1));
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
