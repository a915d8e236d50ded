/**
 * The records of the control plane as they are stored (contract document 1, Resources). The API's objects are views of
 * these records. Times are RFC 3339 in UTC with milliseconds; ids include their prefix. Any thread.
 */
import type { Role } from './role.ts';

export const ACCOUNT_TYPES = ['developer', 'team'] as const;
type AccountType = (typeof ACCOUNT_TYPES)[number];

export interface User {
  /** `usr_…` */
  id: string;
  /** The address that the identity provider last stated; '': it never stated one. */
  email: string;
  /** Whether the provider last stated that the address is verified. */
  email_verified: boolean;
  display_name: string | null;
  account_type: AccountType;
  onboarded: boolean;
  created_at: string;
}

/** The identity in a token, and the token's issue time. */
export interface Identity {
  issuer: string;
  subject: string;
  /** Seconds since the epoch; null if the token has no issue time. */
  issued_at_s: number | null;
}

export interface Organization {
  /** `org_…` */
  id: string;
  name: string;
  created_by: string | null;
  created_at: string;
}

export interface Member {
  org_id: string;
  user_id: string;
  role: Role;
  joined_at: string;
}

export interface Project {
  /** `proj_…` */
  id: string;
  org_id: string;
  name: string;
  created_by: string | null;
  created_at: string;
}

export const INVITATION_STATES = ['pending', 'accepted', 'revoked', 'expired'] as const;
type InvitationStatus = (typeof INVITATION_STATES)[number];

export interface Invitation {
  /** `inv_…` */
  id: string;
  org_id: string;
  email: string;
  role: Role;
  /** The stored status. A pending invitation becomes `expired` with time (see `invitationStatus`). */
  status: Exclude<InvitationStatus, 'expired'>;
  invited_by: string;
  created_at: string;
  expires_at: string;
}

/** Computes the status of an invitation at a time. A pending invitation expires without a write. */
export function invitationStatus(invitation: Invitation, nowMs: number): InvitationStatus {
  const isOver = invitation.status === 'pending' && Date.parse(invitation.expires_at) <= nowMs;
  return isOver ? 'expired' : invitation.status;
}

export interface Feedback {
  /** `fb_…` */
  id: string;
  user_id: string;
  message: string;
  page: string | null;
  created_at: string;
}

/** The actor of an entry in the audit log. */
export interface AuditActor {
  type: 'user' | 'key' | 'stripe' | 'operator';
  id: string;
  /** Address from which the request came; '' if unknown. */
  address: string;
}

/** One change (contract document 4, "Audit entry"): the state before and after it, without secrets. */
export interface AuditEntry {
  /** `aud_…` */
  id: string;
  org_id: string;
  actor: string;
  actor_type: AuditActor['type'];
  action: string;
  target: string;
  before: Readonly<Record<string, unknown>> | null;
  after: Readonly<Record<string, unknown>> | null;
  address: string;
  created_at: string;
}

/**
 * Normalizes an e-mail address for comparison: ignores the case of ASCII letters. A letter that only resembles an
 * ASCII letter (the Kelvin sign, whose lower case is a plain k) is kept, because it belongs to another person's
 * mailbox.
 */
export function foldEmail(email: string): string {
  return [...email].map(foldLetter).join('');
}

function foldLetter(letter: string): string {
  const small = letter.toLowerCase();
  return letter > '\x7f' && /[\0-\x7f]/.test(small) ? letter : small;
}
