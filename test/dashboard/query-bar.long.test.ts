/**
 * The query bar and the Costs screen in a real Chromium: keys, completion, errors, order, saved searches, links to
 * runs.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { captureSession, RUN_ID, SESSION, SeededService } from './seeded-service.ts';

const PRICES = '{"claude-demo-large": {"input": 3, "output": 15}}';

describe.skipIf(findChromium() === null)('searching runs in Chromium', () => {
  const service = new SeededService();
  let browser: Browser;

  beforeAll(async () => {
    await service.start({ GW_PRICES: PRICES });
    browser = await openBrowser();
    await service.captureRun();
    await captureSession(service);
  });
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
  });

  const rowOf = (visit: Visit, id: string) => visit.page.locator(`a.run-row[href*="runs/${id}"]`);

  it('works with keys alone, and its text is in the address', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('runs');
    const { page } = visit;
    await rowOf(visit, SESSION).first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('mod');
    await page.getByRole('option', { name: /^model:/ }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    // The suggestions begin with the value that has most runs.
    await page.getByRole('option', { name: 'claude-of-no-price 3 runs', exact: true }).waitFor();
    await page.getByRole('option', { name: 'claude-demo-large 1 run', exact: true }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    const field = page.getByRole('combobox', { name: 'Search' });
    expect(await field.inputValue()).toBe('model:claude-demo-large ');
    await page.waitForURL(/q=model%3Aclaude-demo-large/);
    await rowOf(visit, SESSION).first().waitFor({ state: 'detached' });
    await rowOf(visit, RUN_ID).first().waitFor();
    // The address alone restores the view.
    await visit.goTo('runs?q=model%3Aclaude-demo-large');
    expect(await field.inputValue()).toBe('model:claude-demo-large');
    await rowOf(visit, RUN_ID).first().waitFor();
    expect(await rowOf(visit, SESSION).count()).toBe(0);
    expect(visit.complaints).toEqual([]);
  });

  it('says what is wrong with a query, and keeps the list', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('runs');
    const { page } = visit;
    await rowOf(visit, RUN_ID).first().waitFor();
    await page.getByRole('combobox', { name: 'Search' }).fill('modle:opus');
    await page.getByText('there is no field "modle"; did you mean "model"?').waitFor();
    expect(await rowOf(visit, RUN_ID).count()).toBe(1);
    expect(page.url()).not.toContain('modle');
    expect(await visit.findSerious()).toEqual([]);
  });

  it('reports an error once if the query is in the address', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('runs?q=cost%3A%3Eabc');
    await page.getByText('The search cannot be read.').waitFor();
    expect(await page.getByText('cost: takes').count()).toBe(1);
    await page.getByRole('button', { name: 'Show all runs' }).click();
    await rowOf(visit, RUN_ID).first().waitFor();
  });

  it('orders by a column, and saves a search', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('runs');
    const { page } = visit;
    await page.getByRole('button', { name: 'Sort by turns' }).click();
    await page.waitForURL(/q=sort%3Aturns/);
    await page.getByRole('button', { name: 'Sort by turns, largest first' }).click();
    await page.waitForURL(/q=sort%3Aturns-asc/);
    await page.getByRole('button', { name: 'Save this search' }).click();
    await visit.goTo('runs');
    await page.getByRole('button', { name: 'sort:turns-asc', exact: true }).click();
    await page.waitForURL(/q=sort%3Aturns-asc/);
    await page.getByRole('button', { name: 'Forget sort:turns-asc' }).click();
    await page.getByRole('heading', { name: 'Runs' }).click();
    await page.keyboard.press('?');
    await page.getByRole('link', { name: 'All fields' }).waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('links from the cost of a model to its runs', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('costs');
    const { page } = visit;
    const row = page.getByRole('row', { name: /claude-demo-large/ });
    expect(await row.textContent()).toMatch(/\$\d/);
    await row.getByRole('link').click();
    await rowOf(visit, RUN_ID).first().waitFor();
    expect(await rowOf(visit, SESSION).count()).toBe(0);
    await visit.goTo('costs?by=tool');
    await page
      .getByRole('row', { name: /run_tests|read_file|bash/i })
      .first()
      .waitFor();
    expect(visit.complaints).toEqual([]);
  });
});
