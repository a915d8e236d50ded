/** Bounds of embedding texts. Constants only; any thread. */

import { strict as assert } from 'node:assert';

/** Maximum number of tokens of a text that a model in the compute pool embeds. */
export const EMBEDDING_TOKENS_MAX = 2_048;
/** Maximum numbers of texts and tokens in one run of the model; tokens include padding. */
export const EMBEDDING_BATCH_TEXTS = 32;
export const EMBEDDING_BATCH_TOKENS = 16_384;
/**
 * Maximum number of texts that wait in one embedder, and of their characters. Further texts are refused as unavailable.
 */
export const EMBEDDING_QUEUE_TEXTS = 4_096;
export const EMBEDDING_QUEUE_CHARACTERS = 8 << 20;

assert(EMBEDDING_BATCH_TEXTS <= EMBEDDING_QUEUE_TEXTS, 'a whole batch can wait');
assert(EMBEDDING_TOKENS_MAX <= EMBEDDING_BATCH_TOKENS, 'the longest text fits into a run');
