/** From a request to the answer of its route: matching, 404, 405, and errors as `{"detail": …}`. Front threads. */

import { pathParameters } from '../contract/endpoint.ts';
import { type ApiReply, type ApiRequest, type ApiRoute, jsonReply } from '../contract/route.ts';
import { CatalogueError, toApiBody, toCatalogueError } from '../errors.ts';

interface CompiledRoute {
  route: ApiRoute;
  pattern: RegExp;
  names: string[];
}

/** A request before its route is known. */
export type UnroutedRequest = Omit<ApiRequest, 'params'>;

/**
 * @param routes the table; of two routes that match, the earlier answers
 * @param report told of every failure that is ours (500), its cause included; a caller reads the catalogue's words
 * @returns answers a request; never rejects. A HEAD is answered as its GET (the server leaves the body out), a
 *   trailing slash as if it were not there.
 */
export function compileDispatch(
  routes: readonly ApiRoute[],
  report: (error: CatalogueError, request: UnroutedRequest) => void,
): (request: UnroutedRequest) => Promise<ApiReply> {
  const compiled = routes.flatMap(compileRoute);
  return async (request) => {
    try {
      return await findHandler(compiled, request)();
    } catch (thrown) {
      const error = toCatalogueError(thrown);
      if (error.code === 'internal') report(error, request);
      return renderError(error, compiled, request);
    }
  };
}

function renderError(
  error: CatalogueError,
  compiled: readonly CompiledRoute[],
  request: UnroutedRequest,
): ApiReply {
  const headers: [string, string][] = [];
  if (error.code === 'method_not_allowed')
    headers.push(['allow', allowedMethods(compiled, request).join(', ')]);
  return jsonReply(error.status, toApiBody(error), headers);
}

function compileRoute(route: ApiRoute): CompiledRoute[] {
  return [route.endpoint.path, ...(route.endpoint.aliases ?? [])].map((path) => {
    const source = path
      .split(/\{\w+\}/)
      .map((literal) => literal.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('([^/]+)');
    return { route, pattern: new RegExp(`^${source}/?$`), names: pathParameters(path) };
  });
}

function findHandler(compiled: readonly CompiledRoute[], request: UnroutedRequest) {
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  for (const { route, pattern, names } of compiled) {
    const match = route.endpoint.method === method ? pattern.exec(request.path) : null;
    if (match === null) continue;
    const params = Object.fromEntries(names.map((name, index) => [name, decodeSegment(match[index + 1]!)]));
    return () => route.handle({ ...request, params });
  }
  throw new CatalogueError(allowedMethods(compiled, request).length > 0 ? 'method_not_allowed' : 'not_found');
}

function allowedMethods(compiled: readonly CompiledRoute[], { path }: UnroutedRequest): string[] {
  const methods = compiled
    .filter(({ pattern }) => pattern.test(path))
    .map(({ route }) => route.endpoint.method);
  return [...new Set(methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))];
}

/** @throws CatalogueError `not_found` for a segment that is not percent-encoded UTF-8: nothing can be called that. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new CatalogueError('not_found');
  }
}
