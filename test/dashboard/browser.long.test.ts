/**
 * The dashboard in Chromium, over a whole service with the demo's data: every screen in both schemes at three widths, without
 * a serious finding of axe, a complaint of the browser or a request to elsewhere; then what a reader does and what happens to
 * them. Skipped where there is no Chromium.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStory } from '../../src/demo/story.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { CODEBASE, EXPERIMENT, LOOPING, seedRecords } from './seeded-runs.ts';
import { RUN_ID, SeededService } from './seeded-service.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Every page of the menu, and what one opens from it. */
const SCREENS = [
  '',
  'conversations',
  `conversations/${RUN_ID}`,
  'runs',
  `runs/${LOOPING}`,
  'patterns',
  'findings',
  `findings/${encodeURIComponent(CODEBASE)}`,
  'experiments',
  `experiments/${EXPERIMENT}`,
  'student',
  'keys',
  'projects',
  'usage',
  'members',
  'billing',
  'audit',
  'settings',
  'feedback',
];
const WIDTHS = [320, 390, 1_280];
/** Markup, a long word, a mark that turns the order, right-to-left words and emoji. */
const PAYLOAD = `<img src=x onerror="alert(1)"><script>alert(2)</script> \u202e שלום 👩🏽‍🚀 ${'x'.repeat(400)}`;

interface AxeFinding {
  id: string;
  impact: string | null;
  nodes: { html: string }[];
}

describe.skipIf(findChromium() === null)('the dashboard in Chromium', () => {
  const service = new SeededService();
  let browser: Browser;

  beforeAll(async () => {
    await service.start();
    browser = await openBrowser();
    await service.captureRun();
    await seedRecords(service);
    const { org_id } = service;
    await service.call('POST', '/api-keys/', { name: 'ci', org_id });
    await service.call('POST', `/projects/?org_id=${org_id}`, { name: 'web' });
    await service.call('POST', `/organizations/${org_id}/invite`, {
      email: 'bartholomew.longfellow@subsidiary.example.com',
    });
  });
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
  });

  describe.each(['light', 'dark'] as const)('%s', (scheme) => {
    it.each(WIDTHS)('has every screen whole at a width of %i', async (width) => {
      await using visit = await Visit.open(browser, service.api, service.token, { width, scheme });
      for (const screen of SCREENS) {
        await visit.goTo(screen);
        expect(await visit.overflow(), screen).toBeLessThanOrEqual(0);
        expect(await findSerious(visit), screen).toEqual([]);
      }
      expect(visit.complaints).toEqual([]);
    });
  });

  it('shows what people and agents wrote as text, whatever it is', async () => {
    service.script = () => ({ text: PAYLOAD, thinking: PAYLOAD });
    await service.captureRun('run-with-payload', PAYLOAD);
    const project = (await service.call('POST', `/projects/?org_id=${service.org_id}`, {
      name: PAYLOAD.slice(0, 90),
    })) as { id: string };
    await service.call('PATCH', '/auth/me', { display_name: PAYLOAD.slice(0, 150) });
    await using visit = await Visit.open(browser, service.api, service.token, { width: 390 });
    for (const screen of [
      'conversations/run-with-payload',
      'conversations',
      'projects',
      'audit',
      'settings',
      '',
    ]) {
      await visit.goTo(screen);
      expect(await visit.page.locator('main img:not([src^="/dashboard/"])').count(), screen).toBe(0);
      expect(await visit.overflow(), screen).toBeLessThanOrEqual(0);
    }
    await visit.goTo('conversations/run-with-payload');
    const said = visit.page.locator('.said-assistant .text').last();
    // The mark that would turn the order is shown; natural right-to-left words and emoji are themselves.
    expect(await said.textContent()).toBe(PAYLOAD.replace('\u202e', '\ufffd'));
    expect(visit.complaints).toEqual([]);
    await service.call('DELETE', `/projects/${project.id}`);
    await service.call('PATCH', '/auth/me', { display_name: 'Owner' });
  });

  it('goes on by itself after a time without network, and after a restart of the service', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('conversations');
    const { page, context } = visit;
    const rows = page.locator('.virtual-list a');
    const before = await rows.count();
    expect(before).toBeGreaterThan(0);
    await context.setOffline(true);
    await page.locator('.away').waitFor();
    expect(await rows.count()).toBe(before);
    service.script = createStory();
    await service.captureRun('run-while-away');
    await context.setOffline(false);
    await page.locator('a[href*="run-while-away"]').waitFor();
    await page.locator('.away').waitFor({ state: 'detached' });
    await service.restart();
    service.script = createStory();
    await service.captureRun('run-after-restart');
    await page.locator('a[href*="run-after-restart"]').waitFor();
    await page.locator('.away').waitFor({ state: 'detached' });
  });

  it('keeps its place in the address: filters, selection and the way back', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('conversations');
    await page.getByLabel('Search').fill('no run is called that');
    await page.getByText('No run passes these filters').waitFor();
    expect(page.url()).toContain('q=no+run+is+called+that');
    await page.reload();
    await page.getByText('No run passes these filters').waitFor();
    await page.getByRole('button', { name: 'Take the filters away' }).click();
    await page.locator(`a[href*="conversations/${RUN_ID}"]`).first().click();
    await page.getByRole('heading', { level: 1, name: 'The tests of this project fail' }).waitFor();
    expect(await page.locator('.turn').count()).toBe(7);
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Conversations' }).waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('signs out, and keeps the token out of reach of scripts', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    expect(page.url()).not.toContain('token');
    const stores = 'document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })';
    expect(await page.evaluate(stores)).not.toContain('eyJ');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Understudy' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Understudy' }).waitFor();
    await page.getByRole('textbox', { name: 'Token' }).fill(service.token);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
  });
});

describe.skipIf(findChromium() === null)('the first run', () => {
  it('is ticked step by step as it happens', async () => {
    await using service = new SeededService();
    await service.start();
    const browser = await openBrowser();
    try {
      await using visit = await Visit.open(browser, service.api, service.token);
      const { page } = visit;
      const left = page.locator('.first-steps > li:not(.step-done)');
      await expect.poll(() => left.count()).toBe(3);
      await page.getByRole('tab', { name: 'Codex' }).click();
      expect(await page.getByRole('tabpanel').textContent()).toContain(
        `OPENAI_BASE_URL=${service.gateway}/v1`,
      );
      await service.captureRun();
      await expect.poll(() => left.count()).toBe(2);
      await service.call('POST', '/api-keys/', { name: 'ci', org_id: service.org_id });
      await expect.poll(() => left.count()).toBe(1);
      await service.call('POST', `/v1/monitor/runs?org_id=${service.org_id}`, { run_id: 'first' });
      await page.locator('.first-steps').waitFor({ state: 'detached' });
      expect(visit.complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});

/** What axe finds serious or critical. It is put in by the debugger, which the page's policy does not bind. */
async function findSerious({ page }: Visit): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: AXE });
  const expression = "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations)";
  const { result } = await session.send('Runtime.evaluate', {
    expression,
    awaitPromise: true,
    returnByValue: true,
  });
  await session.detach();
  return (result.value as AxeFinding[])
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}
