/**
 * The checks that every request on an operator's route passes before its handler: operator (otherwise 404, as for an
 * unknown path) → rate 429 → JSON syntax 400 → schema 422 → the work. Server threads.
 */
import type { Principal } from '../auth/principal.ts';
import type { Endpoint } from '../contract/endpoint.ts';
import type { Call } from '../contract/handler.ts';
import type { ApiReply, ApiRequest, ApiRoute } from '../contract/route.ts';
import { SchemaViolation } from '../contract/violation.ts';
import { CatalogueError, toCatalogueError } from '../errors.ts';
import { UnknownFields } from '../http/unknown-fields.ts';
import { checkInput, readInput, ViolationList } from '../http/validation.ts';
import { FailedCall, renderError } from './dispatch.ts';
import type { Operators } from './operators.ts';
import { type Checks, identify, warnOf, withHeaders } from './pipeline.ts';

/** A call of an operator's route. `operator` identifies the caller. */
type OperatorCall<E extends Endpoint> = Omit<Call<E>, 'tenant'> & { operator: Principal };

/** A handler for each endpoint of a table. Answers may be other than JSON, such as a download. */
export type OperatorHandlersOf<Table extends Readonly<Record<string, Endpoint>>> = {
  readonly [Name in keyof Table]: (call: OperatorCall<Table[Name]>) => Promise<ApiReply>;
};

/** Adds the checks to the handlers of a table. */
export function guardOperator<const Table extends Readonly<Record<string, Endpoint>>>(
  table: Table,
  handlers: OperatorHandlersOf<Table>,
  checks: Checks,
  operators: Operators,
): ApiRoute[] {
  return Object.keys(table).map((name) => {
    const endpoint: Endpoint = table[name]!;
    // Each handler gets only calls of its endpoint.
    const handler = handlers[name] as unknown as (call: OperatorCall<Endpoint>) => Promise<ApiReply>;
    const unknownFields = new UnknownFields(endpoint, []);
    const handle = async (request: ApiRequest): Promise<ApiReply> => {
      const principal = await findOperator(request, checks, operators);
      const outcome = await checks.limiter.take(principal.id);
      let headers = checks.rate_headers.describe(outcome);
      if (!outcome.allowed) return withHeaders(renderError(new CatalogueError('rate_limited')), headers);
      try {
        const found = new ViolationList();
        const input = readInput(endpoint, request, []);
        const checked = checkInput(endpoint, input, found);
        found.throwAny();
        headers = warnOf(unknownFields.describe(request.query, input.body), headers);
        const { params, query, body } = checked as { params: never; query: never; body: never };
        return withHeaders(await handler({ params, query, body, request, operator: principal }), headers);
      } catch (thrown) {
        const error = thrown instanceof SchemaViolation ? thrown : toCatalogueError(thrown);
        // Internal failures are reported and rendered by the caller.
        if (error instanceof CatalogueError && error.status >= 500) throw new FailedCall(error, headers);
        return withHeaders(renderError(error), headers);
      }
    };
    return { endpoint, handle };
  });
}

/**
 * Identifies the operator who sends the request.
 * @throws CatalogueError `not_found` for every other caller; `unavailable` while the caller cannot be identified
 */
async function findOperator(request: ApiRequest, checks: Checks, operators: Operators): Promise<Principal> {
  try {
    const principal = await identify(request, checks);
    if (await operators.includes(principal)) return principal;
  } catch (thrown) {
    if (thrown instanceof CatalogueError && thrown.status < 500) throw new CatalogueError('not_found');
    throw thrown;
  }
  throw new CatalogueError('not_found');
}
