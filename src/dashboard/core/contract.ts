/**
 * The routes of the API as types, derived from the contract. A call names its route as `'GET /projects'`; a
 * wrong path, parameter or field does not compile. Types; browser.
 */
import type { z } from 'zod';
import type { ACCOUNT } from '../../contract/account.ts';
import type { ALERT_ROUTES } from '../../contract/alerts.ts';
import type { API_KEYS } from '../../contract/api-keys.ts';
import type { BILLING } from '../../contract/billing.ts';
import type { CAPTURES } from '../../contract/captures.ts';
import type { EXPERIMENTS } from '../../contract/experiments.ts';
import type { FEEDBACK } from '../../contract/feedback.ts';
import type { FINDINGS } from '../../contract/findings.ts';
import type { ready } from '../../contract/health.ts';
import type { ORGANIZATIONS } from '../../contract/organizations.ts';
import type { PATTERNS } from '../../contract/patterns.ts';
import type { PROJECTS } from '../../contract/projects.ts';
import type { RETENTION_ROUTES } from '../../contract/retention.ts';
import type { RUN_RECORDS } from '../../contract/run-records.ts';
import type { SEARCHES } from '../../contract/searches.ts';
import type { SESSION } from '../../contract/session.ts';
import type { STREAM } from '../../contract/stream.ts';
import type { TRACES } from '../../contract/traces.ts';
import type { USAGE_ROUTES } from '../../contract/usage.ts';

type Endpoints<Table> = Table[keyof Table];

type AnyEndpoint =
  | Endpoints<typeof ACCOUNT>
  | Endpoints<typeof ALERT_ROUTES>
  | Endpoints<typeof API_KEYS>
  | Endpoints<typeof BILLING>
  | Endpoints<typeof CAPTURES>
  | Endpoints<typeof EXPERIMENTS>
  | Endpoints<typeof FEEDBACK>
  | Endpoints<typeof SEARCHES>
  | Endpoints<typeof FINDINGS>
  | Endpoints<typeof ORGANIZATIONS>
  | Endpoints<typeof PATTERNS>
  | Endpoints<typeof PROJECTS>
  | Endpoints<typeof RETENTION_ROUTES>
  | Endpoints<typeof RUN_RECORDS>
  | Endpoints<typeof SESSION>
  | Endpoints<typeof STREAM>
  | Endpoints<typeof TRACES>
  | Endpoints<typeof USAGE_ROUTES>
  | typeof ready;

type Routes = { [E in AnyEndpoint as `${E['method']} ${E['path']}`]: E };

/** For example `'GET /organizations/{org_id}/members'`. */
export type Route = keyof Routes;

/** The JSON of a route's answer with status 200; undefined if that answer has no JSON. */
export type Reply<R extends Route> = Routes[R]['replies'] extends {
  200: { schema: infer S extends z.ZodType };
}
  ? z.output<S>
  : undefined;

/** An element of a route's list: `Row<'GET /projects'>`. */
export type Row<R extends Route> = Reply<R> extends readonly (infer One)[] ? One : never;

/**
 * Additional query parameters of every route: a signed-in user names the organization whose content is read or changed.
 */
interface TenantQuery {
  org_id?: string;
  project_id?: string;
}

type Part<R extends Route, Name extends string> =
  Routes[R] extends Record<Name, infer S extends z.ZodType> ? { [K in Name]: z.input<S> } : unknown;

type QueryPart<R extends Route> = Routes[R] extends { query: infer S extends z.ZodType }
  ? { query?: z.input<S> & TenantQuery }
  : { query?: TenantQuery };

/** The body of a route's request. */
export type RequestBody<R extends Route> = Part<R, 'body'> extends { body: infer B } ? B : never;

/** The inputs of a call. */
export type Ask<R extends Route> = Part<R, 'params'> &
  Part<R, 'body'> &
  QueryPart<R> & { signal?: AbortSignal | undefined };
