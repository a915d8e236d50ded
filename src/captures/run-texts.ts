/**
 * Full-text matches for the query of one page of the run list: which runs contain a text, and where. The index contains
 * only words, so only a run's texts show whether the words of a phrase are adjacent. Pure except for its sources;
 * capture reader.
 *
 * Memory: the matches for the texts of one query, and the places in the runs that were read.
 */
import type { FoundText, SearchedExchanges } from '../domain/placed-text.ts';
import type { Verdict } from '../domain/run-query/match.ts';
import type { NameValue } from '../domain/run-query/run-query.ts';
import { runKey } from '../storage/text-index/run-key.ts';
import { parseTextQuery, TextQueryError } from '../storage/text-index/text-query.ts';
import type { TextMatches, TextSearch } from '../storage/text-index/text-search.ts';
import type { ExchangeSource } from './exchange-source.ts';
import { HitReader } from './text-hits.ts';

/** The runs that contain a text. */
export interface RunsWithText {
  /** Whether the run contains the text; null when the run's texts must be read to know. */
  test(runId: string): Verdict;
  /** The same test by the run's `runKey`, for a test over all runs. */
  testKey(key: number): Verdict;
  /** Whether the index has the texts of an exchange. */
  covers(exchangeId: number): boolean;
  /**
   * Reads the texts of a run.
   * @returns the place of the text; null if the text was not found in what could be read of the run
   */
  read(runId: string): FoundText | null;
}

export class RunTexts {
  readonly #source: ExchangeSource;
  readonly #search: TextSearch;
  #found: FoundRuns[] = [];

  constructor(source: ExchangeSource, search: TextSearch) {
    this.#source = source;
    this.#search = search;
  }

  /** Begins a page: drops earlier matches. */
  begin(): void {
    this.#found = [];
    this.#search.refresh();
  }

  /**
   * Finds the runs that contain a text.
   * @returns null if the text has no word that an index could contain
   */
  find({ text, is_phrase }: NameValue): RunsWithText | null {
    try {
      // Parts of a word in a query must be adjacent, even outside a phrase.
      const query = parseTextQuery(is_phrase ? `"${text.replaceAll('"', ' ')}"` : text);
      const found = new FoundRuns(this.#source, this.#search.find(query));
      this.#found.push(found);
      return found;
    } catch (thrown) {
      // The list's own data may still contain it.
      if (thrown instanceof TextQueryError) return null;
      throw thrown;
    }
  }

  /**
   * Finds the places of the query's texts in a run. A text that there is no time to read is left out.
   * @param hasTime whether more texts may be read
   */
  placesIn(runId: string, hasTime: () => boolean): FoundText[] {
    const places: FoundText[] = [];
    for (const found of this.#found) {
      if (found.test(runId) === false) continue;
      if (!found.isRead(runId) && !hasTime()) continue;
      const place = found.read(runId);
      if (place !== null) places.push(place);
    }
    return places;
  }

  /**
   * Counts what the query could not search; null if the query searches no text in the index.
   * @param ranges the stored exchanges
   */
  searched(ranges: readonly { first_id: number; last_id: number }[]): SearchedExchanges | null {
    const missing = this.#found[0]?.missing;
    return missing === undefined ? null : { not_searched: missing.countAll(ranges), cut: missing.cut };
  }
}

class FoundRuns implements RunsWithText {
  readonly #matches: TextMatches;
  readonly #reader: HitReader;
  /** The places in runs that were read, by the run's number. */
  readonly #places = new Map<number, FoundText | null>();

  constructor(source: ExchangeSource, matches: TextMatches) {
    this.#matches = matches;
    this.#reader = new HitReader(source, matches);
  }

  get missing(): TextMatches['missing'] {
    return this.#matches.missing;
  }

  isRead(runId: string): boolean {
    return this.#places.has(this.#matches.findRun(runKey(runId)));
  }

  test(runId: string): Verdict {
    return this.testKey(runKey(runId));
  }

  testKey(key: number): Verdict {
    const run = this.#matches.findRun(key);
    if (run === 0) return false;
    if (!this.#matches.needs_reading) return true;
    const place = this.#places.get(run);
    return place === undefined ? null : place !== null;
  }

  covers(exchangeId: number): boolean {
    return this.#matches.missing.count(exchangeId, exchangeId) === 0;
  }

  read(runId: string): FoundText | null {
    const run = this.#matches.findRun(runKey(runId));
    const known = this.#places.get(run);
    if (known !== undefined) return known;
    const [latest] = run === 0 ? [] : this.#matches.hitsOf(0, run);
    const place = latest === undefined ? null : (this.#reader.read(latest, run)?.found[0] ?? null);
    this.#places.set(run, place);
    return place;
  }
}
