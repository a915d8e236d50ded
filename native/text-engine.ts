/**
 * Interface of the text addon, which counts words and marks in the texts of a step;
 * `src/domain/monitors/step-texts.ts` explains the counts. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

export interface TextEngine {
  readonly kind: 'native' | 'typescript';
  /**
   * Counts words, and derives features from them. Reads at most some thousand characters of each text.
   * @param lexicon words with classes, from `packLexicon`
   * @param triggers words to search for, from `packTriggers`
   * @param features receives MEASURED_BYTES: the word features of the step (features.ts); the other bytes become 0
   * @param counts receives all counts, by their index in COUNT
   */
  measureTexts(
    input: string,
    thought: string,
    observation: string,
    lexicon: Uint32Array,
    triggers: Uint32Array,
    features: Uint8Array,
    counts: Uint32Array,
  ): void;
}

/** Loads the addon; null if it is not available. */
export function loadTextAddon(): TextEngine | null {
  const addon = loadFunctions<TextEngine>('texts.node', ['measureTexts']);
  return addon === null ? null : { kind: 'native', measureTexts: addon.measureTexts };
}
