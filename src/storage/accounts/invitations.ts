/**
 * Invitations to organizations. Any thread.
 */
import { foldEmail, type Invitation, invitationStatus } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import { ulidAt } from '../../std/id.ts';
import type { InvitationReads, InvitationWork } from '../ports/invitations.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { countRow, readNewest } from './page.ts';

/** Maximum number of invitations that are listed for an address, including those that have expired. */
const INVITATIONS_SHOWN_MAX = 100;
/** How long an invitation can be accepted (document 4, "Credentials, roles, errors"). */
const INVITATION_DAYS = 7;

/** [org, invitation] → Invitation, counted by organization. */
export const INVITATIONS = 'invitations';
/** [invitation] → org. */
const ORG_OF_INVITATION = 'org_of_invitation';
/**
 * [normalized e-mail address, org] → id of the last invitation, until that is accepted or revoked. It may have expired.
 */
const BY_EMAIL = 'invitations_by_email';

const DAY_MS = 86_400_000;

export class TableInvitationReads implements InvitationReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(org_id: string, id: string): Invitation | undefined {
    return this.#reader.get<Invitation>(INVITATIONS, [org_id, id]);
  }

  listPending(email: string, nowMs: number): Invitation[] {
    if (email === '') return [];
    const found: Invitation[] = [];
    const prefix = [foldEmail(email)];
    for (const { row, value } of this.#reader.range<string>(BY_EMAIL, {
      prefix,
      reverse: true,
      limit: INVITATIONS_SHOWN_MAX,
    })) {
      const invitation = this.find(String(row[1]), value);
      if (invitation !== undefined && invitationStatus(invitation, nowMs) === 'pending')
        found.push(invitation);
    }
    return found.sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  findPending(id: string, email: string, nowMs: number): Invitation | undefined {
    const org_id = this.#reader.get<string>(ORG_OF_INVITATION, [id]);
    const invitation = org_id === undefined ? undefined : this.find(org_id, id);
    if (invitation === undefined || email === '' || foldEmail(invitation.email) !== foldEmail(email))
      return undefined;
    return invitationStatus(invitation, nowMs) === 'pending' ? invitation : undefined;
  }

  list(org_id: string, page: Page): Listing<Invitation> {
    return readNewest<Invitation>(this.#reader, INVITATIONS, [org_id], page);
  }
}

export class TableInvitationWork extends TableInvitationReads implements InvitationWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  invite(
    fields: { org_id: string; email: string; role: Role; invited_by: string },
    nowMs: number,
  ): { invitation: Invitation; created: boolean } {
    const pendingId = this.#tx.get<string>(BY_EMAIL, emailRow(fields));
    const pending = pendingId === undefined ? undefined : this.find(fields.org_id, pendingId);
    if (pending !== undefined && invitationStatus(pending, nowMs) === 'pending')
      return { invitation: pending, created: false };
    const invitation: Invitation = {
      id: `inv_${ulidAt(nowMs)}`,
      ...fields,
      status: 'pending',
      created_at: new Date(nowMs).toISOString(),
      expires_at: new Date(nowMs + INVITATION_DAYS * DAY_MS).toISOString(),
    };
    this.#tx.write({ op: 'put', table: BY_EMAIL, row: emailRow(invitation), value: invitation.id });
    this.#tx.write({ op: 'put', table: ORG_OF_INVITATION, row: [invitation.id], value: invitation.org_id });
    putInvitation(this.#tx, invitation);
    countRow(this.#tx, INVITATIONS, [invitation.org_id], 1);
    return { invitation, created: true };
  }

  settle(invitation: Invitation, status: 'accepted' | 'revoked'): Invitation {
    const settled = { ...invitation, status };
    this.#tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(invitation) });
    putInvitation(this.#tx, settled);
    return settled;
  }

  /** Removes an invitation in any state, with all rows that refer to it. */
  forget(invitation: Invitation): void {
    const { org_id, id } = invitation;
    if (this.#tx.get<string>(BY_EMAIL, emailRow(invitation)) === id)
      this.#tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(invitation) });
    this.#tx.write({ op: 'remove', table: ORG_OF_INVITATION, row: [id] });
    this.#tx.write({ op: 'remove', table: INVITATIONS, row: [org_id, id] });
    countRow(this.#tx, INVITATIONS, [org_id], -1);
  }
}

function putInvitation(tx: TableTransaction, invitation: Invitation): void {
  tx.write({ op: 'put', table: INVITATIONS, row: [invitation.org_id, invitation.id], value: invitation });
}

function emailRow({ email, org_id }: Pick<Invitation, 'email' | 'org_id'>) {
  return [foldEmail(email), org_id];
}
