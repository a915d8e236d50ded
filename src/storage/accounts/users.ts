/**
 * Users, and the identities with which they sign in. Each function runs in a transaction, so its checks and its
 * writes are atomic. Any thread.
 */
import { createHash } from 'node:crypto';
import { foldEmail, type Identity, type User } from '../../domain/account.ts';
import { CatalogueError } from '../../errors.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

const USERS = 'users';
/** [digest of issuer and subject, which have no length limit] → IdentityRow. */
const BY_IDENTITY = 'users_by_identity';

/** [normalized e-mail address, user] → null. */
const BY_EMAIL = 'users_by_email';

/** The user's id, or an object if an account of this identity was deleted. */
type IdentityRow = string | { user_id: string | null; deleted_at_ms: number };

/** The facts that an identity provider states about a person. */
interface SignIn extends Identity {
  email: string | null;
  name: string | null;
  email_verified: boolean;
}

/** After a deletion, a token without an issue time cannot open a new account for this long. */
const UNDATED_TOKEN_MS = 86_400_000;

/**
 * @returns undefined for an identity without an account
 * @throws CatalogueError `unauthenticated` if the token is older than the deletion of the account
 */
export function findUserId(tables: TableReader, identity: Identity, nowMs: number): string | undefined {
  const row = tables.get<IdentityRow>(BY_IDENTITY, [digestIdentity(identity)]);
  if (row === undefined || typeof row === 'string') return row;
  const { issued_at_s } = identity;
  const isNew =
    issued_at_s === null
      ? nowMs > row.deleted_at_ms + UNDATED_TOKEN_MS
      : issued_at_s * 1_000 > row.deleted_at_ms;
  if (!isNew) throw new CatalogueError('unauthenticated', 'The account was deleted; sign in again');
  return row.user_id ?? undefined;
}

export function getUser(tables: TableReader, id: string): User | undefined {
  return tables.get<User>(USERS, [id]);
}

/** Creates the user of an identity without an account. */
export function createUser(tx: TableTransaction, signIn: SignIn, nowMs: number): User {
  const user: User = {
    id: `usr_${ulidAt(nowMs)}`,
    email: signIn.email ?? '',
    email_verified: signIn.email_verified,
    display_name: signIn.name,
    account_type: 'developer',
    onboarded: false,
    created_at: new Date(nowMs).toISOString(),
  };
  const row = [digestIdentity(signIn)];
  const before = tx.get<IdentityRow>(BY_IDENTITY, row);
  const value: IdentityRow = typeof before === 'object' ? { ...before, user_id: user.id } : user.id;
  tx.write({ op: 'put', table: BY_IDENTITY, row, value });
  putUser(tx, user);
  return user;
}

/**
 * Removes the record but keeps the digest of the identity, so that tokens issued before the deletion are refused.
 * @param identity of the token that deletes the account; its provider's clock may be ahead
 */
export function removeUser(tx: TableTransaction, user: User, identity: Identity, nowMs: number): void {
  const deleted_at_ms = Math.max(nowMs, (identity.issued_at_s ?? 0) * 1_000);
  const value: IdentityRow = { user_id: null, deleted_at_ms };
  tx.write({ op: 'put', table: BY_IDENTITY, row: [digestIdentity(identity)], value });
  tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(user) });
  tx.write({ op: 'remove', table: USERS, row: [user.id] });
}

export function putUser(tx: TableTransaction, user: User): void {
  const before = getUser(tx, user.id);
  if (before === undefined || before.email !== user.email) {
    if (before !== undefined) tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(before) });
    tx.write({ op: 'put', table: BY_EMAIL, row: emailRow(user), value: null });
  }
  tx.write({ op: 'put', table: USERS, row: [user.id], value: user });
}

/** Users with this address: several identity providers may confirm the same address. */
export function* usersWithEmail(tables: TableReader, email: string): Iterable<string> {
  for (const { row } of tables.range(BY_EMAIL, { prefix: [foldEmail(email)] })) yield String(row[1]);
}

function emailRow({ email, id }: User) {
  return [foldEmail(email), id];
}

function digestIdentity({ issuer, subject }: Identity): string {
  return createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('base64url');
}
