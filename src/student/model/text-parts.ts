/**
 * Pieces of addresses, paths and dotted names: a text cut at a sign, and a piece cut again. Pure; teaching proposes
 * rules, and the student's thread applies them.
 */

/** One cut: the n-th piece, negative from the end; or the text before the last sign, or after the first. */
export type TextCut = { at: string; nth: number } | { at: string; keep: 'head' | 'tail' };

const SIGNS = ['/', '.', '-', '_', ':', '@', '#', '?', '=', '&'] as const;
/** Maximum number of pieces of one text that are examined, and of ways to cut that are proposed. */
const PIECES = 16;
const PROPOSED = 8;

/**
 * Applies cuts to a text.
 * @returns undefined when the piece or the sign does not exist
 */
export function cutPart(text: string, cuts: readonly TextCut[]): string | undefined {
  let piece: string | undefined = text;
  for (const cut of cuts) {
    if (piece === undefined || !piece.includes(cut.at)) return undefined;
    if ('keep' in cut)
      piece =
        cut.keep === 'head'
          ? piece.slice(0, piece.lastIndexOf(cut.at))
          : piece.slice(piece.indexOf(cut.at) + cut.at.length);
    else piece = piece.split(cut.at).at(cut.nth);
  }
  return piece === '' ? undefined : piece;
}

/** Ways to cut the value out of the text: with one cut, or with two where one is not enough. */
export function proposeCuts(text: string, value: string): TextCut[][] {
  const single = SIGNS.flatMap((at) => cutOnce(text, at).filter(([piece]) => piece === value));
  if (single.length > 0) return single.slice(0, PROPOSED).map(([, cut]) => [cut]);
  const found: TextCut[][] = [];
  for (const at of SIGNS) {
    for (const [piece, cut] of cutOnce(text, at)) {
      if (piece.length <= value.length || !piece.includes(value)) continue;
      for (const innerSign of SIGNS) {
        if (innerSign === at) continue;
        for (const [inner, innerCut] of cutOnce(piece, innerSign)) {
          if (inner !== value) continue;
          found.push([cut, innerCut]);
          if (found.length >= PROPOSED) return found;
        }
      }
    }
  }
  return found;
}

function cutOnce(text: string, at: string): [string, TextCut][] {
  if (!text.includes(at)) return [];
  const pieces = text.split(at);
  if (pieces.length > PIECES) return [];
  const found: [string, TextCut][] = [];
  for (const [nth, piece] of pieces.entries()) {
    if (piece === '') continue;
    found.push([piece, { at, nth: nth - pieces.length }], [piece, { at, nth }]);
  }
  for (const keep of ['head', 'tail'] as const) {
    const piece = cutPart(text, [{ at, keep }]);
    if (pieces.length > 2 && piece !== undefined) found.push([piece, { at, keep }]);
  }
  return found;
}
