/**
 * The records of the control plane as they are stored (document 1, Resources). Wire shapes are views of these. Times
 * are RFC 3339 in UTC with milliseconds; ids carry their prefix. Any thread.
 */
import type { Role } from './role.ts';

export const ACCOUNT_TYPES = ['developer', 'team'] as const;
type AccountType = (typeof ACCOUNT_TYPES)[number];

export interface User {
  /** `usr_…` */
  id: string;
  /** As the identity provider last said it; '' when it never did. */
  email: string;
  /** Whether the provider last said that the address is proven. */
  email_verified: boolean;
  display_name: string | null;
  account_type: AccountType;
  onboarded: boolean;
  created_at: string;
}

/** Whom a token names, and when it was made. */
export interface Identity {
  issuer: string;
  subject: string;
  /** Seconds since the epoch; null: the token does not say. */
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
  /** As stored: `expired` is what a pending one becomes with time (see `invitationStatus`). */
  status: Exclude<InvitationStatus, 'expired'>;
  invited_by: string;
  created_at: string;
  expires_at: string;
}

/** The state at a moment: a pending invitation expires without anybody writing it down. */
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

/** Who did something that the audit log tells of. */
export interface AuditActor {
  type: 'user' | 'key' | 'stripe' | 'operator';
  id: string;
  /** Address that the request came from; '' when there was none. */
  address: string;
}

/** One change (decisions, Audit entry): what was there before and what is there after, without secrets. */
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
 * An e-mail address as it is compared: without regard to case. A letter that only looks like an ASCII one (the Kelvin
 * sign, whose lower case is a plain k) stays what it is: it is another mailbox, and its owner another person.
 */
export function foldEmail(email: string): string {
  return [...email].map(foldLetter).join('');
}

function foldLetter(letter: string): string {
  const small = letter.toLowerCase();
  return letter > '\x7f' && /[\0-\x7f]/.test(small) ? letter : small;
}
