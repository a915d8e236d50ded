/** How the tools reach an API that runs elsewhere: over HTTP, one request a call. Command line. */
import { type Answer, Transport } from '../client/transport.ts';
import { pathParameters } from '../contract/endpoint.ts';
import { type CallApi, UnreachableApi } from './tools.ts';

export interface RemoteApiOptions {
  /** No trailing slash. */
  base_url: string;
  api_key: string;
  /** The tenant, where the credential has none of its own. */
  tenant: { org_id?: string; project_id?: string };
  /** An answer that takes longer is given up. */
  timeout_ms: number;
}

export function remoteApi({ base_url, api_key, tenant, timeout_ms }: RemoteApiOptions): CallApi {
  const base = new URL(base_url);
  const prefix = base.pathname.replace(/\/+$/, '');
  const transport = new Transport(base, {
    authorization: `Bearer ${api_key}`,
    'user-agent': 'understudy-mcp',
  });
  // A static key reads them in the body, a JWT in the query.
  const query = new URLSearchParams(tenant).toString();
  return async ({ path, method }, params, body) => {
    let place = path;
    for (const name of pathParameters(path))
      place = place.replace(`{${name}}`, () => encodeURIComponent(params[name]!));
    let answer: Answer;
    try {
      answer = await transport.send({
        method,
        target: `${prefix}${place}${query === '' ? '' : `?${query}`}`,
        body: JSON.stringify({ ...tenant, ...body }),
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
