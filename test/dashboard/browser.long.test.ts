/**
 * The dashboard in Chromium, over a whole service with the demo's data: every screen in both schemes at four widths,
 * without a serious finding of axe, an error of the browser or a request to another host. Then the actions of a user
 * and their effects. Skipped without Chromium.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStory } from '../../src/demo/story.ts';
import { runHere } from '../cli/here.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { findChromium, openBrowser, Visit } from './browser.ts';
import { CODEBASE, EXPERIMENT, LOOPING, seedRecords } from './seeded-runs.ts';
import { captureSession, RUN_ID, SESSION, SeededService } from './seeded-service.ts';

/** Every page of the menu, and the pages that are opened from these. */
const SCREENS = [
  '',
  `compare?a=${RUN_ID}`,
  `compare?a=${RUN_ID}&b=${SESSION}`,
  'runs',
  `runs/${RUN_ID}`,
  `runs/${SESSION}`,
  `runs?q=session%3A${SESSION}`,
  `runs/${LOOPING}`,
  'patterns',
  'findings',
  `findings/${encodeURIComponent(CODEBASE)}`,
  'experiments',
  `experiments/${EXPERIMENT}`,
  'student',
  'costs',
  'alerts',
  'keys',
  'projects',
  'usage',
  'members',
  'billing',
  'audit',
  'settings',
  'feedback',
];
/** A price for one of the two captured models. The other model has no price. */
const PRICES = '{"claude-demo-large": {"input": 3, "output": 15}}';
const WIDTHS = [320, 390, 1_024, 1_280];
/** A run id that contains markup. The id is sent in a header, so it is ASCII. */
const MARKED_RUN = 'run <img src=x onerror=alert(3)>';
const POLL = { timeout: PATIENCE_MS };
/** Markup, a long word, a mark that changes the text direction, right-to-left words and emoji. */
const PAYLOAD = `<img src=x onerror="alert(1)"><script>alert(2)</script> \u202e שלום 👩🏽‍🚀 ${'x'.repeat(400)}`;

describe.skipIf(findChromium() === null)('the dashboard in Chromium', () => {
  const service = new SeededService();
  let browser: Browser;

  beforeAll(async () => {
    await service.start({ GW_PRICES: PRICES, RETENTION_DAYS: '90', RETENTION_DAYS_CAPTURES: '7' });
    browser = await openBrowser();
    await service.captureRun();
    await captureSession(service);
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
    it.each(WIDTHS)('shows every screen completely at a width of %i', async (width) => {
      await using visit = await Visit.open(browser, service.api, service.token, { width, scheme });
      for (const screen of SCREENS) {
        await visit.goTo(screen);
        expect(await visit.overflow(), screen).toBeLessThanOrEqual(0);
        expect(await visit.findCut(), screen).toEqual([]);
        expect(await visit.findSerious(), screen).toEqual([]);
      }
      expect(visit.complaints).toEqual([]);
    });
  });

  it('says after a change of the organization why the role cannot be read, and waits for the role', async () => {
    const other = (await service.call('POST', '/organizations/', { name: 'Another house' })) as {
      id: string;
    };
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('keys');
    const members = `**/organizations/${other.id}/members*`;
    await page.route(members, (route) => route.fulfill({ status: 503, json: { detail: 'Storage is full' } }));
    await page.locator('.organization select').selectOption(other.id);
    await page.getByRole('alert').getByText('Storage is full').waitFor();
    expect(await page.locator('main h1').textContent()).toBe('API keys');
    await page.unroute(members);
    await page.getByRole('button', { name: 'Try now' }).click();
    await page.getByRole('heading', { name: 'New key' }).waitFor();
  });

  it('has no serious fault that axe finds, although axe finds the faults of a broken page', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('settings');
    expect(await visit.findSerious()).toEqual([]);
    await visit.page.evaluate(`{
      const faint = document.createElement('p');
      faint.textContent = 'hard to read';
      faint.style.color = '#ddd';
      faint.style.background = '#eee';
      document.querySelector('main').append(document.createElement('button'), faint);
    }`);
    const found = await visit.findSerious();
    expect(found.some((rule) => rule.startsWith('button-name'))).toBe(true);
    expect(found.some((rule) => rule.startsWith('color-contrast'))).toBe(true);
  });

  it('shows what conversations cost, and where a price is unknown', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    // The query selects one run, because the list draws only the rows on the screen.
    const costOf = async (id: string) => {
      await visit.goTo(`runs?q=${encodeURIComponent(`run:=${id}`)}`);
      const row = page.locator(`a.run-row[href*="runs/${encodeURIComponent(id)}"]`);
      return row.first().locator('.run-cost').textContent();
    };
    const { run } = (await service.call('GET', `/capture/runs/${RUN_ID}`)) as {
      run: { cost_usd: number; unpriced_turns: number; input_tokens: number; output_tokens: number };
    };
    expect(run.unpriced_turns).toBe(0);
    expect(run.cost_usd).toBeGreaterThan(0);
    const shown = `$${run.cost_usd.toFixed(run.cost_usd < 0.1 ? 4 : 2)}`;
    expect(await costOf(RUN_ID)).toBe(shown);
    expect(await costOf(SESSION)).toBe('no price');
    await visit.goTo(`runs/${RUN_ID}`);
    expect(await page.locator('.stat', { hasText: 'Cost' }).textContent()).toContain(shown);
    await visit.goTo(`runs/${SESSION}`);
    expect(await page.locator('.stat', { hasText: 'Cost' }).textContent()).toContain(
      'GW_PRICES can set a price',
    );
  });

  it('shows the runs of a session with their roles, and links them to each other', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo(`runs/${SESSION}`);
    const family = page.getByRole('navigation', { name: 'Runs that belong together' });
    await family.getByText('2 child runs').waitFor();
    await family.getByRole('link', { name: `${SESSION}:agent-of-the-session` }).click();
    await family.getByText('sub-agent').waitFor();
    await family.getByRole('link', { name: SESSION, exact: true }).waitFor();
    await family.getByRole('link', { name: 'All runs of its session' }).click();
    await expect
      .poll(() => page.getByRole('combobox', { name: 'Search' }).inputValue())
      .toBe(`session:=${SESSION}`);
    await expect.poll(() => page.locator('.virtual-list a.run-row').count()).toBe(3);
    expect(await page.locator('.virtual-list a.run-row.part').count()).toBe(2);
    await page.locator('select', { hasText: 'without a parent' }).selectOption('-is:child');
    await expect.poll(() => page.locator('.virtual-list a.run-row').count()).toBe(1);
    expect(visit.complaints).toEqual([]);
  });

  it('shows a run that was never captured without a link, and a heading even without results', async () => {
    await service.capture(
      '',
      { messages: [{ role: 'user', content: 'Look around' }], tools: [{ name: 'read', input_schema: {} }] },
      { 'x-claude-code-session-id': 'session-elsewhere', 'x-claude-code-agent-id': 'agent-elsewhere' },
    );
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('runs/session-elsewhere:agent-elsewhere');
    const family = page.getByRole('navigation', { name: 'Runs that belong together' });
    await family.getByText('none of it passed this gateway').waitFor();
    expect(await family.getByRole('link', { name: 'session-elsewhere', exact: true }).count()).toBe(0);
    for (const place of ['runs', 'patterns']) {
      await visit.goTo(`${place}/nowhere`);
      await page.getByText('Not found').waitFor();
      expect(await page.locator('h1').count()).toBe(1);
    }
  });

  it('empties a field when its filter is removed in another place of the page', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('runs');
    const field = page.getByLabel('Search');
    await field.fill('a made-up claim');
    await page.getByRole('button', { name: 'Show all runs' }).click();
    await expect.poll(() => field.inputValue()).toBe('');
    await expect.poll(() => page.locator('.virtual-list a.run-row').count()).toBeGreaterThan(0);
    await field.fill('tests of this project');
    await expect.poll(() => page.evaluate('location.hash')).toContain('q=');
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await expect.poll(() => field.inputValue()).toBe('');
    expect(await page.evaluate('location.hash')).not.toContain('q=');
  });

  it('signs out in every tab, and shows captures only to the operator', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('settings');
    const other = await visit.context.newPage();
    await other.goto(`${service.api}/#/runs`);
    await other.locator('a.run-row').first().waitFor();
    await visit.page.getByRole('button', { name: 'Sign out' }).click();
    await other.getByRole('heading', { name: 'Sign in to Understudy' }).waitFor();
    const made = await runHere(['token', '--email', 'stranger@example.com'], {
      DATA_DIR: service.dir,
      AUTH_DB_URL: 'embedded:',
    });
    await using stranger = await Visit.open(browser, service.api, made.stdout.trim());
    await stranger.goTo(`runs/${RUN_ID}`);
    await stranger.page.getByText('Not found').waitFor();
    await stranger.goTo('runs');
    await stranger.page.getByText('No runs yet.').waitFor();
    expect(await stranger.page.getByLabel('Golden').count()).toBe(0);
    await stranger.goTo('costs');
    await stranger.page.getByText('This page is for the operator of the service').waitFor();
    expect(await stranger.page.locator('h1').textContent()).toBe('Costs');
  });

  it('shows how long each kind is kept, and how often each key was used', async () => {
    const { org_id } = service;
    const made = (await service.call('POST', '/api-keys/', { name: 'busy', org_id })) as { raw_key: string };
    for (let at = 0; at < 3; at++)
      await fetch(`${service.api}/v1/monitor/runs`, { headers: { authorization: `Bearer ${made.raw_key}` } });
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('settings');
    const kept = page.getByRole('table', { name: 'Retention' });
    expect(await kept.getByRole('row', { name: /^Captured conversations/ }).textContent()).toContain(
      '7 days',
    );
    expect(await kept.getByRole('row', { name: /^Findings/ }).textContent()).toContain('90 days');
    // The counts of keys are written every two seconds.
    await expect
      .poll(async () => {
        const { keys } = (await service.call('GET', `/usage/keys?org_id=${org_id}`)) as {
          keys: { name: string; requests: number }[];
        };
        return keys.find(({ name }) => name === 'busy')?.requests;
      }, POLL)
      .toBe(3);
    await visit.goTo('usage');
    const row = page.getByRole('table', { name: 'Requests by key' }).getByRole('row', { name: /^busy/ });
    expect(await row.locator('td').last().textContent()).toBe('3');
    await visit.goTo('keys');
    const key = page.getByRole('table', { name: 'API keys' }).getByRole('row', { name: /^busy/ });
    await expect.poll(() => key.locator('[data-heading^=Requests]').textContent(), POLL).toBe('3');
  });

  it('deletes an organization only after the user typed its name', async () => {
    const made = (await service.call('POST', '/organizations/', { name: PAYLOAD.slice(0, 80) })) as {
      id: string;
      name: string;
    };
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo(`settings?org=${made.id}`);
    await page.getByRole('button', { name: 'Delete the organization' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('another name');
    await dialog.getByRole('button', { name: 'Delete the organization' }).click();
    // The browser marks the input as invalid, and the page sends nothing.
    expect(await dialog.locator('input:invalid').count()).toBe(1);
    await dialog.getByRole('textbox').fill(made.name);
    await dialog.getByRole('button', { name: 'Delete the organization' }).click();
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    const left = (await service.call('GET', '/organizations/')) as { id: string }[];
    expect(left.map(({ id }) => id)).not.toContain(made.id);
    expect(visit.complaints).toEqual([]);
  });

  it('shows markup in names, prompts, tool calls and answers as text', async () => {
    service.script = () => ({ text: PAYLOAD, thinking: PAYLOAD });
    await service.captureRun('run-with-payload', PAYLOAD);
    const project = (await service.call('POST', `/projects/?org_id=${service.org_id}`, {
      name: PAYLOAD.slice(0, 90),
    })) as { id: string };
    await service.call('PATCH', '/auth/me', { display_name: PAYLOAD.slice(0, 150) });
    const { org_id } = service;
    await service.call('PATCH', `/organizations/${org_id}`, { name: PAYLOAD.slice(0, 90) });
    await service.call('POST', '/api-keys/', { name: PAYLOAD.slice(0, 45), org_id });
    await service.capture(MARKED_RUN, {
      model: PAYLOAD.slice(0, 90),
      system: PAYLOAD,
      tools: [{ name: 'read', description: PAYLOAD, input_schema: { type: 'object' } }],
      messages: [
        { role: 'user', content: PAYLOAD },
        {
          role: 'assistant',
          content: [
            {
              type: 'tool_use',
              id: 'toolu_1',
              name: PAYLOAD.slice(0, 60),
              input: { [PAYLOAD.slice(0, 60)]: PAYLOAD },
            },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: PAYLOAD }] },
      ],
    });
    await using visit = await Visit.open(browser, service.api, service.token, { width: 390 });
    for (const screen of [
      'runs/run-with-payload',
      `runs/${encodeURIComponent(MARKED_RUN)}`,
      'runs',
      'projects',
      'keys',
      'usage',
      'members',
      'student',
      'audit',
      'settings',
      '',
    ]) {
      await visit.goTo(screen);
      expect(await visit.page.locator('main img:not([src^="/dashboard/"])').count(), screen).toBe(0);
      expect(await visit.overflow(), screen).toBeLessThanOrEqual(0);
    }
    await visit.goTo('runs/run-with-payload');
    const said = visit.page.locator('.said-assistant .text').last();
    // The mark that would change the direction is replaced. Right-to-left words and emoji are unchanged.
    expect(await said.textContent()).toBe(PAYLOAD.replace('\u202e', '\ufffd'));
    expect(visit.complaints).toEqual([]);
    await service.call('DELETE', `/projects/${project.id}`);
    await service.call('PATCH', '/auth/me', { display_name: 'Owner' });
    await service.call('PATCH', `/organizations/${org_id}`, { name: 'Owner' });
  });

  it('continues without a reload after a time without network, and after a restart of the service', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    await visit.goTo('runs');
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

  it('keeps its state in the address: filters, selection and the way back', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    await visit.goTo('runs');
    await page.getByLabel('Search').fill('no run is called that');
    await page.getByText('No run matches this query').waitFor();
    expect(page.url()).toContain('q=no+run+is+called+that');
    await page.reload();
    await page.getByText('No run matches this query').waitFor();
    await page.getByRole('button', { name: 'Show all runs' }).click();
    await page.getByLabel('Search').fill(`run:=${RUN_ID}`);
    await page.locator(`a[href*="runs/${RUN_ID}"]`).first().click();
    await page.getByRole('heading', { level: 1, name: 'The tests of this project fail' }).waitFor();
    expect(await page.locator('.turn').count()).toBe(7);
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
    expect(visit.complaints).toEqual([]);
  });

  it('signs out, and hides the token from scripts', async () => {
    await using visit = await Visit.open(browser, service.api, service.token);
    const { page } = visit;
    expect(page.url()).not.toContain('token');
    const stores = 'document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })';
    expect(await page.evaluate(stores)).not.toContain('eyJ');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Understudy' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Understudy' }).waitFor();
    const commands = page.locator('.sign-in pre');
    expect(await commands.textContent()).toContain('--email ann@example.com');
    expect(await commands.evaluate((pre) => pre.scrollWidth - pre.clientWidth)).toBeLessThanOrEqual(0);
    await page.getByRole('textbox', { name: 'Token' }).fill(service.token);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
  });
});

describe.skipIf(findChromium() === null)('the list of first steps', () => {
  it('marks each step as done when it has happened', async () => {
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

describe.skipIf(findChromium() === null)('an account', () => {
  it('is deleted and signed out after the user typed its address', async () => {
    await using service = new SeededService();
    await service.start();
    const browser = await openBrowser();
    try {
      const made = await runHere(['token', '--email', 'leaver@example.com'], {
        DATA_DIR: service.dir,
        AUTH_DB_URL: 'embedded:',
      });
      const token = made.stdout.trim();
      await using visit = await Visit.open(browser, service.api, token);
      const { page } = visit;
      await visit.goTo('settings');
      await page.getByRole('button', { name: 'Delete my account' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('textbox').fill('leaver@example.com');
      await dialog.getByRole('button', { name: 'Delete my account' }).click();
      await page.getByRole('heading', { name: 'Sign in to Understudy' }).waitFor();
      await page.getByText('Your account was deleted').waitFor();
      await page.goto('about:blank');
      await page.goto(`${service.api}/#token=${token}`);
      await page.getByText('This link is no longer valid').waitFor();
      const known = await fetch(`${service.api}/auth/me`, { headers: { authorization: `Bearer ${token}` } });
      expect(known.status).toBe(401);
    } finally {
      await browser.close();
    }
  });
});

describe.skipIf(findChromium() === null)('pages that send too many requests', () => {
  it('show a friendly message, and continue by themselves', async () => {
    await using service = new SeededService();
    await service.start({ RATE_LIMIT_PER_SEC: '2', RATE_LIMIT_BURST: '14' });
    await service.captureRun();
    const browser = await openBrowser();
    try {
      const context = await browser.newContext();
      const page = await context.newPage();
      const said: string[] = [];
      await page.exposeFunction('noteWords', (words: string) => said.push(words));
      await page.addInitScript(`new MutationObserver(() => {
        const words = document.body?.textContent ?? '';
        if (words.includes('Too many requests')) noteWords(words);
      }).observe(document, { childList: true, subtree: true, characterData: true })`);
      const limited: (string | undefined)[] = [];
      page.on('response', (response) => {
        if (response.status() === 429) limited.push(response.headers()['retry-after']);
      });
      await page.goto(`${service.api}/#token=${service.token}&next=runs`);
      await page.locator(`a[href*="runs/${RUN_ID}"]`).waitFor(POLL);
      // Each page sends more requests than the limit still allows.
      for (const name of ['Home', 'Student', 'Usage', 'Home', 'Runs'])
        await page.getByRole('link', { name, exact: true }).first().click();
      await expect.poll(() => limited.length, POLL).toBeGreaterThan(0);
      await expect.poll(() => said.join(' '), POLL).toMatch(/tries again in a moment/);
      expect(limited.every((wait) => Number(wait) > 0)).toBe(true);
      await page.locator(`a[href*="runs/${RUN_ID}"]`).first().waitFor(POLL);
      await expect.poll(() => page.getByText('Too many requests').count(), POLL).toBe(0);
      await context.close();
    } finally {
      await browser.close();
    }
  });
});
