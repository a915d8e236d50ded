/** The dashboard's page: its files, and signing in with the link that a terminal shows or with a token. */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { ApiChild, OWNER_COMMAND } from '../fixtures/api-child.ts';

const api = new ApiChild({ AUTH_DB_URL: 'embedded:' });
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const SOURCES = new URL('../../src/dashboard/', import.meta.url);
/** Maximum compressed size of the page with all files that it loads. */
const PAGE_BYTES = 150_000;

/** Requests a path with this encoding, like a browser. `fetch` would decode the body. */
function get(path: string, encoding: string): Promise<{ headers: IncomingHttpHeaders; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const asked = request(api.url + path, { headers: { 'accept-encoding': encoding } }, async (answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk as Buffer);
      resolve({ headers: answer.headers, body: Buffer.concat(chunks) });
    });
    asked.on('error', reject).end();
  });
}

async function listLinks(): Promise<string[]> {
  const { body } = await get('/', 'identity');
  const links = [...body.toString().matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link!);
  return links.filter((link) => link !== '/docs');
}

describe('the dashboard', () => {
  it('is a page that loads nothing from elsewhere', async () => {
    const page = await fetch(`${api.url}/`);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = page.headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toContain('unsafe');
    const html = await page.text();
    for (const path of ['/dashboard', '/dashboard/'])
      expect(await (await fetch(api.url + path)).text()).toBe(html);
    const links = await listLinks();
    expect(links.length).toBe(3);
    for (const link of links) {
      expect(link).toMatch(/^\/dashboard\//);
      expect((await fetch(api.url + link)).status, link).toBe(200);
    }
  });

  it('is compressed and small; a browser may keep only the files whose names contain a hash', async () => {
    let bytes = 0;
    for (const path of ['/', ...(await listLinks())]) {
      const plain = await get(path, 'identity');
      expect(plain.headers['content-encoding'], path).toBeUndefined();
      for (const [asked, encoding] of [
        ['gzip, deflate, br, zstd', 'br'],
        ['gzip;q=1.0, br;q=0', 'gzip'],
      ]) {
        const { headers, body } = await get(path, asked!);
        expect([headers['content-encoding'], headers.vary], path).toEqual([encoding, 'accept-encoding']);
        const decoded = encoding === 'br' ? brotliDecompressSync(body) : gunzipSync(body);
        expect(decoded.equals(plain.body), path).toBe(true);
        if (encoding === 'gzip') bytes += body.length;
      }
      const isHashed = /-[\da-f]{10}\.(?:js|css)$/.test(path);
      expect(plain.headers['cache-control'], path).toBe(
        isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
      );
    }
    expect(bytes).toBeLessThan(PAGE_BYTES);
  });

  it('uses no function that inserts text as markup', () => {
    const names = globSync('**/*.{ts,tsx}', { cwd: fileURLToPath(SOURCES), exclude: ['dist*/**'] });
    expect(names.length).toBeGreaterThan(30);
    for (const name of names)
      expect(readFileSync(new URL(name, SOURCES), 'utf8'), name).not.toMatch(
        /innerHTML|insertAdjacentHTML|document\.write|eval\(|outerHTML|dangerouslySet/,
      );
  });

  it('gets a configuration that says what this server offers, without internal addresses', async () => {
    const answer = await fetch(`${api.url}/dashboard/config.json`);
    expect(answer.headers.get('content-type')).toBe('application/json');
    expect(await answer.json()).toEqual({
      version: expect.stringMatching(/^\d/),
      gateway_port: null,
      gateway_is_local: true,
      gateway_is_secure: false,
      has_live_stream: false,
      has_billing: false,
    });
  });

  it('opens signed in with the token of the command that the start shows', async () => {
    const headers = { authorization: `Bearer ${await api.ownerToken()}` };
    const me = await fetch(`${api.url}/auth/bootstrap`, { headers });
    expect(await me.json()).toMatchObject({ profile: { display_name: 'Owner' }, role: 'owner' });
  });

  it('opens signed in from the link on the terminal, as the same user', { tags: 'long' }, async () => {
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

    // The same start, with its output in a pipe, like a container's log.
    await using piped = new CliChild(['serve'], { env });
    const [pipedUrl] = await piped.waitForOutput(/http:\/\/[\d.]+:\d+/);
    const named = await piped.waitForOutput(OWNER_COMMAND);
    const asked = await runHere(named[1]!.split(' '), env);
    expect(await signIn(pipedUrl, asked.stdout.trim())).toBe(owner);
    piped.process.kill('SIGTERM');
    const { stdout, stderr } = await piped.ended;
    expect(stdout + stderr).not.toMatch(/#token|eyJ/);
  });

  it('accepts a token from the command line that was signed with the same secret', async () => {
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
