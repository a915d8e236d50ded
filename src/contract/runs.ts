/** Runs that are monitored step by step (document 2, Monitor run, Step, Score bundle). Data; any thread. */
import { z } from 'zod';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { flag, freeObject, identifier, integer, literal, printable, text } from './fields.ts';
import {
  RUN_NAME_CHARACTERS,
  RUN_OUTCOME_CHARACTERS,
  RUN_TASK_CHARACTERS,
  STEP_TEXT_CHARACTERS,
  STEP_TOKENS_MAX,
} from './limits.ts';

/** The project of the new object. Ignored with a project's key, which determines the project. */
export const projectField = { project_id: identifier().nullish() };

/** A name that a person or program chose, and that may be empty. It is shown and compared but never looked up. */
const name = () => text({ max: RUN_NAME_CHARACTERS });

export const runParams = z.object({ id: identifier() });

export const runStartBody = z
  .object({
    ...projectField,
    run_id: identifier(),
    agent_name: name().default(''),
    task: text({ max: RUN_TASK_CHARACTERS }).default(''),
    model: name().default(''),
    framework: name().default('custom'),
    task_profile: identifier().default('coding'),
    codebase_id: text({ max: ID_CHARACTERS }).default(''),
    metadata: freeObject().nullish(),
    /** An identifier, or empty. */
    experiment_id: printable({ max: ID_CHARACTERS }).nullish(),
    arm: literal(['on', 'off', '']).nullish(),
    assignment_unit: name().nullish(),
    svc_version: name().nullish(),
  })
  .meta({ id: 'RunStart' });

const runStartReply = z
  .object({ run_id: z.string(), status: z.literal('running'), started_at: z.string() })
  .meta({ id: 'RunStarted' });

const stepText = () => text({ max: STEP_TEXT_CHARACTERS }).default('');

/** A text of a step. null: the sender does not know the text. Empty, or no such field: there is no text. */
const knownText = () => text({ max: STEP_TEXT_CHARACTERS }).nullable().default('');

/** The texts of a step, logged or evaluated. */
export const stepFields = {
  action: stepText(),
  action_input: knownText(),
  thought: stepText(),
  observation: knownText(),
  is_error: flag().default(false),
  tokens: integer({ ge: 0, le: STEP_TOKENS_MAX }).default(0),
};

export const stepBody = z.object({ step_index: integer({ ge: 0 }), ...stepFields }).meta({ id: 'Step' });

/** The score of every monitor, by the monitor's name, in [0, 1]. */
export const scoresSchema = z
  .object(Object.fromEntries(MONITOR_NAMES.map((monitor) => [monitor, z.number().min(0).max(1)])))
  .meta({ id: 'Scores' });

/** The monitors' scores of a step. */
export const scoreFields = {
  scores: scoresSchema,
  total_score: z
    .number()
    .min(0)
    .max(1)
    .describe(
      'Mean of the scores, weighted by the profile. A single monitor changes it little: watch max_score',
    ),
  fired: z.array(z.enum(MONITOR_NAMES)).describe('Monitors whose score reached its threshold in the profile'),
  max_score: z.number().min(0).max(1).describe('The highest of the scores'),
  alarm: z.boolean().describe('Whether any monitor fired'),
};

const scoreBundle = z.object(scoreFields).meta({ id: 'ScoreBundle' });

export const finishBody = z
  .object({ outcome: text({ min: 1, max: RUN_OUTCOME_CHARACTERS }) })
  .meta({ id: 'RunFinish' });

const finishReply = z
  .object({
    run_id: z.string(),
    status: z.literal('finished'),
    outcome: z.string(),
    steps: z.int(),
    tokens: z.int(),
    duration_ms: z.number(),
    max_total_score: z.number(),
    fired: z.object(Object.fromEntries(MONITOR_NAMES.map((monitor) => [monitor, z.int()]))),
  })
  .meta({ id: 'RunFinished' });

const notFound = { description: 'No such run, or not yours', schema: errorBody };

export const RUNS = {
  startRun: endpoint({
    id: 'startRun',
    method: 'POST',
    path: '/v1/monitor/runs',
    aliases: ['/monitor/runs'],
    auth: 'bearer',
    summary: 'Starts a run; a repetition gets the same answer',
    tag: 'runs',
    body: runStartBody,
    replies: {
      200: { description: 'The run accepts steps', schema: runStartReply },
      409: { description: 'Another start used this run_id', schema: errorBody },
    },
  }),
  logStep: endpoint({
    id: 'logStep',
    method: 'POST',
    path: '/v1/monitor/runs/{id}/steps',
    aliases: ['/monitor/runs/{id}/steps'],
    auth: 'bearer',
    summary: 'Logs a step and scores it; a repetition gets the same answer',
    tag: 'runs',
    params: runParams,
    body: stepBody,
    replies: {
      200: { description: 'Scores of the run at this step', schema: scoreBundle },
      404: notFound,
      409: { description: 'The run is finished', schema: errorBody },
    },
  }),
  finishRun: endpoint({
    id: 'finishRun',
    method: 'POST',
    path: '/v1/monitor/runs/{id}/finish',
    aliases: ['/monitor/runs/{id}/finish'],
    auth: 'bearer',
    summary: 'Ends a run with an outcome; a repetition gets the same answer',
    tag: 'runs',
    params: runParams,
    body: finishBody,
    replies: {
      200: { description: 'Totals of the run', schema: finishReply },
      404: notFound,
      409: { description: 'The run is finished with another outcome', schema: errorBody },
    },
  }),
} as const;
