/** Implements the rows of people and organizations (ports/accounts.ts) with tables. Any thread. */
import type { Tier } from '../../domain/pattern.ts';
import type { AccountReads, Accounts, AccountWork } from '../ports/accounts.ts';
import type { TableReader, Tables, TableTransaction } from '../tables.ts';
import { TableAlertReads, TableAlertWork } from './alerts.ts';
import { TableAuditReads, TableAuditWork } from './audit.ts';
import { TableDeletionReads, TableDeletionWork } from './deletions.ts';
import { TableDutyReads, TableDutyWork } from './duties.ts';
import { TableFeedbackReads, TableFeedbackWork } from './feedback.ts';
import { TableFindingReads } from './findings.ts';
import { TableInvitationReads, TableInvitationWork } from './invitations.ts';
import { TableKeyReads, TableKeyWork } from './keys.ts';
import { TableOrganizationReads, TableOrganizationWork } from './organizations.ts';
import { TablePatternReads, TablePatternWork } from './patterns.ts';
import { TableProfileReads, TableProfileWork } from './profiles.ts';
import { TableProjectReads, TableProjectWork } from './projects.ts';
import { removeOrganizationRows, removePatternSources, removeUserRows } from './removal.ts';
import { TableMarkReads, TableMarkWork } from './run-marks.ts';
import { TableSearchReads, TableSearchWork } from './saved-searches.ts';
import { TableSubscriptionReads, TableSubscriptionWork } from './subscriptions.ts';
import { TableTraceReads } from './traces.ts';
import { TableUsageReads } from './usage-counts.ts';
import { TableUserReads, TableUserWork } from './users.ts';

class TableAccountReads implements AccountReads {
  readonly users: AccountReads['users'];
  readonly organizations: AccountReads['organizations'];
  readonly projects: AccountReads['projects'];
  readonly invitations: AccountReads['invitations'];
  readonly keys: AccountReads['keys'];
  readonly subscriptions: AccountReads['subscriptions'];
  readonly patterns: AccountReads['patterns'];
  readonly profiles: AccountReads['profiles'];
  readonly alerts: AccountReads['alerts'];
  readonly marks: AccountReads['marks'];
  readonly searches: AccountReads['searches'];
  readonly feedback: AccountReads['feedback'];
  readonly audit: AccountReads['audit'];
  readonly deletions: AccountReads['deletions'];
  readonly duties: AccountReads['duties'];

  constructor(reader: TableReader) {
    this.users = new TableUserReads(reader);
    this.organizations = new TableOrganizationReads(reader);
    this.projects = new TableProjectReads(reader);
    this.invitations = new TableInvitationReads(reader);
    this.keys = new TableKeyReads(reader);
    this.subscriptions = new TableSubscriptionReads(reader);
    this.patterns = new TablePatternReads(reader);
    this.profiles = new TableProfileReads(reader);
    this.alerts = new TableAlertReads(reader);
    this.marks = new TableMarkReads(reader);
    this.searches = new TableSearchReads(reader);
    this.feedback = new TableFeedbackReads(reader);
    this.audit = new TableAuditReads(reader);
    this.deletions = new TableDeletionReads(reader);
    this.duties = new TableDutyReads(reader);
  }
}

class TableAccountWork implements AccountWork {
  readonly users: AccountWork['users'];
  readonly organizations: AccountWork['organizations'];
  readonly projects: AccountWork['projects'];
  readonly invitations: AccountWork['invitations'];
  readonly keys: AccountWork['keys'];
  readonly subscriptions: AccountWork['subscriptions'];
  readonly patterns: AccountWork['patterns'];
  readonly profiles: AccountWork['profiles'];
  readonly alerts: AccountWork['alerts'];
  readonly marks: AccountWork['marks'];
  readonly searches: AccountWork['searches'];
  readonly feedback: AccountWork['feedback'];
  readonly audit: AccountWork['audit'];
  readonly deletions: AccountWork['deletions'];
  readonly duties: AccountWork['duties'];

  constructor(tx: TableTransaction) {
    this.users = new TableUserWork(tx);
    this.organizations = new TableOrganizationWork(tx);
    this.projects = new TableProjectWork(tx);
    this.invitations = new TableInvitationWork(tx);
    this.keys = new TableKeyWork(tx);
    this.subscriptions = new TableSubscriptionWork(tx);
    this.patterns = new TablePatternWork(tx);
    this.profiles = new TableProfileWork(tx);
    this.alerts = new TableAlertWork(tx);
    this.marks = new TableMarkWork(tx);
    this.searches = new TableSearchWork(tx);
    this.feedback = new TableFeedbackWork(tx);
    this.audit = new TableAuditWork(tx);
    this.deletions = new TableDeletionWork(tx);
    this.duties = new TableDutyWork(tx);
  }
}

export class TableAccounts extends TableAccountReads implements Accounts {
  readonly traces: Accounts['traces'];
  readonly findings: Accounts['findings'];
  readonly usage: Accounts['usage'];
  readonly #tables: Tables;

  /** @param tables closed by the caller, not by this object */
  constructor(tables: Tables) {
    super(tables);
    this.traces = new TableTraceReads(tables);
    this.findings = new TableFindingReads(tables);
    this.usage = new TableUsageReads(tables);
    this.#tables = tables;
  }

  transact<Value>(work: (work: AccountWork) => Value): Promise<Value> {
    return this.#tables.transact((tx) => work(new TableAccountWork(tx)));
  }

  removeAllOfOrganization(org_id: string): Promise<void> {
    return removeOrganizationRows(this.#tables, org_id);
  }

  removePatternSources(tier: Tier, org_id: string, project_id: string | null): Promise<void> {
    return removePatternSources(this.#tables, tier, org_id, project_id);
  }

  removeAllOfUser(user_id: string): Promise<void> {
    return removeUserRows(this.#tables, user_id);
  }
}
