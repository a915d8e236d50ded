/**
 * A page of a full-text search: runs, ordered by their latest match, with the matches. The index returns exchanges.
 * Their texts are read for two reasons: to show the matches, and to check whether the words of a phrase are adjacent.
 * Pure except for the source; capture reader, command line.
 */
import type { ExchangeTexts, FoundText, PlacedText, TextHit } from '../domain/placed-text.ts';
import { listExchangeTexts } from '../providers/turn-texts.ts';
import { findTerm, type TextTerm } from '../storage/text-index/text-query.ts';
import type { TextMatches } from '../storage/text-index/text-search.ts';
import type { ExchangeSource } from './exchange-source.ts';

/** Maximum number of a run's exchanges that are read to find a phrase, latest first. */
const READ_FOR_PHRASE = 200;
/** Maximum shown characters on each side of a match, and of the match itself. */
const AROUND_CHARS = 80;
const MATCH_CHARS = 200;

interface HitPage {
  hits: TextHit[];
  /** The exchange that the page ended with; null if no more runs match. */
  next: number | null;
}

/**
 * Reads a page of matches. If the time runs out, the page is short; each page advances by at least one run.
 * @param before the page has matches before this exchange; null: begin with the latest match
 */
export function readHitPage(
  source: ExchangeSource,
  matches: TextMatches,
  { limit, before }: { limit: number; before: number | null },
  hasTime: (found: number) => boolean,
): HitPage {
  const reader = new HitReader(source, matches);
  const hits: TextHit[] = [];
  let last: number | null = before;
  let isFirst = true;
  for (const { id, run } of matches.newest()) {
    if (before !== null && id >= before) continue;
    if (hits.length === limit || !(isFirst || hasTime(hits.length))) return { hits, next: last };
    isFirst = false;
    last = id;
    const hit = reader.read(id, run);
    if (hit !== null) hits.push(hit);
  }
  return { hits, next: null };
}

/** Finds the matches of a query's terms in texts. */
export class HitReader {
  readonly #source: ExchangeSource;
  readonly #matches: TextMatches;
  /** The exchange that was read last. */
  #read: { id: number; texts: PlacedText[] } | null = null;

  constructor(source: ExchangeSource, matches: TextMatches) {
    this.#source = source;
    this.#matches = matches;
  }

  /**
   * Reads the matches in a run, or in an exchange without a run.
   * @param run number of the run; 0: without a run
   * @param id the exchange with the match, which is read first
   * @returns null if the exchange cannot be read, or if a term is in none of the texts that are read
   */
  read(id: number, run: number): TextHit | null {
    const record = this.#source.exchange(id);
    if (record === undefined) return null;
    const found: FoundText[] = [];
    for (const [at, term] of this.#matches.query.entries()) {
      const place = this.#findTerm(at, term, id, run);
      if (place === null) return null;
      found.push(place);
    }
    const { run_id, started_at, model } = record;
    return { run_id, exchange_id: id, started_at, model, found };
  }

  #findTerm(at: number, term: TextTerm, id: number, run: number): FoundText | null {
    // The exchange with the match is shown in any case. It is read first, because it usually contains all terms.
    const first = this.#findIn(id, term);
    if (first !== null) return first;
    if (run === 0) return null;
    let left = READ_FOR_PHRASE;
    for (const other of this.#matches.hitsOf(at, run)) {
      if (left-- === 0) return null;
      const found = other === id ? null : this.#findIn(other, term);
      if (found !== null) return found;
    }
    return null;
  }

  #findIn(id: number, term: TextTerm): FoundText | null {
    for (const { place, text } of this.#textsOf(id)) {
      const found = findTerm(text, term);
      if (found !== null) return { exchange_id: id, place, ...cutAround(text, found) };
    }
    return null;
  }

  /** Reads the texts of an exchange, the latest first, because the new part of an exchange is at its end. */
  #textsOf(id: number): PlacedText[] {
    if (this.#read?.id === id) return this.#read.texts;
    const copy = this.#source.copy(id);
    const texts = copy === undefined ? [] : orderTexts(listExchangeTexts(copy));
    this.#read = { id, texts };
    return texts;
  }
}

function orderTexts({ setup, messages, answer }: ExchangeTexts): PlacedText[] {
  return [...answer, ...messages.toReversed().flat(), ...setup];
}

/** A match with the text around it. */
function cutAround(
  text: string,
  { start, end }: { start: number; end: number },
): Pick<FoundText, 'before' | 'match' | 'after'> {
  const cut = (from: number, to: number): string => text.slice(from, to).toWellFormed().replace(/\s+/gu, ' ');
  const from = Math.max(0, start - AROUND_CHARS);
  const to = Math.min(text.length, end + AROUND_CHARS);
  return {
    before: `${from > 0 ? '…' : ''}${cut(from, start)}`,
    match: cut(start, Math.min(end, start + MATCH_CHARS)),
    after: `${cut(end, to)}${to < text.length ? '…' : ''}`,
  };
}
