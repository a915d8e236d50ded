/** Situations that differ only in numbers and names: the graph must find what a comparison with all of them finds. */
import { describe, expect, it } from 'vitest';
import { cosineOf } from '../../src/domain/situation-vectors.ts';
import { HnswIndex, loadHnswlib } from '../../src/search/hnsw-index.ts';
import { OnnxModel } from '../../src/search/onnx-model.ts';
import { findModelDir } from '../../src/search/open-embedder.ts';

const TEXTS = 6_000;
const QUERIES = 200;
const WANTED = 10;
const CHUNK_TEXTS = 256;

function tellPayment(n: number): string {
  return `The agent retried the payment request ${n} to service-${n % 977} and got status 503 at host node-${(n * 7_919) % 10_007}; it repeated the same call without waiting.`;
}

function tellOrder(n: number): string {
  return `Order ${n} could not be shipped: the warehouse service answered with error code ${(n * 7_919) % 9_973} and the agent asked again.`;
}

async function embedAll(
  model: OnnxModel,
  count: number,
  tell: (n: number) => string,
): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (let at = 0; at < count; at += CHUNK_TEXTS) {
    const texts = Array.from({ length: Math.min(CHUNK_TEXTS, count - at) }, (_, n) => tell(at + n));
    const flat = await model.embed(texts);
    const dimensions = flat.length / texts.length;
    for (const n of texts.keys()) vectors.push(flat.slice(n * dimensions, (n + 1) * dimensions));
  }
  return vectors;
}

/** Compares the embedder's own vectors, which are more exact than the vectors of an index. */
function findNearest(vectors: readonly Float32Array[], query: Float32Array): number[] {
  const similarities = vectors.map((vector) => cosineOf(vector, query));
  const ids = vectors.map((_, id) => id).sort((a, b) => similarities[b]! - similarities[a]!);
  return ids.slice(0, WANTED);
}

describe('a search among similar texts', () => {
  it.each([
    ['requests', tellPayment],
    ['orders', tellOrder],
  ])('finds at least 0.98 of the ten nearest %s', async (_name, tell) => {
    const model = await OnnxModel.open(findModelDir({ model_dir: null }));
    const vectors = await embedAll(model, TEXTS, tell);
    const queries = await embedAll(model, QUERIES, (n) => tell(n * 1_733 + TEXTS));
    const { length: dimensions } = vectors[0]!;
    // With the settings of a shared index.
    const graph = new HnswIndex(loadHnswlib(), dimensions, null, true);
    for (const [id, vector] of vectors.entries()) graph.add(id, vector);
    while (graph.tend(1_000));
    let found = 0;
    for (const query of queries) {
      const ids = new Set(graph.search(query, WANTED).map(({ id }) => id));
      found += findNearest(vectors, query).filter((id) => ids.has(id)).length;
    }
    expect(found / (QUERIES * WANTED)).toBeGreaterThanOrEqual(0.98);
  });
});
