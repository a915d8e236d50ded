/** Chooses the vector index that this machine can run. Any thread. */
import { ExactIndex } from './exact-index.ts';
import { HnswIndex, loadHnswlib } from './hnsw-index.ts';
import type { SharedIndex } from './shared-index.ts';
import type { VectorIndex } from './vector-index.ts';

/** Makes an empty index. `shared`: memory through which other threads read the index. */
export type MakeIndex = (dimensions: number, shared?: SharedIndex | null) => VectorIndex;

/**
 * Chooses the approximate index, or the exact index if the native library cannot be loaded.
 * @param warn called once, with a message for an operator, when the native library cannot be loaded; searches are then
 *   exact, and slower the more vectors there are
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
