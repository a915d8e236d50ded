/**
 * Entry of the bucket's thread, which talks to a bucket for the thread that started it: it reads files, and sends and
 * fetches objects. In the capture process and the capture reader, only this thread loads the S3 client. Runs on its own
 * thread, in the capture process, the capture reader and the command line.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { DataKeyError } from '../../std/data-key.ts';
import { describeRefusal } from '../../std/file-place.ts';
import { StoreError } from '../bucket/object-store.ts';
import { openStore } from '../bucket/open-store.ts';
import { StaleDraftError, StoppedError } from './bucket-failures.ts';
import type { BucketReply, BucketRequest, BucketStart } from './bucket-protocol.ts';
import { SYNC } from './bucket-protocol.ts';
import { BucketWork } from './bucket-work.ts';

function describe(thrown: unknown): NonNullable<BucketReply['failure']> {
  const message = describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
  if (thrown instanceof StoreError) return { kind: 'store', message };
  // A draft with another key was made before the key was changed.
  if (thrown instanceof StaleDraftError || thrown instanceof DataKeyError) return { kind: 'stale', message };
  if (thrown instanceof StoppedError) return { kind: 'stopped', message };
  const { code } = Object(thrown) as { code?: unknown };
  return { kind: 'other', message, ...(typeof code === 'string' ? { code } : {}) };
}

/** Answers a caller that blocks its event loop while it waits. */
function answerNow(sync: SharedArrayBuffer, failure: BucketReply['failure']): void {
  const state = new Int32Array(sync, 0, 2);
  const room = new Uint8Array(sync, 8);
  const reason = failure === null ? '' : failure.message.split('\n', 1)[0] || 'no reason given';
  state[1] = new TextEncoder().encodeInto(reason, room).written;
  Atomics.store(state, 0, SYNC.done);
  Atomics.notify(state, 0);
}

/** Reports that the work begins, from which the caller's deadline counts. */
function noteBegun(sync: SharedArrayBuffer): void {
  const state = new Int32Array(sync, 0, 1);
  Atomics.store(state, 0, SYNC.begun);
  Atomics.notify(state, 0);
}

const start = workerData as BucketStart | null;
// A test may import this file on another thread.
if (parentPort !== null && start?.place !== undefined) {
  const port = parentPort;
  const work = new BucketWork(start.place, () => openStore(start.place), start.stopping);
  port.on('message', ({ id, call, sync }: BucketRequest) => {
    if (sync !== null) noteBegun(sync);
    work.do(call).then(
      (value) => {
        if (sync === null) port.postMessage({ id, value, failure: null } satisfies BucketReply);
        else answerNow(sync, null);
      },
      (thrown: unknown) => {
        const failure = describe(thrown);
        if (sync === null) port.postMessage({ id, value: null, failure } satisfies BucketReply);
        else answerNow(sync, failure);
      },
    );
  });
}
