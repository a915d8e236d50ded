/** Chooses the vector index that this machine can run. Any thread. */
import { ExactIndex } from './exact-index.ts';
import { HnswIndex, loadHnswlib } from './hnsw-index.ts';
import type { SharedIndex } from './shared-index.ts';
import type { VectorIndex } from './vector-index.ts';

/** Makes empty indexes of one kind. `shared`: what other threads are to see of it. */
export type MakeIndex = (dimensions: number, shared?: SharedIndex | null) => VectorIndex;

/**
 * @param warn told once, in words for an operator, when the native library cannot be loaded; searches are exact then,
 *   and slower the more there is
 */
export function chooseIndex(warn: (message: string) => void, load = loadHnswlib): MakeIndex {
  try {
    const library = load();
    return (dimensions, shared) => new HnswIndex(library, dimensions, shared ?? null);
  } catch (thrown) {
    const reason = (thrown instanceof Error ? thrown.message : String(thrown)).split('\n')[0];
    warn(
      `the graph of hnswlib cannot be loaded, so every search compares with every vector: exact, but slow beyond some 20,000 (${reason})`,
    );
    return (dimensions) => new ExactIndex(dimensions);
  }
}
