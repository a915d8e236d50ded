/**
 * The Alerts page in Chromium: a user creates, tests, changes and deletes an alert, and no content is cut off at three
 * widths. Skipped without Chromium.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebhookReceiver } from '../fixtures/webhook-receiver.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { SeededService } from './seeded-service.ts';

describe.skipIf(findChromium() === null)('the Alerts page in Chromium', () => {
  const service = new SeededService();
  let browser: Browser;
  let hook: WebhookReceiver;

  beforeAll(async () => {
    hook = await WebhookReceiver.open();
    await service.start({ ALERT_PRIVATE_TARGETS: '127.0.0.1' });
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
    hook.close();
  });

  it('creates an alert, tests it, changes it and deletes it', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('alerts');
    await page.getByText('No alerts yet.').waitFor();
    const field = (name: string) => page.locator(`main [name=${name}]`);
    await field('name').fill('Runs fail');
    await field('threshold').fill('2');
    await field('quiet').fill('22:00-07:00');
    await field('url').fill(hook.url);
    await page.getByRole('button', { name: 'Make the alert' }).click();
    await page.getByRole('heading', { name: 'Runs fail' }).waitFor();
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('Every destination accepted the test.').waitFor();
    expect(JSON.parse(hook.received[0]!.body).text).toContain('Test of the alert: Runs fail');
    await page.getByRole('row', { name: /test .*delivered/ }).waitFor();
    // Only the host of the address is shown.
    expect(await page.locator('main').textContent()).not.toContain('token-of-the-hook');

    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.locator('dialog [name=threshold]').fill('5');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText(/above 5/).waitFor();
    await page.getByRole('button', { name: 'Add a destination' }).click();
    await page.locator('dialog [name=kind]').selectOption('email');
    await page.locator('dialog [name=to]').fill('ops@example.com');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('button', { name: 'Remove ops@example.com' }).waitFor();
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('ops@example.com: ALERT_SMTP_URL is not set').first().waitFor();
    await page.getByRole('button', { name: 'Remove ops@example.com' }).click();
    await page.getByText('Removed.').waitFor();
    await page.getByRole('button', { name: 'Switch off' }).click();
    await page.getByRole('button', { name: 'Switch on' }).waitFor();

    const address = new URL(page.url()).hash.slice('#/'.length);
    for (const scheme of ['light', 'dark'] as const)
      for (const width of [320, 390, 1_280]) {
        await using narrow = await Visit.open(browser, service.api, service.token, { width, scheme });
        for (const screen of ['alerts', address]) {
          await narrow.goTo(screen);
          expect(await narrow.overflow(), `${screen} ${width}`).toBeLessThanOrEqual(0);
          expect(await narrow.findSerious(), `${screen} ${width} ${scheme}`).toEqual([]);
        }
        expect(narrow.complaints).toEqual([]);
      }

    // The page may still request the deleted alert. The browser logs the answer 404.
    expect(visit.complaints).toEqual([]);
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No alerts yet.').waitFor();
  });
});
