/**
 * The service's operators, who may read captures (document 4, "Captures"), and their names in the audit log.
 * Server threads.
 */
import type { MembershipReader } from '../auth/membership.ts';
import type { Principal, UserIdentity } from '../auth/principal.ts';
import type { Config } from '../config.ts';
import { type AuditActor, foldEmail } from '../domain/account.ts';
import { isAtLeast } from '../domain/role.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import { ownOrganization } from './access.ts';

interface OperatorsOptions {
  config: Config['operators'];
  /** The user whom the terminal's link signs in; null if all tokens come from an identity provider. */
  owner: Pick<UserIdentity, 'issuer' | 'subject'> | null;
  memberships: MembershipReader;
}

export class Operators {
  readonly #emails: ReadonlySet<string>;
  readonly #options: OperatorsOptions;

  constructor(options: OperatorsOptions) {
    this.#options = options;
    this.#emails = new Set(options.config.emails);
  }

  /**
   * Whether the caller is an operator: every caller with a static key, the user whom the terminal's link signs in, a
   * user with an address of the configuration, and an owner or admin of the configured organization. A customer's key
   * never is, whatever its organization. The user of the link and an address count only if the token says that the
   * address is verified.
   */
  async includes(principal: Principal): Promise<boolean> {
    if (principal.type !== 'user') return principal.type === 'static';
    const { identity } = principal;
    const { owner, config, memberships } = this.#options;
    const { issuer, subject, email, email_verified } = identity;
    if (email_verified && owner !== null && owner.issuer === issuer && owner.subject === subject) return true;
    if (email_verified && email !== null && this.#emails.has(foldEmail(email))) return true;
    if (config.org === null) return false;
    const membership = await memberships.roleOf(identity, config.org);
    return membership !== null && isAtLeast(membership.role, 'admin');
  }
}

/**
 * Returns the operator as the actor of an audit entry, and in `log` the organization whose log gets the entry
 * if captures belong to no organization; null: no log gets it.
 */
export function describeOperator(
  accounts: Accounts,
  operator: Principal,
  address: string,
  nowMs: number,
): { actor: AuditActor; log: string | null } {
  const user_id = operator.type === 'user' ? accounts.users.findId(operator.identity, nowMs) : undefined;
  if (user_id === undefined) return { actor: { type: 'operator', id: operator.id, address }, log: null };
  return { actor: { type: 'user', id: user_id, address }, log: ownOrganization(accounts, user_id) };
}
