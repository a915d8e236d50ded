/**
 * The whole service with several threads of each kind. The threads of one role after the other fail under load. They
 * end and restart as docs/operating.md says, and no acknowledged data is lost.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { publishOrderStudent } from '../../bench/order-agent.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { WholeService } from '../fixtures/whole-service.ts';

const KEY = 'key-of-the-storm';
const RUNS = 12;
const folder = mkdtempSync(join(tmpdir(), 'understudy-threads-'));
const roleFile = join(folder, 'role');
const student = join(folder, 'student');
const service = new WholeService(join(folder, 'data'), {
  SERVER_THREADS: '3',
  ACTOR_THREADS: '2',
  COMPUTE_THREADS: '1',
  SVC_KEYS: KEY,
  RATE_LIMIT_PER_SEC: '1000000',
  RATE_LIMIT_BURST: '1000000',
  SVC_DISTILL_DIR: student,
  KILLED_ROLE: roleFile,
  NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, '../fixtures/thread-killer.mjs')).href}`,
});

/** Posts on a new connection, which the kernel gives to any of the server threads. */
async function post(path: string, body: object): Promise<{ status: number; text: string }> {
  const response = await fetch(service.api + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      connection: 'close',
    },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
}

const stepOf = (index: number) => ({ step_index: index, action: `read ${index}`, tokens: 1 });
/** For each run, the answers of its acknowledged steps. */
const answers = Array.from({ length: RUNS }, () => [] as string[]);
/** Statuses of all answers other than 200. */
const refused = new Map<string, number>();
let captured = 0;
let isLoading = false;
let loads: Promise<void>[] = [];

function note(what: string): void {
  refused.set(what, (refused.get(what) ?? 0) + 1);
}

/**
 * Sends steps of all runs, retrievals and captured turns until it is stopped. A step without acknowledgement is sent
 * again.
 */
function load(): void {
  isLoading = true;
  const runs = answers.map(async (own, run) => {
    while (isLoading) {
      const answer = await post(`/v1/monitor/runs/r${run}/steps`, stepOf(own.length)).catch(() => null);
      if (answer?.status === 200) own.push(answer.text);
      else note(`step ${answer?.status ?? 'no answer'}`);
    }
  });
  const retrievals = async () => {
    for (let at = 0; isLoading; at++) {
      const context = `the tests of part ${at} fail`;
      const answer = await post('/v1/traces/retrieve', { context }).catch(() => null);
      if (answer?.status !== 200) note(`retrieval ${answer?.status ?? 'no answer'}`);
    }
  };
  const turns = async () => {
    for (let at = 0; isLoading; at++) {
      const body = { messages: [{ role: 'user', content: `turn ${at}` }] };
      await service.capture(`captured-${at % 8}`, body).then(
        () => captured++,
        () => note('turn'),
      );
    }
  };
  loads = [...runs, retrievals(), turns()];
}

async function endLoad(): Promise<void> {
  isLoading = false;
  await Promise.all(loads);
}

const countSteps = () => answers.reduce((sum, own) => sum + own.length, 0);

/** Waits until every part answers again, and until more steps and turns are acknowledged. */
async function waitForAll(): Promise<void> {
  await expect
    .poll(() => post('/v1/traces/retrieve', { context: 'what next' }))
    .toMatchObject({ status: 200 });
  const [steps, turns] = [countSteps(), captured];
  await expect.poll(() => countSteps() > steps + 10 * RUNS && captured > turns + 20).toBe(true);
}

async function readStats() {
  return (await (
    await fetch(`${service.gateway}/__gw/stats`, { headers: { connection: 'close' } })
  ).json()) as {
    writer: { alive: boolean; process: { pid: number } | null };
    exchanges: { attempted: number; captured: number; dropped: number };
    relegation: { student: string | null };
  };
}

function fail(role: string): void {
  writeFileSync(roleFile, role);
  process.kill(service.pid, 'SIGUSR2');
}

/** Expects that acknowledged steps get their first answers again, and that each run takes its next step. */
async function checkSteps(): Promise<void> {
  for (const [run, own] of answers.entries()) {
    for (const at of [0, Math.floor(own.length / 2), own.length - 1])
      expect((await post(`/v1/monitor/runs/r${run}/steps`, stepOf(at))).text).toBe(own[at]);
    const { status, text } = await post(`/v1/monitor/runs/r${run}/steps`, stepOf(own.length));
    expect(status, text).toBe(200);
    own.push(text);
  }
}

beforeAll(async () => {
  await publishOrderStudent(student);
  await service.start();
  while ((await readStats()).relegation.student === null);
  for (const run of answers.keys())
    expect(await post('/v1/monitor/runs', { run_id: `r${run}`, task: 'repair it' })).toMatchObject({
      status: 200,
    });
});
afterEach(endLoad);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

it.each(['actor', 'compute', 'student'])(
  'failed %s threads are replaced, and the process continues',
  async (role) => {
    const { pid } = service;
    load();
    await waitForAll();
    refused.clear();
    fail(role);
    if (role === 'actor') await expect.poll(() => service.stderr).toContain('an actor thread ended');
    if (role === 'student') await expect.poll(() => service.stderr).toContain('the student’s thread ended');
    await waitForAll();
    await endLoad();
    // Steps need none of these threads, because the actors of runs are on server threads.
    expect([...refused.keys()].filter((what) => /^(step|turn)/.test(what))).toEqual([]);
    // Requests in progress on the failed thread are refused with 503, so they may be repeated.
    expect([...refused.keys()].filter((what) => !/ 503$/.test(what))).toEqual([]);
    await expect.poll(async () => (await readStats()).relegation.student).not.toBeNull();
    await checkSteps();
    expect(service.pid).toBe(pid);
    process.kill(pid, 0);
  },
);

it('a killed capture process is replaced without a failed request', async () => {
  load();
  await waitForAll();
  refused.clear();
  const { writer } = await readStats();
  process.kill(writer.process!.pid, 'SIGKILL');
  await expect
    .poll(async () => (await readStats()).writer.process?.pid ?? writer.process!.pid)
    .not.toBe(writer.process!.pid);
  await waitForAll();
  await endLoad();
  expect([...refused]).toEqual([]);
  await expect
    .poll(async () => {
      const { attempted, captured: stored, dropped } = (await readStats()).exchanges;
      return attempted - stored - dropped;
    })
    .toBe(0);
  await checkSteps();
});

it('failed server threads end the process; everything acknowledged exists after the next start', async () => {
  load();
  await waitForAll();
  fail('server');
  await expect.poll(() => isGone(service.pid), { timeout: PATIENCE_MS }).toBe(true);
  await endLoad();
  expect(service.stderr).toContain('a server thread fails');
  await service.start();
  await checkSteps();
  for (const [run, own] of answers.entries()) {
    const { text } = await post(`/v1/monitor/runs/r${run}/finish`, { outcome: 'success' });
    // The process may have stored a step whose answer was lost; the step was sent again above.
    expect(JSON.parse(text)).toMatchObject({ steps: own.length, tokens: own.length });
  }
  expect(await service.stop()).toBe(0);
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}
