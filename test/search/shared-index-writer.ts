/** A thread that shares an index, and stops in the middle of a change on request. */
import { parentPort, workerData } from 'node:worker_threads';
import { HnswIndex, loadHnswlib } from '../../src/search/hnsw-index.ts';
import { IndexCatalog } from '../../src/search/index-catalog.ts';

const { key, vectors_id } = workerData as { key: string; vectors_id: string };
const catalog = new IndexCatalog(key);
const shared = catalog.share('one', '', 2);
const index = new HnswIndex(loadHnswlib(), 2, shared);
shared.describe(0, { name: 'pat_0', kind: '', family: '' });
index.add(0, Float32Array.of(1, 0));
catalog.serve(vectors_id);
parentPort!.on('message', () => {
  shared.change(() => {
    parentPort!.postMessage('changing');
    const never = new Int32Array(new SharedArrayBuffer(4));
    Atomics.wait(never, 0, 0);
  });
});
parentPort!.postMessage('shared');
