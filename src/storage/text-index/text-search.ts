/**
 * Searches the full-text index of a capture database. Capture reader, command line; synchronous. It writes nothing
 * except marks for damaged segments.
 *
 * A run matches if it contains each term. For a term of one word, the index is exact. For a phrase, the search finds
 * exchanges with all words of the phrase; the caller must read the texts to check whether the words are adjacent
 * (`TextMatches.needs_reading`).
 *
 * Memory: 16 bytes for each exchange with a word of the query, while matches are used; 4 bytes for each exchange and
 * about 60 for each run that was ever found.
 */
import { statSync, writeFileSync } from 'node:fs';
import type { DataKey } from '../../std/data-key.ts';
import { runKey } from './run-key.ts';
import { damagePath, listSegments, type SegmentFile } from './segment-files.ts';
import { RUN_BLOCK, SegmentDamage } from './segment-format.ts';
import { BlockCache, SegmentReader } from './segment-reader.ts';
import { type TextQuery, TextQueryError, type TextTerm } from './text-query.ts';

/** Maximum number of words in one segment that a prefix may match. */
const PREFIX_WORDS = 20_000;

/** Maximum number of numbered runs. Beyond it, numbering starts over. */
const NUMBERED_RUNS = 2_000_000;

/** The exchanges that contain a term, and the numbers of their runs (0: no run). */
interface TermMatches {
  ids: readonly number[];
  runs: readonly number[];
}

/** Assigns numbers to runs from 1 on, so that a search compares small numbers. */
class RunNumbers {
  readonly #numbers = new Map<number, number>([[0, 0]]);

  get size(): number {
    return this.#numbers.size;
  }

  /** Returns the number of a run, which gets one if it has none. @param key `runKey` of the run */
  numberOf(key: number): number {
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#numbers.size;
      this.#numbers.set(key, number);
    }
    return number;
  }

  /** Returns the number of a run; undefined if no searched segment contains the run. */
  find(key: number): number | undefined {
    return this.#numbers.get(key);
  }
}

/** A segment whose exchanges have the ids from `first_id` to `last_id` for the searching code. */
export interface PlacedSegment extends SegmentFile {
  /** The id of an exchange for the searching code, minus its id in the segment. */
  shift: number;
}

/** Where segments are, if they are not of one database. */
export interface TextPlaces {
  /** In the order of ids. */
  list(): PlacedSegment[];
  /** Returns the runs of `count` exchanges from an id on, by the names that the searching code uses. */
  runsFrom(id: number, count: number): (string | null)[];
}

/** A segment with the run numbers of its exchanges, as far as they were read. */
interface OpenedSegment {
  shift: number;
  reader: SegmentReader;
  runs: Uint32Array[];
}

export class TextSearch {
  readonly #places: TextPlaces | string;
  readonly #key: DataKey | null;
  readonly #cache = new BlockCache();
  readonly #open = new Map<string, OpenedSegment>();
  #numbers = new RunNumbers();
  #files: PlacedSegment[] = [];

  /** @param places a database, or places of segments */
  constructor(places: TextPlaces | string, key: DataKey | null) {
    this.#places = places;
    this.#key = key;
  }

  /** Reads which segments exist now. */
  refresh(): void {
    const places = this.#places;
    const segments =
      typeof places === 'string'
        ? listSegments(places).segments.map((segment) => ({ ...segment, shift: 0 }))
        : places.list();
    const names = new Set(segments.map(({ path }) => path));
    for (const [path, { reader }] of this.#open) {
      // An erasure replaces a segment by one of the same name.
      if (names.has(path) && statSync(path, { throwIfNoEntry: false })?.ino === reader.inode) continue;
      reader.close();
      this.#open.delete(path);
    }
    this.#files = segments;
    if (this.#numbers.size <= NUMBERED_RUNS) return;
    this.#numbers = new RunNumbers();
    for (const segment of this.#open.values()) segment.runs = [];
  }

  /**
   * Finds the exchanges and runs that may match a query.
   * @throws TextQueryError if a prefix matches too many words
   */
  find(query: TextQuery): TextMatches {
    const terms = query.map(() => ({ ids: [] as number[], runs: [] as number[] }));
    const missing = new MissingExchanges();
    for (const file of this.#files) {
      const segment = this.#openSegment(file);
      if (segment === null) continue;
      try {
        // All terms are read before any result is kept, because a segment counts completely or not at all.
        const found = query.map((term) => findInSegment(segment.reader, term));
        for (const ids of found) this.#readRuns(segment, ids);
        for (const [at, term] of terms.entries()) addMatches(term, segment, found[at]!);
        missing.cover(file, segment.reader.contents.cut);
      } catch (thrown) {
        if (!(thrown instanceof SegmentDamage)) throw thrown;
        this.#setAside(file);
      }
    }
    return new TextMatches(query, terms, missing, this.#numbers);
  }

  /** Reads the runs of exchanges and assigns their numbers. @throws SegmentDamage */
  #readRuns({ reader, runs, shift }: OpenedSegment, ids: readonly number[]): void {
    const { first_id } = reader.contents;
    for (const id of ids) {
      const at = Math.floor((id - first_id) / RUN_BLOCK);
      runs[at] ??= Uint32Array.from(this.#listRuns(reader, shift, id), (key) => this.#numbers.numberOf(key));
    }
  }

  /** Reads the keys of the runs of all exchanges in the block that contains `id`. @throws SegmentDamage */
  #listRuns(reader: SegmentReader, shift: number, id: number): readonly number[] {
    const { first_id, keys } = reader.runsFrom(id);
    if (typeof this.#places === 'string') return keys;
    return this.#places.runsFrom(first_id + shift, keys.length).map(runKey);
  }

  close(): void {
    for (const { reader } of this.#open.values()) reader.close();
    this.#open.clear();
    this.#files = [];
  }

  #openSegment(file: PlacedSegment): OpenedSegment | null {
    const known = this.#open.get(file.path);
    if (known !== undefined) return known;
    try {
      const reader = SegmentReader.open(file.path, this.#key, this.#cache);
      const opened: OpenedSegment = { reader, shift: file.shift, runs: [] };
      this.#open.set(file.path, opened);
      return opened;
    } catch (thrown) {
      if (thrown instanceof SegmentDamage) this.#setAside(file);
      // The segment has been merged into another one since the folder was read.
      else if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw thrown;
      return null;
    }
  }

  /** Marks a segment as damaged, so that the writer rebuilds it. */
  #setAside({ path }: SegmentFile): void {
    this.#open.get(path)?.reader.close();
    this.#open.delete(path);
    try {
      writeFileSync(damagePath(path), '', { mode: 0o600 });
    } catch {
      // The folder is not writable. The writer finds the damage itself at its next start.
    }
  }
}

/** Counts the exchanges that the searched segments do not cover, or cover only in part. */
class MissingExchanges {
  readonly #covered: SegmentFile[] = [];
  /** Number of exchanges of which only the beginning is searchable. */
  cut = 0;

  cover(file: SegmentFile, cut: number): void {
    this.#covered.push(file);
    this.cut += cut;
  }

  /** Counts those exchanges of the ranges that are not searchable. */
  countAll(ranges: readonly { first_id: number; last_id: number }[]): number {
    return ranges.reduce((sum, { first_id, last_id }) => sum + this.count(first_id, last_id), 0);
  }

  /** Counts those exchanges of a range that are not searchable. */
  count(firstId: number, lastId: number): number {
    let missing = Math.max(0, lastId - firstId + 1);
    let next = firstId;
    for (const { first_id, last_id } of this.#covered) {
      const from = Math.max(next, first_id);
      const to = Math.min(lastId, last_id);
      if (to < from) continue;
      missing -= to - from + 1;
      next = to + 1;
    }
    return missing;
  }
}

function findInSegment(segment: SegmentReader, { words, is_prefix }: TextTerm): number[] {
  const lists = words.map(({ word }, at) => {
    if (!is_prefix || at < words.length - 1) return segment.find(word);
    const found = segment.findPrefix(word, PREFIX_WORDS);
    if (found === null)
      throw new TextQueryError(
        `More than ${PREFIX_WORDS} words begin with ${word}: search for a longer beginning`,
      );
    return found;
  });
  lists.sort((a, b) => a.length - b.length);
  return lists.reduce(intersect);
}

/** Returns the ids that are in both lists. @param few ascending, like `many` */
function intersect(few: readonly number[], many: readonly number[]): number[] {
  const both: number[] = [];
  let at = 0;
  for (const id of few) {
    while (at < many.length && many[at]! < id) at++;
    if (many[at] === id) both.push(id);
  }
  return both;
}

function addMatches(
  term: { ids: number[]; runs: number[] },
  { reader, runs, shift }: OpenedSegment,
  ids: readonly number[],
): void {
  const { first_id } = reader.contents;
  for (const id of ids) {
    const at = id - first_id;
    term.ids.push(id + shift);
    term.runs.push(runs[Math.floor(at / RUN_BLOCK)]![at % RUN_BLOCK]!);
  }
}

/** The matches of a query. */
export class TextMatches {
  readonly query: TextQuery;
  readonly missing: MissingExchanges;
  readonly #terms: readonly TermMatches[];
  readonly #numbers: RunNumbers;
  /**
   * For each run, by its number: how many terms of the query the run contains, counted up to the first term that it
   * lacks.
   */
  readonly #held: Uint8Array;
  /** Number of runs that contain all terms. If `needs_reading`, some of these may lack a phrase. */
  readonly runs: number;

  constructor(
    query: TextQuery,
    terms: readonly TermMatches[],
    missing: MissingExchanges,
    numbers: RunNumbers,
  ) {
    this.query = query;
    this.missing = missing;
    this.#terms = terms;
    this.#numbers = numbers;
    const held = new Uint8Array(numbers.size);
    for (const [at, { runs }] of terms.entries())
      for (const run of runs) if (held[run] === at) held[run] = at + 1;
    // Exchanges without a run do not count as a run.
    held[0] = 0;
    this.#held = held;
    this.runs = held.reduce((sum, count) => sum + (count === terms.length ? 1 : 0), 0);
  }

  /** Whether texts must be read to confirm a match, because the query has a phrase. */
  get needs_reading(): boolean {
    return this.query.some(({ words }) => words.length > 1);
  }

  /**
   * Finds the number of a run that may contain all terms; 0 if it does not.
   * @param key `runKey` of the run
   */
  findRun(key: number): number {
    if (this.runs === 0) return 0;
    const run = this.#numbers.find(key) ?? 0;
    return this.#held[run] === this.#terms.length ? run : 0;
  }

  /** Yields the exchanges of a run that may contain the query's term with that index, latest first. */
  *hitsOf(at: number, run: number): Generator<number> {
    const { ids, runs } = this.#terms[at]!;
    for (let i = ids.length - 1; i >= 0; i--) if (runs[i] === run) yield ids[i]!;
  }

  /**
   * For each run that contains all terms, yields the latest of its exchanges with the rarest term. An exchange without a
   * run is yielded if it contains all terms itself. The latest exchanges come first.
   */
  *newest(): Generator<{ id: number; run: number }> {
    const few = this.#terms.reduce((a, b) => (b.ids.length < a.ids.length ? b : a));
    const told = new Uint8Array(this.#held.length);
    for (let i = few.ids.length - 1; i >= 0; i--) {
      const run = few.runs[i]!;
      const id = few.ids[i]!;
      if (run === 0) {
        if (this.#terms.every(({ ids }) => ids[placeBehind(ids, id) - 1] === id)) yield { id, run };
      } else if (this.#held[run] === this.#terms.length && told[run] === 0) {
        told[run] = 1;
        yield { id, run };
      }
    }
  }
}

/** Returns how many of the ascending ids are at most `id`. */
function placeBehind(ids: readonly number[], id: number): number {
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ids[middle]! <= id) low = middle + 1;
    else high = middle;
  }
  return low;
}
