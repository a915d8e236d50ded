/** Addresses and first calls for a new client. Browser. */
import { server } from './session.ts';

/** The gateway's address as seen from the browser; null if this process has no gateway. */
export function gatewayAddress(): string | null {
  const facts = server.value;
  if (facts?.gateway_port == null) return null;
  const scheme = facts.gateway_is_secure ? 'https' : 'http';
  return `${scheme}://${facts.gateway_is_local ? '127.0.0.1' : location.hostname}:${facts.gateway_port}`;
}

/** First calls of the API with a key. */
export function firstCalls(key: string): string {
  return [
    `export UNDERSTUDY_KEY=${key}`,
    `curl ${location.origin}/v1/monitor/runs -H "authorization: Bearer $UNDERSTUDY_KEY" \\`,
    `  -H 'content-type: application/json' -d '{"run_id":"hello","task":"say hello"}'`,
    `curl ${location.origin}/v1/monitor/runs/hello/steps -H "authorization: Bearer $UNDERSTUDY_KEY" \\`,
    `  -H 'content-type: application/json' -d '{"step_index":0,"action":"greet","observation":"hello"}'`,
  ].join('\n');
}
