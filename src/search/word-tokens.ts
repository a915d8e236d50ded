/**
 * Turns text into token ids. If a tokenizer handles each word between spaces separately, the tokens of words are
 * cached, because most words of a text have occurred before. Compute threads, and the thread of a round (src/teaching).
 */
import { createHash } from 'node:crypto';
import type { Tokenizer } from '@huggingface/tokenizers';
import { RecentMap } from '../std/recent-map.ts';

/** Maximum number of words whose tokens a model's thread caches, about 200 bytes each. */
export const TOKEN_WORDS_REMEMBERED = 16_384;

/** Digests of tokenizers that add no tokens around a text and handle words separately: only the shipped tokenizer. */
const BY_WORDS = ['5cfd5b08e9d6b8b2'];
/** Words that are cached. Longer words, and words with digits, are mostly names and keys. */
const WORD = /^[^0-9]{1,24}$/;

export class WordTokens {
  readonly #tokenizer: Tokenizer;
  /** Whether the tokenizer handles words separately; otherwise it gets whole texts. */
  readonly #isByWords: boolean;
  readonly #known = new RecentMap<string, BigInt64Array>(TOKEN_WORDS_REMEMBERED);

  /** @param json of the tokenizer */
  constructor(tokenizer: Tokenizer, json: object) {
    this.#tokenizer = tokenizer;
    this.#isByWords = isByWords(json);
  }

  /** Converts a text to the ids of all its tokens; the result is not cut. */
  encode(text: string): BigInt64Array {
    if (!this.#isByWords) return this.#encodeWhole(text);
    const words: BigInt64Array[] = [];
    let length = 0;
    for (let from = 0; from < text.length; ) {
      const space = text.indexOf(' ', from);
      const end = space === -1 ? text.length : space;
      if (end > from) {
        const ids = this.#encodeWord(text.slice(from, end));
        words.push(ids);
        length += ids.length;
      }
      from = end + 1;
    }
    const all = new BigInt64Array(length);
    let at = 0;
    for (const ids of words) {
      all.set(ids, at);
      at += ids.length;
    }
    return all;
  }

  #encodeWord(word: string): BigInt64Array {
    const recent = this.#known.getRecent(word);
    if (recent !== undefined) return recent;
    const ids = this.#known.get(word) ?? this.#encodeWhole(word);
    if (!WORD.test(word)) return ids;
    // Copy the word, because a slice would keep the whole text in memory.
    this.#known.set(Buffer.from(word, 'utf16le').toString('utf16le'), ids);
    return ids;
  }

  #encodeWhole(text: string): BigInt64Array {
    return BigInt64Array.from(this.#tokenizer.encode(text).ids, BigInt);
  }
}

function isByWords(json: object): boolean {
  return BY_WORDS.includes(createHash('sha256').update(JSON.stringify(json)).digest('hex').slice(0, 16));
}
