/** How captured turns used the provider's prompt cache (docs/cache-doctor.md). Data; any thread. */
import { z } from 'zod';
import { CACHE_ROWS, CACHE_VERDICTS, MISS_CAUSES, type MissCause } from '../domain/cache-miss.ts';
import { notIndexed } from './not-indexed.ts';

const cause = z
  .enum(Object.keys(MISS_CAUSES) as [MissCause, ...MissCause[]])
  .describe('Stable name of the cause');
const dollars = z.number().nullable();

const cacheLook = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    started_at: z.string(),
    agent: z
      .string()
      .describe(
        'The agent, identified by its tools or by the first words of its system prompt; empty if the request has neither',
      ),
    verdict: z
      .enum(CACHE_VERDICTS)
      .describe(
        '`hit`: the turn read everything that the cache had for it; `miss`: the turn read less; `first`: no earlier prompt has the same beginning; `too_short`: the prompt is too short to be cached; `not_told`: the answer reports no cache counts',
      ),
    compared_with: z
      .int()
      .nullable()
      .describe(
        'The earlier exchange whose cached prompt the turn could have read; null: no earlier prompt has the same beginning',
      ),
    expected_tokens: z
      .number()
      .nullable()
      .describe('Tokens that the provider had cached of the prompt of `compared_with`; null: unknown'),
    read_tokens: z
      .int()
      .nullable()
      .describe('Tokens that the turn read from the cache; null: not reported by the provider'),
    lost_tokens: z.number().describe('Tokens that the turn could have read from the cache but did not'),
    is_estimate: z.boolean().describe('Whether the tokens are estimated from the length of the texts'),
    cause: cause
      .nullable()
      .describe('Why the turn read less than it could; null: the turn did not miss the cache'),
    words: z.string().describe('The cause in words, with the figures that prove it; empty without a cause'),
    difference: z
      .object({
        place: z.string().describe('`tool 3 (Read)`, `system`, `message 12, block 2`'),
        offset: z.int().describe('Number of unchanged characters before the difference, in that part'),
        before: z.string().describe('The earlier text, from shortly before the difference'),
        after: z.string().describe('The text of this turn'),
      })
      .nullable()
      .describe('Where the two prompts begin to differ; null: they do not differ, or the model changed'),
    cost_usd: dollars.describe(
      'Additional cost of the miss in dollars; null: no price is known, or nothing was lost',
    ),
  })
  .meta({ id: 'CacheLook' });

/** Maximum length of an agent's name in a query. All names are shorter. */
export const AGENT_CHARACTERS = 1_000;

const totals = {
  turns: z.int().describe('Examined turns'),
  untold_turns: z.int().describe('Examined turns whose answers do not say what was read from the cache'),
  misses: z.int().describe('Examined turns that read less than they could have'),
  lost_tokens: z.number().describe('Tokens that these turns could have read from the cache but did not'),
  cost_usd: dollars.describe('Additional cost in dollars; null: no price is known, or nothing was missed'),
  unpriced_misses: z.int().describe('Misses that `cost_usd` leaves out'),
  is_estimate: z.boolean().describe('Whether some of the tokens are estimated'),
};

const causes = z
  .array(
    z.object({
      cause,
      words: z.string().describe('The cause in words'),
      agent: z
        .string()
        .describe('The agent, identified by its tools or by the first words of its system prompt'),
      place: z
        .string()
        .nullable()
        .describe('Where the prompts differ; null: this cause concerns no part of the prompt'),
      misses: z.int().describe('Misses with this cause'),
      lost_tokens: z.number().describe('Tokens that these misses lost'),
      cost_usd: dollars.describe('Additional cost in dollars; null: no price is known'),
      runs: z.array(z.string()).describe('Ids of some runs with these misses'),
    }),
  )
  .describe('Grouped by cause, agent and place; most expensive first');

const cacheReport = z.object({ ...totals, causes }).meta({ id: 'CacheReport' });

/** The turns of one run. */
export const runCacheReply = z
  .object({
    run_id: z.string(),
    is_whole: z.boolean().describe('false: the run is long, and only its first turns were examined'),
    turns: z.array(cacheLook).describe('Turns that an upstream answered, in the order of the run'),
    sum: cacheReport.describe('Sums over these turns'),
  })
  .meta({ id: 'RunCache' });

/** The sum over a period. */
export const cachePeriodReply = z
  .object({
    from_day: z.string().describe('The first UTC day'),
    to_day: z.string().describe('The last UTC day'),
    is_whole: z.boolean().describe('false: older turns of this period are not examined yet; ask again'),
    not_indexed: notIndexed,
    ...totals,
    days: z
      .int()
      .describe(
        'Number of UTC days from the first to the last day with examined turns. The cost divided by this number is the cost a day',
      ),
    causes,
    by_agent: z
      .array(z.object({ agent: z.string().describe('The agent; empty: unknown'), ...totals }))
      .describe(`The most expensive ${CACHE_ROWS} agents`),
    by_day: z
      .array(z.object({ day: z.string().describe('The UTC day'), ...totals }))
      .describe('Days with examined turns, oldest first'),
  })
  .meta({ id: 'CachePeriod' });
