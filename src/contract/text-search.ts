/** What a full-text search over the captures answers. Data; any thread. */
import { z } from 'zod';
import { TEXT_PLACES } from '../domain/placed-text.ts';
import { nextCursor } from './fields.ts';

/** Length of a search. */
export const TEXT_SEARCH_CHARACTERS = 1_000;

const foundText = z.object({
  exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
  place: z
    .enum(TEXT_PLACES)
    .describe('Where it stands; `body`: the exchange is no model turn, or cannot be read as one'),
  before: z.string().describe('What stands before it'),
  match: z.string().describe('What was found'),
  after: z.string().describe('What stands behind it'),
});

export const runText = foundText.extend({ run_id: z.string() }).meta({ id: 'CapturedRunText' });

const textHit = z
  .object({
    run_id: z.string().nullable().describe('null: the exchange belongs to no run'),
    exchange_id: z.int().describe('The latest exchange with the rarest of the terms'),
    started_at: z.string().describe('When that exchange began'),
    model: z.string().nullable().describe('Model that answered it'),
    found: z.array(foundText).describe('One place for each term of the search'),
  })
  .meta({ id: 'CaptureTextHit' });

export const searchedExchanges = z
  .object({
    not_searched: z
      .int()
      .describe('Captured exchanges that the index lacks; the search may have missed something in them'),
    cut: z.int().describe('Exchanges so long that the index has only their beginnings'),
  })
  .meta({ id: 'SearchedExchanges' });

export const textHitPage = z
  .object({
    hits: z.array(textHit).describe('Latest match first; one for each run'),
    next_cursor: nextCursor,
    runs: z
      .int()
      .describe('Runs that have all words of the search; those of a phrase may stand apart in them'),
    searched: searchedExchanges,
  })
  .meta({ id: 'CaptureTextHitPage' });
