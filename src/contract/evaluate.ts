/** Evaluation in the middle of a task (document 2, Evaluate response). Data; any thread. */
import { z } from 'zod';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { identifier, integer, list, text } from './fields.ts';
import { RUN_NAME_CHARACTERS, RUN_TASK_CHARACTERS } from './limits.ts';
import { projectField, scoreFields, scoresSchema, stepFields } from './runs.ts';

/** Maximum number of steps of one evaluation. */
export const EVALUATE_STEPS_MAX = 1_000;

/** A previous step. If it has no index, its position in the list is its index. */
const evaluateStep = z
  .object({ step_index: integer({ ge: 0 }).optional(), ...stepFields })
  .meta({ id: 'EvaluateStep' });

export const evaluateBody = z
  .object({
    ...projectField,
    model: text({ max: RUN_NAME_CHARACTERS }).default(''),
    task: text({ max: RUN_TASK_CHARACTERS }).default(''),
    task_profile: identifier().default('coding'),
    steps: list(evaluateStep, { max: EVALUATE_STEPS_MAX }).optional(),
    run_id: identifier().nullish(),
  })
  .check(({ value, issues }) => {
    if (value.steps !== undefined || value.run_id != null) return;
    issues.push({ code: 'custom', input: value, path: ['steps'], message: 'Field required' });
  })
  .meta({
    id: 'Evaluate',
    anyOf: [
      { required: ['steps'] },
      { required: ['run_id'], properties: { run_id: { type: 'string', description: 'The run' } } },
    ],
    description: 'Either `steps`, or the `run_id` of a run whose steps have been logged.',
  });

const evaluation = z
  .object({
    inject: z.boolean(),
    intervention_text: z.string(),
    failure_type: z.enum(['', ...MONITOR_NAMES]),
    level: z.enum(['', 'nudge', 'stop']).describe('nudge: change course; stop: the nudge did not help'),
    fired: z.array(z.enum(MONITOR_NAMES)),
    scores: scoresSchema,
    composite: z
      .number()
      .min(0)
      .max(1)
      .describe(
        'Mean of the scores, weighted by the profile. A single monitor changes it little: watch max_score',
      ),
    max_score: scoreFields.max_score,
    alarm: scoreFields.alarm,
  })
  .meta({ id: 'Evaluation' });

export const EVALUATE = {
  evaluate: endpoint({
    id: 'evaluate',
    method: 'POST',
    path: '/v1/monitors/evaluate',
    aliases: ['/monitors/evaluate'],
    auth: 'bearer',
    writes: false,
    summary: 'Decides whether the agent should change course, and returns the text for the agent',
    tag: 'runs',
    body: evaluateBody,
    replies: {
      200: { description: 'Scores of the last step, and the intervention', schema: evaluation },
      404: { description: 'No such run, or not yours', schema: errorBody },
    },
  }),
} as const;
