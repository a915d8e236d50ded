/**
 * Opens the embedder that a store used before the operator chose another embedder. Searches use its vectors while
 * vectors of the new embedder are missing. If the old embedder is unavailable, the model that ships with the product
 * replaces it, unless that model is the new embedder. It embeds a thousand situations in a quarter of a second. Actor
 * threads.
 */
import type { Embedder } from './embedder.ts';
import { OnnxEmbedder, type RunCompute } from './onnx-embedder.ts';
import { type EmbeddingChoice, findModelDir } from './open-embedder.ts';
import { nameRemote, RemoteEmbedder } from './remote-embedder.ts';

/** How to open an embedder again. No secrets. */
type EmbedderSource =
  /** The folder of an ONNX export; null: the model that ships with the product. */
  { kind: 'onnx'; dir: string | null } | { kind: 'remote'; url: string; model: string };

/** What a store saves about the embedder of its vectors. */
export interface EmbedderRecord {
  id: string;
  source: EmbedderSource;
}

export function sourceOf({ remote, model_dir }: EmbeddingChoice): EmbedderSource {
  return remote === null
    ? { kind: 'onnx', dir: model_dir }
    : { kind: 'remote', url: remote.url, model: remote.model };
}

/**
 * Lists the ways to open an embedder whose vectors a search can use until the new embedder's vectors exist. @param
 * choice the current configuration @param record the embedder of the stored vectors; null if unknown @returns functions
 * that open an embedder, best first; each rejects if its embedder cannot be opened. The function that opens the
 * embedder of `record` also rejects if that embedder has changed
 */
export function listFormerEmbedders(
  choice: EmbeddingChoice,
  record: EmbedderRecord | null,
  compute: RunCompute,
): (() => Promise<Embedder>)[] {
  const openers: (() => Promise<Embedder>)[] = [];
  if (record !== null) {
    openers.push(async () => {
      const former = await openSource(choice, record.source, compute);
      if (former.id === record.id) return former;
      await former.close();
      throw new Error('there is another model in its place');
    });
  }
  const isShipped = choice.remote === null && choice.model_dir === null;
  if (!isShipped) openers.push(() => openSource(choice, { kind: 'onnx', dir: null }, compute));
  return openers;
}

async function openSource(
  choice: EmbeddingChoice,
  source: EmbedderSource,
  compute: RunCompute,
): Promise<Embedder> {
  if (source.kind === 'onnx') return OnnxEmbedder.open(compute, 1, findModelDir({ model_dir: source.dir }));
  // The configured key must not be sent to another service.
  if (choice.remote === null || nameRemote(choice.remote.url) !== nameRemote(source.url))
    throw new Error('its service is not configured any more');
  return RemoteEmbedder.open({ ...choice.remote, model: source.model });
}
