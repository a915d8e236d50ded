/** Texts as pieces, their similarity, and their common pieces in order. Pure; teaching. */

import { isOccasional, readTokens } from './text-tokens.ts';

/** A word or a sign of a text. */
export interface Piece {
  text: string;
  key: string;
  /** The white space before the piece. */
  space: string;
  isOccasional: boolean;
}

/** Maximum number of pieces of a compared text, because alignment takes quadratic time. */
export const TEXT_PIECES = 400;

/**
 * Divides a text into pieces, the last of which is empty and has the white space at the end; null for more than
 * TEXT_PIECES.
 */
export function readPieces(text: string): Piece[] | null {
  const tokens = readTokens(text, TEXT_PIECES + 1);
  if (tokens.length > TEXT_PIECES) return null;
  const pieces: Piece[] = [];
  let end = 0;
  for (const token of tokens) {
    pieces.push({
      text: text.slice(token.start, token.end),
      key: token.key,
      space: text.slice(end, token.start),
      isOccasional: isOccasional(token),
    });
    end = token.end;
  }
  pieces.push({ text: '', key: '', space: text.slice(end), isOccasional: false });
  return pieces;
}

/** The text of pieces. With `isTrimmed`, the space before the first piece is left out. */
export function joinPieces(pieces: readonly Piece[], isTrimmed: boolean): string {
  let text = '';
  for (const [i, piece] of pieces.entries())
    text += i === 0 && isTrimmed ? piece.text : piece.space + piece.text;
  return text;
}

/** Texts are tried as one template if at least this share of their words is common, in the same order. */
export const ONE_WORDING = 0.6;

/**
 * Similarity of two lists of words: twice the number of words that both have in the same order, divided by the total
 * number of words. 0 if the lists have too few words in common, in any order, to reach `ONE_WORDING`; 1 for two empty
 * lists.
 */
export function likeness(a: readonly string[], b: readonly string[]): number {
  const length = a.length + b.length;
  if (length === 0) return 1;
  // First a cheap bound: common words in any order.
  const counts = new Map<string, number>();
  for (const key of a) counts.set(key, (counts.get(key) ?? 0) + 1);
  let shared = 0;
  for (const key of b) {
    const left = counts.get(key) ?? 0;
    if (left > 0) {
      shared++;
      counts.set(key, left - 1);
    }
  }
  if ((2 * shared) / length < ONE_WORDING) return 0;
  let previous = new Uint16Array(b.length + 1);
  let row = new Uint16Array(b.length + 1);
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++)
      row[j] = a[i - 1] === b[j - 1] ? previous[j - 1]! + 1 : Math.max(previous[j]!, row[j - 1]!);
    [previous, row] = [row, previous];
  }
  return (2 * previous[b.length]!) / length;
}

/**
 * Longest common subsequence of two texts; among equally long ones, the one with the fewest gaps.
 * @returns pairs of indexes
 */
export function alignPieces(a: readonly Piece[], b: readonly Piece[]): [number, number][] {
  const width = b.length + 1;
  // Longer subsequences win, then those with more adjacent pairs.
  const score = new Int32Array((a.length + 1) * width);
  const matched = new Int32Array((a.length + 1) * width).fill(-1_000_000);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = i * width + j;
      if (a[i]!.text === b[j]!.text) {
        const on = at + width + 1;
        matched[at] = 1_000 + Math.max(score[on]!, matched[on]! + 1);
      }
      score[at] = Math.max(matched[at]!, score[at + width]!, score[at + 1]!);
    }
  }
  const pairs: [number, number][] = [];
  let i = 0;
  let j = 0;
  let mustMatch = false;
  while (i < a.length && j < b.length) {
    const at = i * width + j;
    if (mustMatch || matched[at] === score[at]) {
      pairs.push([i, j]);
      const on = at + width + 1;
      mustMatch = matched[on]! + 1 >= score[on]! && matched[on]! > 0;
      i++;
      j++;
    } else if (score[at + width]! >= score[at + 1]!) i++;
    else j++;
  }
  return pairs;
}
