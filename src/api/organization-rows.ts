/**
 * Removes the control plane's rows of a deleted organization or account: keys, invitations, projects, profiles,
 * alerts, saved searches, feedback. Counts, payments and the audit log stay. Server threads.
 */
import { FINDINGS_CODEBASES } from '../../actors/findings-index/client.ts';
import { API_KEYS_OF_ORG, removeKey } from '../auth/key-store.ts';
import type { Feedback, Invitation, Project } from '../domain/account.ts';
import { ALERT_EVENTS, ALERT_OUTBOX, ALERT_STATES, ALERTS, type AlertDelivery } from '../domain/alert.ts';
import { RUN_MARKS_BY_ORG } from '../domain/run-mark.ts';
import { FEEDBACK, forgetFeedback } from '../storage/accounts/feedback.ts';
import { forgetInvitation, INVITATIONS } from '../storage/accounts/invitations.ts';
import { forgetProject, PROJECTS } from '../storage/accounts/projects.ts';
import { removeRunMarks } from '../storage/accounts/run-marks.ts';
import { SAVED_SEARCHES } from '../storage/accounts/saved-searches.ts';
import type { Tables } from '../storage/tables.ts';
import { PROFILES_TABLE } from './profiles.ts';
import { removeRows } from './row-removal.ts';

const all = () => true;

/**
 * @throws Error of the store; the next call removes the rest
 */
export async function removeOrganizationRows(main: Tables, org_id: string): Promise<void> {
  await removeRows(main, API_KEYS_OF_ORG, [org_id], all, (tx, { row }) => removeKey(tx, String(row[1])));
  await removeRows<Invitation>(main, INVITATIONS, [org_id], all, (tx, { value }) =>
    forgetInvitation(tx, value),
  );
  await removeRows<Project>(main, PROJECTS, [org_id], all, (tx, { value }) => forgetProject(tx, value));
  await removeRows(main, RUN_MARKS_BY_ORG, [org_id], all, (tx, { row }) =>
    removeRunMarks(tx, { org_id, run_id: String(row[1]) }),
  );
  await removeRows(main, PROFILES_TABLE, [org_id], all);
  for (const table of [ALERTS, ALERT_STATES, ALERT_EVENTS]) await removeRows(main, table, [org_id], all);
  await removeRows<AlertDelivery>(main, ALERT_OUTBOX, [], ({ value }) => value.org_id === org_id);
  await removeRows(main, FINDINGS_CODEBASES, [org_id], all);
  await removeRows(main, SAVED_SEARCHES, [org_id], all);
}

/**
 * @throws Error of the store; the next call removes the rest
 */
export async function removeAccountRows(main: Tables, user_id: string): Promise<void> {
  const isTheirs = ({ value }: { value: Feedback }) => value.user_id === user_id;
  await removeRows<Feedback>(main, FEEDBACK, [], isTheirs, (tx) => forgetFeedback(tx));
}
