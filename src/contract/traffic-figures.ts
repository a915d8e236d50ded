/** Figures of captured traffic, grouped by model, agent, tool and so on. Data; any thread. */
import { z } from 'zod';
import { FIGURE_DIMENSIONS, FIGURE_ROWS } from '../domain/traffic-figures.ts';
import { costFields } from './cost-fields.ts';
import { notIndexed } from './not-indexed.ts';

const figures = {
  exchanges: z.int().describe('Requests with their answers'),
  turns: z.int().describe('Exchanges in which a model answered'),
  errors: z.int().describe('Exchanges without a whole answer, or with a status of 400 and above'),
  student_turns: z.int().describe('Turns that the student answered'),
  input_tokens: z.int().describe('Tokens of the requests, without cached ones'),
  output_tokens: z.int().describe('Tokens of the answers'),
  cache_read_tokens: z.int().describe('Tokens that providers read from their caches'),
  cache_write_tokens: z.int().describe('Tokens that providers wrote to their caches'),
  cache_share: z
    .number()
    .nullable()
    .describe('Share of all input tokens that came from a cache; null without input'),
  ...costFields,
  latency_p50_ms: z
    .number()
    .nullable()
    .describe('Median time of turns until the end of the answer, to within 2.5 %'),
  latency_p95_ms: z
    .number()
    .nullable()
    .describe('95th percentile of the time of turns until the end of the answer, to within 2.5 %'),
};

/** The answer of `/capture/figures`. */
export const figureReport = z
  .object({
    by: z.enum(FIGURE_DIMENSIONS).describe('How the rows are grouped'),
    from_day: z.string().describe('The first UTC day'),
    to_day: z.string().describe('The last UTC day'),
    is_whole: z.boolean().describe('false: older exchanges of this period are not read yet; ask again'),
    scanned: z.int().describe('Number of exchanges in the figures'),
    not_indexed: notIndexed,
    total: z.object(figures).describe('Totals of all rows'),
    rows: z
      .array(
        z.object({
          name: z.string().nullable().describe('The model, agent, …; null: unknown'),
          query: z
            .string()
            .nullable()
            .describe('Query that finds the runs of this row in the list of runs; null: no query finds them'),
          ...figures,
        }),
      )
      .describe(
        `The most expensive ${FIGURE_ROWS}; days in their order. A turn belongs to each tool that it called, so by \`tool\` the rows add up to more than the total`,
      ),
    others: z
      .object(figures)
      .nullable()
      .describe('Totals of what the rows leave out; null: nothing is left out'),
  })
  .meta({ id: 'TrafficFigures' });
