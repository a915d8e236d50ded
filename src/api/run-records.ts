/** Handlers of `contract/run-records.ts`: runs and steps out of their tables. Server threads. */
import type { z } from 'zod';
import { RunClient } from '../../actors/run/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { RUN_RECORDS, runRecord, stepRecord } from '../contract/run-records.ts';
import { findMaxScore } from '../domain/evaluation.ts';
import type { MonitorName, MonitorScores } from '../domain/monitors/names.ts';
import {
  passesFilter,
  placeOfKey,
  RUN_LISTS,
  type RunFilter,
  type RunListRow,
  runListPrefix,
} from '../domain/run-list.ts';
import {
  RUN_STARTS,
  RUN_STEPS,
  RUNS,
  type RunRow,
  type RunStartRow,
  type RunStepRow,
  runKey,
} from '../domain/run-rows.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { TableReader, Tables } from '../storage/tables.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { readListPage } from './list-page.ts';

type RunRecord = z.output<typeof runRecord>;
type StepRecord = z.output<typeof stepRecord>;

export function runRecordHandlers(services: {
  asker: Asker;
  stores: { runs: Tables };
}): HandlersOf<typeof RUN_RECORDS> {
  const actors = new RunClient(services.asker);
  const { runs } = services.stores;

  /** Totals of a run that goes on are its actor's; where it cannot be asked now, those of its start stand. */
  const describe = async (tenant: Tenant, row: RunRow): Promise<RunRecord> => {
    const totals =
      row.status === 'running' ? await actors.totals(tenant, row.run_id).catch(() => null) : null;
    // It may have finished in between: the outcome then comes with the next look at its row.
    const counted = totals === null || totals.outcome !== '' ? row : { ...row, ...totals };
    return describeRun(counted, runs.get<RunStartRow>(RUN_STARTS, [row.org_id, row.run_id]));
  };

  return {
    async listRuns({ tenant, query }) {
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? query.project_id ?? null;
      const filter: RunFilter = {
        outcome: query.outcome ?? null,
        status: query.status ?? null,
        task_profile: query.task_profile ?? null,
        agent_name: query.agent_name ?? null,
        fired: query.fired ?? null,
      };
      const after =
        readCursor(query.cursor, ['number', { max: ID_CHARACTERS }]) ??
        (query.to == null ? null : [Date.parse(query.to)]);
      const from_ms = query.from == null ? Number.NEGATIVE_INFINITY : Date.parse(query.from);
      const prefix = runListPrefix(org_id, project_id);
      const range = { table: RUN_LISTS, prefix, after, from_ms, limit: query.limit };
      const { found, last } = readListPage<RunListRow, RunRow>(runs, range, ({ row, value }) => {
        const { run_id } = placeOfKey(row);
        const run = runs.get<RunRow>(RUNS, runKey({ org_id, project_id: value.project_id, run_id }));
        return run !== undefined && passesFilter(run, filter) ? run : undefined;
      });
      return {
        body: {
          runs: await Promise.all(found.map((row) => describe(tenant, row))),
          next_cursor: last === null ? null : writeCursor(last),
        },
      };
    },

    async readRun({ tenant, params }) {
      return { body: await describe(tenant, findRun(runs, tenant, params.id).row) };
    },

    listRunSteps({ tenant, params, query }) {
      const { row } = findRun(runs, tenant, params.id);
      const prefix = [row.org_id, row.run_id];
      const place = readCursor(query.cursor, ['number']);
      const after = place === null ? {} : { after: [...prefix, ...place] };
      const rows = [...runs.range<RunStepRow>(RUN_STEPS, { prefix, ...after, limit: query.limit + 1 })];
      const steps = rows.slice(0, query.limit);
      const isLast = rows.length <= query.limit;
      return {
        body: {
          steps: steps.map((step) => describeStep(step.row[2] as number, step.value)),
          next_cursor: isLast ? null : writeCursor([steps.at(-1)!.row[2]!]),
        },
      };
    },
  };
}

/** @throws CatalogueError `not_found`, the same for a run that is not there and one of somebody else's project */
function findRun(runs: TableReader, { org_id, project_id }: Tenant, runId: string): { row: RunRow } {
  const start = runs.get<RunStartRow>(RUN_STARTS, [org_id, runId]);
  const isSeen = start !== undefined && (project_id === null || start.project_id === project_id);
  const row = isSeen
    ? runs.get<RunRow>(RUNS, runKey({ org_id, project_id: start.project_id, run_id: runId }))
    : undefined;
  if (row === undefined) throw new CatalogueError('not_found', 'Run not found');
  return { row };
}

function describeRun(row: RunRow, start: RunStartRow | undefined): RunRecord {
  const { org_id: _org, assignment_unit: _unit, svc_version: _version, ...told } = row;
  return { ...told, task: start?.task ?? '' };
}

function describeStep(stepIndex: number, row: RunStepRow): StepRecord {
  const { answer, at, is_error, tokens, copy, intervention = null } = row;
  const said = JSON.parse(answer) as {
    scores: MonitorScores;
    total_score: number;
    fired: MonitorName[];
  };
  // Older rows do not have these two.
  const max_score = findMaxScore(said.scores);
  const alarm = said.fired.length > 0;
  return { step_index: stepIndex, ...copy, is_error, tokens, at, ...said, max_score, alarm, intervention };
}
