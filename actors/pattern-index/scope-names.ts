/**
 * Names of scopes, and the rules for which scopes a request may see. Pure; any thread.
 */
import { type PatternScope, UNIVERSAL_SCOPE } from '../../src/domain/pattern.ts';
import type { RetrieveRequest } from './protocol.ts';

/** Lists the scopes that a request may search, whether they contain patterns or not. */
export function namedScopes({ org_id, project_id, tier }: RetrieveRequest): PatternScope[] {
  const scopes: PatternScope[] = [];
  if (project_id !== null && (tier === null || tier === 'e1'))
    scopes.push({ tier: 'e1', org_id, project_id });
  if (tier === null || tier === 'e2') scopes.push({ tier: 'e2', org_id, project_id: '' });
  if (tier === null || tier === 'e3') scopes.push(UNIVERSAL_SCOPE);
  return scopes;
}

/**
 * Names the group of scopes that are searched in addition to the named ones: all projects of the organization; '': no
 * group is searched.
 */
export function groupOf({ org_id, project_id, tier }: RetrieveRequest): string {
  return project_id === null && (tier === null || tier === 'e1') ? nameGroup(org_id) : '';
}

export function nameGroup(org_id: string): string {
  return JSON.stringify(org_id);
}

/** Reads the scope from a name that {@link nameScope} made. */
export function parseScope(name: string): PatternScope {
  const [tier, org_id, project_id] = JSON.parse(name) as [PatternScope['tier'], string, string];
  return { tier, org_id, project_id };
}

/** Makes a unique name for each scope. */
export function nameScope({ tier, org_id, project_id }: PatternScope): string {
  return JSON.stringify([tier, org_id, project_id]);
}
