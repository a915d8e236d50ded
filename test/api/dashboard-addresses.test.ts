/** How the audit log breaks addresses: laid out by Chromium, where the machine has one. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const FOLDER = new URL('../../src/dashboard/', import.meta.url);
const LOCAL = 'bartholomew.longfellow';
const DOMAIN = '@subsidiary.example.com';
const ENTRY = {
  created_at: '2026-03-01T12:00:00Z',
  actor: 'usr_1',
  actor_type: 'user',
  action: 'invitation.create',
  target: 'inv_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  before: null,
  after: { email: LOCAL + DOMAIN, role: 'member' },
  address: '203.0.113.7',
};

/** Shows the section and reports on how many lines each half of an address stands. */
const PAGE = `<!doctype html><link rel="stylesheet" href="/dashboard/style.css"><main id="page"></main>
<script type="module">
import { fillAudit } from '/dashboard/audit.js';
const page = document.getElementById('page');
const fail = (thrown) => fetch('/measured', { method: 'POST', body: JSON.stringify(String(thrown)) });
try {
  await fillAudit(page, { org: { id: 'o' }, role: 'owner', fail });
  const lines = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return new Set([...range.getClientRects()].map(({ top }) => top)).size;
  };
  const halves = [...page.querySelectorAll('ins')].filter((one) => one.textContent.includes('@'));
  const texts = halves.flatMap((one) => {
    const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) found.push([walker.currentNode.data, lines(walker.currentNode)]);
    return found;
  });
  await fetch('/measured', { method: 'POST', body: JSON.stringify(texts) });
} catch (thrown) { await fail(thrown); }
</script>`;

/** @returns what the page reports in a window of that width */
async function measure(width: number): Promise<unknown> {
  const measured = Promise.withResolvers<unknown>();
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://page');
    if (pathname === '/measured') {
      let body = '';
      request.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      request.on('end', () => {
        response.end();
        measured.resolve(JSON.parse(body));
      });
      return;
    }
    const rows = pathname.endsWith('/audit-log') ? [ENTRY] : [];
    const file = pathname.startsWith('/dashboard/') ? pathname.slice('/dashboard/'.length) : null;
    if (pathname === '/') response.setHeader('content-type', 'text/html').end(PAGE);
    else if (file !== null && /^[\w-]+\.(?:js|css)$/.test(file))
      response
        .setHeader('content-type', file.endsWith('.js') ? 'text/javascript' : 'text/css')
        .end(readFileSync(new URL(file, FOLDER)));
    else
      response
        .setHeader('content-type', 'application/json')
        .setHeader('x-total-count', rows.length)
        .end(JSON.stringify(rows));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const quiet = ['background-networking', 'component-update', 'sync'].map((name) => `--disable-${name}`);
  const profile = mkdtempSync(join(tmpdir(), 'understudy-browser-'));
  const browser = spawn(
    'chromium',
    [
      '--no-sandbox',
      '--headless',
      '--no-first-run',
      ...quiet,
      `--user-data-dir=${profile}`,
      `--window-size=${width},800`,
      '--remote-debugging-port=0',
      `http://127.0.0.1:${port}/`,
    ],
    // A group of its own: its processes end with it.
    { stdio: 'ignore', detached: true },
  );
  const ended = once(browser, 'exit');
  onTestFinished(async () => {
    process.kill(-browser.pid!, 'SIGKILL');
    await ended;
    server.closeAllConnections();
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  return Promise.race([measured.promise, ended]);
}

const hasChromium = spawnSync('chromium', ['--version']).status === 0;
it.skipIf(!hasChromium).each([1_280, 900])(
  'an address in the audit log breaks at its @ and nowhere else, in a window of %i',
  async (width) => {
    expect(await measure(width)).toEqual([
      [LOCAL, 1],
      [DOMAIN, 1],
    ]);
  },
);
