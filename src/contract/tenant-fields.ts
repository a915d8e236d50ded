/** How a static key or a JWT names the tenant of its request (decisions, Static keys). Any thread. */
import { z } from 'zod';
import { identifier } from './fields.ts';

const ORG = "The organization. Ignored with a customer's key; default with a static key: `default`";
const JWT_ORG =
  'The organization, which a JWT must name. Ignored with any key: a static one names it in the body';
const PROJECT = "The project; absent: all of them. Ignored with a customer's key";

/** In the query: of a static key's request without a body, of a JWT's always. */
export const tenantQuery = z.object({
  org_id: identifier().optional().describe(ORG),
  project_id: identifier().optional().describe(PROJECT),
});

/** In the query of a request with a body: of a JWT's alone. */
export const jwtQuery = z.object({ org_id: identifier().optional().describe(JWT_ORG) });

/** In the body of a static key's request that has one. */
export const tenantFields = z
  .object({
    org_id: identifier().nullish().describe(ORG),
    project_id: identifier().nullish().describe(PROJECT),
  })
  .meta({ id: 'TenantFields' });
