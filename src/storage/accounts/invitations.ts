/** Invitations into organizations. Functions of a transaction. Any thread. */
import { type Invitation, invitationStatus } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import { INVITATION_DAYS } from '../../limits.ts';
import { newUlid } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { type Listing, type Page, readNewest } from './page.ts';

/** [org, invitation] → Invitation. */
const INVITATIONS = 'invitations';
/** [e-mail in lower case, invitation] → org. Holds the pending ones. */
const BY_EMAIL = 'invitations_by_email';

const DAY_MS = 86_400_000;

/**
 * Invites an address; one that is invited already keeps its pending invitation, role and all.
 * @returns `created: false` for the one that was there
 */
export function invite(
  tx: TableTransaction,
  fields: { org_id: string; email: string; role: Role; invited_by: string },
  nowMs: number,
): { invitation: Invitation; created: boolean } {
  const pending = pendingFor(tx, fields.email, nowMs).find(({ org_id }) => org_id === fields.org_id);
  if (pending !== undefined) return { invitation: pending, created: false };
  const invitation: Invitation = {
    id: `inv_${newUlid()}`,
    ...fields,
    status: 'pending',
    created_at: new Date(nowMs).toISOString(),
    expires_at: new Date(nowMs + INVITATION_DAYS * DAY_MS).toISOString(),
  };
  tx.write({ op: 'put', table: BY_EMAIL, row: emailRow(invitation), value: invitation.org_id });
  putInvitation(tx, invitation);
  return { invitation, created: true };
}

export function getInvitation(tables: TableReader, org_id: string, id: string): Invitation | undefined {
  return tables.get<Invitation>(INVITATIONS, [org_id, id]);
}

/** Pending and not expired, newest first. */
export function pendingFor(tables: TableReader, email: string, nowMs: number): Invitation[] {
  if (email === '') return [];
  const found: Invitation[] = [];
  for (const { row, value } of tables.range<string>(BY_EMAIL, {
    prefix: [email.toLowerCase()],
    reverse: true,
  })) {
    const invitation = getInvitation(tables, value, String(row[1]));
    if (invitation !== undefined && invitationStatus(invitation, nowMs) === 'pending') found.push(invitation);
  }
  return found;
}

/** Ends a pending invitation. */
export function settleInvitation(
  tx: TableTransaction,
  invitation: Invitation,
  status: 'accepted' | 'revoked',
): Invitation {
  const settled = { ...invitation, status };
  tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(invitation) });
  putInvitation(tx, settled);
  return settled;
}

/** Newest first. */
export function listInvitations(tables: TableReader, org_id: string, page: Page): Listing<Invitation> {
  return readNewest<Invitation>(tables, INVITATIONS, [org_id], page);
}

function putInvitation(tx: TableTransaction, invitation: Invitation): void {
  tx.write({ op: 'put', table: INVITATIONS, row: [invitation.org_id, invitation.id], value: invitation });
}

function emailRow({ email, id }: Invitation) {
  return [email.toLowerCase(), id];
}
