/** Bytes that are sent while they are produced: what ends when the reader leaves, and what ends after a failure. */
import { expect, it } from 'vitest';
import { beginByteStream, streamBytes } from '../../src/api/byte-stream.ts';
import type { EventSink } from '../../src/contract/handler.ts';
import { createDeferred } from '../../src/std/deferred.ts';

class TestSink implements EventSink {
  readonly buffered_bytes = 0;
  readonly written: string[] = [];
  readonly ended = createDeferred<'closed' | 'aborted'>();

  write(bytes: Uint8Array): boolean {
    this.written.push(Buffer.from(bytes).toString());
    return true;
  }

  whenDrained(listener: () => void): void {
    queueMicrotask(listener);
  }

  close(): void {
    this.ended.resolve('closed');
  }

  abort(): void {
    this.ended.resolve('aborted');
  }
}

it('a byte stream sends each piece, but no empty one', async () => {
  const sink = new TestSink();
  streamBytes(
    'org',
    (async function* pieces() {
      yield Buffer.from('a');
      yield Buffer.from('');
      yield Buffer.from('b');
    })(),
  ).open(sink);
  expect(await sink.ended.promise).toBe('closed');
  expect(sink.written).toEqual(['a', 'b']);
});

it('a byte stream stops its producer when the reader leaves, also while there is nothing to send', async () => {
  const made = createDeferred<void>();
  const stopped = createDeferred<void>();
  const sink = new TestSink();
  const leave = streamBytes(
    'org',
    (async function* pieces() {
      try {
        for (;;) {
          yield Buffer.from('');
          made.resolve();
        }
      } finally {
        stopped.resolve();
      }
    })(),
  ).open(sink);
  await made.promise;
  leave();
  await stopped.promise;
  expect(sink.written).toEqual([]);
});

it('a byte stream stops its producer when the reader leaves before the first piece', async () => {
  const stopped = createDeferred<void>();
  const waits = createDeferred<void>();
  class BlockedSink extends TestSink {
    override whenDrained(): void {
      waits.resolve();
    }
  }
  const leave = streamBytes(
    'org',
    (async function* pieces() {
      try {
        yield Buffer.from('a');
        yield Buffer.from('b');
      } finally {
        stopped.resolve();
      }
    })(),
  ).open(new BlockedSink());
  await waits.promise;
  leave();
  await stopped.promise;
});

it('a byte stream cuts the connection if the producer fails', async () => {
  const sink = new TestSink();
  streamBytes(
    'org',
    (async function* pieces() {
      yield Buffer.from('a');
      throw new Error('the disk is gone');
    })(),
  ).open(sink);
  expect(await sink.ended.promise).toBe('aborted');
});

it('the byte streams of one organization and of all together are limited, also before they send anything', async () => {
  const ends = createDeferred<void>();
  const openOne = (owner: string) => {
    const sink = new TestSink();
    streamBytes(
      owner,
      (async function* pieces() {
        yield Buffer.from('a');
        await ends.promise;
      })(),
    ).open(sink);
    return sink.ended.promise;
  };
  const begin = (owner: string) => beginByteStream(owner, async () => owner);
  const open = [openOne('one'), openOne('one'), openOne('one')];
  await expect(begin('one')).rejects.toMatchObject({ code: 'unavailable', message: /You have 3 exports/ });
  expect(await begin('two')).toBe('two');
  // A stream counts even before it sends anything.
  const waits = createDeferred<void>();
  const begun = [1, 2, 3].map(() => beginByteStream('two', () => waits.promise));
  await expect(begin('two')).rejects.toMatchObject({ code: 'unavailable' });
  open.push(openOne('three'), openOne('three'));
  await expect(begin('four')).rejects.toMatchObject({ message: /Too many exports at once/ });
  waits.resolve();
  await Promise.all(begun);
  expect(await begin('four')).toBe('four');
  ends.resolve();
  await Promise.all(open);
  expect(await begin('one')).toBe('one');
});
