/**
 * Identifiers: ULIDs (github.com/ulid/spec), 26 characters of Crockford's base 32 that sort by the time of their
 * creation: 48 bits of milliseconds, then 80 random bits. Any thread; threads do not coordinate their ids, which differ
 * because of the 80 random bits.
 */
import { randomFillSync } from 'node:crypto';
import { type Clock, systemClock } from './clock.ts';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_CHARACTERS = 10;
const RANDOM_CHARACTERS = 16;
const LAST = RANDOM_CHARACTERS - 1;

/** Fills the array with random bytes and returns nothing. */
type FillRandom = (target: Uint8Array) => void;

/** Random bytes are fetched in batches, because fetching sixteen bytes costs as much as fetching a thousand. */
const pool = new Uint8Array(1_024);
let poolAt = pool.length;

function fillFromPool(target: Uint8Array): void {
  if (poolAt + target.length > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  target.set(pool.subarray(poolAt, poolAt + target.length));
  poolAt += target.length;
}

/**
 * Makes a function that returns a new ULID at every call, each greater than the one before it: within a millisecond, or
 * if the clock goes back, the random part is increased by one.
 * @param clock where the time is read
 * @param fillRandom where the random bits come from
 */
export function createUlidSource(
  clock: Clock = systemClock,
  fillRandom: FillRandom = fillFromPool,
): () => string {
  const random = new Uint8Array(RANDOM_CHARACTERS); // one base-32 digit per byte
  let lastMs = -1;
  let timePart = '';
  /** The last id without its last character, in which most ids of a millisecond differ. */
  let stem = '';
  return () => {
    const nowMs = clock.wallMs();
    if (nowMs > lastMs) {
      lastMs = nowMs;
      timePart = encodeTime(nowMs);
      fillRandom(random);
      for (let i = 0; i < RANDOM_CHARACTERS; i++) random[i]! &= 31;
    } else if (!increment(random)) {
      // 2^80 ids in one millisecond: use the next millisecond
      lastMs++;
      timePart = encodeTime(lastMs);
    } else if (random[LAST]! > 0) {
      // Only the last character has changed.
      return stem + ALPHABET[random[LAST]!];
    }
    stem = timePart;
    for (let i = 0; i < LAST; i++) stem += ALPHABET[random[i]!];
    return stem + ALPHABET[random[LAST]!];
  };
}

/** A new ULID from the system's clock and random source. */
export const newUlid: () => string = createUlidSource();

const lastAt = { ms: -1, random: new Uint8Array(RANDOM_CHARACTERS) };

/**
 * Makes a ULID for a given time, for records that contain their creation time and are listed by id: the ids then have
 * the order of the times. If successive calls in a thread have the same time, each id is greater than the previous one.
 */
export function ulidAt(ms: number): string {
  const { random } = lastAt;
  if (ms !== lastAt.ms || !increment(random)) {
    lastAt.ms = ms;
    randomFillSync(random);
    for (let i = 0; i < RANDOM_CHARACTERS; i++) random[i]! &= 31;
  }
  return encodeTime(ms) + Array.from(random, (digit) => ALPHABET[digit]).join('');
}

function encodeTime(ms: number): string {
  let text = '';
  let rest = ms;
  for (let i = 0; i < TIME_CHARACTERS; i++) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** Adds one to base-32 digits, most significant first; false when they wrapped to zero. */
function increment(digits: Uint8Array): boolean {
  for (let i = digits.length - 1; i >= 0; i--) {
    if (digits[i]! < 31) {
      digits[i]!++;
      return true;
    }
    digits[i] = 0;
  }
  return false;
}
