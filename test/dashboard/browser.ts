/** A real Chromium on the dashboard of a real service, and the errors in the page. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeFinding {
  id: string;
  impact: string | null;
  nodes: { html: string }[];
}

/** Names under which a system has Chromium. */
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** Flags with which the browser connects only to the page's own server. */
const FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

/** Path of a Chromium on this machine; null without one. */
export function findChromium(): string | null {
  for (const program of PROGRAMS) {
    const { status, stdout } = spawnSync('which', [program], { encoding: 'utf8' });
    if (status === 0) return stdout.trim();
  }
  return null;
}

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium()!, args: FLAGS });
}

interface Looks {
  width?: number;
  scheme?: 'light' | 'dark';
}

/** A signed-in page, and the errors that its browser reports. */
export class Visit {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly #base: string;
  /** Errors of the page's scripts and its console, and requests to other hosts. */
  readonly complaints: string[] = [];

  private constructor(context: BrowserContext, page: Page, base: string) {
    this.context = context;
    this.page = page;
    this.#base = base;
    page.on('pageerror', (error) => this.complaints.push(`error: ${error.message}`));
    page.on('console', (said) => {
      if (said.type() === 'error' || said.type() === 'warning')
        this.complaints.push(`console: ${said.text()}`);
    });
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(base) && !/^(?:data|blob):/.test(url)) this.complaints.push(`elsewhere: ${url}`);
    });
    page.on('dialog', (dialog) => {
      this.complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }

  static async open(
    browser: Browser,
    base: string,
    token: string,
    { width = 1_280, scheme = 'light' }: Looks = {},
  ): Promise<Visit> {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const visit = new Visit(context, await context.newPage(), base);
    await visit.page.goto(`${base}/#token=${token}`);
    await visit.page.locator('main .page').waitFor();
    visit.#forgiveSignIn();
    return visit;
  }

  /**
   * Removes the first complaint about a status 401, if there is one: the page requests the session before a link has
   * signed in, and Chromium logs the refusal.
   */
  #forgiveSignIn(): void {
    const at = this.complaints.findIndex((complaint) => complaint.includes('status of 401'));
    if (at >= 0) this.complaints.splice(at, 1);
  }

  /** Opens a page of the dashboard by its address, and waits until it has loaded its data. */
  async goTo(address: string): Promise<void> {
    await this.page.goto(`${this.#base}/#/${address}`);
    await this.settle();
  }

  async settle(): Promise<void> {
    await this.page.locator('main .page').waitFor();
    await this.page.locator('main h1').first().waitFor();
    await this.page.locator('.skeleton').first().waitFor({ state: 'hidden' });
  }

  /**
   * Runs axe in the page. The debugger injects axe, because the page's content security policy does not apply to the
   * debugger.
   * @returns the serious and critical findings
   */
  async findSerious(): Promise<string[]> {
    const session = await this.context.newCDPSession(this.page);
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

  /**
   * @returns figures, times and other short texts that are cut off by an ellipsis, and tables wider than their panel
   */
  findCut(): Promise<string[]> {
    return this.page.evaluate(`[
      ...[...document.querySelectorAll('main .number, main .number > *, main td.short')]
        .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX === 'hidden')
        .map((one) => one.textContent),
      ...[...document.querySelectorAll('main .panel table')]
        .filter((table) => table.offsetWidth > table.parentElement.clientWidth)
        .map((table) => table.ariaLabel),
    ]`);
  }

  /** How many pixels the page is wider than the window. */
  overflow(): Promise<number> {
    return this.page.evaluate('document.documentElement.scrollWidth - innerWidth');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.close();
  }
}
