/**
 * Remembers which messages are indexed already, because each request repeats its conversation. A conversation
 * is recognized by the fingerprints of its beginnings, which the decoder computes to link turns. Capture
 * process.
 *
 * Bounds: the latest KNOWN_BEGINNINGS beginnings, and KNOWN_SETUPS setups of SETUP_CHARS characters. Forgotten messages
 * are indexed again.
 */

import type { ExchangeTexts, PlacedText } from '../../domain/placed-text.ts';
import { RecentMap } from '../../std/recent-map.ts';

/** Maximum number of remembered beginnings of conversations, about 100 bytes each. */
const KNOWN_BEGINNINGS = 100_000;

/**
 * Maximum number of setups whose marks are remembered. Comparing the texts of a setup with known ones takes a tenth of
 * the time of computing its mark.
 */
const KNOWN_SETUPS = 8;
/** Longer setups are not remembered. */
const SETUP_CHARS = 1 << 18;

/** The parts of a decoded exchange that the index needs. */
export interface TextEntry {
  /**
   * Fingerprints of the beginnings of its conversation, one for each message. If the request continues an answer that
   * the provider keeps, a fingerprint of that answer's id comes first.
   */
  conversation: readonly string[];
  /** The fingerprint of the request with its answer. */
  answered?: string | null;
}

export class KnownMessages {
  /**
   * Run and fingerprint of a beginning → fingerprint of the system prompt and the tools that were sent with
   * it.
   */
  readonly #known = new RecentMap<string, number>(KNOWN_BEGINNINGS);

  /** The setups whose marks are remembered, the latest first. */
  #setups: { texts: readonly PlacedText[]; mark: number }[] = [];

  /**
   * Returns the texts of an exchange that are new in its run, and remembers the exchange. Other runs may
   * begin with the same messages.
   * @param run `runKey` of its run
   */
  takeNew(run: number, entry: TextEntry | null, { setup, messages, answer }: ExchangeTexts): string[] {
    const { conversation = [], answered = null } = entry ?? {};
    let at = conversation.length - 1;
    let before: number | undefined;
    for (; at >= 0; at--) {
      before = this.#known.get(`${run} ${conversation[at]!}`);
      if (before !== undefined) break;
    }
    const setupMark = this.#markSetup(setup);
    const links = conversation.length - messages.length;
    const from = before === undefined || links < 0 ? 0 : Math.max(0, at + 1 - links);
    const last = conversation.at(-1);
    if (last !== undefined) this.#known.set(`${run} ${last}`, setupMark);
    if (answered !== null) this.#known.set(`${run} ${answered}`, setupMark);
    const lists = [before === setupMark ? [] : setup, ...messages.slice(from), answer];
    return lists.flatMap((list) => list.map(({ text }) => text));
  }

  /** Forgets the messages of these runs, so that they are indexed again. @param runs `runKey` of each */
  forgetRuns(runs: ReadonlySet<number>): void {
    for (const key of this.#known.keys())
      if (runs.has(Number(key.slice(0, key.indexOf(' '))))) this.#known.delete(key);
  }

  /** Forgets everything. */
  clear(): void {
    this.#known.clear();
    this.#setups = [];
  }

  #markSetup(texts: readonly PlacedText[]): number {
    const at = this.#setups.findIndex((known) => areSameTexts(known.texts, texts));
    const known = at < 0 ? { texts, mark: markTexts(texts) } : this.#setups.splice(at, 1)[0]!;
    if (texts.reduce((chars, { text }) => chars + text.length, 0) > SETUP_CHARS) return known.mark;
    this.#setups.unshift(known);
    this.#setups.length = Math.min(this.#setups.length, KNOWN_SETUPS);
    return known.mark;
  }
}

function areSameTexts(known: readonly PlacedText[], texts: readonly PlacedText[]): boolean {
  return known.length === texts.length && texts.every(({ text }, at) => text === known[at]!.text);
}

/** Computes a fingerprint of a list of texts: two lanes of FNV-1a. */
function markTexts(texts: readonly PlacedText[]): number {
  let low = 0x811c9dc5;
  let high = 0x1b873593;
  for (const { text } of texts) {
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ code, 0x85ebca6b);
    }
    low = Math.imul(low ^ 0x10000, 0x01000193);
  }
  return (high & 0x1fffff) * 4_294_967_296 + (low >>> 0);
}
