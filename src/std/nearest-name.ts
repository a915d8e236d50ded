/** Finds the known name that is closest to a mistyped one. Pure. */

/** Longer names are not compared: the work is the product of the lengths. */
const TYPED_CHARACTERS = 100;

/**
 * Finds the name that is closest to the typed one.
 * @returns the closest name within two edits, if the edits leave part of it; otherwise null
 */
export function findNearestName(typed: string, names: readonly string[]): string | null {
  if (typed.length > TYPED_CHARACTERS) return null;
  const nearest = names
    .map((name) => ({ name, edits: countEdits(typed, name) }))
    .sort((a, b) => a.edits - b.edits)[0];
  return nearest !== undefined && nearest.edits <= 2 && nearest.edits < nearest.name.length
    ? nearest.name
    : null;
}

/**
 * Computes the Levenshtein distance: the number of insertions, deletions and substitutions from one word to the other.
 */
function countEdits(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const substitution = previous[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      row.push(Math.min(previous[j]! + 1, row[j - 1]! + 1, substitution));
    }
    previous = row;
  }
  return previous[to.length]!;
}
