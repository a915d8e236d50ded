/** Who may read what is captured: the service's operators (decisions, Captures), and what the audit log calls them. Server threads. */
import type { MembershipReader } from '../auth/membership.ts';
import type { Principal, UserIdentity } from '../auth/principal.ts';
import type { Config } from '../config.ts';
import { type AuditActor, foldEmail } from '../domain/account.ts';
import { isAtLeast } from '../domain/role.ts';
import { findUserId } from '../storage/accounts/users.ts';
import type { Tables } from '../storage/tables.ts';
import { ownOrganization } from './access.ts';

interface OperatorsOptions {
  config: Config['operators'];
  /** Whom the terminal's link signs in; null where tokens come from an identity provider alone. */
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
   * Static keys are the operator's own. A customer's key never is, whatever its organization. An address counts where
   * the very token says that it is verified.
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

/** Who the audit log names, and the organization whose log has the entry where captures are of none; null: no log has it. */
export function describeOperator(
  main: Tables,
  operator: Principal,
  address: string,
  nowMs: number,
): { actor: AuditActor; log: string | null } {
  const user_id = operator.type === 'user' ? findUserId(main, operator.identity, nowMs) : undefined;
  if (user_id === undefined) return { actor: { type: 'operator', id: operator.id, address }, log: null };
  return { actor: { type: 'user', id: user_id, address }, log: ownOrganization(main, user_id) };
}
