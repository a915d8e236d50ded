/**
 * Opens the embedder that a store used before the operator chose another one. As long as vectors of
 * the present one are missing, searches use the old ones. If the old embedder is gone, the model that
 * ships replaces it; it embeds a thousand situations in a quarter of a second. Actor threads.
 */
import type { Embedder } from './embedder.ts';
import { OnnxEmbedder, type RunCompute } from './onnx-embedder.ts';
import { type EmbeddingChoice, findModelDir } from './open-embedder.ts';
import { nameRemote, RemoteEmbedder } from './remote-embedder.ts';

/** How an embedder is opened again. No secrets. */
type EmbedderSource =
  /** A folder of an ONNX export; null: the one that ships. */
  { kind: 'onnx'; dir: string | null } | { kind: 'remote'; url: string; model: string };

/** What a store remembers of the embedder that its vectors are of. */
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
 * @param choice what is configured now
 * @param record null: not known
 * @returns best first; each rejects when it cannot be opened, or is not what it was
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
  // The key of another service is not ours to give away.
  if (choice.remote === null || nameRemote(choice.remote.url) !== nameRemote(source.url))
    throw new Error('its service is not configured any more');
  return RemoteEmbedder.open({ ...choice.remote, model: source.model });
}
