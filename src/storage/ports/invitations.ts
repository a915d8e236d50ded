/** Invitations to organizations. Types; any thread. */
import type { Invitation } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import type { Listing, Page } from './page.ts';

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface InvitationReads {
  find(org_id: string, id: string): Invitation | undefined;
  /**
   * Lists the pending invitations of an address, newest first. If too many organizations have invited the address,
   * lists only the invitations of the newest organizations.
   */
  listPending(email: string, nowMs: number): Invitation[];
  /** Finds an invitation to this address that can be accepted now. */
  findPending(id: string, email: string, nowMs: number): Invitation | undefined;
  /** Lists the invitations of an organization, in any state, newest first. */
  list(org_id: string, page: Page): Listing<Invitation>;
}

/** What a transaction may do. */
export interface InvitationWork extends InvitationReads {
  /**
   * Invites an address. If the address has a pending invitation, that invitation stays unchanged, with its role.
   * @returns `created: false` if the invitation existed
   */
  invite(
    fields: { org_id: string; email: string; role: Role; invited_by: string },
    nowMs: number,
  ): { invitation: Invitation; created: boolean };
  /** Ends a pending invitation. */
  settle(invitation: Invitation, status: 'accepted' | 'revoked'): Invitation;
}
