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
import { carryAudit } from '../storage/accounts/audit.ts';
import type { Stores } from '../storage/stores.ts';
import type { TableReader } from '../storage/tables.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { HiddenRuns } from './hidden-runs.ts';
import { readListPage } from './list-page.ts';
import { makeTenantAudit, tenantAuditActor } from './tenant-audit.ts';

type RunRecord = z.output<typeof runRecord>;
type StepRecord = z.output<typeof stepRecord>;

/** A run as its two rows have it. */
interface StoredRun {
  row: RunRow;
  start: RunStartRow | undefined;
}

export function runRecordHandlers(services: {
  asker: Asker;
  stores: Stores;
  deleted: DeletedView;
}): HandlersOf<typeof RUN_RECORDS> {
  const { deleted } = services;
  const hidden = new HiddenRuns(services.stores.runs, deleted);
  const actors = new RunClient(services.asker);
  const { runs } = services.stores;

  /** Totals of a run that goes on are its actor's; where it cannot be asked now, those of its start stand. */
  const describe = async (tenant: Tenant, { row, start }: StoredRun): Promise<RunRecord> => {
    const totals =
      row.status === 'running' ? await actors.totals(tenant, row.run_id).catch(() => null) : null;
    // It may have finished in between: the outcome then comes with the next look at its row.
    const counted = totals === null || totals.outcome !== '' ? row : { ...row, ...totals };
    return describeRun(counted, start);
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
      const hiddenProjects = deleted.hiddenIn(org_id);
      const range = { table: RUN_LISTS, prefix, after, from_ms, limit: query.limit };
      const { found, last } = await readListPage<RunListRow, StoredRun>(
        runs,
        range,
        [RUNS, RUN_STARTS],
        (listed, reader) => {
          if (hiddenProjects.has(listed.value.project_id)) return undefined;
          const { run_id } = placeOfKey(listed.row);
          const key = runKey({ org_id, project_id: listed.value.project_id, run_id });
          const row = reader.get<RunRow>(RUNS, key);
          if (row === undefined || !passesFilter(row, filter)) return undefined;
          return { row, start: reader.get<RunStartRow>(RUN_STARTS, [org_id, run_id]) };
        },
      );
      return {
        body: {
          runs: await Promise.all(found.map((run) => describe(tenant, run))),
          next_cursor: last === null ? null : writeCursor(last),
        },
      };
    },

    async readRun({ tenant, params }) {
      return { body: await describe(tenant, findRun(runs, tenant, params.id, deleted)) };
    },

    async deleteRun({ tenant, params, request }) {
      hidden.checkSeen(tenant.org_id, params.id);
      const actor = tenantAuditActor(tenant, request);
      const facts = { action: 'run.delete', target: params.id };
      await actors.delete(tenant, params.id, makeTenantAudit(tenant, actor, facts));
      // It is safe where it is: what cannot be carried now is carried later.
      await carryAudit(services.stores, tenant.org_id).catch(() => {});
      return { status: 204 };
    },

    listRunSteps({ tenant, params, query }) {
      const { row } = findRun(runs, tenant, params.id, deleted);
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

/** @throws CatalogueError `not_found`, the same for a run that does not exist and for one of another's project */
function findRun(
  runs: TableReader,
  { org_id, project_id }: Tenant,
  runId: string,
  deleted: DeletedView,
): StoredRun {
  const start = runs.get<RunStartRow>(RUN_STARTS, [org_id, runId]);
  const isSeen =
    start !== undefined &&
    (project_id === null || start.project_id === project_id) &&
    !deleted.hiddenIn(org_id).has(start.project_id);
  const row = isSeen
    ? runs.get<RunRow>(RUNS, runKey({ org_id, project_id: start.project_id, run_id: runId }))
    : undefined;
  if (row === undefined) throw new CatalogueError('not_found', 'Run not found');
  return { row, start };
}

/** Field by field: to copy an object that comes out of msgpack but for some fields costs as much as to read it. */
function describeRun(row: RunRow, start: RunStartRow | undefined): RunRecord {
  return {
    run_id: row.run_id,
    project_id: row.project_id,
    task: start?.task ?? '',
    agent_name: row.agent_name,
    model: row.model,
    framework: row.framework,
    task_profile: row.task_profile,
    codebase_id: row.codebase_id,
    experiment_id: row.experiment_id,
    arm: row.arm,
    status: row.status,
    outcome: row.outcome,
    started_at: row.started_at,
    finished_at: row.finished_at,
    duration_ms: row.duration_ms,
    steps: row.steps,
    tokens: row.tokens,
    max_total_score: row.max_total_score,
    fired: row.fired,
  };
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
