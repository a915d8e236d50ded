/** The facts that a text must contain to be right, in any wording. Pure; bench process. */

export interface Facts {
  /** The text must contain one spelling of each group. */
  needs: readonly (readonly (string | RegExp)[])[];
  /** Spellings that make the text wrong. */
  bars?: readonly RegExp[];
}

/**
 * Finds the first fault of a text.
 * @param known the true values and the content of the request. A number, date, time or id that `known` does not contain
 *   makes the text wrong
 * @param names names that the text may contain only if `known` contains them
 * @returns why the text is wrong; null: it is right
 */
export function faultOf(text: string, facts: Facts, known: string, names: readonly string[]): string | null {
  const plain = plainText(text);
  for (const group of facts.needs)
    if (!group.some((spelling) => holds(plain, spelling))) return `does not say ${String(group[0])}`;
  for (const bar of facts.bars ?? []) if (bar.test(plain)) return `says ${bar.source}`;
  const plainKnown = plainText(known);
  const numbers = new Set(numbersOf(plainKnown));
  for (const number of numbersOf(plain)) if (!numbers.has(number)) return `names ${number}`;
  for (const name of names) if (holds(plain, name) && !holds(plainKnown, name)) return `names ${name}`;
  return null;
}

function plainText(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[*_`#]/g, '')
    .replaceAll(/[‘’]/g, "'")
    .replaceAll(/[“”]/g, '"')
    .replaceAll(/\s+/g, ' ');
}

function holds(plain: string, spelling: string | RegExp): boolean {
  if (spelling instanceof RegExp) return spelling.test(plain);
  const wanted = plainText(spelling);
  for (let at = plain.indexOf(wanted); at >= 0; at = plain.indexOf(wanted, at + 1)) {
    const [before, after] = [plain[at - 1] ?? ' ', plain.slice(at + wanted.length)];
    // 15.10 does not contain 5.10, and 45.20 does not contain 45.
    if (!/[a-z\d]/.test(before) && !/^[a-z\d]|^[.,]\d/.test(after)) return true;
  }
  return false;
}

/**
 * Finds the numbers, and the dates, times and versions as a whole. Thousands separators and insignificant zeros are
 * removed.
 */
function numbersOf(text: string): string[] {
  const plain = text.replaceAll(/(\d),(?=\d{3}(?!\d))/g, '$1');
  return (plain.match(/\d+(?:[.:-]\d+)*/g) ?? []).map((token) =>
    /^\d+(?:\.\d+)?$/.test(token) && token.length < 16 ? String(Number(token)) : token,
  );
}
