/** Writes a number with its noun, for sentences. Any thread. */

/** Writes `1 run` or `2,000 runs`, for nouns with a plural in s. */
export function countOf(n: number, noun: string): string {
  return `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`;
}
