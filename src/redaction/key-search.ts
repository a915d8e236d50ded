/**
 * Finds key-shaped secrets in bytes that hold text in any ASCII-compatible encoding. Pure; runs in the capture process,
 * and wherever else a text is masked before it is kept.
 *
 * Speed. Real keys contain a run of at least 16 letters, digits, `-` or `_`. So the byte engine (`native/`) finds runs
 * of that length that are suspect, and this file tries the shapes only there; a shorter text is not found, even if it
 * matches a shape. This takes a few tenths of a nanosecond per byte.
 * Each byte of a suspect is examined a bounded number of times.
 */
import { byteEngine, packNeedles } from '../../native/byte-engine.ts';
import type { ByteEngine } from '../../native/byte-functions.ts';
import { type ByteRange, mergeRanges } from './byte-range.ts';
import { isGluedLabel, isGluedName, isLabelled, isNamed } from './key-labels.ts';
import { CHARACTERS, DOTTED_BYTES, KINDS, RUN_BYTES } from './key-shapes.ts';
import { findPrivateKeys, PEM_TAIL } from './private-keys.ts';
import { ShapeMatch } from './shape-match.ts';
import { Work } from './work.ts';

const { token: TOKEN, letter_digit: LETTER_DIGIT, digit: DIGIT } = CHARACTERS;
/** Maximum number of bytes before the first suspect in which the beginning of its token is searched for. */
const TOKEN_BACK_BYTES = 2_048;
/** Cost of one suspect besides its bytes. */
const SUSPECT_WORK = 16;

/** End of the first line of every private key, in the byte engine's form. */
export const PEM_NEEDLE = packNeedles([PEM_TAIL]);

/**
 * Finds key-shaped secrets in bytes that hold text in any ASCII-compatible encoding.
 * @param bytes the whole body: matches may look a little before `from`
 * @param from first byte to scan
 * @param to end of the scan
 * @param engine for tests; the byte engine that finds suspects
 * @returns ranges in ascending order, not overlapping
 * @throws {import('./work.ts').WorkExceededError}
 */
export function findKeyShapes(
  bytes: Uint8Array,
  from = 0,
  to = bytes.length,
  engine: ByteEngine = byteEngine,
  work: Work = new Work(),
): ByteRange[] {
  const found: ByteRange[] = [];
  let judge: RunJudge | null = null;
  let at = from;
  while (at + RUN_BYTES <= to) {
    const count = engine.findSuspects(bytes, at, to, marks);
    if (count > 0) judge ??= new RunJudge(bytes, to, found, work);
    for (let i = 0; i < count; i++) judge!.judge(marks[1 + 2 * i]!, marks[2 + 2 * i]!);
    at = marks[0]!;
  }
  if (engine.findAnyNeedle(bytes, from, to, PEM_NEEDLE) >= 0) findPrivateKeys(bytes, from, to, found, work);
  return mergeRanges(found);
}

/**
 * Receives the place from which the engine must go on, then the start and the end of each suspect, of at most 64. All
 * searches of a thread share it, because searches do not nest.
 */
const marks = new Float64Array(129);

/** Applies the shapes and the labels to the suspects of one text, which come in ascending order. */
class RunJudge {
  readonly #bytes: Uint8Array;
  readonly #to: number;
  readonly #found: ByteRange[];
  readonly #work: Work;
  readonly #match: ShapeMatch;
  /** End of the last run; -1 before the first. */
  #runEnd = -1;
  /** Beginning of the run's token. */
  #token = 0;
  #isLabelled = false;
  #isNamed = false;
  /**
   * Position in the token after the first `=` that follows a label, and position after the first `=` that follows the
   * name of a key; -1 if absent.
   */
  #behindLabel = -1;
  #behindName = -1;
  /** End of the last match of a shape. */
  #shapeEnd = 0;
  /** End of the last token that was searched for labels. Runs before it belong to that token. */
  #doneTo = 0;

  constructor(bytes: Uint8Array, to: number, found: ByteRange[], work: Work) {
    this.#bytes = bytes;
    this.#to = to;
    this.#found = found;
    this.#work = work;
    this.#match = new ShapeMatch(bytes, to, work);
  }

  judge(start: number, end: number): void {
    this.#work.add(end - start + SUSPECT_WORK);
    this.#findShapes(start, end);
    this.#findLabelled(start, end);
    this.#runEnd = end;
  }

  #findShapes(start: number, end: number): void {
    const match = this.#match;
    const isBehindDot = start >= 3 && this.#bytes[start - 1] === 0x2e;
    // Bytes of an earlier match are not searched again.
    let at = Math.max(isBehindDot ? start - DOTTED_BYTES : start, this.#shapeEnd);
    // Matches that begin after the run belong to the next one.
    while (at < end) {
      if (match.isAt(at)) {
        this.#found.push({ start: match.start, end: match.end });
        at = this.#shapeEnd = match.end;
      } else {
        at++;
      }
    }
  }

  /** Looks for a scheme or a label before the run's token, or within it. */
  #findLabelled(start: number, end: number): void {
    this.#walkBack(start);
    if (start < this.#doneTo) return;
    let from = this.#token;
    if (!this.#isLabelled) {
      // `Bearer%20token` and `key=token`: the label itself consists of token bytes.
      const isNamed = this.#isNamed || this.#behindName >= 0;
      const isName = isNamed && looksRandom(this.#bytes, start, end);
      if (!isName && this.#behindLabel < 0) return;
      if (!(isName && this.#isNamed)) from = this.#behindLabel >= 0 ? this.#behindLabel : this.#behindName;
    }
    let tokenEnd = end;
    while (tokenEnd < this.#to && (KINDS[this.#bytes[tokenEnd]!]! & TOKEN) !== 0) tokenEnd++;
    this.#work.add(tokenEnd - end);
    if (tokenEnd - from >= RUN_BYTES) this.#found.push({ start: from, end: tokenEnd });
    this.#doneTo = tokenEnd;
  }

  /** Finds the beginning and the label of a run's token, using what is known about the previous run's token. */
  #walkBack(start: number): void {
    const bytes = this.#bytes;
    const lowest = this.#runEnd >= 0 ? this.#runEnd : Math.max(0, start - TOKEN_BACK_BYTES);
    let token = start;
    let equals = -1;
    while (token > lowest && (KINDS[bytes[token - 1]!]! & TOKEN) !== 0) {
      token--;
      if (bytes[token] === 0x3d) equals = token;
    }
    this.#work.add(start - token);
    if (this.#runEnd < 0 || token > this.#runEnd) {
      this.#token = token;
      this.#behindLabel = -1;
      this.#behindName = -1;
      // Headers are stored as lines of values, so no label precedes a token at the beginning of a line.
      const isLine = token > 0 && bytes[token - 1] === 0x0a;
      this.#isLabelled = !isLine && isLabelled(bytes, token);
      this.#isNamed = !isLine && !this.#isLabelled && isNamed(bytes, token);
    }
    if (equals < 0) return;
    for (let at = equals; at < start; at++) {
      if (bytes[at] !== 0x3d) continue;
      this.#work.add(1);
      if (this.#behindLabel < 0 && isGluedLabel(bytes, this.#token, at)) this.#behindLabel = at + 1;
      if (this.#behindName < 0 && isGluedName(bytes, this.#token, at)) this.#behindName = at + 1;
    }
  }
}

/**
 * Whether a run has both a letter and a digit, and so may be random. In code and examples, words often follow the name
 * of a key: `settings.ANTHROPIC_API_KEY`.
 */
function looksRandom(bytes: Uint8Array, start: number, end: number): boolean {
  let hasDigit = false;
  let hasLetter = false;
  for (let at = start; at < end && !(hasDigit && hasLetter); at++) {
    const kinds = KINDS[bytes[at]!]!;
    if ((kinds & DIGIT) !== 0) hasDigit = true;
    else if ((kinds & LETTER_DIGIT) !== 0) hasLetter = true;
  }
  return hasDigit && hasLetter;
}
