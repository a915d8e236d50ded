/**
 * Exchanges that the index lacks, in Chromium over a real service: they are rows above the runs, a page of a run has
 * its own, and they become ordinary rows. Skipped without Chromium.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { UnindexedCaptures } from '../fixtures/unindexed-captures.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';

const POLL = { timeout: PATIENCE_MS };

describe.skipIf(findChromium() === null)('exchanges that wait for the index, in Chromium', () => {
  const api = new ApiChild({ AUTH_DB_URL: 'embedded:', VECTOR_STORE_URL: 'embedded:' });
  const captures = new UnindexedCaptures(api.dir);
  let browser: Browser;
  let token: string;

  beforeAll(async () => {
    await api.start();
    token = await api.ownerToken();
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await api[Symbol.asyncDispose]();
  });

  it.each([390, 1_280])(
    'are rows above the runs until they are indexed, in a window of %i',
    async (width) => {
      const [known, fresh] = [`known-${width}`, `fresh-${width}`];
      await captures.store(captures.make(known, 1));
      await captures.index();
      await captures.store(
        captures.make(known, 2, { status: 529 }),
        ...Array.from({ length: 6 }, (_, i) => captures.make(fresh, 3 + i)),
      );

      await using visit = await Visit.open(browser, api.url, token, { width });
      const { page } = visit;
      await visit.goTo('runs');
      await page.getByText('7 exchanges are stored and being indexed.').waitFor(POLL);
      const waiting = page.locator('.run-row').filter({ hasText: 'being indexed' });
      expect(await waiting.count()).toBe(5);
      await page.getByRole('button', { name: 'Show 7' }).click();
      await expect.poll(() => waiting.count(), POLL).toBe(7);
      expect(await page.locator('a.run-row').filter({ hasText: fresh }).count()).toBe(0);
      expect(await visit.findSerious()).toEqual([]);
      expect(await visit.findCut()).toEqual([]);
      expect(await visit.overflow()).toBeLessThanOrEqual(0);

      // The exchange of a listed run leads to the page of this run.
      await waiting.filter({ hasText: known }).click();
      const ofRun = page.getByRole('list', { name: 'Being indexed' }).locator('.run-row');
      await ofRun.waitFor(POLL);
      expect(await ofRun.textContent()).toContain('529');

      await captures.index();
      await expect.poll(() => ofRun.count(), POLL).toBe(0);
      await visit.goTo('runs');
      await page.locator('a.run-row').filter({ hasText: fresh }).waitFor(POLL);
      expect(await waiting.count()).toBe(0);
      // Chromium logs the answer of /capture/stats, because this service only reads captures.
      expect(visit.complaints.filter((complaint) => !complaint.includes('status of 404'))).toEqual([]);
    },
  );
});
