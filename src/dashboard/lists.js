/** What sections share: who may what, long lists, the addresses that a client needs. Browser. */
import { make, makeButton } from './elements.js';
import { callList, withQuery } from './session.js';

const ROLES = ['viewer', 'member', 'admin', 'owner'];
export const PAGE_ROWS = 50;

/** Whether the role is at least `least`. The server decides; this only hides what it would refuse. */
export const isAtLeast = (role, least) => ROLES.indexOf(role) >= ROLES.indexOf(least);

/** The roles that somebody of this role can give. */
export const rolesUpTo = (role) => ROLES.filter((one) => isAtLeast(role, one));

/** Shows a list of the API's page by page: `show(rows)` makes what stands for the rows so far. */
export async function makeList(path, query, show, fail) {
  const rows = [];
  const holder = make('div', { class: 'list' });
  const readOn = async () => {
    const page = await callList(withQuery(path, { ...query, limit: PAGE_ROWS, offset: rows.length }));
    rows.push(...page.rows);
    const isMore = page.rows.length > 0 && rows.length < page.total;
    const more = makeButton(
      `Show more (${rows.length} of ${page.total})`,
      () => readOn().catch(fail),
      'plain',
    );
    holder.replaceChildren(show(rows), ...(isMore ? [more] : []));
  };
  await readOn();
  return holder;
}

/** The whole of a list that is short by nature (projects to choose from). At most 1,000 of it. */
export async function readAll(path, query) {
  const all = [];
  for (let total = 1; all.length < Math.min(total, 1_000); ) {
    const page = await callList(withQuery(path, { ...query, limit: 200, offset: all.length }));
    if (page.rows.length === 0) break;
    all.push(...page.rows);
    total = page.total;
  }
  return all;
}

/** Where the gateway is, as seen from here; null where this process has none. */
export function gatewayAddress({ gateway_port, gateway_is_local }) {
  if (!gateway_port) return null;
  return `http://${gateway_is_local ? '127.0.0.1' : location.hostname}:${gateway_port}`;
}

/** First calls of the API with a key. */
export function firstCalls(key) {
  return [
    `export UNDERSTUDY_KEY=${key}`,
    `curl ${location.origin}/v1/monitor/runs -H "authorization: Bearer $UNDERSTUDY_KEY" \\`,
    `  -H 'content-type: application/json' -d '{"run_id":"hello","task":"say hello"}'`,
    `curl ${location.origin}/v1/monitor/runs/hello/steps -H "authorization: Bearer $UNDERSTUDY_KEY" \\`,
    `  -H 'content-type: application/json' -d '{"step_index":0,"action":"greet","observation":"hello"}'`,
  ].join('\n');
}
