/**
 * A piece of an exchange's text with its place, and what a search shows of it. Data; any thread.
 */

/** Where a text is. `body`: the exchange is not a model turn, or its turn cannot be read. */
export const TEXT_PLACES = [
  'prompt',
  'answer',
  'thinking',
  'tool_call',
  'tool_result',
  'error',
  'system',
  'tools',
  'body',
] as const;

export type TextPlace = (typeof TEXT_PLACES)[number];

export interface PlacedText {
  place: TextPlace;
  text: string;
}

/** The texts of an exchange. */
export interface ExchangeTexts {
  /** System prompt and tool definitions, which every request of a run repeats. */
  setup: PlacedText[];
  /** One list for each message of the request. */
  messages: PlacedText[][];
  answer: PlacedText[];
}

/** A place where a search term was found. */
export interface FoundText {
  exchange_id: number;
  place: TextPlace;
  /** The text before the match, the match, and the text after it, each with white space collapsed. */
  before: string;
  match: string;
  after: string;
}

/** A run, or an exchange without a run, that contains all terms of a search. */
export interface TextHit {
  /** null: the exchange belongs to no run. */
  run_id: string | null;
  /** The exchange that `found` begins with. */
  exchange_id: number;
  started_at: string;
  model: string | null;
  /** A place for each term of the search. */
  found: FoundText[];
}

/** The exchanges that a search has examined. */
export interface SearchedExchanges {
  /** Captured exchanges that are not indexed yet; the search may have missed matches in them. */
  not_searched: number;
  /** Exchanges too long to be indexed to their end. */
  cut: number;
}
