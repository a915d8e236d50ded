/**
 * Situations as vectors. A pattern is looked for by a task in one sentence, and its situation is that sentence and where
 * the run stood: the search vector leans to the sentence, so that a task finds its like however long an error the rest
 * quotes. Whether two situations are the same is judged by the whole. Any thread.
 */

/** Turns texts into vectors of length 1; `Embedder` of src/search is one. */
export interface TextEmbedder {
  /** Changes with the model. */
  readonly id: string;
  embed(texts: readonly string[]): Promise<Float32Array[]>;
}

/** Of the first sentence beside the whole situation. */
const TASK_WEIGHT = 2;
/** A sentence that ends before is an abbreviation. */
const TASK_CHARACTERS_MIN = 12;
const TASK_CHARACTERS_MAX = 300;

export interface SituationVectors {
  /** Unit vectors to search by. */
  search: Float32Array[];
  /** Unit vectors of the whole texts. */
  whole: Float32Array[];
}

/** Names what {@link embedSituations} makes with the embedder: changes when either does. */
export function situationVectorsId(embedder: TextEmbedder): string {
  return `${embedder.id}+task${TASK_WEIGHT}`;
}

/** Rejects with what the embedder throws. */
export async function embedSituations(
  embedder: TextEmbedder,
  situations: readonly string[],
): Promise<SituationVectors> {
  const tasks = situations.map(firstSentence);
  const leaning = situations.flatMap((situation, at) => (tasks[at] === situation ? [] : [at]));
  const vectors = await embedder.embed([...situations, ...leaning.map((at) => tasks[at]!)]);
  const whole = vectors.slice(0, situations.length);
  const search = [...whole];
  for (const [place, at] of leaning.entries())
    search[at] = lean(whole[at]!, vectors[situations.length + place]!);
  return { search, whole };
}

/** Up to the first full stop, question or exclamation mark, or line break that ends a sentence. */
export function firstSentence(situation: string): string {
  const end = /[.!?](?=\s)|\n/g;
  end.lastIndex = TASK_CHARACTERS_MIN;
  const match = end.exec(situation);
  if (match === null || match.index > TASK_CHARACTERS_MAX) return situation;
  return situation.slice(0, match.index).trimEnd();
}

/** Cosine of two unit vectors. */
export function cosineOf(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

function lean(whole: Float32Array, task: Float32Array): Float32Array {
  const mixed = whole.map((value, at) => value + TASK_WEIGHT * task[at]!);
  const length = Math.sqrt(cosineOf(mixed, mixed));
  return length > 0 ? mixed.map((value) => value / length) : whole;
}
