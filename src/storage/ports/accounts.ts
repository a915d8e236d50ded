/**
 * Interfaces for the rows of people and organizations, one for each kind of row. All rows are in one database, so that
 * a transaction may change several kinds. Reads are synchronous, because the rows are on this machine. Implementation:
 * ../accounts/table-accounts.ts. Types; any thread.
 */
import type { Tier } from '../../domain/pattern.ts';
import type { AlertReads, AlertWork } from './alerts.ts';
import type { AuditReads, AuditWork } from './audit.ts';
import type { DeletionReads, DeletionWork } from './deletions.ts';
import type { DutyReads, DutyWork } from './duties.ts';
import type { FeedbackReads, FeedbackWork } from './feedback.ts';
import type { FindingReads } from './findings.ts';
import type { InvitationReads, InvitationWork } from './invitations.ts';
import type { KeyReads, KeyWork } from './keys.ts';
import type { MarkReads, MarkWork } from './marks.ts';
import type { OrganizationReads, OrganizationWork } from './organizations.ts';
import type { PatternReads, PatternWork } from './patterns.ts';
import type { ProfileReads, ProfileWork } from './profiles.ts';
import type { ProjectReads, ProjectWork } from './projects.ts';
import type { SearchReads, SearchWork } from './searches.ts';
import type { SubscriptionReads, SubscriptionWork } from './subscriptions.ts';
import type { TraceReads } from './traces.ts';
import type { UsageReads } from './usage.ts';
import type { UserReads, UserWork } from './users.ts';

/** Reads of one snapshot. */
export interface AccountReads {
  readonly users: UserReads;
  readonly organizations: OrganizationReads;
  readonly projects: ProjectReads;
  readonly invitations: InvitationReads;
  readonly keys: KeyReads;
  readonly subscriptions: SubscriptionReads;
  readonly patterns: PatternReads;
  readonly profiles: ProfileReads;
  readonly alerts: AlertReads;
  readonly marks: MarkReads;
  readonly searches: SearchReads;
  readonly feedback: FeedbackReads;
  readonly audit: AuditReads;
  readonly deletions: DeletionReads;
  readonly duties: DutyReads;
}

/** Reads and writes of one transaction. Reads see the transaction's writes. Do not use it after the transaction. */
export interface AccountWork extends AccountReads {
  readonly users: UserWork;
  readonly organizations: OrganizationWork;
  readonly projects: ProjectWork;
  readonly invitations: InvitationWork;
  readonly keys: KeyWork;
  readonly subscriptions: SubscriptionWork;
  readonly patterns: PatternWork;
  readonly profiles: ProfileWork;
  readonly alerts: AlertWork;
  readonly marks: MarkWork;
  readonly searches: SearchWork;
  readonly feedback: FeedbackWork;
  readonly audit: AuditWork;
  readonly deletions: DeletionWork;
  readonly duties: DutyWork;
}

/** Reads of the last commit, and transactions. */
export interface Accounts extends AccountReads {
  /** Rows that only actors write. */
  readonly traces: TraceReads;
  readonly findings: FindingReads;
  readonly usage: UsageReads;
  /**
   * Reads and writes in one transaction, which is isolated from other writers.
   * @param work synchronous; if it throws, nothing is written
   * @returns the result of `work`, once the writes are as durable as the database guarantees; rejects with the error
   * that `work` threw, or with a store error
   */
  transact<Value>(work: (work: AccountWork) => Value): Promise<Value>;
  /**
   * Removes the rows of a deleted organization: keys, invitations, projects, marks, profiles, alerts, code bases,
   * searches. Counts, payments and the audit log stay. Works in portions, between which other work runs.
   * @throws (rejects) a store error; the next call removes the rest
   */
  removeAllOfOrganization(org_id: string): Promise<void>;
  /**
   * Removes the rows of the pattern index that say from which traces a scope's patterns come. Otherwise like {@link
   * removeAllOfOrganization}.
   * @param project_id null: of the whole organization
   */
  removePatternSources(tier: Tier, org_id: string, project_id: string | null): Promise<void>;
  /** Removes the feedback of a deleted user. Otherwise like {@link removeAllOfOrganization}. */
  removeAllOfUser(user_id: string): Promise<void>;
}
