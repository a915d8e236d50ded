/**
 * From captured runs to a student that serves: a gateway captures agents at work, `loop` makes a student, and a gateway
 * with the student asks the provider far less. Every command is a separate process.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeOrder, OrderRun, orderScript } from '../../bench/order-agent.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { ScriptedAnswer, ScriptRequest } from '../../src/demo/script.ts';
import { createPrng } from '../../src/std/prng.ts';
import { readManifest } from '../../src/student/model/manifest.ts';
import { CliChild, omitProgress, runCli } from './child.ts';

const GATEWAY = /^ {2}Gateway +(http:\/\/\S+) {2}->/m;
const WHOLE = /inspect --db .*\n\n$/;

let folder = '';
let provider: FakeProvider;
let env: Record<string, string>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'distill-'));
  provider = await startFakeProvider({ script });
  env = { GW_PORT: '0', DATA_DIR: join(folder, 'data'), GW_UPSTREAM_BASE: provider.url };
});
afterAll(async () => {
  await provider.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The answers for both agents. The second one queries a database, and its first query is always wrong. */
function script(request: ScriptRequest): ScriptedAnswer {
  if (!request.tools.includes('run_sql')) return orderScript(request);
  const { text, tool_results: results, messages } = request;
  const table = /table (\w+)/.exec(text)?.[1];
  if (messages === 1)
    return { tool_calls: [{ name: 'run_sql', input: { query: `SELEC count(*) FROM ${table}` } }] };
  const counted = /^(\w+) has (\d+) rows$/.exec(results[0] ?? '');
  if (counted !== null) return { text: `There are ${counted[2]} rows in ${counted[1]}.` };
  const failed = /in "SELEC (.*)"/.exec(results[0] ?? '')?.[1];
  return { tool_calls: [{ name: 'run_sql', input: { query: `SELECT ${failed}` } }] };
}

async function startGateway(more: Record<string, string> = {}): Promise<CliChild & { url: string }> {
  const child = new CliChild(['gateway', '--db', join(folder, 'capture.mdb')], { env: { ...env, ...more } });
  await child.waitForOutput(WHOLE);
  return Object.assign(child, { url: GATEWAY.exec(child.stdout)![1]! });
}

async function stopGateway(child: CliChild): Promise<void> {
  child.process.kill('SIGTERM');
  expect(await child.ended).toMatchObject({ code: 0 });
}

async function post(url: string, path: string): Promise<unknown> {
  const response = await fetch(`${url}${path}`, { method: 'POST' });
  expect(response.status).toBe(200);
  return response.json();
}

async function readRelegation(url: string): Promise<{ served: number }> {
  const response = await fetch(`${url}/__gw/stats`);
  return ((await response.json()) as { relegation: { served: number } }).relegation;
}

const orders = createPrng(20);

/** Makes a labelled run of the order agent. @returns its last text and the number of its answers */
async function runOrder(
  url: string,
  run: string,
  stream: boolean,
): Promise<{ said: string; answers: number; truth: string }> {
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const order = makeOrder(orders, orders.below(2) === 0 ? 'shipped' : 'open');
  const agent = new OrderRun(order);
  for (let seq = 1; ; seq += 1) {
    const headers = { 'x-svc-run': run, 'x-svc-seq': String(seq) };
    const params = agent.body() as unknown as Anthropic.MessageCreateParamsNonStreaming;
    const message = stream
      ? await client.messages.stream(params, { headers }).finalMessage()
      : await client.messages.create(params, { headers });
    if (agent.take(message.content as Parameters<OrderRun['take']>[0])) {
      const said = message.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
      const truth =
        order.status === 'shipped'
          ? `The parcel ${order.parcel_id} was last seen in ${order.city}.`
          : `${order.name} waits for ${order.sku}, of which there are ${order.stock}.`;
      return { said, answers: seq, truth };
    }
  }
}

/** Makes a run of the database agent, without a label and with the time in its system prompt. */
async function runQuery(url: string, table: string, rows: number): Promise<string> {
  const messages: unknown[] = [
    { role: 'user', content: `How many rows are in table ${table} of the shop's database?` },
  ];
  for (;;) {
    const response = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': 'none', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({
        model: 'claude-demo-sql',
        max_tokens: 300,
        system: `You answer with the database. It is ${new Date().toISOString()}.`,
        tools: [
          {
            name: 'run_sql',
            description: 'Runs SQL',
            input_schema: { type: 'object', properties: { query: { type: 'string' } } },
          },
        ],
        messages,
      }),
    });
    expect(response.status).toBe(200);
    const { content } = (await response.json()) as {
      content: { type: string; id: string; text: string; input: { query: string } }[];
    };
    const call = content.find(({ type }) => type === 'tool_use');
    if (call === undefined) return content.map(({ text }) => text).join('');
    const { query } = call.input;
    const isWrong = query.startsWith('SELEC ');
    const result = isWrong
      ? `ERROR: syntax error at or near "SELEC" in "${query}"`
      : `${table} has ${rows} rows`;
    messages.push(
      { role: 'assistant', content },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: call.id, is_error: isWrong, content: result }],
      },
    );
  }
}

const loop = (...more: string[]) =>
  runCli(['loop', '--db', join(folder, 'capture.mdb'), '--out', join(folder, 'student'), ...more], env);

describe('a student from captured runs', () => {
  it('is made by loop while the gateway writes, and serves the same kind of task', async () => {
    await using capturing = await startGateway();
    for (let at = 0; at < 90; at += 1) {
      await runOrder(capturing.url, `order-${at}`, at % 3 === 0);
      if (at % 2 === 0) await runQuery(capturing.url, `t_${at}`, 10 * at + 3);
      if (at === 20) await post(capturing.url, '/__gw/rotate');
      if (at === 5) {
        await post(capturing.url, '/__gw/flush');
        const early = await loop('--once');
        expect(early.code).toBe(0);
        expect(early.stdout).toMatch(
          /Nothing is published: too few golden runs: \d+, of \d+ runs; a student needs 12/,
        );
        expect(existsSync(join(folder, 'student', 'manifest.json'))).toBe(false);
        const distilled = await runCli(
          ['distill', '--db', join(folder, 'capture.mdb'), '--out', join(folder, 'early')],
          env,
        );
        expect(distilled.code).toBe(1);
        expect(existsSync(join(folder, 'early', 'manifest.json'))).toBe(false);
      }
    }
    await post(capturing.url, '/__gw/flush');
    const first = await loop('--once', '--json');
    expect(omitProgress(first.stderr)).toBe('');
    expect(first.code).toBe(0);
    const round = JSON.parse(first.stdout);
    expect(round).toMatchObject({ outcome: 'published', version: 1, golden: 135, not_golden: {} });
    const { measured } = round.student;
    expect(measured.error).toBeLessThanOrEqual(0.05);
    expect(measured.coverage).toBeGreaterThan(0.6);
    const manifest = readManifest(readFileSync(join(folder, 'student', 'manifest.json'), 'utf8'));
    expect(manifest).toMatchObject({ version: 1, measured, golden: { runs: 135 } });
    await stopGateway(capturing);

    // Without new runs, nothing is read or published.
    const again = JSON.parse((await loop('--once', '--json')).stdout);
    expect(again).toMatchObject({
      outcome: 'kept',
      reason: 'nothing new since version 1',
      version: 1,
      read: 0,
    });

    await using serving = await startGateway({
      SVC_DISTILL_DIR: join(folder, 'student'),
      GW_RELEGATION_AUDIT: '0',
      // The key that the client of the runs sends.
      SVC_STUDENT_KEYS: 'none',
      GW_STUDENT_TIMEOUT_MS: '60000',
    });
    await expect
      .poll(() => readRelegation(serving.url))
      .toMatchObject({ enabled: true, student: 'exemplar' });
    const before = provider.requests.length;
    let answers = 0;
    for (let at = 0; at < 20; at += 1) {
      const run = await runOrder(serving.url, `served-${at}`, at % 2 === 0);
      expect(run.said).toBe(run.truth);
      answers += run.answers;
    }
    const asked = provider.requests.length - before;
    const relegation = await readRelegation(serving.url);
    expect(asked / answers, JSON.stringify(relegation)).toBeLessThan(0.4);
    expect(relegation.served).toBe(answers - asked);
    await stopGateway(serving);

    // Answers of the student are captured as such and not taught.
    const next = JSON.parse((await loop('--once', '--json')).stdout);
    expect(next.untaught.served_by_student).toBe(answers - asked);
    expect(next.golden).toBe(155);
  }, 600_000);

  it('comes with patterns that can be imported', async () => {
    const path = join(folder, 'student', 'patterns.jsonl');
    const lines = readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.length).toBeLessThan(45);
    expect(lines[0]).toMatchObject({ model: 'claude-demo-sql' });
    expect(lines[0].support).toBeGreaterThan(1);
    expect(lines[0].dead_ends).toContain('SELEC');
    for (const tier of ['e1', 'e2', 'e3']) {
      const imported = await runCli(['patterns', 'import', '--tier', tier, path], env);
      expect([imported.code, imported.stderr]).toEqual([0, '']);
      expect(imported.stdout).toContain(`${lines.length} pattern`);
    }
  });

  it('is completed after an interruption from the state that distill kept', async () => {
    const out = join(folder, 'resumed');
    const argv = ['distill', '--db', join(folder, 'capture.mdb'), '--out', out];
    const whole = await runCli([...argv, '--json'], env);
    expect(whole.code).toBe(0);
    const { read, looked_at } = JSON.parse(whole.stdout);
    expect(read).toBe(looked_at);
    rmSync(out, { recursive: true });
    const again = await runCli([...argv, '--json'], env);
    expect(JSON.parse(again.stdout)).toMatchObject({ outcome: 'published', version: 1, read: 0 });
    // The five are the manifest, the patterns, the published student, the measured student, and the versions.
    expect(readdirSync(out)).toHaveLength(5);
    // A truncated cache is removed, so that all runs are read again.
    truncateSync(`${out}.work/digests.mdb`, 5_000);
    const anew = await runCli([...argv, '--json'], env);
    expect(JSON.parse(anew.stdout)).toMatchObject({ outcome: 'published', version: 2, read: looked_at });
  });
});
