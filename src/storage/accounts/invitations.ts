/**
 * Invitations to organizations. Functions that run in a transaction. Any thread.
 */
import { foldEmail, type Invitation, invitationStatus } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { countRow, type Listing, type Page, readNewest } from './page.ts';

/** Maximum number of invitations that one answer lists. */
const INVITATIONS_SHOWN_MAX = 100;
/** How long an invitation can be accepted (document 4, "Credentials, roles, errors"). */
const INVITATION_DAYS = 7;

/** [org, invitation] → Invitation, counted by organization. */
export const INVITATIONS = 'invitations';
/** [invitation] → org. */
const ORG_OF_INVITATION = 'org_of_invitation';
/** [normalized e-mail address, org] → invitation: the pending one. An address has at most one in an organization. */
const BY_EMAIL = 'invitations_by_email';

const DAY_MS = 86_400_000;

/**
 * Invites an address. If the address has a pending invitation, that invitation stays unchanged, with its role.
 * @returns `created: false` if the invitation existed
 */
export function invite(
  tx: TableTransaction,
  fields: { org_id: string; email: string; role: Role; invited_by: string },
  nowMs: number,
): { invitation: Invitation; created: boolean } {
  const pendingId = tx.get<string>(BY_EMAIL, emailRow(fields));
  const pending = pendingId === undefined ? undefined : getInvitation(tx, fields.org_id, pendingId);
  if (pending !== undefined && invitationStatus(pending, nowMs) === 'pending')
    return { invitation: pending, created: false };
  const invitation: Invitation = {
    id: `inv_${ulidAt(nowMs)}`,
    ...fields,
    status: 'pending',
    created_at: new Date(nowMs).toISOString(),
    expires_at: new Date(nowMs + INVITATION_DAYS * DAY_MS).toISOString(),
  };
  tx.write({ op: 'put', table: BY_EMAIL, row: emailRow(invitation), value: invitation.id });
  tx.write({ op: 'put', table: ORG_OF_INVITATION, row: [invitation.id], value: invitation.org_id });
  putInvitation(tx, invitation);
  countRow(tx, INVITATIONS, [invitation.org_id], 1);
  return { invitation, created: true };
}

export function getInvitation(tables: TableReader, org_id: string, id: string): Invitation | undefined {
  return tables.get<Invitation>(INVITATIONS, [org_id, id]);
}

/**
 * Pending invitations that are not expired, newest first. If there are too many, only those of the newest
 * organizations.
 */
export function pendingFor(tables: TableReader, email: string, nowMs: number): Invitation[] {
  if (email === '') return [];
  const found: Invitation[] = [];
  const prefix = [foldEmail(email)];
  for (const { row, value } of tables.range<string>(BY_EMAIL, {
    prefix,
    reverse: true,
    limit: INVITATIONS_SHOWN_MAX,
  })) {
    const invitation = getInvitation(tables, String(row[1]), value);
    if (invitation !== undefined && invitationStatus(invitation, nowMs) === 'pending') found.push(invitation);
  }
  return found.sort((a, b) => (a.id < b.id ? 1 : -1));
}

/** An invitation to this address that can be accepted now. */
export function findPending(
  tables: TableReader,
  id: string,
  email: string,
  nowMs: number,
): Invitation | undefined {
  const org_id = tables.get<string>(ORG_OF_INVITATION, [id]);
  const invitation = org_id === undefined ? undefined : getInvitation(tables, org_id, id);
  if (invitation === undefined || email === '' || foldEmail(invitation.email) !== foldEmail(email))
    return undefined;
  return invitationStatus(invitation, nowMs) === 'pending' ? invitation : undefined;
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

/** Removes an invitation in any state, with all rows that refer to it. */
export function forgetInvitation(tx: TableTransaction, invitation: Invitation): void {
  const { org_id, id } = invitation;
  if (tx.get<string>(BY_EMAIL, emailRow(invitation)) === id)
    tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(invitation) });
  tx.write({ op: 'remove', table: ORG_OF_INVITATION, row: [id] });
  tx.write({ op: 'remove', table: INVITATIONS, row: [org_id, id] });
  countRow(tx, INVITATIONS, [org_id], -1);
}

/** Newest first. */
export function listInvitations(tables: TableReader, org_id: string, page: Page): Listing<Invitation> {
  return readNewest<Invitation>(tables, INVITATIONS, [org_id], page);
}

function putInvitation(tx: TableTransaction, invitation: Invitation): void {
  tx.write({ op: 'put', table: INVITATIONS, row: [invitation.org_id, invitation.id], value: invitation });
}

function emailRow({ email, org_id }: Pick<Invitation, 'email' | 'org_id'>) {
  return [foldEmail(email), org_id];
}
