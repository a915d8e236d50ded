/**
 * Turns text into token ids. If a tokenizer takes each word between spaces by itself, the tokens of a word are
 * remembered: most words of a text were in others before. Compute threads.
 */
import { createHash } from 'node:crypto';
import type { Tokenizer } from '@huggingface/tokenizers';
import { RecentMap } from '../std/recent-map.ts';

/** Words whose tokens a model's thread remembers, about 200 bytes each. */
export const TOKEN_WORDS_REMEMBERED = 16_384;

/** Digests of tokenizers that put nothing around a text and look at no two words together: the one that ships. */
const BY_WORDS = ['5cfd5b08e9d6b8b2'];
/** What is remembered: longer ones, and those with digits, are names and keys more often than words. */
const WORD = /^[^0-9]{1,24}$/;

export class WordTokens {
  readonly #tokenizer: Tokenizer;
  /** Else it wants to see whole texts. */
  readonly #isByWords: boolean;
  readonly #known = new RecentMap<string, BigInt64Array>(TOKEN_WORDS_REMEMBERED);

  /** @param json of the tokenizer */
  constructor(tokenizer: Tokenizer, json: object) {
    this.#tokenizer = tokenizer;
    this.#isByWords = isByWords(json);
  }

  /** As many as there are: nothing is cut. */
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
    // A copy: a slice would hold on to its text.
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
