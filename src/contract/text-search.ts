/** The answer of a full-text search over the captures. Data; any thread. */
import { z } from 'zod';
import { TEXT_PLACES } from '../domain/placed-text.ts';
import { nextCursor } from './fields.ts';

/** Maximum length of a searched text. */
export const TEXT_SEARCH_CHARACTERS = 1_000;

const foundText = z.object({
  exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
  place: z
    .enum(TEXT_PLACES)
    .describe(
      'The part of the exchange that contains the match; `body`: the exchange is not a model turn, or cannot be read as a turn',
    ),
  before: z.string().describe('The text before the match'),
  match: z.string().describe('The text that was found'),
  after: z.string().describe('The text after the match'),
});

export const runText = foundText.extend({ run_id: z.string() }).meta({ id: 'CapturedRunText' });

const textHit = z
  .object({
    run_id: z.string().nullable().describe('null: the exchange belongs to no run'),
    exchange_id: z.int().describe('The latest exchange with the rarest of the terms'),
    started_at: z.string().describe('When that exchange began'),
    model: z.string().nullable().describe('Model that answered that exchange'),
    found: z.array(foundText).describe('One match for each term of the search'),
  })
  .meta({ id: 'CaptureTextHit' });

export const searchedExchanges = z
  .object({
    not_searched: z
      .int()
      .describe('Captured exchanges that are not indexed yet; the search did not cover them'),
    cut: z.int().describe('Exchanges that are too long to be indexed beyond their beginning'),
  })
  .meta({ id: 'SearchedExchanges' });

export const textHitPage = z
  .object({
    hits: z.array(textHit).describe('One match per run, latest first'),
    next_cursor: nextCursor,
    runs: z
      .int()
      .describe(
        'Number of runs that contain all words of the search. The words of a phrase are counted even if they are not adjacent',
      ),
    searched: searchedExchanges,
  })
  .meta({ id: 'CaptureTextHitPage' });
