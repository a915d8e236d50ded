/**
 * The fields in which a request with a static key or a JWT names its tenant (document 4, "Static keys"). Any
 * thread.
 */
import { z } from 'zod';
import { identifier } from './fields.ts';

const ORG = "The organization. Ignored with a customer's key; default with a static key: `default`";
const QUERY_ORG = `${ORG}; a JWT must name it`;
const JWT_ORG =
  'The organization, which a JWT must name. Ignored with any key; a request with a static key names the organization in the body';
const PROJECT = "The project; absent: all of them. Ignored with a customer's key";

/** Fields in the query of requests with a static key and without a body, and of all requests with a JWT. */
export const tenantQuery = z.object({
  org_id: identifier().optional().describe(QUERY_ORG),
  project_id: identifier().optional().describe(PROJECT),
});

/** Fields in the query of requests with a body. Only a JWT needs them. */
export const jwtQuery = z.object({ org_id: identifier().optional().describe(JWT_ORG) });

/** Fields in the body of requests with a static key. */
export const tenantFields = z
  .object({
    org_id: identifier().nullish().describe(ORG),
    project_id: identifier().nullish().describe(PROJECT),
  })
  .meta({ id: 'TenantFields' });
