/** Lets tools and commands call an API in another process over HTTP, one request per call. Command line. */
import { type Answer, Transport } from '../client/transport.ts';
import { pathParameters } from '../contract/endpoint.ts';
import { type CallApi, UnreachableApi } from './tool-answer.ts';

export interface RemoteApiOptions {
  /** No trailing slash. */
  base_url: string;
  api_key: string;
  /** The tenant, if the credential does not determine it. */
  tenant: { org_id?: string; project_id?: string };
  /** Time limit of a call. */
  timeout_ms: number;
  /** The calling program; default: the MCP server. */
  user_agent?: string;
}

/** Makes the function that calls the API at an address. */
export function remoteApi({
  base_url,
  api_key,
  tenant,
  timeout_ms,
  user_agent = 'understudy-mcp',
}: RemoteApiOptions): CallApi {
  const base = new URL(base_url);
  const prefix = base.pathname.replace(/\/+$/, '');
  const transport = new Transport(base, {
    authorization: `Bearer ${api_key}`,
    'user-agent': user_agent,
  });
  return async ({ path, method }, params, input) => {
    let place = path;
    for (const name of pathParameters(path))
      place = place.replace(`{${name}}`, () => encodeURIComponent(params[name]!));
    // A request with a static key names its tenant in the body of a POST, and otherwise in the query. A request with a
    // JWT always names it in the query.
    const hasBody = method !== 'GET' && method !== 'DELETE';
    const query = new URLSearchParams({ ...tenant, ...(hasBody ? {} : toTexts(input)) }).toString();
    let answer: Answer;
    try {
      answer = await transport.send({
        method,
        target: `${prefix}${place}${query === '' ? '' : `?${query}`}`,
        body: hasBody ? JSON.stringify({ ...tenant, ...input }) : undefined,
        timeoutMs: timeout_ms,
        isBackground: false,
      });
    } catch (thrown) {
      const { message } = thrown as Error;
      throw new UnreachableApi(`Understudy does not answer: ${message}`, { cause: thrown });
    }
    return { status: answer.status, body: parse(answer.body), retry_after_s: answer.retryAfter };
  };
}

/** Converts the values of a query to texts. */
function toTexts(input: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(Object.entries(input).map(([name, value]) => [name, String(value)]));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
