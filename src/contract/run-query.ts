/** The query of a list of runs, and a run's status. Data; any thread. */
import { z } from 'zod';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { VALUE_FIELDS } from '../domain/run-query/count-values.ts';
import { RUN_QUERY_BOUNDS } from '../domain/run-query/run-query.ts';
import { RUN_ENDERS, RUN_STATUSES } from '../domain/run-status-name.ts';
import { integer, literal, text } from './fields.ts';

export const runQueryField = text({ max: RUN_QUERY_BOUNDS.characters })
  .nullish()
  .describe(
    'A query such as `status:failed tool:run_tests cost:>0.5 "date parser" since:7d sort:cost`; words without a field are searched for',
  );

export const statusFields = {
  status: z
    .enum(RUN_STATUSES)
    .describe(
      '`failed`: a person or the agent said that the run failed; `error`: the last call failed; `running`; `ok`; `unknown`',
    ),
  ended_by: z
    .enum(RUN_ENDERS)
    .nullable()
    .describe('Who ended the run; null: the run is still running, or it is unknown'),
  status_words: z.string().describe('Why the run has this status'),
};

export const firedCounts = z
  .object(Object.fromEntries(MONITOR_NAMES.map((monitor) => [monitor, z.int()])))
  .describe('Steps at which each monitor fired');

/** Number of values in an answer: the default, and the most that a request may ask for. */
const VALUES = { usual: 20, most: 100 } as const;

/** Query parameters of a list of the values of a field. */
export const valueQueryFields = {
  field: literal(VALUE_FIELDS).describe('A field of the query language'),
  contains: text({ max: 200 }).nullish().describe('Only values that contain this text, ignoring case'),
  q: runQueryField,
  limit: integer({ ge: 1, le: VALUES.most }).default(VALUES.usual).describe('Maximum number of values'),
};

export const countedValues = z
  .object({
    values: z
      .array(
        z.object({
          value: z.string().describe('The value, as it is written in a query'),
          runs: z.int().describe('Number of matching runs with this value'),
        }),
      )
      .describe('The most frequent first'),
    is_whole: z.boolean().describe('false: there are more values, or runs that were not examined'),
  })
  .meta({ id: 'RunValues' });
