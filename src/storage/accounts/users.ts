/**
 * Users, and the identities with which they sign in. Each function runs in a transaction, so its checks and its
 * writes are atomic. Any thread.
 */
import { createHash } from 'node:crypto';
import { foldEmail, type Identity, type User } from '../../domain/account.ts';
import { CatalogueError } from '../../errors.ts';
import { ulidAt } from '../../std/id.ts';
import type { SignIn, UserReads, UserWork } from '../ports/users.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

const USERS = 'users';
/** [digest of issuer and subject, which have no length limit] → IdentityRow. */
const BY_IDENTITY = 'users_by_identity';

/** [normalized e-mail address, user] → null. */
const BY_EMAIL = 'users_by_email';

/** The user's id; an object if an account with this identity was deleted. */
type IdentityRow = string | { user_id: string | null; deleted_at_ms: number };

/** How long after a deletion a token without an issue time cannot open a new account. */
const UNDATED_TOKEN_MS = 86_400_000;

export class TableUserReads implements UserReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  findId(identity: Identity, nowMs: number): string | undefined {
    const row = this.#reader.get<IdentityRow>(BY_IDENTITY, [digestIdentity(identity)]);
    if (row === undefined || typeof row === 'string') return row;
    const { issued_at_s } = identity;
    const isNew =
      issued_at_s === null
        ? nowMs > row.deleted_at_ms + UNDATED_TOKEN_MS
        : issued_at_s * 1_000 > row.deleted_at_ms;
    if (!isNew) throw new CatalogueError('unauthenticated', 'The account was deleted; sign in again');
    return row.user_id ?? undefined;
  }

  find(id: string): User | undefined {
    return this.#reader.get<User>(USERS, [id]);
  }

  *listWithEmail(email: string): Iterable<string> {
    for (const { row } of this.#reader.range(BY_EMAIL, { prefix: [foldEmail(email)] })) yield String(row[1]);
  }
}

export class TableUserWork extends TableUserReads implements UserWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  create(signIn: SignIn, nowMs: number): User {
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
    const before = this.#tx.get<IdentityRow>(BY_IDENTITY, row);
    const value: IdentityRow = typeof before === 'object' ? { ...before, user_id: user.id } : user.id;
    this.#tx.write({ op: 'put', table: BY_IDENTITY, row, value });
    this.put(user);
    return user;
  }

  remove(user: User, identity: Identity, nowMs: number): void {
    const deleted_at_ms = Math.max(nowMs, (identity.issued_at_s ?? 0) * 1_000);
    const value: IdentityRow = { user_id: null, deleted_at_ms };
    this.#tx.write({ op: 'put', table: BY_IDENTITY, row: [digestIdentity(identity)], value });
    this.#tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(user) });
    this.#tx.write({ op: 'remove', table: USERS, row: [user.id] });
  }

  put(user: User): void {
    const before = this.find(user.id);
    if (before === undefined || before.email !== user.email) {
      if (before !== undefined) this.#tx.write({ op: 'remove', table: BY_EMAIL, row: emailRow(before) });
      this.#tx.write({ op: 'put', table: BY_EMAIL, row: emailRow(user), value: null });
    }
    this.#tx.write({ op: 'put', table: USERS, row: [user.id], value: user });
  }
}

function emailRow({ email, id }: User) {
  return [foldEmail(email), id];
}

function digestIdentity({ issuer, subject }: Identity): string {
  return createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('base64url');
}
