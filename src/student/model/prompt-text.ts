/**
 * The text of a system prompt, cut into sentences without gaps: each begins where the previous one ends.
 * Pure; teaching and the student's thread.
 */

import { RecentMap } from '../../std/recent-map.ts';
import { STUDENT_CORE } from './limits.ts';
import { sentencesOf } from './prompt-sentences.ts';

/** Sentences of each block of a prompt. Plain JSON; equal blocks that were read recently share one array. */
export type PromptText = readonly (readonly string[])[];

/** Clients send the same long prompt with each step, so recent results are cached by the block's text. */
const keptBlocks = new RecentMap<string, readonly string[]>(STUDENT_CORE.prompts_kept_bytes);
/** Approximate memory of one sentence. */
const SENTENCE_BYTES = 64;

/** Cuts one block of a prompt into sentences, each with the signs and white space before it. */
export function cutSentences(text: string): readonly string[] {
  const recent = keptBlocks.getRecent(text);
  if (recent !== undefined) return recent;
  let cut = keptBlocks.get(text);
  if (cut === undefined) {
    const sentences: string[] = [];
    let start = 0;
    for (const { end } of sentencesOf(text)) {
      sentences.push(text.slice(start, end + 1));
      start = end + 1;
    }
    // Signs after the last sentence belong to it.
    const rest = text.slice(start);
    if (rest.trim() !== '') sentences.push(rest);
    cut = sentences;
  }
  keptBlocks.set(text, cut, 2 * text.length + SENTENCE_BYTES * cut.length);
  return cut;
}

/** Whether two prompts are equal to the letter; fast when they are cut from the same text. */
export function isSamePrompt(first: PromptText, second: PromptText): boolean {
  if (first.length !== second.length) return false;
  return first.every((block, b) => {
    const counterpart = second[b]!;
    return (
      block === counterpart ||
      (block.length === counterpart.length && block.every((text, s) => text === counterpart[s]))
    );
  });
}

const keptHashes = new WeakMap<readonly string[], Float64Array>();

/** Hashes of a block's sentences, see {@link hashSentence}. */
export function hashesOf(block: readonly string[]): Float64Array {
  let hashes = keptHashes.get(block);
  if (hashes === undefined) {
    hashes = Float64Array.from(block, hashSentence);
    keptHashes.set(block, hashes);
  }
  return hashes;
}

/** A 53-bit hash. It ignores white space at both ends, and the kind and amount of white space between words. */
function hashSentence(text: string): number {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  let isApart = false;
  let isBegun = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 32 || code === 0xa0) {
      isApart = isBegun;
      continue;
    }
    if (isApart) {
      low = Math.imul(low ^ 32, 0x01000193);
      high = Math.imul(high ^ 32, 0x85ebca6b);
      isApart = false;
    }
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code, 0x85ebca6b);
    high ^= high >>> 15;
    isBegun = true;
  }
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b);
  low ^= low >>> 13;
  high = Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  high ^= high >>> 16;
  return (low >>> 0) * 0x20_0000 + ((high >>> 0) & 0x1f_ffff);
}
