/** How the tools reach an API that runs elsewhere: over HTTP, one request a call. Any thread. */
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
  return async ({ path, method }, params, body) => {
    let place = path;
    for (const name of pathParameters(path))
      place = place.replace(`{${name}}`, () => encodeURIComponent(params[name]!));
    // A static key reads them in the body, a JWT in the query.
    const query = new URLSearchParams(tenant).toString();
    try {
      const answer = await fetch(`${base_url}${place}${query === '' ? '' : `?${query}`}`, {
        method,
        headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ ...tenant, ...body }),
        // The key is for that address alone.
        redirect: 'error',
        signal: AbortSignal.timeout(timeout_ms),
      });
      const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
      return {
        status: answer.status,
        body: parse(await answer.text()),
        retry_after_s: Number.isFinite(seconds) ? seconds : null,
      };
    } catch (thrown) {
      throw new UnreachableApi(`Understudy does not answer at ${base_url} (${describeCause(thrown)})`, {
        cause: thrown,
      });
    }
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The system's code where there is one: `fetch` itself says only that it failed. */
function describeCause(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  if (thrown.name === 'TimeoutError') return 'no answer in time';
  const { code, message } = (thrown.cause ?? thrown) as NodeJS.ErrnoException;
  return code ?? message;
}
