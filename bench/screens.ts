/**
 * Measures how long the dashboard's screens take with a large capture database: `node bench/screens.ts --data D
 * [--times N]`. D is the folder of a `capture.mdb` (bench/capture-database.ts makes one). The product is started over
 * this folder, as a user starts it. Lists are requested over HTTP on one kept connection. Screens are opened in the
 * system's Chromium, each in a new page of one signed-in session, and measured from the navigation to the frame after
 * the first rows. The list of runs is stored beside the captures; remove `capture.mdb.runs` to measure the first
 * reading. Writes nothing to `bench/results`. Own process.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type BrowserContext, chromium } from 'playwright-core';
import { CAPTURE_LISTS } from './capture-lists.ts';
import { KeptConnection } from './kept-connection.ts';
import { type Product, startProduct } from './product.ts';
import { takeQuantiles } from './quantiles.ts';

/** A screen, and the element that shows that its first rows are there. */
const SCREENS = [
  ['runs', 'a.run-row'],
  ['runs?q=-is:golden', 'a.run-row'],
  ['runs?q=sort:cost', 'a.run-row'],
  ['', '.stat-value'],
  ['costs', '.stat-value'],
  ['alerts', 'form'],
  ['student', '.big-line'],
  ['runs/RUN', '.turn'],
  ['compare?a=RUN&b=RUN', '.compared-figures'],
] as const;

/** Runs in the page: the time from the navigation until the element was there and a frame was painted. */
const WATCH = (selector: string) => `(() => {
  const look = () => {
    if (document.querySelector(${JSON.stringify(selector)}) === null) return requestAnimationFrame(look);
    requestAnimationFrame(() => console.debug('painted ' + performance.now()));
  };
  look();
})()`;

const { values } = parseArgs({
  options: { data: { type: 'string' }, times: { type: 'string', default: '20' } },
});
if (values.data === undefined) throw new Error('--data D: the folder of a capture.mdb');
const times = Number(values.times);
const product = await startProduct(values.data, { AUTH_DB_URL: 'embedded:' });
const connection = new KeptConnection(product.port);
try {
  const began = performance.now();
  const first = await readRuns();
  console.log(`the first answer took ${ms(performance.now() - began)}`);
  let { listed_runs, being_read } = first;
  while (being_read !== null) ({ listed_runs, being_read } = await readRuns());
  console.log(`${listed_runs} runs in the list after ${ms(performance.now() - began)}`);
  const { runs } = first;
  for (const path of CAPTURE_LISTS) await timeList(path);
  await timeScreens(product, runs[0]!.run_id);
} finally {
  connection.close();
  await product.stop();
}

interface RunList {
  listed_runs: number;
  /** While exchanges are still being read. */
  being_read: object | null;
  runs: { run_id: string }[];
}

async function readRuns(): Promise<RunList> {
  return JSON.parse(await connection.read('/capture/runs?limit=100'));
}

async function timeList(path: string): Promise<void> {
  await connection.read(path);
  const took: number[] = [];
  for (let time = 0; time < times; time++) {
    const from = performance.now();
    await connection.read(path);
    took.push(performance.now() - from);
  }
  tell(path, took);
}

async function timeScreens(at: Product, run_id: string): Promise<void> {
  const base = `http://127.0.0.1:${at.port}`;
  const made = spawnSync(
    process.execPath,
    [join(import.meta.dirname, '../src/cli/understudy.mjs'), 'token', '--owner'],
    { env: { PATH: process.env.PATH, DATA_DIR: at.dir, AUTH_DB_URL: 'embedded:' }, encoding: 'utf8' },
  );
  const browser = await chromium.launch({
    executablePath: spawnSync('which', ['chromium'], { encoding: 'utf8' }).stdout.trim(),
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
  try {
    const context = await browser.newContext({ viewport: { width: 1_280, height: 900 } });
    const first = await context.newPage();
    await first.goto(`${base}/#token=${made.stdout.trim()}`);
    await first.locator('main .page').waitFor();
    await first.close();
    for (const [screen, selector] of SCREENS) {
      const took: number[] = [];
      for (let time = 0; time < times; time++)
        took.push(await openScreen(context, `${base}/#/${screen.replaceAll('RUN', run_id)}`, selector));
      tell(`#/${screen}`, took);
    }
  } finally {
    await browser.close();
  }
}

async function openScreen(context: BrowserContext, address: string, selector: string): Promise<number> {
  const page = await context.newPage();
  try {
    await page.addInitScript(WATCH(selector));
    const painted = page.waitForEvent('console', (said) => said.text().startsWith('painted '));
    await page.goto(address);
    return Number((await painted).text().split(' ')[1]);
  } finally {
    await page.close();
  }
}

function tell(what: string, took: number[]): void {
  const { p50, max } = takeQuantiles(Float64Array.from(took));
  console.log(`${what.padEnd(48)} p50 ${ms(p50)}  max ${ms(max)}`);
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
