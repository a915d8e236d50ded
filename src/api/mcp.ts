/**
 * Handler of `contract/mcp.ts`: the tools' calls go to the routes of this very API with the caller's own credential, so that
 * tenants, roles and bounds are the same. Server threads.
 */
import type { BoundEndpoint, HandlersOf } from '../contract/handler.ts';
import type { MCP } from '../contract/mcp.ts';
import type { ApiReply, ApiRequest, ApiRoute, RequestHeaders } from '../contract/route.ts';
import { SchemaViolation } from '../contract/violation.ts';
import { type CatalogueError, toCatalogueError } from '../errors.ts';
import type { ApiAnswer, CallApi } from '../mcp/tools.ts';
import { FailedCall, renderError } from './dispatch.ts';
import { type Checks, guard } from './pipeline.ts';

export interface McpServices {
  version: string;
  /** What the tools call; a tool whose endpoint is missing answers as for 404. */
  endpoints: readonly BoundEndpoint[];
  checks: Checks;
}

export function mcpHandlers({ version, endpoints, checks }: McpServices): HandlersOf<typeof MCP> {
  // The message itself was counted.
  const uncounted: Checks = {
    ...checks,
    limiter: { take: () => ({ allowed: true, remaining: 0, reset_s: 0 }) },
  };
  const routes = new Map(endpoints.map((bound) => [bound.endpoint.id, guard(bound, uncounted)]));
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
        const reply = await callRoute(route, innerRequest(request, params, input));
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

/** A static key names its tenant in the body of such a request, a JWT in the query; here both do in the query. */
function innerRequest(
  outer: ApiRequest,
  params: Readonly<Record<string, string>>,
  input: Readonly<Record<string, unknown>>,
): ApiRequest {
  const named = readQuery(outer);
  const tenant = ['org_id', 'project_id'].flatMap((name) => {
    const value = named.get(name);
    return value === null ? [] : [[name, value]];
  });
  return {
    method: 'POST',
    path: outer.path,
    query: outer.query,
    headers: new InnerHeaders(outer.headers),
    params,
    body: Buffer.from(JSON.stringify({ ...Object.fromEntries(tenant), ...input })),
    address: outer.address,
  };
}

/** The server shows bytes as characters. */
function readQuery({ query }: ApiRequest): URLSearchParams {
  return new URLSearchParams(Buffer.from(query, 'latin1').toString());
}

/** The caller's credential, in front of a body of ours. */
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

/** Never rejects: what fails is an answer, too. */
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
  const text = String(body);
  const seconds = Number(headers.find(([name]) => name === 'retry-after')?.[1] ?? Number.NaN);
  return {
    status,
    body: text === '' ? undefined : (JSON.parse(text) as unknown),
    retry_after_s: Number.isFinite(seconds) ? seconds : null,
  };
}
