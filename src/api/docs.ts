/** The interface description as one page that needs neither script nor network. Made once at start. Server threads. */

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

const STYLE = `:root{color-scheme:light dark;--line:light-dark(#e1e6e4,#2b3230);--faint:light-dark(#5d6966,#98a5a1);
--soft:light-dark(#eef2f0,#222826);--accent:light-dark(#0b6b5d,#5fd0bd);font:15px/1.5 system-ui,sans-serif}
*{box-sizing:border-box}
body{margin:0;display:grid;grid-template-columns:21rem minmax(0,1fr);background:light-dark(#fff,#141817);color:light-dark(#1b2422,#e4e9e7)}
a{color:var(--accent)}code,pre{font:13px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
nav{position:sticky;top:0;height:100vh;overflow-y:auto;padding:1.25rem 1rem 3rem;border-right:1px solid var(--line)}
nav p{margin:1rem 0 .2rem;font-weight:600}nav ul{list-style:none;margin:0;padding:0}nav a{color:inherit;text-decoration:none}
nav li{padding:.1rem 0;line-height:1.3;font-size:13px}nav code{display:flex;gap:.6em}nav .method{flex:none}nav a:hover code{color:var(--accent)}
main{max-width:58rem;padding:1.5rem 2rem 6rem}h1{margin:0;font-size:1.5rem}small,.faint{color:var(--faint);font-weight:400}
h2{margin:3rem 0 0;padding-bottom:.3rem;border-bottom:1px solid var(--line);font-size:1.25rem}
h3{margin:2rem 0 .3rem;font-size:1rem;scroll-margin-top:1rem}h3 code{font-size:14px}h4{margin:.9rem 0 .2rem;font-size:.9rem}
p{margin:.3rem 0}pre{overflow:auto;padding:.75rem;background:var(--soft);border-radius:6px}
.method{display:inline-block;min-width:3.6em;color:var(--accent)}
table{border-collapse:collapse;width:100%}td{padding:.25rem 1rem .25rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
td:first-child{width:13rem}
@media(max-width:52rem){body{display:block}nav{position:static;height:auto;border:none}main{padding:1rem}table,tbody{display:block}td{display:block;border:none;overflow-wrap:anywhere;width:auto!important;padding:.1rem 0}tr{display:block;padding:.3rem 0;border-bottom:1px solid var(--line)}}`;

/** @param document what {@link describeApi} made */
export function renderDocs(document: Json, version: string): string {
  const paths = document.paths as Record<string, Record<string, Operation>>;
  const placed = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const groups = Object.entries(Object.groupBy(placed, ({ operation }) => operation.tags[0] ?? ''));
  const { schemas } = document.components as { schemas: Record<string, Json> };
  const contents = groups.map(([tag, members]) => {
    const links = members!.map(
      ({ method, path, operation }) =>
        `<li><a href="#op-${escapeHtml(operation.operationId)}">${renderRoute(method, renderBreakable(path))}</a></li>`,
    );
    return `<p>${escapeHtml(nameOf(tag))}</p><ul>${links.join('\n')}</ul>`;
  });
  const sections = groups.map(
    ([tag, members]) => `<h2>${escapeHtml(nameOf(tag))}</h2>\n${members!.map(renderOperation).join('\n')}`,
  );
  const shapes = Object.entries(schemas).map(
    ([name, schema]) => `<h3 id="${escapeHtml(name)}">${escapeHtml(name)}</h3>${renderSchema(schema)}`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Understudy API ${escapeHtml(version)}</title><style>${STYLE}</style>
<nav aria-label="Routes"><a href="/">Dashboard</a>
${contents.join('\n')}
<p><a href="#shapes">Shapes</a></p></nav>
<main>
<h1>Understudy API <small>${escapeHtml(version)}</small></h1>
<p>For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1). A call needs
<code>Authorization: Bearer</code> unless it is marked open: an API key under <code>/v1</code>, a signed-in user's token
elsewhere. Errors are <code>{"detail": …}</code>.</p>
${sections.join('\n')}
<h2 id="shapes">Shapes</h2>
${shapes.join('\n')}
</main>
</html>
`;
}

const nameOf = (tag: string) => tag.charAt(0).toUpperCase() + tag.slice(1);

function renderRoute(method: string, pathHtml: string): string {
  return `<code><span class="method">${method}</span> ${pathHtml}</code>`;
}

/** A path that is too long goes on in the next line, after a slash. */
function renderBreakable(path: string): string {
  return `<span>${escapeHtml(path).replaceAll('/', '/<wbr>')}</span>`;
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
  const body = requestBody === undefined ? '' : `<h4>Body</h4>${renderContent(requestBody.content)}`;
  return `<h3 id="op-${escapeHtml(operationId)}">${renderRoute(method, escapeHtml(path))}</h3>
<p>${escapeHtml(summary)}.${security === undefined && responses['401'] === undefined ? ' Open.' : ''}</p>
${asked.length === 0 ? '' : `<h4>Parameters</h4><table>${asked.join('')}</table>`}
${body}
<h4>Answers</h4><table>${answers.join('')}</table>`;
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

/** An object field by field; anything else as it is. */
function renderSchema(schema: Json): string {
  const {
    type,
    properties,
    required = [],
    anyOf = [],
    description,
    ...more
  } = schema as Json & { required?: string[]; anyOf?: { required?: string[] }[] };
  delete more.additionalProperties;
  if (type !== 'object' || properties === undefined || Object.keys(more).length > 0)
    return renderJson(schema);
  const rows = Object.entries(properties as Record<string, Json>).map(([name, field]) => {
    const isRequired = required.includes(name) ? '' : ' <span class="faint">optional</span>';
    const note = typeof field.description === 'string' ? `<br>${escapeHtml(field.description)}` : '';
    return `<tr><td><code>${escapeHtml(name)}</code>${isRequired}</td><td>${describeType(field)}${note}</td></tr>`;
  });
  const words = typeof description === 'string' ? `<p>${escapeHtml(description)}</p>` : '';
  const sets = anyOf.map((branch) =>
    (branch.required ?? []).map((name) => `<code>${escapeHtml(name)}</code>`),
  );
  const needed =
    sets.length === 0 ? '' : `<p>Needs ${sets.map((set) => set.join(' and ')).join(', or ')}.</p>`;
  return `${words}${needed}<table>${rows.join('')}</table>`;
}

/** In words: what a field may be, its bounds and what stands for it when it is left out. */
function describeType(field: Json): string {
  const { $ref, type, enum: values, anyOf, items } = field;
  if (typeof $ref === 'string') {
    const name = escapeHtml($ref.split('/').at(-1)!);
    return `<a href="#${name}">${name}</a>`;
  }
  const bounds = (['minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems', 'format'] as const)
    // Every integer has those of the number type: they say nothing.
    .filter(
      (bound) => field[bound] !== undefined && Math.abs(Number(field[bound])) !== Number.MAX_SAFE_INTEGER,
    )
    .map((bound) => `${bound} ${String(field[bound])}`);
  if (field.default !== undefined) bounds.push(`default ${JSON.stringify(field.default)}`);
  const kind = Array.isArray(anyOf)
    ? (anyOf as Json[]).map(describeType).join(' or ')
    : Array.isArray(values)
      ? values.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(', ')
      : type === 'array' && typeof items === 'object'
        ? `list of ${describeType(items as Json)}`
        : escapeHtml(String(field.const === undefined ? (type ?? 'anything') : JSON.stringify(field.const)));
  return bounds.length === 0 ? kind : `${kind} <span class="faint">(${escapeHtml(bounds.join(', '))})</span>`;
}

function renderJson(schema: Json): string {
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
