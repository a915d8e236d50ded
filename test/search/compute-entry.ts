/**
 * An entry of the compute pool for tests. The text of a request can make the model die, hang or fail. Compute thread.
 */
import type { ComputeCall } from '../../src/runtime/compute-pool.ts';
import { type EmbedInput, MODEL_TASK } from '../../src/search/embedder.ts';

export default async function compute(call: ComputeCall): Promise<unknown> {
  if (call.task === MODEL_TASK) return { id: 'test', dimensions: 2 };
  const { texts } = call.input as EmbedInput;
  if (texts.includes('die')) process.exit(3);
  if (texts.includes('fail')) throw new Error('the graph is unwell');
  if (texts.includes('hang')) await new Promise(() => {});
  // The number of texts in the request, and the length of each.
  return Float32Array.from(texts.flatMap((text) => [texts.length, text.length]));
}
