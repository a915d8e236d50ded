/**
 * The Student page in Chromium with a student made of real captures: an agent's runs are captured, a round of `loop`
 * makes the student, the service serves with it, and then the upstream changes its answers. Skipped without Chromium.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { makeOrder, OrderRun, orderScript } from '../../bench/order-agent.ts';
import { createPrng } from '../../src/std/prng.ts';
import { runHere } from '../cli/here.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { SeededService } from './seeded-service.ts';

const POLL = { timeout: PATIENCE_MS };
/** The number of runs that each kind of answer needs as evidence. */
const TAUGHT = 60;
const PRICES = '{"claude-demo-large": {"input": 3, "output": 15}}';

type OrderContent = Parameters<OrderRun['take']>[0];

/** The agent processes orders through the gateway, each as a labelled run. */
async function answerOrders(
  service: SeededService,
  numbers: readonly number[],
  task?: string,
): Promise<void> {
  for (const number of numbers) {
    const order = makeOrder(createPrng(number), 'shipped');
    const run = task === undefined ? new OrderRun(order) : new OrderRun(order, false, task);
    for (let seq = 1, isOver = false; !isOver; seq++) {
      const response = await fetch(`${service.gateway}/v1/messages`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-key': 'no-key-needed',
          // Without this header, the provider would refuse the request and no student would serve it.
          'anthropic-version': '2023-06-01',
          'x-svc-run': `order-${number}`,
          'x-svc-seq': String(seq),
        },
        body: JSON.stringify(run.body()),
      });
      const { content } = (await response.json()) as { content: OrderContent };
      isOver = run.take(content);
    }
  }
  await fetch(`${service.gateway}/__gw/flush`, { method: 'POST' });
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);

describe.skipIf(findChromium() === null)('the Student page', () => {
  const service = new SeededService();
  const directory = join(service.dir, 'student');
  const ENV = {
    SVC_DISTILL_DIR: directory,
    // About half of the covered steps also go to the upstream.
    GW_RELEGATION_AUDIT: '0.5',
    GW_STUDENT_TIMEOUT_MS: '60000',
    GW_PRICES: PRICES,
  };
  let browser: Browser;

  beforeAll(async () => {
    mkdirSync(directory);
    service.script = orderScript;
    await service.start(ENV);
    browser = await openBrowser();
    await answerOrders(service, range(0, TAUGHT));
    const round = await runHere(
      ['loop', '--db', join(service.dir, 'capture.mdb'), '--out', directory, '--once'],
      { DATA_DIR: service.dir },
    );
    expect(round.stdout + round.stderr).toContain('is published');
    const serving = async () =>
      ((await service.call('GET', '/capture/stats')) as { relegation: { version: number | null } }).relegation
        .version;
    await vi.waitFor(async () => expect(await serving()).toBe(1), POLL);
    await answerOrders(service, range(100, 30));
    // From now on, the upstream answers with another parcel than the one of the agent's order.
    service.script = (request) => {
      const answer = orderScript(request);
      const calls = 'tool_calls' in answer ? answer.tool_calls : undefined;
      for (const call of calls ?? [])
        if (call.name === 'track_parcel') call.input = { parcel_id: 'PX-OTHER' };
      return answer;
    };
    await answerOrders(service, range(200, 30));
    await answerOrders(service, [300], 'Say hello to the new warehouse.');
  }, 3 * PATIENCE_MS);
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
  });

  it.each(['light', 'dark'] as const)('fits at three widths, %s', async (scheme) => {
    for (const width of [320, 390, 1_280]) {
      await using visit = await Visit.open(browser, service.api, service.token, { width, scheme });
      const { page } = visit;
      await visit.goTo('student');
      await page.locator('.side-by-side').first().waitFor();
      for (const summary of await page.locator('.student-agent > summary').all()) await summary.click();
      expect(await visit.overflow(), String(width)).toBeLessThanOrEqual(0);
      expect(await visit.findSerious(), String(width)).toEqual([]);
      expect(visit.complaints).toEqual([]);
    }
  });

  it('shows which student serves, how much it served, and its agent', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('student');
    const report = (await service.call('GET', '/capture/student')) as {
      versions: { golden_runs: number }[];
      ledger: { served: number; compared: number; wrong: number; saved_usd: number }[];
    };
    expect(report.versions).toHaveLength(1);
    const ledger = report.ledger[0]!;
    expect(ledger.served).toBeGreaterThan(0);
    expect(ledger.wrong).toBeGreaterThan(0);
    const row = page.getByRole('table', { name: 'Ledger' }).locator('tbody tr');
    expect(await row.locator('[data-heading=Served]').textContent()).toBe(String(ledger.served));
    expect(await row.locator('[data-heading=Audited]').textContent()).toBe(String(ledger.compared));
    expect(await row.locator('[data-heading=Wrong]').textContent()).toBe(String(ledger.wrong));
    expect(await row.locator('[data-heading=Saved]').textContent()).toMatch(/^\$0\.\d+$/);
    await page.locator('.student-agent > summary').click();
    await page.locator('.kinds').getByText('track_parcel').first().waitFor();
  });

  it('names the agent variant after its prompt until a user renames it', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('student');
    const summary = page.locator('.student-agent > summary');
    const { agents } = (await service.call('GET', '/capture/student')) as {
      agents: { agent: string; name: string }[];
    };
    expect(agents[0]!.name).not.toBe('');
    await summary.getByText(agents[0]!.name).waitFor();
    await summary.click();
    await page.getByRole('button', { name: 'Name it' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Parcel desk');
    await page.getByRole('button', { name: 'Save' }).click();
    await summary.getByText('Parcel desk').waitFor();
    await page.locator('.told-step .step-head', { hasText: 'Parcel desk' }).first().waitFor();
    const shown = await runHere(['student', 'show', '--dir', directory], { DATA_DIR: service.dir });
    expect(shown.stdout).toContain('Parcel desk');
    expect(visit.complaints).toEqual([]);
  });

  it('shows disagreements side by side, and links to the turn', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('student');
    const panel = page.locator('.panel', { has: page.getByRole('heading', { name: 'Disagreements' }) });
    const first = panel.locator('.told-step').first();
    const row = first.getByRole('row', { name: /parcel_id/ });
    expect(await row.locator('td').nth(0).textContent()).toMatch(/^PX\d{8}$/);
    expect(await row.locator('td').nth(1).textContent()).toBe('PX-OTHER');
    await first.getByRole('link').click();
    await page.locator('.turn-place.pointed-out').waitFor();
    const turn = page.locator('.turn-place.pointed-out');
    await turn.getByText('What the student said').click();
    await turn.getByRole('table', { name: 'Both answers' }).waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('explains in words why a step was left to the upstream, and what was new in it', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    const { steps } = (await service.call('GET', '/capture/steps?outcome=refused&limit=1')) as {
      steps: { exchange_id: number; run_id: string; relegation: { words: string } }[];
    };
    const [newest] = steps;
    expect(newest!.run_id).toBe('order-300');
    await visit.goTo('student');
    const panel = page.locator('.panel', {
      has: page.getByRole('heading', { name: 'Left to the upstream' }),
    });
    const group = panel.locator('.told-step', { hasText: newest!.relegation.words }).first();
    await group.locator('summary').first().click();
    const step = group.locator('.told-step', { hasText: 'order-300' }).first();
    await step.getByText('What was new in it').click();
    await step.locator('.opinion').waitFor();
    expect(await step.locator('.opinion').textContent()).toMatch(/version 1/);
    await step.getByRole('link', { name: 'order-300' }).click();
    await page.getByRole('heading', { level: 1, name: 'Say hello to the new warehouse.' }).waitFor();
    await page.getByText('Why the student did not answer').first().waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it.each(['before', 'after'])('shows the same ledger figure everywhere, %s a restart', async (when) => {
    if (when === 'after') await service.restart(ENV);
    const { relegation } = (await service.call('GET', '/capture/stats')) as {
      relegation: { money_saved_usd: number; ledger_total: Record<string, number> };
    };
    const total = relegation.ledger_total;
    const saved = relegation.money_saved_usd;
    expect(saved).toBeGreaterThan(0);
    expect(total).toMatchObject({ saved_usd: saved, unpriced: 0, guessed: 0 });
    const report = (await service.call('GET', '/capture/student')) as {
      ledger_total: object;
      ledger: Record<string, number>[];
    };
    expect(report.ledger_total).toEqual(total);
    const told = await runHere(['student', 'ledger', '--days', '--json'], { DATA_DIR: service.dir });
    const rows = JSON.parse(told.stdout) as Record<string, number>[];
    for (const days of [report.ledger, rows])
      for (const name of ['served', 'compared', 'wrong', 'late', 'saved_usd'])
        expect(
          days.reduce((sum, day) => sum + day[name]!, 0),
          name,
        ).toBeCloseTo(total[name]!, 7);
    const printed = await runHere(['student', 'ledger'], { DATA_DIR: service.dir });
    expect(printed.stdout).toContain(`: ${total.served} steps served, saved $${saved.toFixed(4)}\n`);
    const metrics = await fetch(`${service.api}/metrics`, {
      headers: { authorization: `Bearer ${service.token}` },
    });
    const [, gauge] = /^understudy_relegation_ledger_saved_usd (\S+)$/m.exec(await metrics.text()) ?? [];
    expect(Number(gauge)).toBe(saved);
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('student');
    const stat = page.locator('.stat', { hasText: 'Money saved' });
    const shown = saved < 0.1 ? saved.toFixed(4) : saved.toFixed(2);
    await stat.getByText(`$${shown}`, { exact: true }).waitFor();
    expect(visit.complaints).toEqual([]);
  });
});
