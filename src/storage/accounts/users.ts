/**
 * Users, and the identities by which they sign in. Functions of a transaction: what they check and what they write is
 * one step. Any thread.
 */
import { createHash } from 'node:crypto';
import { foldEmail, type User } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

const USERS = 'users';
/** [digest of issuer and subject, which know no bound] → user id. */
const BY_IDENTITY = 'users_by_identity';

/** [address as it is compared, user] → null. */
const BY_EMAIL = 'users_by_email';

/** What an identity provider says of somebody. */
export interface SignIn {
  issuer: string;
  subject: string;
  email: string | null;
  name: string | null;
  email_verified: boolean;
}

export function findUserId(tables: TableReader, issuer: string, subject: string): string | undefined {
  return tables.get<string>(BY_IDENTITY, [digestIdentity(issuer, subject)]);
}

export function getUser(tables: TableReader, id: string): User | undefined {
  return tables.get<User>(USERS, [id]);
}

/** Makes the user of an identity that has none. */
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
  tx.write({
    op: 'put',
    table: BY_IDENTITY,
    row: [digestIdentity(signIn.issuer, signIn.subject)],
    value: user.id,
  });
  putUser(tx, user);
  return user;
}

export function putUser(tx: TableTransaction, user: User): void {
  const before = getUser(tx, user.id);
  if (before === undefined || before.email !== user.email) {
    if (before !== undefined) tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(before) });
    tx.write({ op: 'put', table: BY_EMAIL, row: emailRow(user), value: null });
  }
  tx.write({ op: 'put', table: USERS, row: [user.id], value: user });
}

/** Users whose address is this one: several providers may vouch for it. */
export function* usersWithEmail(tables: TableReader, email: string): Iterable<string> {
  for (const { row } of tables.range(BY_EMAIL, { prefix: [foldEmail(email)] })) yield String(row[1]);
}

function emailRow({ email, id }: User) {
  return [foldEmail(email), id];
}

function digestIdentity(issuer: string, subject: string): string {
  return createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('base64url');
}
