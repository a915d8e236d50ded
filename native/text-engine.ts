/**
 * Counts words and marks in the texts of a step, with the addon; see `src/domain/monitors/step-texts.ts`. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

export interface TextEngine {
  readonly kind: 'native' | 'typescript';
  /**
   * Counts words and derived features. Reads at most some thousand characters of each text.
   * @param lexicon distinguished words, as `packLexicon` makes it
   * @param triggers words to search for, as `packTriggers` makes it
   * @param features receives MEASURED_BYTES: the word features of the step (features.ts); the rest is cleared
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

/** The addon; null if it is not available. */
export function loadTextAddon(): TextEngine | null {
  const addon = loadFunctions<TextEngine>('texts.node', ['measureTexts']);
  return addon === null ? null : { kind: 'native', measureTexts: addon.measureTexts };
}
