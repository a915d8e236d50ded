/**
 * Runs, patterns, findings and experiments in Chromium, over a real service. The counts on the page are those of the
 * service while 200 runs are running, after a restart, and for runs that have ended. Skipped without Chromium.
 */
import { readFileSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runHere } from '../cli/here.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import {
  CODEBASE,
  EXPERIMENT,
  finishRun,
  LONG_OUTCOME,
  LOOPING,
  logStep,
  makeLoop,
  PAYLOAD,
  seedRecords,
  startRun,
} from './seeded-runs.ts';
import { SeededService } from './seeded-service.ts';

const POLL = { timeout: PATIENCE_MS };

describe.skipIf(findChromium() === null)('runs in Chromium', () => {
  const service = new SeededService();
  let browser: Browser;

  beforeAll(async () => {
    await service.start();
    browser = await openBrowser();
    await seedRecords(service);
  });
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
  });

  const visitOf = (looks: { width?: number } = {}) => Visit.open(browser, service.api, service.token, looks);
  const rowOf = ({ page }: Visit, run_id: string) =>
    page.locator(`a.run-row[href*="runs/${run_id}?"], a.run-row[href$="runs/${run_id}"]`);
  const stepsOf = (visit: Visit, run_id: string) => rowOf(visit, run_id).locator('.run-size').textContent();

  it('show which monitors fired in an ended run, and its outcome', async () => {
    await using visit = await visitOf();
    await visit.goTo('runs?q=monitor:infinite_loop');
    await expect.poll(() => visit.page.locator('a.run-row').count(), POLL).toBe(1);
    const row = rowOf(visit, LOOPING);
    expect(await row.textContent()).toMatch(/infinite loop ×\d/);
    expect(await row.locator('.run-state .badge').first().getAttribute('title')).toBe(LONG_OUTCOME);
    await visit.page.getByLabel('State').selectOption('status:running');
    await visit.page.getByText('No run matches this query.').waitFor();
    await visit.page.getByRole('button', { name: 'Show all runs' }).click();
    await expect.poll(() => visit.page.locator('a.run-row').count(), POLL).toBeGreaterThan(1);
    expect(visit.complaints).toEqual([]);
  });

  it('can be saved as a file, with the rows of the query', async () => {
    await using visit = await visitOf();
    await visit.goTo(`runs?q=${encodeURIComponent(`run:=${LOOPING}`)}`);
    await expect.poll(() => visit.page.locator('a.run-row').count(), POLL).toBe(1);
    await visit.page.locator('.export-menu > summary').click();
    const begun = visit.page.waitForEvent('download', POLL);
    await visit.page.getByRole('link', { name: 'JSON lines', exact: true }).click();
    const saved = await begun;
    expect(saved.suggestedFilename()).toBe('understudy-runs.jsonl');
    const lines = readFileSync(await saved.path(), 'utf8')
      .trimEnd()
      .split('\n');
    expect(lines.map((line) => JSON.parse(line).run_id)).toEqual([LOOPING]);
  });

  it.each([320, 390, 1_280])('are no wider than a window of %i, even with long outcomes', async (width) => {
    await using visit = await visitOf({ width });
    for (const screen of [
      'runs',
      `runs/${LOOPING}`,
      'runs/payload',
      `experiments/${EXPERIMENT}`,
      'patterns',
    ]) {
      await visit.goTo(screen);
      expect(await visit.overflow(), screen).toBeLessThanOrEqual(0);
    }
  });

  it('show a run with its scores, its steps and its interventions', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo(`runs/${LOOPING}`);
    expect(await page.locator('.line-chart canvas').count()).toBe(1);
    expect(await page.locator('.line-chart [role=img]').getAttribute('aria-label')).toMatch(
      /^Scores of 8 steps: .*infinite loop up to 0\.\d+ at step \d/,
    );
    expect(await page.locator('.legend span').count()).toBe(6);
    expect(await page.locator('.step').count()).toBe(8);
    expect(await page.locator('.intervention.nudge').textContent()).toContain(
      'You have made the same call 3 times',
    );
    expect(await page.locator('.run-end').textContent()).toContain(LONG_OUTCOME);
    expect(await page.locator('.conversation-head .badges').textContent()).not.toContain(LONG_OUTCOME);
    await page.locator('#step-0 summary').click();
    expect(await page.locator('#step-0 .step-texts').textContent()).toContain('I read the parser first.');
    // A click beside a step selects it.
    const box = (await page.locator('.line-chart .u-over').boundingBox())!;
    await page.mouse.click(box.x + box.width - 2, box.y + box.height / 2);
    await expect.poll(() => page.locator('#step-7 details').getAttribute('open'), POLL).toBe('');
    expect(visit.complaints).toEqual([]);
  });

  it('that were both captured and reported have one page, which is updated while they run', async () => {
    await service.captureRun('watched');
    await makeLoop(service, 'watched', 2);
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo('runs');
    await expect
      .poll(() => rowOf(visit, 'watched').locator('.run-source').textContent(), POLL)
      .toBe('captured, reported');
    expect(await rowOf(visit, 'watched').locator('.run-size').textContent()).toBe('7 turns2 steps');
    await rowOf(visit, 'watched').click();
    await page.locator('.turns').waitFor();
    await page.getByRole('button', { name: 'Steps' }).click();
    expect(await page.locator('.step').count()).toBe(2);
    for (let at = 2; at < 5; at += 1)
      await logStep(service, 'watched', at, {
        action: 'run_tests',
        action_input: 'npm test',
        is_error: true,
        observation: 'Error: expected 2024-01-01 but got 2023-12-31\n  at parser.test.ts:14',
      });
    await expect.poll(() => page.locator('.step').count(), POLL).toBe(5);
    await page.locator('.intervention').first().waitFor();
    await finishRun(service, 'watched', 'success');
    await page.locator('.conversation-head .badge.good', { hasText: 'ok' }).first().waitFor();
    await page.getByRole('button', { name: 'Conversation' }).click();
    await page.locator('.turns').waitFor();
    // An intervention links to its step.
    await page.getByRole('button', { name: 'Step 3' }).click();
    await expect.poll(() => page.locator('#step-3 details').getAttribute('open'), POLL).toBe('');
    expect(visit.complaints).toEqual([]);
  });

  it('show the counts of 200 runs, and of those beyond the first page', {
    timeout: 3 * PATIENCE_MS,
  }, async () => {
    const runs = Array.from({ length: 210 }, (_, at) => `crowd-${String(at).padStart(3, '0')}`);
    for (const run_id of runs) await startRun(service, run_id);
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo('runs?q=status:running');
    await rowOf(visit, runs.at(-1)!).waitFor();
    // The end of the list loads the runs after the first page.
    await expect
      .poll(async () => {
        await page.evaluate('scrollTo(0, document.body.scrollHeight)');
        return rowOf(visit, runs[0]!).count();
      }, POLL)
      .toBe(1);
    for (let step = 0; step < 2; step += 1)
      await Promise.all(runs.map((run_id) => logStep(service, run_id, step)));
    await expect.poll(() => stepsOf(visit, runs[0]!), POLL).toContain('2');
    await page.evaluate('scrollTo(0, 0)');
    for (const run_id of [runs.at(-1)!, runs.at(-5)!])
      await expect.poll(() => stepsOf(visit, run_id), POLL).toContain('2');
    await page.evaluate(`scrollTo(0, ${62 * 100})`);
    await expect.poll(() => stepsOf(visit, runs[110]!), POLL).toContain('2');
    // A step that is logged again counts once.
    await logStep(service, runs[110]!, 1);
    await logStep(service, runs[110]!, 2);
    await expect.poll(() => stepsOf(visit, runs[110]!), POLL).toContain('3');
    expect(visit.complaints).toEqual([]);
  });

  it('continue after a restart of the service', { timeout: 3 * PATIENCE_MS }, async () => {
    await startRun(service, 'over-a-restart');
    await logStep(service, 'over-a-restart', 0);
    await using visit = await visitOf();
    await visit.goTo('runs?q=status:running');
    await expect.poll(() => stepsOf(visit, 'over-a-restart'), POLL).toContain('1');
    await service.restart();
    await logStep(service, 'over-a-restart', 1);
    await expect.poll(() => stepsOf(visit, 'over-a-restart'), POLL).toContain('2');
    await visit.page.locator('.badge.good', { hasText: 'live' }).waitFor();
  });

  it('and everything else that agents write are shown as text', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    const screens = [
      `runs?outcome=${encodeURIComponent(PAYLOAD)}`,
      'runs/payload',
      'patterns?tier=e2',
      `findings/${encodeURIComponent(CODEBASE)}`,
    ];
    for (const screen of screens) {
      await visit.goTo(screen);
      await expect.poll(() => page.locator('main').textContent(), POLL).toContain(PAYLOAD);
      expect(await page.locator('main img, main script').count(), screen).toBe(0);
    }
    await visit.goTo('patterns?tier=e2');
    await page.locator('a.run-row').click();
    await page.getByRole('heading', { name: 'Unlock' }).waitFor();
    expect(await page.locator('main').textContent()).toContain(`Parse as UTC ${PAYLOAD}`);
    expect(visit.complaints).toEqual([]);
  });

  it('and findings can be searched by meaning, and deleted', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo('findings');
    await page.getByRole('link', { name: CODEBASE }).click();
    await page.getByLabel('Ask').fill('commas at the end of a list');
    await page.locator('.finding', { hasText: 'near' }).first().waitFor();
    expect(await page.locator('.finding').first().textContent()).toContain(
      'The parser drops trailing commas',
    );
    await page.getByLabel('Ask').fill('');
    await page.getByText('2 in all').waitFor();
    await page.getByRole('button', { name: 'Delete: The parser drops trailing commas' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('1 in all').waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('and experiments match the report', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo(`experiments/${EXPERIMENT}`);
    const path = `/v1/monitor/experiments/${EXPERIMENT}/report?org_id=${service.org_id}`;
    const { arms, effect } = (await service.call('GET', path)) as {
      arms: { on: { success_rate: number } };
      effect: { success_rate_diff: number };
    };
    expect(await page.locator('.interval', { hasText: /^on/ }).first().textContent()).toContain(
      `${(arms.on.success_rate * 100).toFixed(1)} %`,
    );
    expect(await page.locator('.interval', { hasText: 'on minus off' }).textContent()).toContain(
      `${(effect.success_rate_diff * 100).toFixed(1)} points`,
    );
    await page.getByLabel('Intended share').fill('0.75');
    await page.getByText('not as intended', { exact: true }).waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('also appear on Home, which shows the newest of the same list from one request', async () => {
    await service.capture('seen-by-the-gateway', {
      messages: [{ role: 'user', content: 'Rename the parser' }],
    });
    await startRun(service, 'reported-after-it');
    await using visit = await visitOf();
    const { page } = visit;
    const lists = new Set<string>();
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      // The page with the first steps checks whether any run exists.
      if (/\/runs$/.test(pathname) && searchParams.get('limit') !== '1') lists.add(pathname);
    });
    await page.reload();
    await visit.settle();
    const rows = page.getByRole('list', { name: 'Newest runs' }).getByRole('listitem');
    await expect.poll(() => rows.nth(0).textContent(), POLL).toContain('Task of reported-after-it');
    expect(await rows.nth(1).textContent()).toMatch(/Rename the parser.*1 turn/);
    expect([...lists]).toEqual(['/capture/runs']);
    await rows.nth(1).getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: 'Rename the parser' }).waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('are shown to a viewer without pages and steps that the role does not permit', async () => {
    const { id } = (await service.call('POST', '/organizations/', { name: 'watched' })) as { id: string };
    const email = 'viewer@example.com';
    const env = { DATA_DIR: service.dir, AUTH_DB_URL: 'embedded:' };
    const token = (await runHere(['token', '--email', email], env)).stdout.trim();
    const invited = await service.call('POST', `/organizations/${id}/invite`, { email, role: 'viewer' });
    const accept = `${service.api}/organizations/invitations/${(invited as { id: string }).id}/accept`;
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(accept, { method: 'POST', headers })).status).toBe(200);
    const look = async (as: string) => {
      await using visit = await Visit.open(browser, service.api, as);
      const { page } = visit;
      let hasFirstSteps = false;
      page.on('request', (request) => {
        const { pathname, searchParams } = new URL(request.url());
        // The page with the first steps sends this request.
        if (pathname === '/usage/stats' && searchParams.get('org_id') === id) hasFirstSteps = true;
      });
      await visit.goTo(`?org=${id}`);
      await page.getByText('Interventions this month').waitFor();
      const pages = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
      return { pages, hasFirstSteps };
    };
    const [owner, viewer] = [await look(service.token), await look(token)];
    expect(owner.hasFirstSteps).toBe(true);
    expect(viewer.hasFirstSteps).toBe(false);
    expect(owner.pages.filter((name) => !viewer.pages.includes(name))).toEqual([
      ...['Costs', 'Alerts', 'Student', 'Audit log'],
    ]);
  });
});
