/**
 * The page of a captured run in Chromium, over a real service: its time line, navigation between problems, addresses of
 * turns, rendered and raw texts, the cache doctor's finding, and two runs side by side. Skipped without Chromium.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStory } from '../../src/demo/story.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { RUN_ID, SeededService } from './seeded-service.ts';

const POLL = { timeout: PATIENCE_MS };
const OTHER = 'demo-again';
const TEXTS = 'run-of-texts';
const MARKDOWN = [
  '## The plan',
  '1. **Read** the `parser`',
  '2. [Look](https://elsewhere.example/x) ![pixel](https://elsewhere.example/y.png)',
  '',
  '| file | lines |',
  '|---|---|',
  '| <b>a.ts</b> | 12 |',
].join('\n');

describe.skipIf(findChromium() === null)('the page of a run in Chromium', () => {
  const service = new SeededService();
  let browser: Browser;

  beforeAll(async () => {
    await service.start();
    browser = await openBrowser();
    await service.captureRun();
    service.script = createStory();
    await service.captureRun(OTHER, 'Mend the tests of this project.');
    service.script = () => ({ text: MARKDOWN });
    await service.capture(TEXTS, {
      messages: [
        { role: 'user', content: 'Plan it' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'lookup', input: {} }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'c1', content: '{"id":12345678901234567891,"x":[1]}' },
          ],
        },
      ],
    });
  });
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
  });

  const visitOf = (looks: { width?: number } = {}) => Visit.open(browser, service.api, service.token, looks);
  const hashOf = ({ page }: Visit) => page.evaluate('location.hash') as Promise<string>;

  it('shows turns and tools on a time axis, marks failures, and says who ended a turn', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo(`runs/${RUN_ID}`);
    const { turns } = (await service.call('GET', `/capture/runs/${RUN_ID}`)) as {
      turns: { results: { name: string; duration_ms: number }[] }[];
    };
    const rows = page.getByRole('list', { name: 'Time line of the run' });
    expect(await rows.locator('li.wf-turn').count()).toBe(turns.length);
    const settled = turns.filter(({ results }) => results.length > 0);
    expect(settled.length).toBeGreaterThan(3);
    expect(await rows.locator('li.wf-tools').count()).toBe(settled.length);
    expect(await rows.locator('li.wf-tools').first().textContent()).toContain('run_tests');
    expect(await rows.locator('li.wf-turn', { hasText: 'failed' }).count()).toBe(1);
    expect(await page.locator('.run-end').textContent()).toContain('Ended by the model');
    await rows.locator('li.wf-turn a').nth(3).click();
    await page.locator('.turn-place.pointed-out').waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('moves between problems by key, and keeps the turn in the address through a reload and a step back', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo(`runs/${RUN_ID}`);
    await page.locator('.run-keys').getByText('3 turns with problems').waitFor();
    await page.keyboard.press('n');
    await page.getByText('1 of 3, turn 1: run_tests failed').waitFor();
    await page.keyboard.press('n');
    await page.getByText('2 of 3, turn 3: edit_file failed').waitFor();
    await page.keyboard.press('n');
    await page.getByText('3 of 3, turn 4:').waitFor();
    await page.keyboard.press('p');
    await page.getByText('2 of 3, turn 3: edit_file failed').waitFor();
    const address = await hashOf(visit);
    expect(address).toContain('turn=');
    await page.reload();
    await visit.settle();
    await page.getByText('2 of 3, turn 3: edit_file failed').waitFor();
    const pointedOut = () => page.locator('.turn-place.pointed-out').getAttribute('id');
    const third = await pointedOut();
    await page.locator('.turn-head a').first().press('Enter');
    await page.getByText('1 of 3, turn 1:').waitFor();
    await expect.poll(pointedOut, POLL).not.toBe(third);
    await page.goBack();
    await expect.poll(pointedOut, POLL).toBe(third);
    expect(await hashOf(visit)).toBe(address);
    expect(visit.complaints).toEqual([]);
  });

  it('renders Markdown and JSON without their markup, and shows them raw with one key', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo(`runs/${TEXTS}`);
    const answer = page.locator('.said-assistant .text').last();
    expect(await answer.locator('ol li').count()).toBe(2);
    expect(await answer.locator('strong').textContent()).toBe('Read');
    expect(await answer.locator('td').first().textContent()).toBe('<b>a.ts</b>');
    expect(await answer.locator('img, b, a').count()).toBe(0);
    expect(await answer.textContent()).toContain('Look (https://elsewhere.example/x)');
    const result = page.locator('.result .text').first();
    expect(await result.textContent()).toContain('"id": 12345678901234567891,\n');
    await page.keyboard.press('r');
    await expect.poll(() => answer.textContent(), POLL).toBe(MARKDOWN);
    expect(await result.textContent()).toBe('{"id":12345678901234567891,"x":[1]}');
    await page.getByRole('button', { name: 'Raw texts' }).click();
    await expect.poll(() => answer.locator('strong').count(), POLL).toBe(1);
    expect(visit.complaints).toEqual([]);
  });

  it('accepts tags and a note, and links from a tag to its runs', async () => {
    await using visit = await visitOf();
    const { page } = visit;
    await visit.goTo(`runs/${TEXTS}`);
    await page.getByRole('button', { name: 'Add tags or a note' }).click();
    await page.locator('dialog [name=tags]').fill('night, two words');
    await page.locator('dialog [name=note]').fill('Look again');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.locator('.run-note').getByText('Look again').waitFor();
    await page.locator('.run-notes').getByRole('link', { name: 'two words' }).click();
    await expect.poll(() => page.locator('a.run-row').count(), POLL).toBe(1);
    expect(await page.locator('a.run-row').textContent()).toContain('night');
    expect(visit.complaints).toEqual([]);
  });

  it('compares a run with another one that is chosen on its page, from the first difference on', async () => {
    await using visit = await visitOf({ width: 390 });
    const { page } = visit;
    await visit.goTo(`runs/${RUN_ID}`);
    await page.getByRole('link', { name: 'Compare with…' }).click();
    await page.getByLabel(`Compare ${RUN_ID} with`).fill('Mend');
    await page.getByRole('button', { name: 'Find' }).click();
    await page.getByRole('button', { name: 'Mend the tests of this project.' }).click();
    await page.getByRole('heading', { name: 'They differ from turn 1 on' }).waitFor();
    expect(await hashOf(visit)).toMatch(/^#\/compare\?.*a=demo&b=demo-again/);
    const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name}`) });
    expect(await row('Turns').locator('td').last().textContent()).toBe('the same');
    expect(await row('Tokens in').locator('td').last().textContent()).toMatch(/^[+−]/);
    await page.locator('.compared-pair').first().getByText('other request').waitFor();
    expect(await visit.overflow()).toBeLessThanOrEqual(0);
    await visit.goTo(`compare?a=${RUN_ID}&b=nowhere`);
    await page.getByText('Not found').waitFor();
    await page.getByRole('button', { name: 'Choose another run' }).click();
    await page.getByLabel(`Compare ${RUN_ID} with`).waitFor();
    await visit.goTo(`compare?a=${RUN_ID}&b=${RUN_ID}`);
    await page.getByRole('heading', { name: 'The turns are the same' }).waitFor();
  });
});
