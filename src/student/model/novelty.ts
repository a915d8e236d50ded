/**
 * What is new in a step. A value that no golden step had is a surprise where values repeat, and none where each run has
 * its own: by Good and Turing ("The population frequencies of species", 1953), the chance that the next value is a new
 * one is about the share of values seen once. Pure; analysis learns it, the student's thread asks it.
 */

import { MARK } from './step-marks.ts';

/** What stood at one place. Plain JSON. */
export interface PlaceMemory {
  kind: number;
  place: number;
  /** Values seen; empty: they are each run's own. */
  values: number[];
  /** How surprising a new value is, 0 … 1. */
  surprise: number;
  /** How surprising it is that nothing stands there, 0 … 1. */
  absence: number;
}

/** What words were used. */
export interface WordMemory {
  kind: number;
  place: number;
  words: number[];
  /** Largest share of new words that a golden run had against the others. */
  share: number;
  /** How surprising a single new word is, 0 … 1: little where most golden runs had words of their own. */
  surprise: number;
}

export interface NoveltyMemory {
  places: PlaceMemory[];
  words: WordMemory[];
  /** How surprising a place is that no golden step had, by kind. */
  new_place: Record<string, number>;
}

/** More different values than this say that a place holds values, not states. */
const STATES = 64;
const WORDS = 4_000;
/** Of a single new word where golden runs hardly ever had one. */
const SINGLE_WORD = 0.6;
/** A share of new words so far above the largest of golden runs is a full surprise. */
const WORD_SLACK = 0.04;
const WORD_RANGE = 0.25;
/** Old results matter less than the ones that the step answers. */
const KIND_WEIGHT: Record<number, number> = {
  [MARK.fresh]: 1,
  [MARK.past]: 0.7,
  [MARK.earlier]: 0.5,
  [MARK.shape]: 1,
  [MARK.system_number]: 1,
};

/** Kinds of which it is a surprise when one that every golden step had is not there. */
const ALWAYS_THERE: readonly number[] = [MARK.fresh, MARK.shape, MARK.system_number];

/** @param decisive places that tell what is answered: a new value there is never harmless */
export function learnNovelty(
  steps: readonly { run_id: string; marks: readonly number[] }[],
  decisive: ReadonlySet<number>,
): NoveltyMemory {
  interface Seen {
    kind: number;
    place: number;
    runs: Set<string>;
    steps: number;
    /** Of the steps that had it. */
    last: number;
    /** Runs that had the value; 2 stands for several. */
    values: Map<number, { run: string; several: boolean }>;
  }
  const runs = new Set(steps.map(({ run_id }) => run_id));
  const seen = new Map<string, Seen>();
  for (const [at, { run_id, marks }] of steps.entries()) {
    for (let m = 0; m < marks.length; m += 3) {
      const kind = marks[m]!;
      const place = marks[m + 1]!;
      const value = marks[m + 2]!;
      const id = `${kind} ${place}`;
      let its = seen.get(id);
      if (its === undefined) {
        its = { kind, place, runs: new Set(), steps: 0, last: -1, values: new Map() };
        seen.set(id, its);
      }
      its.runs.add(run_id);
      if (its.last !== at) its.steps++;
      its.last = at;
      const old = its.values.get(value);
      if (old === undefined) its.values.set(value, { run: run_id, several: false });
      else if (old.run !== run_id) old.several = true;
    }
  }
  const memory: NoveltyMemory = { places: [], words: [], new_place: {} };
  const singlePlaces = new Map<number, number>();
  for (const { kind, place, runs: its, steps: count, values } of seen.values()) {
    if (its.size === 1) singlePlaces.set(kind, (singlePlaces.get(kind) ?? 0) + 1);
    if (isWordKind(kind)) {
      memory.words.push({
        kind,
        place,
        words: [...values.keys()].slice(0, WORDS),
        ...measureWords(steps, kind, place, values),
      });
      continue;
    }
    let singles = 0;
    for (const { several } of values.values()) if (!several) singles++;
    const missing = Math.min(1, (singles + 1) / (its.size + 1));
    // Many values that changed nothing: one more will not either, unless this place is one that decides.
    const harmless = decisive.has(place) ? 1 : 1 / Math.max(1, values.size);
    const surprise = (1 - missing) * harmless * (KIND_WEIGHT[kind] ?? 0);
    // Of each step: a run may have several here, and some of them never had it.
    const isEverywhere = count === steps.length;
    const absence = isEverywhere && ALWAYS_THERE.includes(kind) ? its.size / (its.size + 2) : 0;
    const isFree = values.size > STATES || surprise < 0.02;
    memory.places.push({
      kind,
      place,
      // What one run had at a place that decides is as good as new: nobody has seen twice what follows.
      values: isFree
        ? []
        : [...values].flatMap(([value, { several }]) => (several || !decisive.has(place) ? [value] : [])),
      surprise: isFree ? 0 : surprise,
      absence,
    });
  }
  for (const kind of [MARK.fresh, MARK.past, MARK.earlier, MARK.shape, MARK.system_number]) {
    const singles = singlePlaces.get(kind) ?? 0;
    memory.new_place[kind] = (1 - Math.min(1, (singles + 1) / (runs.size + 1))) * (KIND_WEIGHT[kind] ?? 0);
  }
  return memory;
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
      if (!values.get(marks[m + 2]!)!.several) singles++;
    }
    if (words === 0) continue;
    count++;
    if (singles > 0) withSingles++;
    // Short texts: one new word in three says little.
    largest = Math.max(largest, singles / Math.max(words, 8));
  }
  return { share: largest, surprise: SINGLE_WORD * (1 - (withSingles + 1) / (count + 1)) };
}

/** Asks what is new. One a group; built from the memory. */
export class NoveltyIndex {
  readonly #places = new Map<number, { surprise: number; values: Set<number> }>();
  readonly #words = new Map<number, KnownWords>();
  readonly #expected: { key: number; absence: number }[] = [];
  readonly #newPlace: Record<string, number>;

  constructor(memory: NoveltyMemory) {
    for (const { kind, place, values, surprise, absence } of memory.places) {
      this.#places.set(keyOf(kind, place), { surprise, values: new Set(values) });
      if (absence > 0) this.#expected.push({ key: keyOf(kind, place), absence });
    }
    for (const { kind, place, words, share, surprise } of memory.words)
      this.#words.set(keyOf(kind, place), { share, surprise, words: new Set(words) });
    this.#newPlace = memory.new_place;
  }

  /**
   * What {@link measure} finds new, the most surprising first.
   * @returns places with the value that is new there; null for one that golden steps always had and this one has not
   */
  list(marks: readonly number[]): { kind: number; place: number; value: number | null; surprise: number }[] {
    const found: { kind: number; place: number; value: number | null; surprise: number }[] = [];
    const here = new Set<number>();
    for (let m = 0; m < marks.length; m += 3) {
      const [kind, place, value] = [marks[m]!, marks[m + 1]!, marks[m + 2]!];
      const key = keyOf(kind, place);
      here.add(key);
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
      if (!here.has(key))
        found.push({ kind: Math.floor(key / PLACES), place: key % PLACES, value: null, surprise: absence });
    return found.sort((a, b) => b.surprise - a.surprise);
  }

  /** 0: nothing new that matters … 1. */
  measure(marks: readonly number[]): number {
    let known = 1;
    const here = new Set<number>();
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
      const kind = marks[m]!;
      const key = keyOf(kind, marks[m + 1]!);
      const value = marks[m + 2]!;
      if (isWordKind(kind)) {
        if (key !== wordsKey) {
          closeWords();
          wordsKey = key;
          memory = this.#words.get(key);
        }
        words++;
        if (memory === undefined || !memory.words.has(value)) fresh++;
        continue;
      }
      here.add(key);
      const place = this.#places.get(key);
      if (place === undefined) known *= 1 - (this.#newPlace[kind] ?? 0);
      else if (place.surprise > 0 && !place.values.has(value)) known *= 1 - place.surprise;
    }
    closeWords();
    for (const { key, absence } of this.#expected) if (!here.has(key)) known *= 1 - absence;
    return 1 - known;
  }
}

interface KnownWords {
  share: number;
  surprise: number;
  words: Set<number>;
}

function measureNewWords(fresh: number, words: number, known: KnownWords | undefined): number {
  if (fresh === 0) return 0;
  const above = fresh / Math.max(words, 8) - (known?.share ?? 0) - WORD_SLACK;
  return Math.max(known?.surprise ?? 0, Math.min(1, Math.max(0, above) / WORD_RANGE));
}

const PLACES = 0x1_0000_0000;

function keyOf(kind: number, place: number): number {
  return kind * PLACES + place;
}
