/**
 * The tenant whose data a request may access, for every kind of credential (contract document 2, Authentication). Any
 * thread.
 */

/** The scope of a request on `/v1`. */
export interface Tenant {
  org_id: string;
  /** null: every project of the organization. */
  project_id: string | null;
  actor: TenantActor;
}

/** The caller. `static` keys belong to the operator, and may name any organization. */
interface TenantActor {
  type: 'key' | 'static' | 'user';
  /** Identifies the credential without revealing it: a key's id, a user's id, `static:` and a digest. */
  id: string;
}

/** The project of new records if neither the credential nor the body names one (contract document 2). */
export const DEFAULT_PROJECT = 'default';
/** The organization of a static key's request that does not name one. */
export const DEFAULT_ORG = 'default';

/** Finds the project of a new record: the credential's, otherwise the body's, otherwise the default. */
export function projectOf(tenant: Tenant, fromBody: string | undefined): string {
  return tenant.project_id ?? fromBody ?? DEFAULT_PROJECT;
}
