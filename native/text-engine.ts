/** Counts what stands in the texts of a step: the addon's side; see `src/domain/monitors/step-texts.ts`. Any thread. */
import { loadFunctions } from './load-functions.ts';

export interface TextEngine {
  readonly kind: 'native' | 'typescript';
  /**
   * Counts words and what comes of them. Of each text some thousand characters at most.
   * @param lexicon words that are told apart, as `packLexicon` makes it
   * @param triggers what is looked for, as `packTriggers` makes it
   * @param features the words' part of a step's features (features.ts) is written there, the rest cleared
   * @param counts by their place in COUNT; all are written
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

/** The addon; null where it is not. */
export function loadTextAddon(): TextEngine | null {
  const addon = loadFunctions<TextEngine>('texts.node', ['measureTexts']);
  return addon === null ? null : { kind: 'native', measureTexts: addon.measureTexts };
}
