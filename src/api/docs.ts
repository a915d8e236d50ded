/** The interface description as one page that needs neither script nor network. Made once at start. Front threads. */

import { type Endpoint, pathParameters } from '../contract/endpoint.ts';

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
code,pre{font:14px/1.45 ui-monospace,monospace}pre{overflow:auto;padding:.75rem;border:1px solid #8886;border-radius:6px}
h2{margin-top:2.5rem}table{border-collapse:collapse}td{padding:.15rem 1rem .15rem 0;vertical-align:top}`;

/**
 * @param endpoints those to list, in this order; hidden ones are left out
 * @param document what {@link describeApi} made of them
 */
export function renderDocs(
  endpoints: readonly Endpoint[],
  document: Record<string, unknown>,
  version: string,
): string {
  const sections = endpoints.filter((declared) => declared.hidden !== true).map(renderEndpoint);
  const { schemas } = document.components as { schemas: Record<string, unknown> };
  const shapes = Object.entries(schemas).map(
    ([name, schema]) =>
      `<h3 id="${escapeHtml(name)}">${escapeHtml(name)}</h3><pre>${escapeHtml(JSON.stringify(schema, null, 2))}</pre>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Understudy API ${escapeHtml(version)}</title><style>${STYLE}</style>
<h1>Understudy API <small>${escapeHtml(version)}</small></h1>
<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
${sections.join('\n')}
<h2>Shapes</h2>
${shapes.join('\n')}
</html>
`;
}

function renderEndpoint(declared: Endpoint): string {
  const replies = Object.entries(declared.replies).map(([status, reply]) => {
    const id = reply.schema?.meta()?.id;
    const shape = id === undefined ? '' : ` <a href="#${escapeHtml(id)}">${escapeHtml(id)}</a>`;
    return `<tr><td><code>${status}</code></td><td>${escapeHtml(reply.description)}${shape}</td></tr>`;
  });
  const parameters = pathParameters(declared.path);
  return `<h2><code>${declared.method} ${escapeHtml(declared.path)}</code></h2>
<p>${escapeHtml(declared.summary)}.${declared.auth !== 'open' ? ' Needs <code>Authorization: Bearer</code>.' : ''}${
    parameters.length > 0 ? ` In the path: ${parameters.map(escapeHtml).join(', ')}.` : ''
  }</p>
<table>${replies.join('')}</table>`;
}

function escapeHtml(text: string): string {
  const entities: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return text.replace(/[&<>"']/g, (character) => entities[character]!);
}
