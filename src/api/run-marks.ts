/** Handlers of `contract/run-marks.ts`: the marks of a run. Server threads. */
import type { z } from 'zod';
import type { HandlersOf } from '../contract/handler.ts';
import type { RUN_MARKS_API, runMarks } from '../contract/run-marks.ts';
import { valueViolation } from '../contract/violation.ts';
import type { AuditActor } from '../domain/account.ts';
import type { CaptureAsker } from '../domain/captured-run.ts';
import { maskSecrets } from '../domain/patterns/text.ts';
import { type CaptureOwner, type RunMarkChange, type RunMarkRow, readMarks } from '../domain/run-mark.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { systemClock } from '../std/clock.ts';
import { speaksOfCaptures } from '../storage/accounts/capture-owner.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import type { MarkedRun } from '../storage/ports/marks.ts';
import type { Stores } from '../storage/ports/stores.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { findRun } from './run-records.ts';
import { tenantAuditActor } from './tenant-audit.ts';

interface MarkServices {
  stores: Stores;
  deleted: DeletedView;
  /** Absent: this process does not capture. */
  captures?: { reader: CaptureAsker; owner: CaptureOwner };
}

/** A change that removes all marks. */
const CLEARED: RunMarkChange = { mark: null, tags: null, note: null, feedback_score: null };

export function runMarkHandlers(services: MarkServices): HandlersOf<typeof RUN_MARKS_API> {
  const { accounts } = services.stores;
  return {
    readRunMarks: async ({ tenant, params }) => {
      const run = await findMarkable(services, tenant, params.id);
      return { body: showMarks(run.run_id, accounts.marks.find(run)) };
    },
    markRun: async ({ tenant, params, body, request }) => {
      const actor = tenantAuditActor(tenant, request);
      const change = readMarkChange(body);
      const run = await findMarkable(services, tenant, params.id);
      const about = { ...run, log_org: tenant.org_id };
      return {
        body: showMarks(run.run_id, await writeMarks(accounts, actor, systemClock.wallMs(), about, change)),
      };
    },
    clearRunMarks: async ({ tenant, params, request }) => {
      const actor = tenantAuditActor(tenant, request);
      const run = await findMarkable(services, tenant, params.id);
      await writeMarks(accounts, actor, systemClock.wallMs(), { ...run, log_org: tenant.org_id }, CLEARED);
      return { status: 204 };
    },
  };
}

/**
 * Finds a run of the organization: a reported run, or a captured one if the captures belong to the organization.
 * @throws CatalogueError `not_found`, the same for a run that does not exist and for a run of others;
 *   `unavailable` while captures cannot be read
 */
async function findMarkable(
  { stores, deleted, captures }: MarkServices,
  tenant: Tenant,
  run_id: string,
): Promise<MarkedRun> {
  const { org_id } = tenant;
  const run = { org_id, run_id };
  const isReported = stores.run_records.findStart(run) !== undefined;
  if (isReported || captures === undefined || !speaksOfCaptures(stores.accounts, captures.owner, org_id)) {
    findRun(stores.run_records, tenant, run_id, deleted);
    return run;
  }
  const answer = await captures.reader.ask({ name: 'run', run_id, limit: 1, after: null });
  if (answer.type === 'refused') throw new CatalogueError('unavailable', answer.detail);
  if (answer.type !== 'json') throw new CatalogueError('not_found', 'Run not found');
  const row = (JSON.parse(Buffer.from(answer.json).toString()) as { run: { is_captured: boolean } }).run;
  // A reported run of another organization must not be marked.
  if (!row.is_captured) throw new CatalogueError('not_found', 'Run not found');
  return run;
}

/**
 * Reads a change of marks, and masks the secrets in its tags and note.
 * @throws SchemaViolation for an empty change
 */
export function readMarkChange(body: RunMarkChange): RunMarkChange {
  const { tags, add_tags, remove_tags, note, mark, feedback_score } = body;
  const change: RunMarkChange = {
    mark,
    tags: maskTags(tags),
    add_tags: maskTags(add_tags),
    remove_tags: maskTags(remove_tags),
    note: note == null ? note : maskSecrets(note),
    feedback_score,
  };
  if (Object.values(change).every((value) => value === undefined))
    throw valueViolation(
      ['body'],
      'give at least one of mark, tags, add_tags, remove_tags, note and feedback_score',
      body,
    );
  return change;
}

function maskTags(tags: readonly string[] | null | undefined) {
  return tags == null ? tags : tags.map(maskSecrets);
}

/**
 * Changes the marks of a run, and writes the audit entry that the change needs.
 * @returns the marks as stored; undefined if the run has no marks now
 * @throws SchemaViolation if the run would have too many tags
 */
export async function writeMarks(
  accounts: Accounts,
  actor: AuditActor,
  nowMs: number,
  run: MarkedRun & { log_org: string },
  change: RunMarkChange,
): Promise<RunMarkRow | undefined> {
  try {
    return (await accounts.transact((tx) => tx.marks.change(actor, nowMs, run, change))) ?? undefined;
  } catch (thrown) {
    if (thrown instanceof RangeError)
      throw valueViolation(['body', 'add_tags'], thrown.message, change.add_tags ?? change.tags);
    throw thrown;
  }
}

/** Describes the marks of a run in the form of an answer; undefined: the run has no marks. */
export function showMarks(run_id: string, row: RunMarkRow | undefined): z.output<typeof runMarks> {
  const { tags, ...marks } = readMarks(row);
  const { marked_at = null, marked_by = null } = row ?? {};
  return { run_id, ...marks, tags: [...tags], marked_at, marked_by };
}
