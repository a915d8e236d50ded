/**
 * A newcomer uses `/docs` in Chromium at three widths: enters a key, starts a run, logs steps, reads the run and
 * deletes it. There are no browser errors, no requests to other hosts, no controls that need a mouse, and no serious
 * finding of axe. Skipped without Chromium.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium, openBrowser } from '../dashboard/browser.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WIDTHS = [320, 768, 1_280];

/** The part of an answer that a form shows. */
interface Shown {
  status: number;
  text: string;
}

interface AxeFinding {
  id: string;
  impact: string | null;
  nodes: { html: string }[];
}

describe.skipIf(findChromium() === null)('/docs in Chromium', () => {
  const api = new ApiChild({ AUTH_DB_URL: 'embedded:', VECTOR_STORE_URL: 'embedded:' });
  let browser: Browser;
  beforeAll(async () => {
    await api.start();
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await api[Symbol.asyncDispose]();
  });

  /** The page, and the errors that the browser reports. */
  async function open(width: number): Promise<{ page: Page; complaints: string[] }> {
    const context = await browser.newContext({ viewport: { width, height: 900 } });
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
    page.on('dialog', (dialog) => {
      complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(api.url) && !/^(?:data|blob):/.test(url)) complaints.push(`elsewhere: ${url}`);
    });
    page.on('console', (said) => {
      // The browser logs each refused request by itself.
      if (/status of 4\d\d/.test(said.text())) return;
      if (said.type() === 'error' || said.type() === 'warning') complaints.push(`console: ${said.text()}`);
    });
    await page.goto(`${api.url}/docs`);
    return { page, complaints };
  }

  /** Fills in a form of the page and sends it. @returns the resulting content of the page */
  async function press(page: Page, operationId: string, filled: Record<string, string>): Promise<Shown> {
    const summary = page.getByText(`Try it: ${operationId}`, { exact: true });
    const box = page.locator('details.try').filter({ has: summary });
    if ((await box.getAttribute('open')) === null) await summary.click();
    for (const [name, text] of Object.entries(filled)) await box.locator(`[name="${name}"]`).fill(text);
    const button = box.locator('button');
    await button.click();
    // While a request runs, the button offers to stop it.
    await expect.poll(() => button.textContent(), { timeout: 30_000 }).toBe('Send');
    const text = (await box.locator('output').textContent()) ?? '';
    return { status: Number.parseInt(text.split('\n')[1] ?? '', 10), text };
  }

  it.each(WIDTHS)(
    'sends requests from its forms at a width of %i',
    async (width) => {
      const { page, complaints } = await open(width);
      const run = `walk-${width}`;
      const start = { body: JSON.stringify({ run_id: run, task: 'walk' }) };
      expect((await press(page, 'startRun', start)).status).toBe(401);
      const key = page.locator('#key');
      await key.fill(CHILD_KEY);
      expect((await press(page, 'startRun', start)).status).toBe(200);
      const step = { step_index: 0, action: '<img src=x onerror=alert(1)>', observation: 'ok' };
      const logged = await press(page, 'logStep', { 'path:id': run, body: JSON.stringify(step) });
      expect(logged.text).toContain('total_score');
      const steps = await press(page, 'listRunSteps', { 'path:id': run });
      expect(steps.text).toContain('<img src=x onerror=alert(1)>');
      expect(await page.locator('output img').count()).toBe(0);
      expect((await press(page, 'logStep', { 'path:id': run, body: '{"step_index":' })).status).toBe(400);
      expect((await press(page, 'deleteRun', { 'path:id': run })).status).toBe(204);
      expect((await press(page, 'readRun', { 'path:id': run })).status).toBe(404);
      // The key stays in the tab: it survives a reload, and is in no other tab and no address.
      await page.reload();
      expect(await key.inputValue()).toBe(CHILD_KEY);
      expect(page.url()).not.toContain(CHILD_KEY);
      const other = await open(width);
      expect(await other.page.locator('#key').inputValue()).toBe('');
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
      expect([...complaints, ...other.complaints]).toEqual([]);
      await page.context().close();
      await other.page.context().close();
    },
    180_000,
  );

  it('works with the keyboard, and axe finds nothing serious', async () => {
    const { page } = await open(1_280);
    await page.locator('#key').focus();
    const summary = page.getByText('Try it: startRun', { exact: true });
    await summary.focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    expect(await page.evaluate("document.activeElement.closest('details.try').open")).toBe(true);
    // Bypasses the page's own policy, which would block the script of this check.
    const context = await browser.newContext({ bypassCSP: true });
    const checked = await context.newPage();
    await checked.goto(`${api.url}/docs`);
    await checked.evaluate(AXE);
    const { violations } = (await checked.evaluate('axe.run(document)')) as { violations: AxeFinding[] };
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    expect(serious.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
    await context.close();
    await page.context().close();
  }, 180_000);
});
