/**
 * The fields in which a request with a static key or a JWT names its tenant (document 4, "Static keys"). Any
 * thread.
 */
import { z } from 'zod';
import { identifier } from './fields.ts';

const ORG = "The organization. Ignored with a customer's key; default with a static key: `default`";
const JWT_ORG =
  'The organization, which a JWT must name. Ignored with any key: a static one names it in the body';
const PROJECT = "The project; absent: all of them. Ignored with a customer's key";

/** In the query: requests with a static key and without a body, and all requests with a JWT. */
export const tenantQuery = z.object({
  org_id: identifier().optional().describe(ORG),
  project_id: identifier().optional().describe(PROJECT),
});

/** In the query of requests with a body: only for a JWT. */
export const jwtQuery = z.object({ org_id: identifier().optional().describe(JWT_ORG) });

/** In the body of requests with a static key. */
export const tenantFields = z
  .object({
    org_id: identifier().nullish().describe(ORG),
    project_id: identifier().nullish().describe(PROJECT),
  })
  .meta({ id: 'TenantFields' });
