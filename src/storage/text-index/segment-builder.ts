/**
 * Collects the words of exchanges in memory until they are written as a segment. Capture process.
 *
 * Bounds: with SEGMENT_POSTINGS words of exchanges, a builder is full and must be written. Of each exchange, it takes
 * at most TEXT_CHARS characters and EXCHANGE_WORDS different words. Searches do not find later words, and the exchange
 * counts as cut.
 */
import { eachWord } from './words.ts';

/** Maximum number of characters of one exchange that are indexed. */
export const TEXT_CHARS = 8 << 20;
/** Maximum number of different words of one exchange that are indexed. */
const EXCHANGE_WORDS = 50_000;
/** Maximum number of words of exchanges. A word counts once for each exchange, and takes about 16 bytes. */
const SEGMENT_POSTINGS = 200_000;
/** Longer words are copied, because V8 keeps the whole text in memory from which a longer string was cut. */
const COPIED_CHARS = 12;
/** Maximum number of characters that are split into words at a time: about 2 ms. */
const PIECE_CHARS = 1 << 16;
/** A text is cut between two words if there is a gap at most this many characters before the cut. */
const GAP_WITHIN = 1_024;

/** An exchange to be indexed. */
export interface CollectedExchange {
  /** `runKey` of its run. */
  run: number;
  /** Identifies its content; '' if unknown. */
  mark: string;
  /** Its searchable texts. */
  texts: readonly string[];
}

export class SegmentBuilder {
  readonly first_id: number;
  readonly #words = new Map<string, number[]>();
  readonly #runs: number[] = [];
  readonly #marks: [string, string] = ['', ''];
  #postings = 0;
  #cut = 0;
  /** The texts of the last exchange that are not split yet, and the position in the first of them. */
  #texts: readonly string[] = [];
  #textAt = 0;
  #charAt = 0;
  #chars = 0;
  #itsWords = 0;

  /** @param firstId id of the first exchange that will be added */
  constructor(firstId: number) {
    this.first_id = firstId;
  }

  /** Id of the last exchange that was added; the first id minus one if none was. */
  get last_id(): number {
    return this.first_id + this.#runs.length - 1;
  }

  get exchanges(): number {
    return this.#runs.length;
  }

  get isFull(): boolean {
    return this.#postings >= SEGMENT_POSTINGS;
  }

  /** Number of exchanges of which only the beginning is indexed. */
  get cut(): number {
    return this.#cut;
  }

  /** The marks of the first and the last exchange. */
  get marks(): readonly [string, string] {
    return this.#marks;
  }

  /** The run of each exchange, in the order of ids. */
  get runs(): readonly number[] {
    return this.#runs;
  }

  /** Begins the next exchange; {@link goOn} splits its texts. */
  add({ run, mark, texts }: CollectedExchange): void {
    if (this.#runs.length === 0) this.#marks[0] = mark;
    this.#marks[1] = mark;
    this.#runs.push(run);
    this.#texts = texts;
    this.#textAt = 0;
    this.#charAt = 0;
    this.#chars = 0;
    this.#itsWords = 0;
  }

  /** Splits a piece of the last exchange's texts. @returns false if nothing was left to split */
  goOn(): boolean {
    for (let room = PIECE_CHARS; room > 0; ) {
      const text = this.#texts[this.#textAt];
      if (text === undefined) {
        this.#texts = [];
        return room < PIECE_CHARS;
      }
      const from = this.#charAt;
      const { end, next } = findPieceEnd(text, from);
      this.#split(from === 0 && end === text.length ? text : text.slice(from, end));
      room -= Math.max(1, end - from);
      this.#charAt = next;
      if (next < text.length) continue;
      this.#charAt = 0;
      this.#textAt += 1;
    }
    return true;
  }

  /** Words in order, with their exchanges. */
  *words(): Generator<{ word: string; ids: readonly number[] }> {
    for (const word of [...this.#words.keys()].sort()) yield { word, ids: this.#words.get(word)! };
  }

  #split(piece: string): void {
    const id = this.last_id;
    const room = TEXT_CHARS - this.#chars;
    const before = this.#itsWords;
    let isCut = piece.length > room;
    eachWord(isCut ? piece.slice(0, room) : piece, (word) => {
      let ids = this.#words.get(word);
      if (ids?.at(-1) === id) return;
      if (this.#itsWords >= EXCHANGE_WORDS) {
        isCut = true;
        return;
      }
      if (ids === undefined) {
        ids = [];
        this.#words.set(word.length > COPIED_CHARS ? Buffer.from(word).toString() : word, ids);
      }
      ids.push(id);
      this.#itsWords += 1;
    });
    this.#postings += this.#itsWords - before;
    this.#chars += piece.length;
    if (!isCut) return;
    this.#cut += 1;
    this.#texts = [];
  }
}

/**
 * Finds the end of a piece of text and the beginning of the next one: at a gap between words if possible. Otherwise the
 * next piece begins with the last character of this piece, because that character forms a word with the character after
 * it.
 */
function findPieceEnd(text: string, from: number): { end: number; next: number } {
  const end = from + PIECE_CHARS;
  if (end >= text.length) return { end: text.length, next: text.length };
  for (let at = end; at > end - GAP_WITHIN; at--) if (text.charCodeAt(at) <= 32) return { end: at, next: at };
  const isLow = (at: number): boolean => (text.charCodeAt(at) & 0xfc00) === 0xdc00;
  const whole = isLow(end) ? end - 1 : end;
  return { end: whole, next: isLow(whole - 1) ? whole - 2 : whole - 1 };
}
