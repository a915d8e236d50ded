/**
 * Handler of `contract/mcp.ts`. The tools call the routes of this API with the caller's credential, so they have the
 * same permissions as the caller. For the rate limit, an MCP message counts as one request, and the calls of its tools
 * on `bearer` endpoints do not count. Server threads.
 */
import type { BoundEndpoint, HandlersOf } from '../contract/handler.ts';
import type { MCP } from '../contract/mcp.ts';
import type { ApiReply, ApiRequest, ApiRoute, RequestHeaders } from '../contract/route.ts';
import { SchemaViolation } from '../contract/violation.ts';
import { type CatalogueError, toCatalogueError } from '../errors.ts';
import type { ApiAnswer, CallApi } from '../mcp/tool-answer.ts';
import { FailedCall, renderError } from './dispatch.ts';
import { type Checks, guard } from './pipeline.ts';

interface McpServices {
  version: string;
  /**
   * Endpoints that the tools call. A tool whose endpoint is missing answers as if the endpoint had
   * returned 404.
   */
  endpoints: readonly BoundEndpoint[];
  /** Routes of operators; other callers get 404 from them. */
  operator_routes: readonly ApiRoute[];
  checks: Checks;
}

const UNCOUNTED = { allowed: true, remaining: 0, reset_s: 0, limit: { rate_per_s: 1, burst: 1 } };

export function mcpHandlers(services: McpServices): HandlersOf<typeof MCP> {
  const { version, endpoints, operator_routes, checks } = services;
  // Do not count these requests, because the rate limit has already counted the MCP message.
  const uncounted: Checks = {
    ...checks,
    limiter: { take: () => UNCOUNTED },
  };
  const routes = new Map(
    [...operator_routes, ...endpoints.map((bound) => guard(bound, uncounted))].map((route) => [
      route.endpoint.id,
      route,
    ]),
  );
  return {
    message: async ({ body, request }) => {
      const [{ answerMcp }, { createMcpServer }] = await Promise.all([
        import('../mcp/endpoint.ts'),
        import('../mcp/server.ts'),
      ]);
      let failure: CatalogueError | undefined;
      const call: CallApi = async (endpoint, params, input) => {
        const route = routes.get(endpoint.id);
        if (route === undefined) return { status: 404, body: { detail: 'Not Found' }, retry_after_s: null };
        const reply = await callRoute(route, innerRequest(request, endpoint.method, params, input));
        failure = reply.failure;
        return readReply(reply);
      };
      const codebase_id = readQuery(request).get('codebase_id') || null;
      const reply = await answerMcp({ headers: request.headers, message: body }, () =>
        createMcpServer({ version, call, codebase_id }),
      );
      const { status } = reply;
      const failed = failure === undefined ? {} : { failure };
      if (reply.body === '') return { status, ...failed };
      if (!reply.is_event_stream) return { status, json: reply.body, ...failed };
      const events = Buffer.from(reply.body);
      const open = (sink: { write(bytes: Uint8Array): boolean; close(): void }) => {
        if (sink.write(events)) sink.close();
        return () => {};
      };
      return { status, stream: { open }, ...failed };
    },
  };
}

/**
 * Makes the request of a tool. The `org_id` and `project_id` of the MCP request's query go into the
 * query of a GET. For other methods they also go into the body, where a static key must name its tenant.
 */
function innerRequest(
  outer: ApiRequest,
  method: ApiRequest['method'],
  params: Readonly<Record<string, string>>,
  input: Readonly<Record<string, unknown>>,
): ApiRequest {
  const named = readQuery(outer);
  const tenant = ['org_id', 'project_id'].flatMap((name) => {
    const value = named.get(name);
    return value === null ? [] : [[name, value]];
  });
  const isRead = method === 'GET';
  const asked = Object.entries(input).map(([name, value]) => [name, String(value)] as const);
  return {
    method,
    path: outer.path,
    query: isRead ? new URLSearchParams(Object.fromEntries([...tenant, ...asked])).toString() : outer.query,
    headers: new InnerHeaders(outer.headers),
    params,
    body: isRead ? Buffer.alloc(0) : Buffer.from(JSON.stringify({ ...Object.fromEntries(tenant), ...input })),
    address: outer.address,
  };
}

/** Parses the query, which the server returns with one character per byte. */
function readQuery({ query }: ApiRequest): URLSearchParams {
  return new URLSearchParams(Buffer.from(query, 'latin1').toString());
}

/** The headers of the inner request: the caller's credential, and headers that fit its new body. */
class InnerHeaders implements RequestHeaders {
  readonly #outer: RequestHeaders;

  constructor(outer: RequestHeaders) {
    this.#outer = outer;
  }

  get(name: string): string | undefined {
    if (name === 'content-type') return 'application/json';
    return name === 'authorization' ? this.#outer.get(name) : undefined;
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }
}

/** Calls a route. Never rejects, because failures become answers. */
async function callRoute(route: ApiRoute, request: ApiRequest): Promise<ApiReply> {
  try {
    return await route.handle(request);
  } catch (thrown) {
    const cause = thrown instanceof FailedCall ? thrown.cause : thrown;
    if (cause instanceof SchemaViolation) return renderError(cause);
    const failure = toCatalogueError(cause);
    return { ...renderError(failure), failure };
  }
}

function readReply({ status, headers, body }: ApiReply): ApiAnswer {
  // Bytes from another thread come without the methods of a Buffer.
  const text = typeof body === 'string' ? body : Buffer.from(body ?? []).toString();
  const seconds = Number(headers.find(([name]) => name === 'retry-after')?.[1] ?? Number.NaN);
  return {
    status,
    body: text === '' ? undefined : (JSON.parse(text) as unknown),
    retry_after_s: Number.isFinite(seconds) ? seconds : null,
  };
}
