/** The dashboard's page: what is served, and what signs in where: the link on a terminal, a token elsewhere. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Router } from '../../src/api/dispatch.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { ApiChild, OWNER_COMMAND } from '../fixtures/api-child.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const api = new ApiChild({ AUTH_DB_URL: 'embedded:' });
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const FOLDER = new URL('../../src/dashboard/', import.meta.url);

describe('the dashboard', () => {
  it('is a page that loads nothing from elsewhere', async () => {
    const page = await fetch(`${api.url}/`);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const html = await page.text();
    for (const path of ['/dashboard', '/dashboard/'])
      expect(await (await fetch(api.url + path)).text()).toBe(html);
    const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link!);
    for (const link of links.filter((one) => !one.startsWith('#'))) {
      expect(link).toMatch(/^\//);
      expect((await fetch(api.url + link)).status, link).toBe(200);
    }
  });

  it('serves every file of its folder, and each import of its scripts', async () => {
    for (const file of readdirSync(FOLDER)) {
      const path = file === 'index.html' ? '/' : `/dashboard/${file}`;
      const response = await fetch(api.url + path);
      expect(response.status, path).toBe(200);
      for (const [, target] of (await response.text()).matchAll(/from '\.\/([\w-]+\.js)'/g))
        expect((await fetch(`${api.url}/dashboard/${target}`)).status, target).toBe(200);
    }
  });

  it('calls nothing that the API does not have', async () => {
    const router = new Router(
      (await loadDeclaredEndpoints()).map((endpoint) => ({ endpoint, handle: () => Promise.reject() })),
    );
    const calls = new Set<string>();
    for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.js'))) {
      const script = readFileSync(new URL(file, FOLDER), 'utf8');
      const wanted =
        /(?:call\('(\w+)'|makeList\(|readAll\(|withQuery\()[,\s]*(?:withQuery\(\s*)?['`]([^'`]+)['`]/g;
      for (const [, method = 'GET', path] of script.matchAll(wanted)) {
        const concrete = path!.replace(/^\$\{base\}/, '/organizations/o').replaceAll(/\$\{[^}]+\}/g, 'x');
        if (!concrete.startsWith('/')) continue;
        calls.add(`${method} ${router.find(method, concrete.split('?')[0]!).route.endpoint.id}`);
      }
      // Every call is one of these or goes through a path that is looked at below.
      expect(script).not.toMatch(/innerHTML|insertAdjacentHTML|document\.write|eval\(|\.outerHTML/);
    }
    expect(calls.size).toBeGreaterThan(24);
    for (const path of ['/billing/create-checkout-session', '/billing/create-portal-session'])
      expect(router.find('POST', path).route.endpoint.id).toMatch(/session$/);
  });

  it('shows the marks that turn the order of a text as what they are, and natural ones as they are', async () => {
    const shown: unknown[] = [];
    vi.stubGlobal('document', {
      createElement: () => ({ append: (...children: unknown[]) => shown.push(...children) }),
    });
    onTestFinished(() => {
      vi.unstubAllGlobals();
    });
    const { make } = await import(new URL('elements.js', FOLDER).href);
    make('td', {}, 'run \u202e1 delifed\u2066', ['שלום \u200f(1)', [make('b'), null]], undefined, 5);
    expect(shown).toEqual(['run \ufffd1 delifed\ufffd', 'שלום \u200f(1)', expect.anything(), 5]);
  });

  it('names the buttons of a row by the row', async () => {
    vi.stubGlobal('document', {
      createElement: () => {
        const attributes: Record<string, string> = {};
        return {
          attributes,
          append: () => {},
          addEventListener: () => {},
          setAttribute: (name: string, value: string) => {
            attributes[name] = value;
          },
        };
      },
    });
    onTestFinished(() => {
      vi.unstubAllGlobals();
    });
    const { makeRowButton } = await import(new URL('elements.js', FOLDER).href);
    expect(makeRowButton('Delete', 'web', () => {}).attributes).toMatchObject({ 'aria-label': 'Delete web' });
    // In a list of several rows, a word alone is the name of several buttons.
    for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.js')))
      expect(readFileSync(new URL(file, FOLDER), 'utf8'), file).not.toMatch(
        /makeButton\('(?:Rename|Delete|Rotate|Revoke|Remove)'/,
      );
  });

  it('gives the focus to what stands in the place of what had it, unless its user went elsewhere', async () => {
    const fake = { body: {}, activeElement: null as unknown };
    const control = (localName: string, name: string, textContent: string) => ({
      localName,
      name,
      textContent,
      focus(): void {
        fake.activeElement = this;
      },
    });
    let held: ReturnType<typeof control>[] = [];
    const root = {
      ...control('main', '', ''),
      contains: (one: never) => held.includes(one),
      querySelectorAll: (localName: string) => held.filter((one) => one.localName === localName),
    };
    const draw = (rows: number) => {
      held = [control('input', 'name', '')];
      for (let row = 0; row < rows; row++)
        held.push(control('button', '', 'Rename'), control('button', '', 'Delete'));
      return held;
    };
    vi.stubGlobal('document', fake);
    onTestFinished(() => {
      vi.unstubAllGlobals();
    });
    const { keepFocus } = await import(new URL('elements.js', FOLDER).href);
    const redraw = (from: number, to: number, at: number, meanwhile: unknown = fake.body) => {
      fake.activeElement = draw(from)[at];
      const giveBack = keepFocus(root);
      draw(to);
      fake.activeElement = meanwhile;
      giveBack();
      return fake.activeElement;
    };
    expect(redraw(2, 3, 0)).toBe(held[0]);
    expect(redraw(3, 3, 4)).toBe(held[4]);
    // The last row is deleted, then the only one.
    expect(redraw(3, 2, 6)).toBe(held[4]);
    expect(redraw(1, 0, 2)).toMatchObject({ localName: 'main' });
    const link = control('a', '', 'Live');
    expect(redraw(1, 1, 2, link)).toBe(link);
    fake.activeElement = link;
    const giveBack = keepFocus(root);
    fake.activeElement = fake.body;
    giveBack();
    expect(fake.activeElement).toBe(fake.body);
  });

  it('knows what this server has, and no internal address', async () => {
    const answer = await fetch(`${api.url}/dashboard/config.json`);
    expect(answer.headers.get('content-type')).toBe('application/json');
    expect(await answer.json()).toEqual({
      version: expect.stringMatching(/^\d/),
      gateway_port: null,
      gateway_is_local: true,
      has_live_stream: false,
      has_billing: false,
    });
  });

  it('opens signed in with the token of the command that the start names', async () => {
    const headers = { authorization: `Bearer ${await api.ownerToken()}` };
    const me = await fetch(`${api.url}/auth/bootstrap`, { headers });
    expect(await me.json()).toMatchObject({ profile: { display_name: 'Owner' }, role: 'owner' });
  });

  it('opens signed in from the link on the terminal, the same user', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'understudy-terminal-'));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const env = { DATA_DIR: dir, AUTH_DB_URL: 'embedded:', PORT: '0' };
    const signIn = async (url: string, token: string) => {
      const answer = await fetch(`${url}/auth/me`, { headers: { authorization: `Bearer ${token}` } });
      return ((await answer.json()) as { id: string }).id;
    };
    await using terminal = new CliChild(['serve'], { env, terminal: true });
    const [, url = '', token = ''] = await terminal.waitForOutput(/(http:\/\/\S+)\/#token=(\S+)/);
    const owner = await signIn(url, token);
    expect(owner).toMatch(/^usr_/);
    terminal.process.kill('SIGTERM');
    await terminal.ended;

    // The same start into a pipe, as into a container's log.
    await using piped = new CliChild(['serve'], { env });
    const [pipedUrl] = await piped.waitForOutput(/http:\/\/[\d.]+:\d+/);
    const named = await piped.waitForOutput(OWNER_COMMAND);
    const asked = await runHere(named[1]!.split(' '), env);
    expect(await signIn(pipedUrl, asked.stdout.trim())).toBe(owner);
    piped.process.kill('SIGTERM');
    const { stdout, stderr } = await piped.ended;
    expect(stdout + stderr).not.toMatch(/#token|eyJ/);
  });

  it('has a token for anybody from the command line, of the same secret', async () => {
    const child = new CliChild(['token', '--email', 'ann@example.com'], {
      env: { DATA_DIR: api.dir },
      cwd: api.dir,
    });
    const [token] = await child.waitForOutput(/^[\w-]+\.[\w-]+\.[\w-]+$/m);
    const me = await fetch(`${api.url}/auth/me`, { headers: { authorization: `Bearer ${token}` } });
    expect(await me.json()).toMatchObject({ email: 'ann@example.com' });
    await child[Symbol.asyncDispose]();
  });
});
