/**
 * Entry of a thread of the stateless pool: the composition root that knows every task by its name. Called by
 * src/runtime/compute-pool.ts. Compute threads.
 */
import type { MessagePort } from 'node:worker_threads';
import { move, workerData } from 'piscina';
import { type ComputeAnswer, LINE_TASK, PING_TASK, serveLine } from '../src/runtime/compute-line.ts';
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

async function runTask(task: string, input: unknown): Promise<ComputeAnswer> {
  switch (task) {
    case PING_TASK:
      return { value: null, transfer: [] };
    case MODEL_TASK:
      return { value: (await loadModel()).facts, transfer: [] };
    case EMBED_TASK: {
      const vectors = await (await loadModel()).embed((input as EmbedInput).texts);
      return { value: vectors, transfer: [vectors.buffer as ArrayBuffer] };
    }
    default:
      throw new TypeError(`no task is called ${task}`);
  }
}

/** Runs one task; the pool calls it. */
export default async function compute({ task, input }: ComputeCall): Promise<unknown> {
  if (task === LINE_TASK) return serveLine(input as MessagePort, runTask);
  const { value, transfer } = await runTask(task, input);
  return transfer.length > 0 ? move(value as Float32Array) : value;
}
