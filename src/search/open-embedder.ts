/**
 * Chooses the embedder that the operator's configuration asks for. Any thread that embeds.
 */
import { fileURLToPath } from 'node:url';
import type { Embedder } from './embedder.ts';
import { OnnxEmbedder, type RunCompute } from './onnx-embedder.ts';
import { RemoteEmbedder } from './remote-embedder.ts';

/** The configuration of embeddings. */
export interface EmbeddingChoice {
  /** Absolute folder of an ONNX export; null: none, and the model that ships is used. */
  model_dir: string | null;
  /** A remote service instead of the model; null without one. */
  remote: { url: string; key: string; model: string } | null;
}

/** Returns the chosen model's folder, by default that of the model that ships. */
export function findModelDir(choice: Pick<EmbeddingChoice, 'model_dir'>): string {
  // Data files are not compiled: a built tree finds them beside the sources, which the package includes.
  const isBuilt = import.meta.url.endsWith('.js');
  const own = new URL(isBuilt ? '../../../src/search/default-model/' : './default-model/', import.meta.url);
  return choice.model_dir ?? fileURLToPath(own);
}

/**
 * Opens the embedder of the configuration.
 * @param compute the pool whose threads were started with `findModelDir`
 * @param parallel threads of that pool
 * @param onDown called if the service does not answer now; it is asked again until it does
 * @throws Error with a one-line message if the model is unsuitable or the service refuses
 */
export function openEmbedder(
  choice: EmbeddingChoice,
  compute: RunCompute,
  parallel: number,
  onDown?: (reason: string) => void,
): Promise<Embedder> {
  return choice.remote === null
    ? OnnxEmbedder.open(compute, parallel)
    : RemoteEmbedder.open(choice.remote, onDown);
}
