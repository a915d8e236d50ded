/** The page of the interface description: what it may load, and that its forms send the requests that they show. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const api = new ApiChild({ AUTH_DB_URL: 'embedded:', VECTOR_STORE_URL: 'embedded:' });
let page: string;
let policy: string;

interface Request {
  url: string;
  options: RequestInit & { headers: Record<string, string> };
}
let buildRequest: (method: string, path: string, values: Record<string, string>, key: string) => Request;
let layOut: (text: string) => string;

beforeAll(async () => {
  await api.start();
  const response = await fetch(`${api.url}/docs`);
  policy = response.headers.get('content-security-policy')!;
  page = await response.text();
  ({ buildRequest, layOut } = await import(
    new URL('../../src/dashboard/docs-forms.ts', import.meta.url).href
  ));
});
afterAll(() => api[Symbol.asyncDispose]());

interface Form {
  method: string;
  path: string;
  /** By field name: whether the field is required, and its content. */
  fields: Map<string, { required: boolean; text: string }>;
}

/** The form of an operation, parsed from the markup. */
function formOf(operationId: string): Form {
  const after = page.slice(page.indexOf(`<summary>Try it: ${operationId}</summary>`));
  const [, method, path, inner] = /<form data-method="(\w+)" data-path="([^"]+)">([\s\S]*?)<\/form>/.exec(
    after,
  )!;
  const fields: Form['fields'] = new Map();
  for (const [, name, more] of inner!.matchAll(/<input name="([^"]+)"([^>]*)>/g))
    fields.set(name!, { required: more!.includes('required'), text: '' });
  for (const [, name, text] of inner!.matchAll(/<textarea name="([^"]+)"[^>]*>([\s\S]*?)<\/textarea>/g))
    fields.set(name!, { required: false, text: unescapeHtml(text!) });
  return { method: method!, path: path!, fields };
}

function unescapeHtml(text: string): string {
  const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' };
  return text.replace(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => entities[name]!);
}

/** Sends the request that the page would send with this input. */
async function press(operationId: string, filled: Record<string, string>, key = CHILD_KEY) {
  const { method, path, fields } = formOf(operationId);
  const values = Object.fromEntries([...fields].map(([name, { text }]) => [name, text]));
  for (const name of Object.keys(filled)) expect([...fields.keys()], operationId).toContain(name);
  const { url, options } = buildRequest(method, path, { ...values, ...filled }, key);
  const response = await fetch(api.url + url, options);
  return { status: response.status, body: JSON.parse(await response.text()) };
}

describe('the page /docs', () => {
  it('may load its own style and script, and contact only this address', async () => {
    const [, style] = /<style>([\s\S]*?)<\/style>/.exec(page)!;
    const hash = createHash('sha256').update(style!).digest('base64');
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      `style-src 'sha256-${hash}'`,
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]);
    expect(page.match(/<script[^>]*>/g)).toEqual(['<script type="module" src="/dashboard/docs.js">']);
    expect(page).not.toMatch(/ style="| on\w+="/);
    const script = await fetch(`${api.url}/dashboard/docs.js`);
    expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    // The credential stays in this tab, and is sent only in a header.
    const text = await script.text();
    expect(text).not.toMatch(/localStorage|cookie|innerHTML|https?:/);
  });

  it('begins with a quickstart that a shell runs unchanged', () => {
    const first = /<h2 id="([^"]+)">/.exec(page)![1];
    expect(first).toBe('quickstart');
    const [, shell] = /<pre tabindex="0">(API=[\s\S]*?)<\/pre>/.exec(page)!;
    const lines = unescapeHtml(shell!)
      .split('\n')
      .filter((line) => line.startsWith('post /'));
    expect(lines).toHaveLength(5);
    for (const line of lines) {
      const [, body] = /^post \/v1\/\S+ '([^']*)'$/.exec(line)!;
      expect(JSON.parse(body!)).toBeTypeOf('object');
    }
  });

  it('has a label for every field, and says where the key is stored', () => {
    for (const [field] of page.matchAll(/<(?:input|textarea)[^>]*>/g)) {
      const before = page.slice(0, page.indexOf(field));
      expect(before.lastIndexOf('<label>'), field).toBeGreaterThan(before.lastIndexOf('</label>'));
    }
    expect(page).toContain('The key stays in this tab until you close the tab (sessionStorage)');
  });
});

describe('the forms of /docs', () => {
  it('send what was typed into them', async () => {
    const org = { 'query:org_id': 'from-the-page' };
    expect((await press('startRun', {})).body).toMatchObject({ status: 'running' });
    expect((await press('logStep', { 'path:id': 'run-1' })).body.fired).toEqual([]);
    const read = await press('readRun', { 'path:id': 'run-1' });
    expect(read).toMatchObject({ status: 200, body: { run_id: 'run-1', steps: 1 } });
    expect((await press('listRuns', { 'query:limit': '1', ...org })).body).toMatchObject({
      runs: [],
      next_cursor: null,
    });
    expect((await press('readRun', { 'path:id': 'a/b?c' })).status).toBe(404);
    expect((await press('readRun', { 'path:id': 'run-1' }, '')).status).toBe(401);
    expect((await press('health', {}, '')).body).toMatchObject({ status: 'ok' });
  });

  it('send a credential and a body where these exist, and nothing else', () => {
    expect(buildRequest('GET', '/x/{id}', { 'path:id': 'ä /', 'query:a': '', 'query:b': '1 2' }, '')).toEqual(
      {
        url: '/x/%C3%A4%20%2F?b=1+2',
        options: { method: 'GET', headers: {}, cache: 'no-store', credentials: 'omit' },
      },
    );
    expect(buildRequest('POST', '/x', { body: '{}' }, 'k').options).toMatchObject({
      headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
      body: '{}',
    });
    expect(layOut('{"a":1}')).toBe('{\n  "a": 1\n}');
    expect(layOut('data: 1')).toBe('data: 1');
  });
});

/** The parts of a browser that the script uses. */
class FakeElement {
  value = '';
  hidden = true;
  textContent = '';
  dataset: Record<string, string> = {};
  parts: Record<string, FakeElement> = {};
  readonly #listeners = new Map<string, (event: object) => void>();

  addEventListener(name: string, listener: (event: object) => void): void {
    this.#listeners.set(name, listener);
  }

  dispatch(name: string): void {
    this.#listeners.get(name)!({ preventDefault: () => {} });
  }

  querySelector(name: string): FakeElement {
    this.parts[name] ??= new FakeElement();
    return this.parts[name];
  }
}

describe('the script of /docs', () => {
  it('stores the key in the tab, sends a form’s content, and shows the answer', async () => {
    const key = new FakeElement();
    const form = new FakeElement();
    form.dataset = { method: 'GET', path: '/v1/monitor/runs/{id}' };
    const part = new FakeElement();
    const origin = new FakeElement();
    const kept = new Map<string, string>();
    vi.stubGlobal('document', {
      getElementById: (id: string) => (id === 'key' ? key : new FakeElement()),
      querySelectorAll: (what: string) =>
        ({ '[data-origin]': [origin], '[data-script]': [part], 'form[data-path]': [form] })[what],
    });
    vi.stubGlobal('sessionStorage', {
      getItem: (name: string) => kept.get(name) ?? null,
      setItem: (name: string, value: string) => kept.set(name, value),
      removeItem: (name: string) => kept.delete(name),
    });
    vi.stubGlobal('location', { origin: api.url });
    vi.stubGlobal(
      'FormData',
      class {
        *[Symbol.iterator]() {
          yield ['path:id', 'unknown'];
        }
      },
    );
    const { fetch: realFetch } = globalThis;
    vi.stubGlobal('fetch', (path: string, options: RequestInit) => realFetch(api.url + path, options));
    onTestFinished(() => {
      vi.unstubAllGlobals();
    });
    const { start } = await import(new URL('../../src/dashboard/docs-forms.ts', import.meta.url).href);
    start();
    expect([part.hidden, origin.textContent]).toEqual([false, api.url]);
    key.value = CHILD_KEY;
    key.dispatch('input');
    expect([...kept.values()]).toEqual([CHILD_KEY]);
    form.dispatch('submit');
    expect(form.querySelector('button').textContent).toBe('Stop');
    await vi.waitFor(() => expect(form.querySelector('button').textContent).toBe('Send'), {
      timeout: PATIENCE_MS,
    });
    const shown = form.querySelector('output').textContent;
    expect(shown).toMatch(/^GET \/v1\/monitor\/runs\/unknown\n404 /);
    expect(shown).toContain('"detail": "Run not found"');
    expect(shown).not.toContain(CHILD_KEY);
    key.value = '';
    key.dispatch('input');
    expect(kept.size).toBe(0);
  });
});
