/** The interface description as one page that needs neither script nor network. Made once at start. Front threads. */

type Json = Record<string, unknown>;

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  security?: unknown[];
  parameters?: { name: string; in: string; required: boolean; schema: Json }[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

type Content = Record<string, { schema?: Json }>;

interface Placed {
  method: string;
  path: string;
  operation: Operation;
}

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
code,pre{font:14px/1.45 ui-monospace,monospace}pre{overflow:auto;padding:.75rem;border:1px solid #8886;border-radius:6px}
h2{margin-top:3rem;border-bottom:1px solid #8886}h3{margin-top:2.5rem}table{border-collapse:collapse}
td{padding:.15rem 1rem .15rem 0;vertical-align:top}nav ul{columns:2;padding-left:1rem}
@media(max-width:40rem){nav ul{columns:1}}`;

/** @param document what {@link describeApi} made */
export function renderDocs(document: Json, version: string): string {
  const paths = document.paths as Record<string, Record<string, Operation>>;
  const placed = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const groups = Object.entries(Object.groupBy(placed, ({ operation }) => operation.tags[0] ?? ''));
  const { schemas } = document.components as { schemas: Record<string, Json> };
  const contents = placed.map(
    ({ method, path, operation }) =>
      `<li><a href="#op-${escapeHtml(operation.operationId)}"><code>${method} ${escapeHtml(path)}</code></a></li>`,
  );
  const sections = groups.map(
    ([tag, members]) => `<h2>${escapeHtml(tag)}</h2>\n${members!.map(renderOperation).join('\n')}`,
  );
  const shapes = Object.entries(schemas).map(
    ([name, schema]) => `<h3 id="${escapeHtml(name)}">${escapeHtml(name)}</h3>${renderSchema(schema)}`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Understudy API ${escapeHtml(version)}</title><style>${STYLE}</style>
<h1>Understudy API <small>${escapeHtml(version)}</small></h1>
<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1). A call needs
<code>Authorization: Bearer</code> unless it is marked open.</p>
<nav><ul>${contents.join('\n')}</ul></nav>
${sections.join('\n')}
<h2>Shapes</h2>
${shapes.join('\n')}
</html>
`;
}

function renderOperation({ method, path, operation }: Placed): string {
  const { operationId, summary, security, parameters = [], requestBody, responses } = operation;
  const asked = parameters.map(({ name, in: place, required, schema }) => {
    const fallback = schema.default === undefined ? '' : `, default ${JSON.stringify(schema.default)}`;
    const words = `${place}, ${required ? 'required' : 'optional'}${fallback}`;
    const note = typeof schema.description === 'string' ? ` ${escapeHtml(schema.description)}` : '';
    return `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(words)}.${note}</td></tr>`;
  });
  const answers = Object.entries(responses).map(
    ([status, { description, content }]) =>
      `<tr><td><code>${status}</code></td><td>${escapeHtml(description)}${renderContent(content)}</td></tr>`,
  );
  const body = requestBody === undefined ? '' : `<p>Body:${renderContent(requestBody.content)}</p>`;
  return `<h3 id="op-${escapeHtml(operationId)}"><code>${method} ${escapeHtml(path)}</code></h3>
<p>${escapeHtml(summary)}.${security === undefined ? ' Open.' : ''}</p>
${asked.length === 0 ? '' : `<table>${asked.join('')}</table>`}
${body}
<table>${answers.join('')}</table>`;
}

/** Named shapes as links to them, others as they are. */
function renderContent(content: Content = {}): string {
  return Object.entries(content)
    .map(([type, { schema }]) => {
      if (schema === undefined) return ` <code>${escapeHtml(type)}</code>`;
      const parts = ((schema.allOf as Json[] | undefined) ?? [schema]).map(({ $ref }) => $ref);
      const names = parts.map((ref) => (typeof ref === 'string' ? ref.split('/').at(-1)! : null));
      if (names.includes(null)) return renderSchema(schema);
      return names.map((name) => ` <a href="#${escapeHtml(name!)}">${escapeHtml(name!)}</a>`).join(' and');
    })
    .join('');
}

function renderSchema(schema: Json): string {
  const text = escapeHtml(JSON.stringify(schema, null, 2));
  const linked = text.replace(
    /#\/components\/schemas\/([\w.-]+)/g,
    (ref, name: string) => `<a href="#${name}">${ref}</a>`,
  );
  return `<pre>${linked}</pre>`;
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
