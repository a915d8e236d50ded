/**
 * The questions of an operator during an incident, answered in Chromium: each in at most three clicks from Home, and
 * with only the keyboard. A real service with a fake provider. Skipped without Chromium.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Locator } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatShort } from '../../src/dashboard/core/format.ts';
import { runHere } from '../cli/here.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { SeededService } from './seeded-service.ts';

const POLL = { timeout: PATIENCE_MS };
const PRICES = JSON.stringify({
  'model-large': { input: 10, output: 50, cache_read: 1, cache_write: 12.5 },
  'model-small': { input: 1, output: 5 },
});
const MARK = { cache_control: { type: 'ephemeral' } };
const tool = (name: string) => ({
  name,
  description: `${name} reads what is there. ${'It is long. '.repeat(80)}`,
  input_schema: { type: 'object', properties: { path: { type: 'string' } } },
});
const [READ, EDIT] = [tool('Read'), tool('Edit')] as [object, object];
const SYSTEM = [{ type: 'text', text: `You mend code. ${'Read before you write. '.repeat(200)}`, ...MARK }];

/** The provider's next answer. */
interface Said {
  status?: number;
  text?: string;
  usage?: [input: number, output: number, read: number, written: number];
}

describe.skipIf(findChromium() === null)('the dashboard during an incident', () => {
  const service = new SeededService();
  let provider: Server;
  let browser: Browser;
  let said: Said = {};

  async function capture(
    run: string,
    next: Said,
    body: { messages: object[]; model?: string; system?: object[]; tools?: object[] },
    headers: Record<string, string> = {},
  ): Promise<void> {
    said = next;
    await service.capture(run, { model: 'model-large', ...body }, { 'user-agent': 'desk/1', ...headers });
  }

  beforeAll(async () => {
    provider = createServer((request, response) => {
      request.resume().on('end', () => {
        const { status = 200, text = 'Done.', usage = [100, 20, 0, 0] } = said;
        const [input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens] = usage;
        response.writeHead(status, {
          'content-type': 'application/json',
          'anthropic-ratelimit-tokens-limit': '100000',
          'anthropic-ratelimit-tokens-remaining': '8000',
          'anthropic-ratelimit-tokens-reset': new Date(Date.now() + 3_600_000).toISOString(),
        });
        const answer = {
          id: 'msg',
          type: 'message',
          role: 'assistant',
          model: 'model-large',
          content: [{ type: 'text', text }],
          stop_reason: 'end_turn',
          usage: { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens },
        };
        const refusal = { type: 'error', error: { type: 'overloaded_error', message: text } };
        response.end(JSON.stringify(status === 200 ? answer : refusal));
      });
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => provider.once('listening', resolve));
    const { port } = provider.address() as AddressInfo;
    await service.start({ GW_UPSTREAM_BASE: `http://127.0.0.1:${port}`, GW_PRICES: PRICES });
    browser = await openBrowser();
    const ask = (content: string) => ({ role: 'user', content });
    await capture('night-slow', {}, { messages: [ask('Sort the archive')] });
    await capture('night-words', { text: 'The zebrafish table lost a comma.' }, { messages: [ask('Look')] });
    await capture('night-dear', { usage: [9_000, 90_000, 0, 0] }, { messages: [ask('Write a book')] });
    const opening = { role: 'user', content: [{ type: 'text', text: 'Mend the parser.', ...MARK }] };
    const cached = { system: SYSTEM, tools: [READ, EDIT], messages: [opening] };
    await capture('night-cache', { text: 'I read it.', usage: [5, 10, 0, 9_000] }, cached);
    await capture(
      'night-cache',
      { usage: [5, 10, 0, 9_050] },
      {
        system: SYSTEM,
        tools: [EDIT, READ],
        messages: [
          opening,
          { role: 'assistant', content: [{ type: 'text', text: 'I read it.' }] },
          { role: 'user', content: [{ type: 'text', text: 'Go on.', ...MARK }] },
        ],
      },
    );
    const fork = { 'x-svc-tags': 'fork-of:night-words,fork-turn:1' };
    await capture(
      'night-fork',
      { text: 'Nothing is lost.' },
      { model: 'model-small', messages: [ask('Look')] },
      fork,
    );
    await capture(
      'night-failed',
      { status: 529, text: 'Overloaded' },
      { messages: [ask('Import the bills')] },
    );
    await capture(
      'night-slow',
      {},
      { messages: [ask('Sort the archive'), { role: 'assistant', content: 'Done.' }, ask('Again')] },
    );
    await service.call('POST', `/v1/monitor/runs?org_id=${service.org_id}`, {
      run_id: 'night-reported',
      org_id: service.org_id,
      task: 'Told by the agent alone',
    });
  });
  afterAll(async () => {
    await browser?.close();
    await service[Symbol.asyncDispose]();
    provider?.close();
  });

  /** Opens Home, where the way to every answer begins. */
  async function wake(): Promise<Visit> {
    const visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('');
    await visit.page.locator('.stat', { hasText: 'Failed calls' }).waitFor();
    return visit;
  }

  /** Presses Tab until the element has the focus, and then Enter. */
  async function press(visit: Visit, target: Locator): Promise<void> {
    await target.waitFor();
    const isThere = () => target.evaluate((element) => element === element.ownerDocument.activeElement);
    for (let presses = 0; presses < 120 && !(await isThere()); presses++)
      await visit.page.keyboard.press('Tab');
    expect(await isThere()).toBe(true);
    await visit.page.keyboard.press('Enter');
  }

  const rows = (visit: Visit) => visit.page.locator('a.run-row');
  const rowOf = (visit: Visit, id: string) => visit.page.locator(`a.run-row[href*="runs/${id}"]`);
  const menu = (visit: Visit, name: string) =>
    visit.page.getByRole('navigation').getByRole('link', { name, exact: true });
  const cell = (visit: Visit, row: string) =>
    visit.page.locator('table.compared-figures tr', { hasText: row }).locator('td');

  /** The questions, each with the clicks that lead to the answer. A click is a call of `act`. */
  const QUESTIONS: readonly [
    question: string,
    clicks: (visit: Visit) => readonly Locator[],
    answer: (visit: Visit) => Promise<void>,
  ][] = [
    [
      'which runs failed?',
      (visit) => [visit.page.getByRole('link', { name: /Failed calls/ }), rowOf(visit, 'night-failed')],
      async ({ page }) => {
        await page.getByText('Overloaded').first().waitFor();
        expect(page.url()).toContain('night-failed');
      },
    ],
    [
      'what cost how much?',
      (visit) => [
        menu(visit, 'Costs'),
        visit.page.getByRole('row', { name: /model-large/ }).getByRole('link'),
      ],
      async (visit) => {
        await rowOf(visit, 'night-dear').waitFor();
        expect(await rowOf(visit, 'night-dear').locator('.run-cost').textContent()).toBe('$4.59');
      },
    ],
    [
      'what is slow?',
      (visit) => [menu(visit, 'Runs'), visit.page.getByRole('button', { name: /^Slowest/ })],
      async (visit) => {
        await expect.poll(() => rows(visit).first().getAttribute('href'), POLL).toContain('night-slow');
      },
    ],
    [
      'why did the prompt cache miss?',
      (visit) => [
        menu(visit, 'Costs'),
        visit.page
          .getByRole('table', { name: 'Causes of missed caches' })
          .getByRole('link', { name: 'night-cache' }),
        visit.page.getByText(/Cache missed: /).first(),
      ],
      async ({ page }) => {
        await page
          .locator('.cache-finding[open]')
          .getByText(/in tool 1 \(Edit\)/)
          .waitFor();
      },
    ],
    [
      'what would another model have done?',
      (visit) => [
        menu(visit, 'Runs'),
        rowOf(visit, 'night-fork'),
        visit.page.getByRole('link', { name: 'Compare with its original' }),
      ],
      async (visit) => {
        await visit.page.getByRole('heading', { name: 'They differ from turn 1 on' }).waitFor();
        expect(await cell(visit, 'Cost').allTextContents()).toHaveLength(3);
        await visit.page.getByText('Nothing is lost.').waitFor();
        await visit.page.getByText('The zebrafish table lost a comma.').waitFor();
      },
    ],
    [
      'when will I hit my limit?',
      (visit) => [menu(visit, 'Costs')],
      async ({ page }) => {
        const row = page.getByRole('table', { name: 'Limits of providers' }).getByRole('row').nth(1);
        expect(await row.textContent()).toMatch(/92 %.*8,000 of 100K/);
        expect(await row.getByRole('link').first().textContent()).toBe('night-dear');
      },
    ],
    [
      'who tells me when something breaks?',
      (visit) => [menu(visit, 'Alerts')],
      async ({ page }) => {
        await page.getByRole('button', { name: 'Make the alert' }).waitFor();
      },
    ],
    [
      'where are all runs?',
      (visit) => [menu(visit, 'Runs')],
      async (visit) => {
        await rowOf(visit, 'night-reported').waitFor();
        await rowOf(visit, 'night-dear').waitFor();
      },
    ],
  ];

  describe.each(QUESTIONS)('%s', (_, clicks, answer) => {
    it('is answered in three clicks', async () => {
      await using visit = await wake();
      const targets = clicks(visit);
      expect(targets.length).toBeLessThanOrEqual(3);
      for (const target of targets) await target.click();
      await answer(visit);
      expect(await visit.findSerious()).toEqual([]);
      expect(visit.complaints).toEqual([]);
    });

    it('is answered with keys', async () => {
      await using visit = await wake();
      for (const target of clicks(visit)) await press(visit, target);
      await answer(visit);
      expect(visit.complaints).toEqual([]);
    });
  });

  it('finds the run that contains some words, and goes to the turn, with keys on the list of runs', async () => {
    await using visit = await wake();
    const { page } = visit;
    await menu(visit, 'Runs').click();
    await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor();
    await rows(visit).first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('zebrafish ');
    await expect.poll(() => rows(visit).count(), POLL).toBe(1);
    expect(await rows(visit).textContent()).toContain('answer: The zebrafish table lost');
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Search' }).blur();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByText('The zebrafish table lost a comma.').first().waitFor();
    expect(page.url()).toMatch(/runs\/night-words\?.*turn=\d+/);
    expect(visit.complaints).toEqual([]);
  });

  it('`j`, `k` and `?` work on the list of runs', async () => {
    await using visit = await wake();
    const { page } = visit;
    await menu(visit, 'Runs').click();
    // Home has rows, too, so the rows alone do not show that the list is open.
    await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor();
    await rows(visit).nth(2).waitFor();
    const focused = () => page.evaluate('document.activeElement.getAttribute("href")') as Promise<string>;
    await page.keyboard.press('j');
    expect(await focused()).toBe(await rows(visit).nth(0).getAttribute('href'));
    await page.keyboard.press('j');
    expect(await focused()).toBe(await rows(visit).nth(1).getAttribute('href'));
    await page.keyboard.press('k');
    expect(await focused()).toBe(await rows(visit).nth(0).getAttribute('href'));
    await page.keyboard.press('?');
    await page.getByRole('link', { name: 'All fields' }).waitFor();
  });

  it('shows the same sum in the API, the list, Home, Costs, the command line and the metrics', async () => {
    const get = async <Body>(path: string) => (await service.call('GET', path)) as Body;
    const TOKENS = ['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens'] as const;
    type Figures = Record<'exchanges' | 'turns' | 'errors' | (typeof TOKENS)[number], number> & {
      cost_usd: number;
    };
    const { total, rows: byModel } = await get<{ total: Figures; rows: Figures[] }>(
      '/capture/figures?days=2',
    );
    expect(total).toMatchObject({ exchanges: 8, turns: 8, errors: 1 });
    const close = (value: number | null | undefined) => expect(value).toBeCloseTo(total.cost_usd, 9);
    close(byModel.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0));
    const { runs } = await get<{ runs: (Figures & { is_captured: boolean })[] }>(
      '/capture/runs?q=is:captured',
    );
    const sum = (name: keyof Figures) => runs.reduce((all, run) => all + (run[name] ?? 0), 0);
    for (const name of ['exchanges', 'turns', 'errors', ...TOKENS] as const)
      expect([name, sum(name)]).toEqual([name, total[name]]);
    close(sum('cost_usd'));
    const activity = await get<Figures>('/capture/activity?hours=24');
    close(activity.cost_usd);
    for (const name of ['exchanges', 'turns', 'errors', ...TOKENS] as const)
      expect([name, activity[name]]).toEqual([name, total[name]]);
    const inspect = async (...argv: string[]) =>
      JSON.parse(
        (await runHere(['inspect', ...argv, '--json'], { DATA_DIR: service.dir, GW_PRICES: PRICES })).stdout,
      );
    close((await inspect('--by', 'model')).total.cost_usd);
    const listed = (await inspect('is:captured')).runs as Figures[];
    close(listed.reduce((all, { cost_usd }) => all + (cost_usd ?? 0), 0));
    const metrics = await (await fetch(`${service.api}/metrics`)).text();
    const metric = (name: string) => Number(new RegExp(`^understudy_${name} (.*)$`, 'm').exec(metrics)?.[1]);
    // Everything happened today, unless the test ran over midnight.
    const { total: today } = await get<{ total: Figures }>('/capture/figures?days=1');
    expect(metric('today_cost_usd')).toBeCloseTo(today.cost_usd, 9);
    for (const name of ['exchanges', 'turns', 'errors', 'input_tokens', 'output_tokens'] as const)
      expect([name, metric(`today\\{of="${name}"\\}`)]).toEqual([name, today[name]]);
    await using visit = await wake();
    const shown = `$${total.cost_usd.toFixed(2)}`;
    const stat = (label: string) => visit.page.locator('.stat', { hasText: label }).first();
    await expect.poll(() => stat('Cost').textContent(), POLL).toContain(shown);
    const tokens = TOKENS.reduce((all, name) => all + total[name], 0);
    expect(await stat('Tokens').textContent()).toContain(formatShort(tokens));
    await visit.goTo('costs');
    await expect.poll(() => stat('Cost').textContent(), POLL).toContain(shown);
    expect(await stat('Turns').textContent()).toContain('8');
    expect(await stat('Failed calls').textContent()).toContain('1');
  });

  it('the failed calls on Costs lead to exactly their runs', async () => {
    // A failed tool is no failed call.
    const used = { type: 'tool_use', id: 'toolu_1', name: 'Read', input: { path: 'bills' } };
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', is_error: true, content: 'No such file' };
    const messages = [
      { role: 'user', content: 'Find the bills' },
      { role: 'assistant', content: [used] },
      { role: 'user', content: [result] },
    ];
    await capture('night-tool', {}, { messages });
    await using visit = await wake();
    await visit.goTo('runs?q=has:error');
    await rowOf(visit, 'night-tool').waitFor(POLL);
    await visit.goTo('costs');
    const failed = visit.page.getByRole('link', { name: /Failed calls/ });
    await failed.filter({ hasText: '1' }).click(POLL);
    await rowOf(visit, 'night-failed').waitFor();
    expect(await rows(visit).count()).toBe(1);
  });

  it('Home shows failed calls that belong to no run', async () => {
    await using visit = await wake();
    const { page } = visit;
    expect(await page.getByText('without a run').count()).toBe(0);
    said = { status: 401, text: 'Wrong key.' };
    await (await fetch(`${service.gateway}/v1/models`)).arrayBuffer();
    await page.getByText('1 failed call without a run').click(POLL);
    await page.getByText('GET /v1/models').click();
    await page.getByText('Show the body').last().click();
    await page.getByText('Wrong key.').waitFor();
  });
});
