/** Stored runs and their steps, as lists and singly. Data; any thread. */
import { z } from 'zod';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { cursorFields, literal, nextCursor, text, timestamp } from './fields.ts';
import { CURSOR_CHARACTERS, RUN_NAME_CHARACTERS, RUN_OUTCOME_CHARACTERS } from './limits.ts';
import { markFields } from './run-marks.ts';
import { countedValues, firedCounts, runQueryField, statusFields, valueQueryFields } from './run-query.ts';
import { projectField, runParams, scoreFields } from './runs.ts';

export const runRecord = z
  .object({
    run_id: z.string(),
    project_id: z.string(),
    task: z.string(),
    agent_name: z.string(),
    model: z.string(),
    framework: z.string(),
    task_profile: z.string(),
    codebase_id: z.string(),
    experiment_id: z.string(),
    arm: z.string(),
    status: z.enum(['running', 'finished']),
    outcome: z.string().describe('Empty while the run is running'),
    state: statusFields.status.describe(
      'The status that `status:` in a query matches: how the run ended, or that it is running',
    ),
    ended_by: statusFields.ended_by,
    state_words: statusFields.status_words,
    started_at: z.string(),
    finished_at: z.string().nullable(),
    duration_ms: z.number(),
    steps: z.int(),
    tokens: z.int(),
    max_total_score: z.number(),
    fired: firedCounts,
    ...markFields,
  })
  .meta({ id: 'Run' });

export const runPage = z
  .object({
    runs: z.array(runRecord),
    next_cursor: nextCursor,
    matched_runs: z
      .int()
      .nullable()
      .describe('Number of runs that match `q`, on all pages; null: not counted'),
    scanned_runs: z.int().describe('Number of runs that were searched for this page'),
    is_whole: z
      .boolean()
      .describe('false: older runs were not searched. Repeat the request, or request the next page'),
  })
  .meta({ id: 'RunPage' });

const storedIntervention = z.object({
  failure_type: z.string(),
  level: z.enum(['nudge', 'stop']),
  text: z.string(),
});

export const stepRecord = z
  .object({
    step_index: z.int(),
    action: z.string(),
    action_input: z.string().nullable(),
    thought: z.string(),
    observation: z.string().nullable(),
    is_error: z.boolean(),
    tokens: z.int(),
    at: z.string(),
    ...scoreFields,
    intervention: storedIntervention
      .nullable()
      .describe('The intervention that began or escalated with this step; null: none'),
  })
  .meta({ id: 'StepRecord' });

const stepPage = z.object({ steps: z.array(stepRecord), next_cursor: nextCursor }).meta({ id: 'StepPage' });

const notFound = { description: 'No such run, or not yours', schema: errorBody };

export const RUN_RECORDS = {
  listRuns: endpoint({
    id: 'listRuns',
    method: 'GET',
    path: '/v1/monitor/runs',
    aliases: ['/monitor/runs'],
    auth: 'bearer',
    summary:
      'Runs, newest first unless `q` has another order; a page may be short if few runs match a filter',
    tag: 'runs',
    query: z.object({
      ...projectField,
      ...cursorFields(CURSOR_CHARACTERS),
      outcome: text({ max: RUN_OUTCOME_CHARACTERS }).nullish(),
      status: literal(['running', 'finished']).nullish(),
      task_profile: text({ max: ID_CHARACTERS }).nullish(),
      agent_name: text({ max: RUN_NAME_CHARACTERS }).nullish(),
      fired: literal([...MONITOR_NAMES]).nullish(),
      from: timestamp().nullish(),
      to: timestamp().nullish(),
      q: runQueryField,
    }),
    replies: { 200: { description: 'A page of runs', schema: runPage } },
  }),
  listRunValues: endpoint({
    id: 'listRunValues',
    method: 'GET',
    path: '/v1/monitor/run-values',
    aliases: ['/monitor/run-values'],
    auth: 'bearer',
    summary:
      'Values of a field of the query language, with the number of runs for each: for completing a query',
    tag: 'runs',
    query: z.object({ ...projectField, ...valueQueryFields }),
    replies: { 200: { description: 'The values', schema: countedValues } },
  }),
  readRun: endpoint({
    id: 'readRun',
    method: 'GET',
    path: '/v1/monitor/runs/{id}',
    aliases: ['/monitor/runs/{id}'],
    auth: 'bearer',
    summary: 'One run, running or finished',
    tag: 'runs',
    params: runParams,
    replies: { 200: { description: 'The run', schema: runRecord }, 404: notFound },
  }),
  deleteRun: endpoint({
    id: 'deleteRun',
    method: 'DELETE',
    path: '/v1/monitor/runs/{id}',
    aliases: ['/monitor/runs/{id}'],
    auth: 'bearer',
    summary: 'Deletes a running or finished run with its steps; usage counts stay',
    tag: 'runs',
    params: runParams,
    replies: { 204: { description: 'Deleted: its run_id is free for a new run' }, 404: notFound },
  }),
  listRunSteps: endpoint({
    id: 'listRunSteps',
    method: 'GET',
    path: '/v1/monitor/runs/{id}/steps',
    aliases: ['/monitor/runs/{id}/steps'],
    auth: 'bearer',
    summary: 'The steps of a run in order, with the scores of the monitors',
    tag: 'runs',
    params: runParams,
    query: z.object({ ...cursorFields(CURSOR_CHARACTERS) }),
    replies: { 200: { description: 'A page of steps', schema: stepPage }, 404: notFound },
  }),
} as const;
