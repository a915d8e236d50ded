/**
 * Measures what is new in a step. A value that no golden step had is a surprise at a place where values repeat, but not
 * at a place where each run has a different value. By Good and Turing ("The population frequencies of species", 1953),
 * the probability that the next value is new is about the share of values seen once. Pure; teaching learns the values,
 * and the student's thread compares steps with them.
 */

import { hashString } from './json-values.ts';
import { MARK } from './step-marks.ts';

/** The golden values at one place. Plain JSON. */
interface PlaceMemory {
  kind: number;
  place: number;
  /** Values seen; empty when a new value is hardly a surprise, or there are more than {@link STATES} values. */
  values: number[];
  /** How surprising a new value is, 0 … 1. */
  surprise: number;
  /** How surprising a missing value is, 0 … 1. */
  absence: number;
}

/** The words that golden steps used at one place. */
interface WordMemory {
  kind: number;
  place: number;
  words: number[];
  /** Largest share of words in one golden step that no other golden run has. */
  share: number;
  /** How surprising a single new word is, 0 … 1; small when most golden steps had words that no other run had. */
  surprise: number;
}

export interface NoveltyMemory {
  places: PlaceMemory[];
  words: WordMemory[];
  /** How surprising a place without golden values is, by kind. */
  new_place: Record<string, number>;
  /**
   * How surprising the words of results usually are for a student that does not know the run. The share of golden runs
   * in {@link USUAL} reaches this value. Absent in older models.
   */
  usual?: number;
}

/** Maximum number of values of a state. A place with more different values is free text or data. */
const STATES = 64;
const WORDS = 4_000;
/** Surprise of a single new word at a place where golden runs almost never had a new word. */
const SINGLE_WORD = 0.6;
/**
 * New words are a surprise if their share exceeds the largest golden share. The surprise grows with the excess, and is
 * complete at this excess.
 */
const WORD_RANGE = 0.25;
/**
 * Names of months. At a place where golden runs had the name of a month, another month's name is not new. `May` is left
 * out, because it is also another word.
 */
const MONTHS: ReadonlySet<number> = new Set(
  (
    'january february march april june july august september october november december ' +
    'jan feb mar apr jun jul aug sep sept oct nov dec'
  )
    .split(' ')
    .map((name) => hashString(name)),
);
/**
 * A surprise by new words in results is usual if at least this share and this number of the golden runs reach it. A
 * surprise above `most` is never usual.
 */
const USUAL = { share: 0.1, runs: 4, most: 0.95 } as const;
/** Weight of a surprise, by kind. Earlier results count less than the results that this step answers. */
const KIND_WEIGHT: Record<number, number> = {
  [MARK.fresh]: 1,
  [MARK.past]: 0.7,
  [MARK.earlier]: 0.5,
  [MARK.shape]: 1,
  [MARK.shared]: 0.5,
  [MARK.system_number]: 1,
  [MARK.lines]: 1,
};

/** Kinds for which the absence of a value that every golden step had is a surprise. */
const ALWAYS_THERE: readonly number[] = [MARK.fresh, MARK.shape, MARK.system_number];

/** Collects the golden values of one place. */
interface SeenPlace {
  kind: number;
  place: number;
  runs: Set<string>;
  steps: number;
  /** Index of the step counted last. */
  last: number;
  /** A run that had the value; `several` when more than one did. */
  values: Map<number, { run: string; several: boolean }>;
}

/**
 * Learns which values golden steps have at each place.
 * @param decisive places that determine the answer; a new value at such a place is never harmless
 */
export function learnNovelty(
  steps: readonly { run_id: string; marks: readonly number[] }[],
  decisive: ReadonlySet<number>,
): NoveltyMemory {
  const memory: NoveltyMemory = { places: [], words: [], new_place: {} };
  const ofSeveral: WordMemory[] = [];
  const singlePlaces = new Map<number, number>();
  for (const seen of collectPlaces(steps)) {
    const { kind, place, values } = seen;
    if (seen.runs.size === 1) singlePlaces.set(kind, (singlePlaces.get(kind) ?? 0) + 1);
    if (isWordKind(kind)) {
      const words = [...values.keys()].slice(0, WORDS);
      const measured = { kind, place, ...measureWords(steps, kind, place, values) };
      memory.words.push({ ...measured, words });
      ofSeveral.push({
        ...measured,
        words: words.filter((word) => MONTHS.has(word) || values.get(word)!.several),
      });
    } else memory.places.push(rememberPlace(seen, steps.length, decisive.has(place)));
  }
  const runs = new Set(steps.map(({ run_id }) => run_id)).size;
  for (const kind of [MARK.fresh, MARK.past, MARK.earlier, MARK.shape, MARK.system_number]) {
    const singles = singlePlaces.get(kind) ?? 0;
    memory.new_place[kind] = (1 - Math.min(1, (singles + 1) / (runs + 1))) * (KIND_WEIGHT[kind] ?? 0);
  }
  memory.usual = findUsual(steps, new NoveltyIndex({ ...memory, words: ofSeveral }));
  return memory;
}

/**
 * Finds how surprising the new words of results usually are (USUAL).
 * @param others compares the words of each run only with those of other runs
 */
function findUsual(
  steps: readonly { run_id: string; marks: readonly number[] }[],
  others: NoveltyIndex,
): number {
  const ofRuns = new Map<string, number>();
  for (const { run_id, marks } of steps)
    ofRuns.set(run_id, Math.max(ofRuns.get(run_id) ?? 0, others.measureWords(marks).in_results));
  const sorted = [...ofRuns.values()].sort((a, b) => b - a);
  const nth = Math.max(USUAL.runs, Math.ceil(USUAL.share * sorted.length));
  return Math.min(USUAL.most, sorted[nth - 1] ?? 0);
}

function collectPlaces(
  steps: readonly { run_id: string; marks: readonly number[] }[],
): MapIterator<SeenPlace> {
  const places = new Map<string, SeenPlace>();
  for (const [at, { run_id, marks }] of steps.entries()) {
    for (let m = 0; m < marks.length; m += 3) {
      const kind = marks[m]!;
      const place = marks[m + 1]!;
      const value = marks[m + 2]!;
      const id = `${kind} ${place}`;
      let seen = places.get(id);
      if (seen === undefined) {
        seen = { kind, place, runs: new Set(), steps: 0, last: -1, values: new Map() };
        places.set(id, seen);
      }
      seen.runs.add(run_id);
      if (seen.last !== at) seen.steps++;
      seen.last = at;
      const old = seen.values.get(value);
      if (old === undefined) seen.values.set(value, { run: run_id, several: false });
      else if (old.run !== run_id) old.several = true;
    }
  }
  return places.values();
}

/** Measures how surprising a new or a missing value is at one place. */
function rememberPlace(
  { kind, place, runs, steps, values }: SeenPlace,
  allSteps: number,
  isDecisive: boolean,
): PlaceMemory {
  let singles = 0;
  for (const { several } of values.values()) if (!several) singles++;
  const missing = Math.min(1, (singles + 1) / (runs.size + 1));
  // Many values at this place had no effect. So a further value has none either, unless the place is decisive.
  const harmless = isDecisive ? 1 : 1 / Math.max(1, values.size);
  const surprise = (1 - missing) * harmless * (KIND_WEIGHT[kind] ?? 0);
  // Steps are counted, and not runs: a run may have several values at this place, and some of its steps may have none.
  const isEverywhere = steps === allSteps;
  const isFree = values.size > STATES || surprise < 0.02;
  return {
    kind,
    place,
    // If only one run had a value at a decisive place, the value counts as new: its consequence was not seen twice.
    values: isFree
      ? []
      : [...values].flatMap(([value, { several }]) => (several || !isDecisive ? [value] : [])),
    surprise: isFree ? 0 : surprise,
    absence: isEverywhere && ALWAYS_THERE.includes(kind) ? runs.size / (runs.size + 2) : 0,
  };
}

function isWordKind(kind: number): boolean {
  return (
    kind === MARK.fresh_word ||
    kind === MARK.said_word ||
    kind === MARK.task_word ||
    kind === MARK.earlier_word
  );
}

function measureWords(
  steps: readonly { run_id: string; marks: readonly number[] }[],
  kind: number,
  place: number,
  values: ReadonlyMap<number, { several: boolean }>,
): { share: number; surprise: number } {
  let largest = 0;
  let count = 0;
  let withSingles = 0;
  for (const { marks } of steps) {
    let words = 0;
    let singles = 0;
    for (let m = 0; m < marks.length; m += 3) {
      if (marks[m] !== kind || marks[m + 1] !== place) continue;
      words++;
      const word = marks[m + 2]!;
      if (!values.get(word)!.several && !MONTHS.has(word)) singles++;
    }
    if (words === 0) continue;
    count++;
    if (singles > 0) withSingles++;
    // One new word in three means little in a short text.
    largest = Math.max(largest, singles / Math.max(words, 8));
  }
  return { share: largest, surprise: SINGLE_WORD * (1 - (withSingles + 1) / (count + 1)) };
}

/** Queries what is new in a step. One for each stage, made from its memory. */
export class NoveltyIndex {
  readonly #places = new Map<number, { surprise: number; values: Set<number> }>();
  readonly #words = new Map<number, KnownWords>();
  readonly #expected: { key: number; absence: number }[] = [];
  readonly #newPlace: Record<string, number>;
  readonly #usual: number;

  constructor(memory: NoveltyMemory) {
    this.#usual = memory.usual ?? 0;
    for (const { kind, place, values, surprise, absence } of memory.places) {
      this.#places.set(keyOf(kind, place), { surprise, values: new Set(values) });
      if (absence > 0) this.#expected.push({ key: keyOf(kind, place), absence });
    }
    for (const { kind, place, words, share, surprise } of memory.words)
      this.#words.set(keyOf(kind, place), {
        share,
        surprise,
        words: new Set(words.some((word) => MONTHS.has(word)) ? [...words, ...MONTHS] : words),
      });
    this.#newPlace = memory.new_place;
  }

  /**
   * What {@link measure} finds new, the most surprising first.
   * @returns places with their new value; null for a place that golden steps always had and this step lacks
   */
  list(marks: readonly number[]): { kind: number; place: number; value: number | null; surprise: number }[] {
    const found: { kind: number; place: number; value: number | null; surprise: number }[] = [];
    const placesSeen = new Set<number>();
    for (let m = 0; m < marks.length; m += 3) {
      const [kind, place, value] = [marks[m]!, marks[m + 1]!, marks[m + 2]!];
      const key = keyOf(kind, place);
      placesSeen.add(key);
      let surprise = 0;
      if (isWordKind(kind)) {
        const known = this.#words.get(key);
        if (known?.words.has(value) !== true) surprise = known?.surprise ?? 0;
      } else {
        const known = this.#places.get(key);
        if (known === undefined) surprise = this.#newPlace[kind] ?? 0;
        else if (!known.values.has(value)) surprise = known.surprise;
      }
      if (surprise > 0) found.push({ kind, place, value, surprise });
    }
    for (const { key, absence } of this.#expected)
      if (!placesSeen.has(key))
        found.push({ kind: Math.floor(key / PLACES), place: key % PLACES, value: null, surprise: absence });
    return found.sort((a, b) => b.surprise - a.surprise);
  }

  /**
   * Measures how new a step is.
   * @returns how surprising the step is, from 0 (nothing new that matters) to 1
   */
  measure(marks: readonly number[]): number {
    let known = 1;
    const placesSeen = new Set<number>();
    for (let m = 0; m < marks.length; m += 3) {
      const kind = marks[m]!;
      if (isWordKind(kind)) continue;
      const key = keyOf(kind, marks[m + 1]!);
      placesSeen.add(key);
      const place = this.#places.get(key);
      if (place === undefined) known *= 1 - (this.#newPlace[kind] ?? 0);
      else if (place.surprise > 0 && !place.values.has(marks[m + 2]!)) known *= 1 - place.surprise;
    }
    for (const { key, absence } of this.#expected) if (!placesSeen.has(key)) known *= 1 - absence;
    const { said, in_results } = this.measureWords(marks);
    // New words of results are no surprise as far as results of golden runs had new words, too.
    const unusual = Math.max(0, in_results - this.#usual) / (1 - this.#usual);
    return 1 - known * (1 - said) * (1 - unusual);
  }

  /**
   * How surprising the user's words and the words of results are, each 0 … 1. A new word of a result that the user or an
   * earlier place of a result has, too, is no further surprise.
   */
  measureWords(marks: readonly number[]): { said: number; in_results: number } {
    const newWords = new Set<number>();
    const said = this.#measureWordsOf(marks, SAID, newWords);
    return { said, in_results: this.#measureWordsOf(marks, IN_RESULTS, newWords) };
  }

  /**
   * How surprising the words of these kinds are, 0 … 1.
   * @param newWords receives the new words; a word that it already contains does not count
   */
  #measureWordsOf(marks: readonly number[], kinds: ReadonlySet<number>, newWords: Set<number>): number {
    const isSaid = kinds === SAID;
    let known = 1;
    let wordsKey = -1;
    let words = 0;
    let fresh = 0;
    let memory: KnownWords | undefined;
    const closeWords = (): void => {
      if (words > 0) known *= 1 - measureNewWords(fresh, words, memory);
      words = 0;
      fresh = 0;
    };
    for (let m = 0; m < marks.length; m += 3) {
      if (!kinds.has(marks[m]!)) continue;
      const key = keyOf(marks[m]!, marks[m + 1]!);
      if (key !== wordsKey) {
        closeWords();
        wordsKey = key;
        memory = this.#words.get(key);
      }
      words++;
      const word = marks[m + 2]!;
      if (memory?.words.has(word) === true) continue;
      if (isSaid || !newWords.has(word)) fresh++;
      newWords.add(word);
    }
    closeWords();
    return 1 - known;
  }
}

const SAID: ReadonlySet<number> = new Set([MARK.said_word, MARK.task_word]);
const IN_RESULTS: ReadonlySet<number> = new Set([MARK.fresh_word, MARK.earlier_word]);

interface KnownWords {
  share: number;
  surprise: number;
  words: Set<number>;
}

function measureNewWords(fresh: number, words: number, known: KnownWords | undefined): number {
  if (fresh === 0) return 0;
  const above = fresh / Math.max(words, 8) - (known?.share ?? 0);
  return Math.max(known?.surprise ?? 0, Math.min(1, Math.max(0, above) / WORD_RANGE));
}

const PLACES = 0x1_0000_0000;

function keyOf(kind: number, place: number): number {
  return kind * PLACES + place;
}
