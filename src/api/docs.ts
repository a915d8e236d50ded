/**
 * Renders the interface description as one page: a quickstart, then every operation with a form that sends it to this
 * service (src/dashboard/docs-forms.ts). The page is readable without scripts and loads nothing from other hosts. It is
 * rendered once, at the first request. Server threads.
 */
import { EXAMPLES } from '../contract/examples.ts';
import { escapeHtml, PAGE_STYLE } from './page.ts';

type Json = Record<string, unknown>;

interface Operation {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  security?: unknown[];
  parameters?: { name: string; in: string; description?: string; required: boolean; schema: Json }[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

type Content = Record<string, { schema?: Json; example?: unknown }>;

interface Placed {
  method: string;
  path: string;
  operation: Operation;
}

/** Makes a shell command that sends a request of the examples. */
function renderCurl(path: string, example: string): string {
  const body = JSON.stringify(EXAMPLES[example]?.request ?? {});
  return escapeHtml(`post ${path} '${body}'`);
}

const QUICKSTART = `<h2 id="quickstart">Quickstart</h2>
<p>Make an API key on the <a href="/">dashboard</a>, or take one of <code>SVC_KEYS</code>. Then, in a shell:</p>
<pre tabindex="0">API=<span data-origin>…</span>   KEY=…
post() { curl -s "$API$1" -H "authorization: Bearer $KEY" -H 'content-type: application/json' -d "$2"; echo; }
# patterns from earlier runs, for the task's prompt
${renderCurl('/v1/traces/retrieve', 'retrieve_patterns')}
# a run, its steps, and the text for the agent when a step raises an alarm
${renderCurl('/v1/monitor/runs', 'startRun')}
${renderCurl('/v1/monitor/runs/run-1/steps', 'logStep')}
${renderCurl('/v1/monitors/evaluate', 'evaluate')}
${renderCurl('/v1/monitor/runs/run-1/finish', 'finishRun')}</pre>
<p>Or here: give a key, open an operation below and press Send.</p>
<div data-script hidden><form id="key-form"><label>API key, or a signed-in user’s token
<input id="key" type="password" autocomplete="off" spellcheck="false" aria-describedby="key-note"></label></form>
<p id="key-note" class="faint">The key stays in this tab until you close the tab (sessionStorage), and is sent only to this address. Requests sent from here take effect.</p></div>`;

/** Renders the page. @param document output of {@link describeApi} */
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
<title>Understudy API ${escapeHtml(version)}</title><style>${PAGE_STYLE}</style>
<main>
<p class="faint"><a href="/">Dashboard</a> · <a href="/docs/guides">Guides</a><span class="narrow"> · <a href="#routes">All routes</a></span></p>
<h1>Understudy API <small>${escapeHtml(version)}</small></h1>
${QUICKSTART}
<h2 id="calls">Every call</h2>
<p>For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1). A call needs
<code>Authorization: Bearer</code> unless it is marked open: an API key or a signed-in user's token under
<code>/v1</code>, such a token elsewhere. Errors are <code>{"detail": …}</code>.</p>
${sections.join('\n')}
<h2 id="shapes">Shapes</h2>
${shapes.join('\n')}
</main>
<nav id="routes" aria-label="Routes"><p><a href="#quickstart">Quickstart</a></p>
${contents.join('\n')}
<p><a href="#shapes">Shapes</a></p></nav>
<script type="module" src="/dashboard/docs.js"></script>
</html>
`;
}

const nameOf = (tag: string) => tag.charAt(0).toUpperCase() + tag.slice(1);

function renderRoute(method: string, pathHtml: string): string {
  return `<code><span class="method">${method}</span> ${pathHtml}</code>`;
}

/** Allows a line break after each slash of a long path. */
function renderBreakable(path: string): string {
  return `<span>${escapeHtml(path).replaceAll('/', '/<wbr>')}</span>`;
}

function renderOperation({ method, path, operation }: Placed): string {
  const { operationId, summary, description, security, parameters = [], requestBody, responses } = operation;
  const asked = parameters.map(({ name, in: place, description: said, required, schema }) => {
    const fallback = schema.default === undefined ? '' : `, default ${JSON.stringify(schema.default)}`;
    const words = `${place}, ${required ? 'required' : 'optional'}${fallback}`;
    const note = said === undefined ? '' : ` ${escapeHtml(said)}.`;
    return `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(words)}.${note}</td></tr>`;
  });
  const answers = Object.entries(responses).map(
    ([status, { description, content }]) =>
      `<tr><td><code>${status}</code></td><td>${escapeHtml(description)}${renderContent(content)}${renderExample(content)}</td></tr>`,
  );
  const body = requestBody === undefined ? '' : `<h4>Body</h4>${renderContent(requestBody.content)}`;
  return `<h3 id="op-${escapeHtml(operationId)}">${renderRoute(method, escapeHtml(path))}</h3>
<p>${escapeHtml(summary)}.${security?.length === 0 && responses['401'] === undefined ? ' Open.' : ''}</p>
${description === undefined ? '' : `<p>${renderWords(description)}</p>`}
${asked.length === 0 ? '' : `<h4>Parameters</h4><table>${asked.join('')}</table>`}
${body}
<h4>Answers</h4><table>${answers.join('')}</table>
${renderForm({ method, path, operation })}`;
}

/** Renders a text with `code` in backticks as HTML. */
function renderWords(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

function renderExample(content: Content = {}): string {
  const { example } = content['application/json'] ?? {};
  if (example === undefined) return '';
  const text = escapeHtml(JSON.stringify(example, null, 2));
  return `<details><summary>Example</summary><pre tabindex="0">${text}</pre></details>`;
}

/** Renders the form that sends the operation from the page. It is shown only if the page's script runs. */
function renderForm({ method, path, operation }: Placed): string {
  const { operationId, parameters = [], requestBody } = operation;
  const fields = parameters.map(({ name, in: place, required }) => {
    const label = `${name}${required ? '' : ' (optional)'}`;
    const must = required ? ' required' : '';
    return `<label>${escapeHtml(label)} <input name="${place}:${escapeHtml(name)}" autocomplete="off" spellcheck="false"${must}></label>`;
  });
  if (requestBody !== undefined) {
    const { example } = requestBody.content['application/json'] ?? {};
    const text = example === undefined ? '' : escapeHtml(JSON.stringify(example, null, 2));
    fields.push(`<label>Body <textarea name="body" rows="8" spellcheck="false">${text}</textarea></label>`);
  }
  return `<details class="try" data-script hidden><summary>Try it: ${escapeHtml(operationId)}</summary>
<form data-method="${method}" data-path="${escapeHtml(path)}">${fields.join('\n')}
<button>Send</button><output aria-label="Answer"></output></form></details>`;
}

/** Links named schemas, and shows other schemas in place. */
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

/** Describes an object field by field; other schemas in one line. */
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
  // Describe in words which fields the branches of `anyOf` require.
  delete more.dependentRequired;
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

/** Describes a field in words: its type, its bounds and its default. */
function describeType(field: Json): string {
  const { $ref, type, enum: values, anyOf, items } = field;
  if (typeof $ref === 'string') {
    const name = escapeHtml($ref.split('/').at(-1)!);
    return `<a href="#${name}">${name}</a>`;
  }
  const bounds = (['minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems', 'format'] as const)
    // Skip bounds that every integer has.
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
  return `<pre tabindex="0">${linked}</pre>`;
}
