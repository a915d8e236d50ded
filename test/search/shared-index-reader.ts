/**
 * A thread that searches a shared index until it is told to end. It counts the searches whose first result is not the
 * permanent vector.
 */
import { workerData } from 'node:worker_threads';
import { SharedIndexes } from '../../src/search/index-catalog.ts';

const { key, vectors_id, lasting, state, at } = workerData as {
  key: string;
  vectors_id: string;
  lasting: Float32Array[];
  /**
   * Element 0 is 1 when the readers must end. Then come two numbers for each reader: its searches, and how many of
   * them missed their vector.
   */
  state: Int32Array;
  /** Number of this reader, from 0. */
  at: number;
};
const reader = new SharedIndexes(key, vectors_id);

for (let n = 0; Atomics.load(state, 0) === 0; n++) {
  const id = n % lasting.length;
  const vector = lasting[id]!;
  const found = reader.search({ name: 'one', vector, k: 3, min_similarity: 0.5, kind: null, family: '' });
  if (found === null) continue;
  const place = found.findIndex(({ name }) => name === `pat_${id}`);
  if (place > 0 || (place === 0 && Math.abs(found[0]!.similarity - 1) > 1e-5))
    throw new Error(`${id} was searched for, but the search found ${JSON.stringify(found)}`);
  if (place < 0) Atomics.add(state, 2 + 2 * at, 1);
  Atomics.add(state, 1 + 2 * at, 1);
}
