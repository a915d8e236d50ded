/**
 * Entry of a thread of the stateless pool: the composition root that knows every task by its name. Called by
 * src/runtime/compute-pool.ts. Compute threads.
 */
import { move, workerData } from 'piscina';
import type { ComputeCall } from '../src/runtime/compute-pool.ts';
import { EMBED_TASK, type EmbedInput, MODEL_TASK } from '../src/search/embedder.ts';
import { OnnxModel } from '../src/search/onnx-model.ts';

/** What the main thread passes to every thread of the pool. */
export interface ComputeOptions {
  /** Folder of the ONNX model, absolute. */
  model_dir: string;
}

let loading: Promise<OnnxModel> | null = null;

/** The model is loaded with the first task that needs it, once a thread; a failed load is tried again. */
function loadModel(): Promise<OnnxModel> {
  loading ??= OnnxModel.open((workerData as ComputeOptions).model_dir).catch((thrown: unknown) => {
    loading = null;
    throw thrown;
  });
  return loading;
}

/** Runs one task; the pool calls it. */
export default async function compute(call: ComputeCall): Promise<unknown> {
  switch (call.task) {
    case MODEL_TASK:
      return (await loadModel()).facts;
    case EMBED_TASK:
      return move(await (await loadModel()).embed((call.input as EmbedInput).texts));
    default:
      throw new TypeError(`no task is called ${call.task}`);
  }
}
