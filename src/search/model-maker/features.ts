/**
 * Features of the default model: pieces of words, each hashed to a bucket. The same arithmetic exists twice: here on
 * plain numbers, to count the pieces of a corpus, and as nodes of the graph (ngram-graph.ts). A test compares the two.
 * Every product stays under 2^53. Development only.
 */

/** Token ids: a UTF-8 byte at the start of a word, then a byte inside a word. */
export const PAD_ID = 0;
export const UNKNOWN_ID = 1;
export const START_ID = 2;
export const INNER_ID = START_ID + 256;

export const BUCKETS = 65_536;
/** Dimensions of the sketch to which the buckets are added. */
export const SKETCH = 3_840;

/** Base that fits three characters of 1 … 256 into one number. */
export const BASE = 257;
export const KIND_STRIDE = BASE ** 3;
/** A hash multiplies twice, each time modulo a prime near 2^24. The multipliers are arbitrary. */
export const PRIMES = [16_777_213, 16_777_199] as const;
export const MULTIPLIERS = [11_400_714, 7_919_113] as const;
/** Weight of the pieces of very common words, relative to other pieces. */
export const COMMON_WEIGHT = 0.3;

/** Words that say little about the topic of a text. */
export const COMMON_WORDS =
  'a an the of to in on at by for with from and or not no is are be was were am been do does did can could will would should may might must have has had i you he she it we they me my your his her its our their this that these those there here how what when where which who why whether as if then than so into onto about out up down over all any some each every use using used get'.split(
    ' ',
  );

/** Computes the full hash of a piece from its number. */
function mix(key: number): number {
  return (((key * MULTIPLIERS[0]) % PRIMES[0]) * MULTIPLIERS[1]) % PRIMES[1];
}

/** Hashes a word of bytes 1 … 256. The hash is a sum, so the graph needs no order within the word. */
function hashWord(bytes: readonly number[]): number {
  let sum = 0;
  for (const [i, byte] of bytes.entries()) {
    const isFirst = i === 0 ? 1 : 0;
    sum += mix(byte + BASE * (bytes[i + 1] ?? 0) + BASE * BASE * isFirst);
  }
  return sum % PRIMES[1];
}

function bucketOf(kind: number, value: number): number {
  return mix(kind * KIND_STRIDE + value) % BUCKETS;
}

/**
 * Counts the pieces of a text.
 * @param ids token ids of the text
 * @param commonBuckets word buckets with a lower weight
 * @returns weight by bucket, from the number of occurrences of each piece
 */
export function countPieces(ids: readonly number[], commonBuckets: ReadonlySet<number>): Map<number, number> {
  const counts = new Map<number, number>();
  for (const word of splitWords(ids)) {
    const buckets = bucketsOfWord(word);
    const weight = commonBuckets.has(buckets.at(-1)!) ? COMMON_WEIGHT : 1;
    for (const bucket of buckets) counts.set(bucket, (counts.get(bucket) ?? 0) + weight);
  }
  return counts;
}

/** Returns the buckets of all pieces of a word; the last is that of the whole word. */
export function bucketsOfWord(b: readonly number[]): number[] {
  const buckets: number[] = [bucketOf(0, b[0]!), bucketOf(1, b.at(-1)!)];
  for (let i = 0; i + 1 < b.length; i++) {
    const two = b[i]! + BASE * b[i + 1]!;
    buckets.push(bucketOf(2, two));
    if (i === 0) buckets.push(bucketOf(3, two));
    if (i + 2 === b.length) buckets.push(bucketOf(4, two));
    else buckets.push(bucketOf(5, two + BASE * BASE * b[i + 2]!));
  }
  buckets.push(bucketOf(6, hashWord(b)));
  return buckets;
}

/** Splits token ids into words of bytes 1 … 256. */
export function splitWords(ids: readonly number[]): number[][] {
  const words: number[][] = [];
  for (const id of ids) {
    if (id < START_ID) continue;
    const byte = ((id - START_ID) % 256) + 1;
    if (id < INNER_ID || words.length === 0) words.push([byte]);
    else words.at(-1)!.push(byte);
  }
  return words;
}

/** Computes the weight of a piece that occurs `count` times. */
export function dampCount(count: number): number {
  return count < 1 ? count : 1 + Math.log(count);
}
