/**
 * An operator's actions on a student while a gateway runs, over real sockets: the directory fills and empties, agents
 * are suspended and resumed, and a version serves a share of the runs.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { publishOrderStudent } from '../../bench/order-agent.ts';
import { readLedgerFile } from '../../src/student/day-ledger.ts';
import { serveVersion } from '../../src/student/directory.ts';
import { admitsRun, NO_ORDERS, orderShare, resume, suspend, writeOrders } from '../../src/student/orders.ts';
import { runHere } from '../cli/here.ts';
import { readStats } from '../fixtures/capture-gateway.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  type RelegatedGateway,
  type RelegatedGatewayOptions,
  serverOf,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';

const PATIENCE = { timeout: 60_000 };

let upstream: RawUpstream;
beforeAll(async () => {
  const answer = {
    id: 'msg_u',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'something else altogether' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  upstream = await startRawUpstream((connection) =>
    connection.write(
      messageBytes(
        'HTTP/1.1 200 OK',
        [['Content-Type', 'application/json']],
        Buffer.from(JSON.stringify(answer)),
      ),
    ),
  );
});
afterAll(() => upstream.close());

let folder: string;
let gateway: RelegatedGateway;
let isRunning = false;
const start = async (options: Partial<RelegatedGatewayOptions> = {}) => {
  if (!isRunning) folder = mkdtempSync(join(tmpdir(), 'understudy-operation-'));
  else await gateway.close();
  isRunning = true;
  gateway = await startRelegatedGateway({ upstream: upstream.url, folder, ...options });
  return gateway;
};
afterEach(async () => {
  if (isRunning) await gateway.close();
  isRunning = false;
  rmSync(folder, { recursive: true, force: true });
});

const send = async (task = 'serve this', run?: string) =>
  serverOf(
    await rawRequest(gateway.port, stepBytes(stepBody(task), run === undefined ? [] : [['x-svc-run', run]])),
  );

interface Stats {
  student: string | null;
  version: number | null;
  share: number;
  suspended: { agents: number; kinds: number };
  fallbacks: Record<string, number>;
  agents: { agent: string; state: string; suspended_by: string | null }[];
}
const stats = async () => (await readStats(gateway.url)).relegation as unknown as Stats;
const student = (...argv: string[]) =>
  runHere(['student', ...argv, '--dir', gateway.directory], { DATA_DIR: folder });

describe('a directory', () => {
  it('that is empty at the start serves once a student is published', { tags: 'long' }, async () => {
    folder = mkdtempSync(join(tmpdir(), 'understudy-operation-'));
    mkdirSync(join(folder, 'student'));
    isRunning = true;
    gateway = await startRelegatedGateway({ upstream: upstream.url, folder, published: false });
    await gateway.student.waitForStart();
    expect(await send()).toBe('upstream');
    expect(await stats()).toMatchObject({ student: null, version: null, fallbacks: { no_student: 1 } });
    await gateway.until(() => gateway.logged.some((line) => line.startsWith('there is no student yet')));
    await publishOrderStudent(gateway.directory);
    await gateway.until(() => gateway.relegation.link.isReady);
    expect(await send()).toBe('student');
  });

  it('whose manifest is removed serves nothing until there is a manifest again', {
    tags: 'long',
  }, async () => {
    await start();
    expect(await send()).toBe('student');
    rmSync(join(gateway.directory, 'manifest.json'));
    await gateway.until(() => !gateway.relegation.link.isReady);
    expect(await send()).toBe('upstream');
    expect(await stats()).toMatchObject({ student: null, fallbacks: { no_student: 1 } });
    expect((await stats()).fallbacks).not.toHaveProperty('loading');
    expect(gateway.logged.some((line) => line.startsWith('the student was removed'))).toBe(true);
    await serveVersion(gateway.directory, 1);
    await gateway.until(() => gateway.relegation.link.isReady);
    expect(await send('serve that')).toBe('student');
  });

  it('serves the version that the command line chose', { tags: 'long' }, async () => {
    await start();
    await publishOrderStudent(gateway.directory);
    await expect.poll(async () => (await stats()).version, PATIENCE).toBe(2);
    expect(await student('rollback')).toMatchObject({ code: 0, stderr: '' });
    await expect.poll(async () => (await stats()).version, PATIENCE).toBe(1);
    expect(await send()).toBe('student');
  });
});

describe('a suspended agent', () => {
  it('is served by the upstream, also after a restart, until it is resumed', { tags: 'long' }, async () => {
    await start();
    expect(await send()).toBe('student');
    const at_ms = Date.now();
    await writeOrders(gateway.directory, suspend(NO_ORDERS, { agent: 'scripted', kind: null, at_ms }));
    await expect.poll(async () => (await stats()).suspended.agents, PATIENCE).toBe(1);
    expect(await send('serve that')).toBe('upstream');
    expect(await stats()).toMatchObject({
      fallbacks: { suspended: 1 },
      agents: [{ agent: 'scripted', state: 'suspended', suspended_by: 'operator' }],
    });
    await start();
    expect(await send()).toBe('upstream');
    expect((await student('resume', 'scripted')).code).toBe(0);
    await expect.poll(async () => (await stats()).suspended.agents, PATIENCE).toBe(0);
    expect(await send()).toBe('student');
  });

  it('may be suspended for one kind of answer alone', { tags: 'long' }, async () => {
    await start();
    const at_ms = Date.now();
    await writeOrders(gateway.directory, suspend(NO_ORDERS, { agent: 'scripted', kind: 'look', at_ms }));
    await expect.poll(async () => (await stats()).suspended.kinds, PATIENCE).toBe(1);
    expect(await send('call here')).toBe('upstream');
    expect(await send('serve this')).toBe('student');
  });

  it('may be resumed by an operator after an audit suspended it, and is audited first', {
    tags: 'long',
  }, async () => {
    await start({ audit_share: 1 });
    for (let at = 0; (await stats()).suspended.agents === 0; at++) {
      await send(`serve number ${at}`);
      await gateway.until(() => gateway.counts().audit.compared === gateway.counts().audit.asked);
    }
    const orders = resume(NO_ORDERS, { agent: null, kind: null, at_ms: Date.now() + 1 });
    await writeOrders(gateway.directory, orders);
    await expect.poll(async () => (await stats()).suspended, PATIENCE).toEqual({ agents: 0, kinds: 0 });
    const { asked } = gateway.counts().audit;
    expect(await send('serve this')).toBe('upstream');
    expect(gateway.counts().audit.asked).toBe(asked + 1);
  });
});

describe('the ledger', () => {
  it('counts served, audited and wrong answers, and survives a restart', { tags: 'long' }, async () => {
    await start({ prices: { 'claude-demo': { input: 3, output: 15 } } });
    for (let at = 0; at < 3; at++) expect(await send(`serve number ${at}`)).toBe('student');
    const ledger = async () => ((await stats()) as unknown as { ledger: Record<string, unknown>[] }).ledger;
    const [row] = await ledger();
    expect(row).toMatchObject({ agent: 'scripted', served: 3, compared: 0, wrong: 0, late: 0 });
    expect(row!.saved_usd).toBeGreaterThan(0);
    const path = join(folder, 'student-ledger.json');
    await expect.poll(async () => (await readLedgerFile(path))?.[0]?.agents[0]?.[1].served, PATIENCE).toBe(3);
    await start({ audit_share: 1 });
    expect(await send()).toBe('upstream');
    await gateway.until(() => gateway.counts().audit.compared === 1);
    expect(await ledger()).toMatchObject([{ agent: 'scripted', served: 3, compared: 1, wrong: 1 }]);
    await expect
      .poll(async () => (await readLedgerFile(path))?.[0]?.agents[0]?.[1].compared, PATIENCE)
      .toBe(1);
    const told = await runHere(['student', 'ledger'], { DATA_DIR: folder });
    expect(told).toMatchObject({ code: 0, stderr: '' });
    // The price is that of claude-demo, whose name begins the model's name.
    expect(told.stdout).toMatch(/scripted +3 +1 +1 +5 % and 100 % +0 +~\$0\.\d{4}\n/);
    expect(told.stdout).toMatch(
      /^In all since \S+: 3 steps served, saved ~\$0\.\d{4} \(3 served steps marked ~/m,
    );
    // The savings are known even without a student.
    rmSync(join(gateway.directory, 'manifest.json'));
    await gateway.until(() => !gateway.relegation.link.isReady);
    const withdrawn = (await readStats(gateway.url)).relegation;
    expect(withdrawn).toMatchObject({ student: null, money_saved_usd: row!.saved_usd });
    expect(withdrawn).toMatchObject({ ledger_total: { served: 3, guessed: 3, unpriced: 0 } });
    const days = await runHere(['student', 'ledger', '--days', '--json'], { DATA_DIR: folder });
    expect(JSON.parse(days.stdout)).toMatchObject([{ agent: 'scripted', served: 3, wrong: 1 }]);
  });
});

describe('a late take-over', () => {
  it('is charged at the price of a cold cache, and the saving includes that', { tags: 'long' }, async () => {
    await start({ prices: { 'claude-demo': { input: 10, output: 15 } } });
    const asked = { role: 'user', content: 'cached' };
    const body = stepBody([asked]);
    const { content } = JSON.parse((await rawRequest(gateway.port, stepBytes(body))).body.toString());
    expect(content).toMatchObject([{ type: 'tool_use', name: 'look' }]);
    const ledger = async () => ((await stats()) as unknown as { ledger: Record<string, unknown>[] }).ledger;
    // 50 new tokens at 10, 900 read at 1, 50 written at 12.5 and 50 output tokens at 15: millionths of a dollar.
    expect((await ledger())[0]).toMatchObject({ served: 1, late: 0, saved_usd: 0.002775 });
    const results = [
      { type: 'tool_result', tool_use_id: content[0].id, content: 'nothing' },
      { type: 'text', text: 'decline' },
    ];
    const further = [asked, { role: 'assistant', content }, { role: 'user', content: results }];
    expect(serverOf(await rawRequest(gateway.port, stepBytes(stepBody(further))))).toBe('upstream');
    // The cache has nothing of the first request, so its 1,000 tokens are written at 12.5 instead of read at 1.
    expect((await ledger())[0]).toMatchObject({ served: 1, late: 1, saved_usd: -0.008725 });
    // A run that the student never served is not a take-over.
    expect(await send('decline')).toBe('upstream');
    expect((await ledger())[0]).toMatchObject({ late: 1 });
  });
});

describe('a share of the runs', () => {
  it('is served, with the same decision for all steps of a run; the upstream serves the others', {
    tags: 'long',
  }, async () => {
    await start({ run_headers: ['x-own-run'] });
    const orders = orderShare(NO_ORDERS, 1, 0.5);
    await writeOrders(gateway.directory, orders);
    await expect.poll(async () => (await stats()).share, PATIENCE).toBe(0.5);
    const served: boolean[] = [];
    for (let at = 0; at < 24; at++) served.push((await send('serve this', `run ${at}`)) === 'student');
    // A label's key begins with =.
    expect(served).toEqual(served.map((_, at) => admitsRun(orders, 1, `=run ${at}`)));
    expect(new Set(served).size).toBe(2);
    expect((await stats()).fallbacks.canary).toBe(served.filter((isServed) => !isServed).length);
    // Coding agents name their sessions, and operators name their runs.
    const sessions = ['x-claude-code-session-id', 'session-id', 'x-own-run'];
    for (const [at, header] of sessions.flatMap((name) => Array(8).fill(name) as string[]).entries()) {
      const run = `session number ${at}`;
      const agents = header === 'x-claude-code-session-id' ? ['', `agent number ${at}`] : [''];
      for (const agent of agents) {
        const more: [string, string][] = [[header, run]];
        if (agent !== '') more.push(['x-claude-code-agent-id', agent]);
        const result = await rawRequest(gateway.port, stepBytes(stepBody(`serve ${at}`), more));
        expect(serverOf(result) === 'student').toBe(admitsRun(orders, 1, `=${run}`));
      }
    }
    // Without any name, a run is identified by its beginning.
    const tasks = Array.from({ length: 24 }, (_, at) => `serve task ${at}`);
    const first = [];
    for (const task of tasks) first.push(await send(task));
    expect(new Set(first).size).toBe(2);
    const again = [];
    for (const task of tasks) again.push(await send(task));
    expect(again).toEqual(first);
  });
});
