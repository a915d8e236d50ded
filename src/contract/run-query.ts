/** The query of a list of runs, and a run's status. Data; any thread. */
import { z } from 'zod';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { RUN_QUERY_BOUNDS } from '../domain/run-query/run-query.ts';
import { RUN_ENDERS, RUN_STATUSES } from '../domain/run-status-name.ts';
import { text } from './fields.ts';

export const runQueryField = text({ max: RUN_QUERY_BOUNDS.characters })
  .nullish()
  .describe(
    'A query such as `status:failed tool:run_tests cost:>0.5 "date parser" since:7d sort:cost`; words without a field are searched for',
  );

export const statusFields = {
  status: z
    .enum(RUN_STATUSES)
    .describe(
      '`failed`: by the word of a person or the agent; `error`: the last call failed; `running`; `ok`; `unknown`',
    ),
  ended_by: z.enum(RUN_ENDERS).nullable().describe('Who ended it; null: it is running, or unknown'),
  status_words: z.string().describe('Why it has this status'),
};

export const firedCounts = z
  .object(Object.fromEntries(MONITOR_NAMES.map((monitor) => [monitor, z.int()])))
  .describe('Steps at which each monitor fired');
