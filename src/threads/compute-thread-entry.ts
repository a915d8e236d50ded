/**
 * Entry of a thread of the stateless pool: the composition root that knows every task by its name. Called by
 * src/runtime/compute-pool.ts. Compute threads.
 */
import type { MessagePort } from 'node:worker_threads';
import { workerData } from 'piscina';
import type { ComputeCall } from '../runtime/compute-pool.ts';
import { CHANNEL_TASK, PING_TASK, serveChannel } from '../runtime/direct-channel.ts';
import {
  EMBED_TASK,
  type EmbedInput,
  MODEL_TASK,
  type ModelInput,
  RELEASE_TASK,
} from '../search/embedder.ts';
import { MergedRuns } from '../search/merged-runs.ts';
import { OnnxModel } from '../search/onnx-model.ts';

/** What the main thread passes to every pool thread. */
interface ComputeOptions {
  /** Folder of the ONNX model, absolute. */
  model_dir: string;
}

interface LoadedModel {
  model: OnnxModel;
  runs: MergedRuns;
}

/**
 * Models that are loaded or being loaded, by folder: the configured one, and others while they are
 * needed.
 */
const loading = new Map<string, Promise<LoadedModel>>();
/**
 * Maximum number of loaded models: the configured one and two others. A task that needs a further one fails.
 */
const MODELS_MAX = 3;

/** Loads a model with the first task that needs it, once per thread. A failed load is tried again. */
function loadModel({ model_dir }: ModelInput): Promise<LoadedModel> {
  const dir = model_dir ?? ownDir();
  let model = loading.get(dir);
  if (model === undefined) {
    if (loading.size >= MODELS_MAX) return Promise.reject(new Error('too many embedding models are loaded'));
    model = OnnxModel.open(dir).then((opened) => ({
      model: opened,
      runs: new MergedRuns((texts) => opened.embed(texts)),
    }));
    loading.set(dir, model);
    model.catch(() => loading.delete(dir));
  }
  return model;
}

function ownDir(): string {
  return (workerData as ComputeOptions).model_dir;
}

/** Unloads a model other than the configured one. */
async function releaseModel({ model_dir }: ModelInput): Promise<void> {
  if (model_dir === undefined || model_dir === ownDir()) return;
  const model = loading.get(model_dir);
  loading.delete(model_dir);
  await (await model)?.model.close();
}

async function runTask(task: string, input: unknown): Promise<unknown> {
  switch (task) {
    case PING_TASK:
      return null;
    case MODEL_TASK:
      return (await loadModel(input as ModelInput)).model.facts;
    case RELEASE_TASK:
      await releaseModel(input as ModelInput);
      return null;
    case EMBED_TASK:
      return (await loadModel(input as EmbedInput)).runs.embed((input as EmbedInput).texts);
    default:
      throw new TypeError(`no task is called ${task}`);
  }
}

/** Runs one task; the pool calls it. */
export default async function compute({ task, input }: ComputeCall): Promise<unknown> {
  if (task === CHANNEL_TASK) return serveChannel(input as MessagePort, runTask);
  return runTask(task, input);
}
