/**
 * Removes the rows of a deleted organization or account in portions: keys, invitations, projects, marks, profiles,
 * alerts, code bases, sources of patterns, saved searches, feedback. Counts, payments and the audit log stay. Any
 * thread.
 */
import type { Feedback, Invitation, Project } from '../../domain/account.ts';
import { ALERT_EVENTS, ALERT_OUTBOX, ALERT_STATES, ALERTS, type AlertDelivery } from '../../domain/alert.ts';
import { FINDINGS_CODEBASES } from '../../domain/finding-rows.ts';
import type { Tier } from '../../domain/pattern.ts';
import { PATTERN_SOURCES } from '../../domain/pattern-rows.ts';
import { RUN_MARKS_BY_ORG } from '../../domain/run-mark.ts';
import type { Tables } from '../tables.ts';
import { FEEDBACK, TableFeedbackWork } from './feedback.ts';
import { INVITATIONS, TableInvitationWork } from './invitations.ts';
import { API_KEYS_OF_ORG, TableKeyWork } from './keys.ts';
import { PROFILES } from './profiles.ts';
import { PROJECTS, TableProjectWork } from './projects.ts';
import { removeRows } from './row-removal.ts';
import { TableMarkWork } from './run-marks.ts';
import { SAVED_SEARCHES } from './saved-searches.ts';

const all = () => true;

/**
 * Removes the rows of a deleted organization, except sources of patterns.
 * @throws a store error; the next call removes the rest
 */
export async function removeOrganizationRows(main: Tables, org_id: string): Promise<void> {
  await removeRows(main, API_KEYS_OF_ORG, [org_id], all, (tx, { row }) =>
    new TableKeyWork(tx).remove(String(row[1])),
  );
  await removeRows<Invitation>(main, INVITATIONS, [org_id], all, (tx, { value }) =>
    new TableInvitationWork(tx).forget(value),
  );
  await removeRows<Project>(main, PROJECTS, [org_id], all, (tx, { value }) =>
    new TableProjectWork(tx).forget(value),
  );
  await removeRows(main, RUN_MARKS_BY_ORG, [org_id], all, (tx, { row }) =>
    new TableMarkWork(tx).remove({ org_id, run_id: String(row[1]) }),
  );
  await removeRows(main, PROFILES, [org_id], all);
  for (const table of [ALERTS, ALERT_STATES, ALERT_EVENTS]) await removeRows(main, table, [org_id], all);
  await removeRows<AlertDelivery>(main, ALERT_OUTBOX, [], ({ value }) => value.org_id === org_id);
  await removeRows(main, FINDINGS_CODEBASES, [org_id], all);
  await removeRows(main, SAVED_SEARCHES, [org_id], all);
}

/**
 * Removes the stored sources of a project's patterns.
 * @param project_id null: of the whole organization
 * @throws a store error; the next call removes the rest
 */
export async function removePatternSources(
  main: Tables,
  tier: Tier,
  org_id: string,
  project_id: string | null,
): Promise<void> {
  await removeRows(main, PATTERN_SOURCES, [tier, org_id, ...(project_id === null ? [] : [project_id])], all);
}

/**
 * Removes the feedback of a deleted account.
 * @throws a store error; the next call removes the rest
 */
export async function removeUserRows(main: Tables, user_id: string): Promise<void> {
  const isTheirs = ({ value }: { value: Feedback }) => value.user_id === user_id;
  await removeRows<Feedback>(main, FEEDBACK, [], isTheirs, (tx) => new TableFeedbackWork(tx).forget());
}
