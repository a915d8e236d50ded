/** Experiments: whether runs of the `on` arm fare better than those of `off` (document 2). Data; any thread. */

import { z } from 'zod';
import { endpoint } from './endpoint.ts';
import { cursorFields, decimal, identifier, nextCursor } from './fields.ts';
import { CURSOR_CHARACTERS } from './limits.ts';

const interval = z.tuple([z.number(), z.number()]).nullable();

const armReport = z
  .object({
    runs: z.int(),
    finished: z.int(),
    successes: z.int(),
    success_rate: z.number().nullable(),
    ci95: interval,
    mean_steps: z.number().nullable(),
    mean_tokens: z.number().nullable(),
    mean_duration_ms: z.number().nullable(),
  })
  .meta({ id: 'ExperimentArm' });

export const experimentReport = z
  .object({
    experiment_id: z.string(),
    arms: z.object({ on: armReport, off: armReport }),
    effect: z.object({
      success_rate_diff: z.number().nullable(),
      ci95: interval,
      p_value: z.number().nullable(),
      always_valid_ci95: interval,
    }),
    srm: z.object({
      expected_on: z.number(),
      observed_on: z.number().nullable(),
      chi_square: z.number().nullable(),
      p_value: z.number().nullable(),
      log10_p_value: z
        .number()
        .nullable()
        .describe('Logarithm of the p-value; finite even if the p-value itself is too small for a number'),
      flagged: z.boolean().describe('Whether the split differs from the intended one (p < 0.001)'),
      units: z
        .object({ on: z.int(), off: z.int() })
        .describe('Units in each arm; a unit with runs in both arms counts in its first arm'),
      verdict: z
        .enum(['no_units', 'too_few_units', 'as_expected', 'mismatch'])
        .describe('too_few_units: fewer than 8 units are expected in an arm, too few for the test'),
    }),
    mixed_units: z
      .int()
      .describe('Units with runs in both arms. The effect counts only the runs of the first arm of each'),
    mixed_unit_names: z.array(z.string()).describe('Names of the first 50 units with runs in both arms'),
    by_version: z.array(
      z.object({
        svc_version: z.string(),
        arm: z.enum(['on', 'off']),
        runs: z.int(),
        successes: z.int(),
        success_rate: z.number().nullable(),
      }),
    ),
  })
  .meta({ id: 'ExperimentReport' });

export const EXPERIMENTS = {
  listExperiments: endpoint({
    id: 'listExperiments',
    method: 'GET',
    path: '/v1/monitor/experiments',
    aliases: ['/monitor/experiments'],
    auth: 'bearer',
    summary:
      'Experiments that have runs, in descending order of id; with a project filter a page may be short',
    tag: 'experiments',
    query: z.object({
      project_id: identifier().nullish().describe('Only experiments with runs of this project'),
      ...cursorFields(CURSOR_CHARACTERS),
    }),
    replies: {
      200: {
        description: 'A page of experiments',
        schema: z
          .object({ experiments: z.array(z.object({ experiment_id: z.string() })), next_cursor: nextCursor })
          .meta({ id: 'ExperimentPage' }),
      },
    },
  }),
  reportExperiment: endpoint({
    id: 'reportExperiment',
    method: 'GET',
    path: '/v1/monitor/experiments/{experiment_id}/report',
    aliases: ['/monitor/experiments/{experiment_id}/report'],
    auth: 'bearer',
    summary: 'The present report of an experiment; empty before its first run',
    tag: 'experiments',
    params: z.object({ experiment_id: identifier() }),
    // A share of 0 or 1 is refused, because it would put all units into one arm.
    query: z.object({ expected_on_share: decimal({ ge: 0.001, le: 0.999 }).default(0.5) }),
    replies: {
      200: { description: 'The report: success rates, effect, sample ratio', schema: experimentReport },
    },
  }),
} as const;
