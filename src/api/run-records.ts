/** Handlers of `contract/run-records.ts`, which read runs and their steps. Server threads. */
import type { z } from 'zod';
import { RunClient } from '../../actors/run/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { RUN_RECORDS, runPage, runRecord, stepRecord } from '../contract/run-records.ts';
import { findMaxScore } from '../domain/evaluation.ts';
import type { StoredStep } from '../domain/gathered-steps.ts';
import type { MonitorName, MonitorScores } from '../domain/monitors/names.ts';
import { type ReportedRun, tellReportedStatus, toReportedRun } from '../domain/reported-run.ts';
import { readAnswer } from '../domain/run.ts';
import { passesFilter, type RunFilter } from '../domain/run-list.ts';
import { type RunMarks, readMarks } from '../domain/run-mark.ts';
import type { CountedValues } from '../domain/run-query/count-values.ts';
import { writeRunCursor } from '../domain/run-query/cursor.ts';
import type { NameField } from '../domain/run-query/fields.ts';
import type { RunQuery } from '../domain/run-query/run-query.ts';
import type { RunRow, RunStartRow } from '../domain/run-rows.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { Asker } from '../runtime/actor-client.ts';
import { systemClock } from '../std/clock.ts';
import { carryAudit } from '../storage/accounts/audit.ts';
import { forgetRunMarks } from '../storage/accounts/run-marks.ts';
import type { RunReads } from '../storage/ports/run-reads.ts';
import type { RunRecords, StoredRun } from '../storage/ports/run-records.ts';
import type { Stores } from '../storage/ports/stores.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { HiddenRuns } from './hidden-runs.ts';
import { queryViolation, readRunPlace, readRunQuery, startedBetween, wholeName } from './run-query.ts';
import { RunningTotals } from './running-totals.ts';
import { listMissingFields, SearchedRuns } from './searched-runs.ts';
import { makeTenantAudit, tenantAuditActor } from './tenant-audit.ts';

type RunRecord = z.output<typeof runRecord>;
type StepRecord = z.output<typeof stepRecord>;
type ValuesQuery = z.output<(typeof RUN_RECORDS)['listRunValues']['query']>;
type ListQuery = z.output<(typeof RUN_RECORDS)['listRuns']['query']>;

export function runRecordHandlers(services: {
  asker: Asker;
  stores: Stores;
  deleted: DeletedView;
}): HandlersOf<typeof RUN_RECORDS> {
  const { deleted } = services;
  const hidden = new HiddenRuns(services.stores.run_records, deleted);
  const actors = new RunClient(services.asker);
  const { run_records: runs } = services.stores;
  const lists = new RunLists(services.stores, deleted);

  const totals = new RunningTotals(services.stores.run_reads, actors);

  const describe = async (found: readonly StoredRun[]): Promise<RunRecord[]> => {
    const running = found.map(({ row }) => row).filter(({ status }) => status === 'running');
    const read = await totals.of(running);
    const present = new Map(running.map((row, at) => [row, read[at]!]));
    return found.map(({ row, start }) => {
      const totals_now = present.get(row) ?? null;
      const counted = totals_now === null ? row : { ...row, ...totals_now };
      const marks = readMarks(services.stores.accounts.marks.find(row));
      return describeRun(counted, start, marks, systemClock.wallMs());
    });
  };

  return {
    async listRuns({ tenant, query }) {
      const { found, ...page } = query.q
        ? await lists.search(tenant, query)
        : await lists.readNewest(tenant, query);
      return { body: { runs: await describe(found), ...page } };
    },

    listRunValues: async ({ tenant, query }) => ({ body: await lists.countValues(tenant, query) }),

    async readRun({ tenant, params }) {
      const [run] = await describe([findRun(runs, tenant, params.id, deleted)]);
      return { body: run! };
    },

    async deleteRun({ tenant, params, request }) {
      hidden.checkSeen(tenant.org_id, params.id);
      const actor = tenantAuditActor(tenant, request);
      const facts = { action: 'run.delete', target: params.id };
      await actors.delete(tenant, params.id, makeTenantAudit(tenant, actor, facts));
      await forgetRunMarks(services.stores.accounts, { org_id: tenant.org_id, run_id: params.id });
      // The actor has stored the entry. If it cannot be copied to the organization's log now, it is
      // copied later.
      await carryAudit(services.stores, tenant.org_id).catch(() => {});
      return { status: 204 };
    },

    async listRunSteps({ tenant, params, query }) {
      const { row } = findRun(runs, tenant, params.id, deleted);
      return { body: await readStepPage(services.stores.run_reads, row, query) };
    },
  };
}

/** A page of a list, before its runs are converted to the form of the answer. */
type StoredPage = Omit<z.output<typeof runPage>, 'runs'> & { found: StoredRun[] };

/** The list of an organization's runs: by time from its table, or by a query. */
class RunLists {
  readonly #runs: RunRecords;
  readonly #deleted: DeletedView;
  readonly #searched: SearchedRuns;

  constructor({ run_records, accounts }: Stores, deleted: DeletedView) {
    this.#runs = run_records;
    this.#deleted = deleted;
    this.#searched = new SearchedRuns(run_records, accounts);
  }

  async readNewest({ org_id, project_id: own }: Tenant, query: ListQuery): Promise<StoredPage> {
    const filter = filterOf(query);
    const hidden = this.#deleted.hiddenIn(org_id);
    const project_id = own ?? query.project_id ?? null;
    const { found, last, looked } = await this.#runs.listNewest(
      { org_id, project_id, hidden, ...rangeOf(query) },
      (run) => passesFilter(run, filter),
    );
    const next_cursor = last === null ? null : writeCursor(last);
    return { found, next_cursor, matched_runs: null, scanned_runs: looked, is_whole: last === null };
  }

  /** Counts the values of a field. @throws SchemaViolation for a query that {@link readReportedQuery} refuses */
  async countValues(tenant: Tenant, query: ValuesQuery): Promise<CountedValues> {
    const { field, contains, limit, q } = query;
    return this.#searched.countValues({
      org_id: tenant.org_id,
      query: readReportedQuery(q),
      isAllowed: this.#allowedIn(tenant, query.project_id),
      field,
      contains: contains ?? '',
      limit,
      now_ms: systemClock.wallMs(),
    });
  }

  /**
   * Makes a predicate for runs of the organization: whether the caller may see a run. `asked` selects one project,
   * unless the caller's key already belongs to a project.
   */
  #allowedIn({ org_id, project_id: own }: Tenant, asked: string | null | undefined) {
    const project_id = own ?? asked ?? null;
    const hidden = this.#deleted.hiddenIn(org_id);
    return (run: ReportedRun): boolean =>
      (project_id === null || run.project_id === project_id) && !hidden.has(run.project_id);
  }

  /** Reads a page of the runs that match. @throws SchemaViolation for a faulty query or cursor */
  async search(tenant: Tenant, query: ListQuery): Promise<StoredPage> {
    const asked = readListQuery(query);
    const isSeen = this.#allowedIn(tenant, query.project_id);
    const isAllowed = (run: ReportedRun) =>
      isSeen(run) && (query.status == null || run.is_finished === (query.status === 'finished'));
    const { next, matched, scanned, is_whole, runs } = await this.#searched.search({
      org_id: tenant.org_id,
      query: asked,
      isAllowed,
      after: readRunPlace(asked, query.cursor),
      limit: query.limit,
      now_ms: systemClock.wallMs(),
    });
    // The result lacks runs that were deleted after the search.
    const found = this.#runs.findAll(runs);
    const next_cursor = next === null ? null : writeRunCursor(asked.sort, next);
    return { found, next_cursor, matched_runs: matched, scanned_runs: scanned, is_whole };
  }
}

/**
 * Reads a query over reported runs.
 * @throws SchemaViolation for a text that is no query, or that names a field which only captured runs have
 */
function readReportedQuery(q: string | null | undefined): RunQuery {
  const query = readRunQuery(q);
  const missing = listMissingFields(query);
  if (missing.length > 0)
    throw queryViolation(`these fields exist only for captured runs: ${missing.join(', ')}`, q!);
  return query;
}

/**
 * Makes the query of a list from its text and from the filter parameters.
 * @throws SchemaViolation as {@link readReportedQuery} does
 */
function readListQuery(query: ListQuery): RunQuery {
  const { terms, sort } = readReportedQuery(query.q);
  const addName = (field: NameField, text: string | null | undefined): void => {
    if (text != null) terms.push({ kind: 'name', field, values: [wholeName(text)], is_not: false });
  };
  addName('outcome', query.outcome);
  addName('profile', query.task_profile);
  addName('agent', query.agent_name);
  if (query.fired != null) {
    const fired = { text: query.fired, monitors: [query.fired], steps: null };
    terms.push({ kind: 'monitor', field: 'monitor', values: [fired], is_not: false });
  }
  const between = startedBetween(query);
  return { terms: between === null ? terms : [...terms, between], sort };
}

async function readStepPage(
  reads: RunReads,
  row: RunRow,
  query: z.output<(typeof RUN_RECORDS)['listRunSteps']['query']>,
) {
  const place = readCursor(query.cursor, ['number']);
  const after = place === null ? null : (place[0] as number);
  const found = await reads.listSteps(row, { after, limit: query.limit + 1 });
  const steps = found.slice(0, query.limit);
  const isLast = found.length <= query.limit;
  return {
    steps: steps.map(describeStep),
    next_cursor: isLast ? null : writeCursor([steps.at(-1)!.step_index]),
  };
}

/** Makes the range of a list whose newest run comes first: from the cursor, otherwise `to`, back to `from`. */
function rangeOf({ cursor, from, to, limit }: ListQuery) {
  const after =
    readCursor(cursor, ['number', { max: ID_CHARACTERS }]) ?? (to == null ? null : [Date.parse(to)]);
  const from_ms = from == null ? Number.NEGATIVE_INFINITY : Date.parse(from);
  return { after, from_ms, limit };
}

function filterOf(query: ListQuery): RunFilter {
  return {
    outcome: query.outcome ?? null,
    status: query.status ?? null,
    task_profile: query.task_profile ?? null,
    agent_name: query.agent_name ?? null,
    fired: query.fired ?? null,
  };
}

/**
 * Finds a run that the tenant may see.
 * @throws CatalogueError `not_found`, the same for a run that does not exist, for a run of another project and for a
 *   run of a deleted project
 */
export function findRun(
  runs: Pick<RunRecords, 'find' | 'findStart'>,
  { org_id, project_id }: Tenant,
  run_id: string,
  deleted: DeletedView,
): StoredRun {
  const start = runs.findStart({ org_id, run_id });
  const isSeen =
    start !== undefined &&
    (project_id === null || start.project_id === project_id) &&
    !deleted.hiddenIn(org_id).has(start.project_id);
  const run = isSeen ? runs.find({ org_id, project_id: start.project_id, run_id }) : undefined;
  if (run === undefined) throw new CatalogueError('not_found', 'Run not found');
  return run;
}

/**
 * Describes a run in the form of an answer. Copies field by field, because copying an object from
 * msgpack without some fields costs as much as decoding it.
 */
function describeRun(row: RunRow, start: RunStartRow | undefined, marks: RunMarks, nowMs: number): RunRecord {
  const { status: state, ended_by, words } = tellReportedStatus(toReportedRun(row, start), nowMs, marks);
  return {
    state,
    ended_by,
    state_words: words,
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
    mark: marks.mark,
    tags: [...marks.tags],
    note: marks.note,
    feedback_score: marks.feedback_score,
  };
}

function describeStep({ step_index, step }: StoredStep): StepRecord {
  const { answer, at, is_error, tokens, copy, intervention = null } = step;
  const said = JSON.parse(readAnswer(answer)) as {
    scores: MonitorScores;
    total_score: number;
    fired: MonitorName[];
  };
  // Older rows lack these two fields.
  const max_score = findMaxScore(said.scores);
  const alarm = said.fired.length > 0;
  return { step_index, ...copy, is_error, tokens, at, ...said, max_score, alarm, intervention };
}
