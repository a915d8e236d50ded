/**
 * Sends bytes as they are made: a further piece is made when the network has taken the one before. A failure on the way cuts the
 * connection, so that the reader does not take a part for the whole. Server threads.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventSink, EventStream } from '../contract/handler.ts';
import { CatalogueError } from '../errors.ts';
import { createDeferred } from '../std/deferred.ts';

/** Byte streams of one server thread at a time. */
const BYTE_STREAMS = 8;

let open = 0;

/** @throws CatalogueError `unavailable` when too many are open */
export function checkByteStreams(): void {
  if (open >= BYTE_STREAMS) throw new CatalogueError('unavailable', 'Too many exports at once');
}

export function streamBytes(pieces: AsyncGenerator<Uint8Array>): EventStream {
  return {
    open: (sink) => {
      const gone = createDeferred<void>();
      open += 1;
      void send(pieces, sink, gone.promise).finally(() => {
        open -= 1;
      });
      return () => gone.resolve();
    },
  };
}

async function send(pieces: AsyncGenerator<Uint8Array>, sink: EventSink, gone: Promise<void>): Promise<void> {
  try {
    for await (const piece of pieces) {
      if (!sink.write(piece)) return;
      const drained = new Promise<void>((resolve) => sink.whenDrained(resolve));
      await Promise.race([drained, gone]);
      await nextTurn();
    }
    sink.close();
  } catch {
    sink.abort();
  }
}
