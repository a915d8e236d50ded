/** The guides as pages: every link has a target, no script runs, and no path leads out of the folder. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { guideRoutes } from '../../src/api/guides.ts';
import { ApiChild } from '../fixtures/api-child.ts';

const names = readdirSync(fileURLToPath(new URL('../../docs/', import.meta.url)))
  .filter((file) => file.endsWith('.md'))
  .map((file) => file.slice(0, -'.md'.length));
const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const addressOf = (name: string) => (name === 'README' ? '/docs/guides' : `/docs/guides/${name}`);
const pages = new Map<string, Promise<string>>();
/** The page at a path of the service; '' if there is no page. */
function pageAt(path: string): Promise<string> {
  if (!pages.has(path))
    pages.set(
      path,
      fetch(api.url + path).then(async (answer) => (answer.status === 200 ? answer.text() : '')),
    );
  return pages.get(path)!;
}

it('the guides exist', () => {
  expect(names).toContain('README');
  expect(names).toContain('gateway');
});

describe.each(names)('%s', (name) => {
  it('is a page without scripts and external files', async () => {
    const answer = await fetch(api.url + addressOf(name));
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = answer.headers.get('content-security-policy');
    expect(policy).toBe((await fetch(`${api.url}/docs`)).headers.get('content-security-policy'));
    const page = await answer.text();
    expect(page).toContain('<h1 id="');
    expect(page).not.toMatch(/<(?:script|img|iframe|link)\b| style="| on\w+="/);
  });

  it('links to existing pages and headings', async () => {
    const page = await pageAt(addressOf(name));
    for (const [, href = ''] of page.matchAll(/<a href="([^"]+)"/g)) {
      if (/^https:\/\//.test(href) || href === 'http://127.0.0.1:8000/docs') continue;
      const [path = '', heading] = href.split('#');
      const target = await pageAt(path === '' ? addressOf(name) : path);
      expect(target, href).not.toBe('');
      if (heading !== undefined) expect(target, href).toContain(` id="${heading}"`);
    }
  });
});

describe('a path under /docs/guides', () => {
  /** The path exactly as written; `fetch` would normalize it. */
  async function ask(path: string): Promise<number> {
    const { hostname, port } = new URL(api.url);
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    request({ hostname, port, path }, (answer) => {
      answer.resume();
      resolve(answer.statusCode!);
    })
      .on('error', reject)
      .end();
    return promise;
  }

  it.each([
    '/docs/guides/nothing',
    '/docs/guides/gateway.md',
    '/docs/guides/../../package.json',
    '/docs/guides/%2e%2e%2fpackage.json',
    '/docs/guides/..%5c..%5cpackage.json',
    '/docs/guides/%00',
    '/docs/guides/gateway%00.html',
    '/docs/guides//etc/passwd',
    '/docs/guides/__proto__',
    '/docs/guides/constructor',
  ])('gets a 404 if it names no guide: %s', async (path) => {
    expect(await ask(path)).toBe(404);
  });

  it('gets a 405 for another method than GET and HEAD', async () => {
    expect((await fetch(`${api.url}/docs/guides/gateway`, { method: 'POST' })).status).toBe(405);
  });

  it('shows a list of all guides, with the tutorial first and the decisions last', async () => {
    const page = await (await fetch(`${api.url}/docs/guides/gateway`)).text();
    const list = page.slice(page.indexOf('<p>Guides</p>'));
    const listed = [...list.matchAll(/href="\/docs\/guides(?:\/([\w-]+))?"/g)].map(
      ([, name]) => name ?? 'README',
    );
    expect(listed.slice(0, 3)).toEqual(['README', 'tutorial', 'api-tour']);
    expect(listed.at(-1)).toBe('api-decisions');
    expect(listed.toSorted()).toEqual(names.toSorted());
  });
});

describe('a text', () => {
  function render(markdown: string): string {
    const folder = mkdtempSync(join(tmpdir(), 'guides-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'one.md'), markdown);
    writeFileSync(join(folder, 'two.md'), '# Two & <more>');
    const [guide] = guideRoutes(pathToFileURL(`${folder}/`));
    return String((guide!.handle as unknown as () => { body: unknown })().body);
  }

  it('that looks like HTML stays text', () => {
    const page = render(
      '# A <b>\n\n<script>alert(1)</script> `<i>` ![x](http://a/b.png)\n\n<div onclick="x">',
    );
    expect(page).not.toMatch(/<(?:script|b|i|img|div)\b/);
    expect(page).toContain('&lt;script&gt;');
    expect(page).toContain('Two &amp; &lt;more&gt;');
  });

  it('links to guides and the web, and names other files', () => {
    const page = render(
      '# A\n\n[to two](two.md#two--more) [code](../src/main.ts#L1) [web](https://example.com/a?b=1&c=2) [bad](javascript:alert(1)) [none](three.md)',
    );
    expect(page).toContain('<a href="/docs/guides/two#two--more">to two</a>');
    expect(page).toContain('code <small>(<code>src/main.ts</code>)</small>');
    expect(page).toContain('<a href="https://example.com/a?b=1&amp;c=2">web</a>');
    expect(page).not.toContain('href="javascript');
    expect(page).toContain('none <small>(<code>three.md</code>)</small>');
  });

  it('has an anchor for each heading, also for equal ones', () => {
    const page = render('# A\n\n## The [same](two.md)\n\n## The [same](two.md)\n');
    expect(page).toContain('<h2 id="the-same">');
    expect(page).toContain('<h2 id="the-same-1">');
  });
});
