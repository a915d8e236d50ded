/** A piece of text of an exchange, where it stands, and what a search shows of it. Data; any thread. */

/** Where a text stands. `body`: the exchange is no model turn, or its turn cannot be read. */
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
  /** System prompt and definitions of tools, which every request of a run repeats. */
  setup: PlacedText[];
  /** One list for each message of the request. */
  messages: PlacedText[][];
  answer: PlacedText[];
}

/** A place where a term of a search was found. */
export interface FoundText {
  exchange_id: number;
  place: TextPlace;
  /** What stands before it, what was found, and what stands behind it; white space is a single space. */
  before: string;
  match: string;
  after: string;
}

/** A run, or an exchange without a run, in which a search found all terms. */
export interface TextHit {
  /** null: the exchange belongs to no run. */
  run_id: string | null;
  /** The exchange that `found` begins with. */
  exchange_id: number;
  started_at: string;
  model: string | null;
  /** One for each term. */
  found: FoundText[];
}

/** What a search has looked through. */
export interface SearchedExchanges {
  /** Captured exchanges that are not in the index yet; the search may have missed something in them. */
  not_searched: number;
  /** Exchanges so long that their ends are not in the index. */
  cut: number;
}
