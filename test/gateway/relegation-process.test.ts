/** Relegation in a whole process: several server threads with one student, the metrics, and a start that must fail. */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeOrder, OrderRun, orderScript, publishOrderStudent } from '../../bench/order-agent.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CliChild } from '../cli/child.ts';
import { openRawClient, type RawAnswer } from '../fixtures/raw-client.ts';
import { serverOf, stepBytes } from '../fixtures/relegated-gateway.ts';

let folder: string;
let provider: FakeProvider;
let child: CliChild | null = null;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-relegated-'));
  provider = await startFakeProvider({ script: orderScript });
});
afterEach(async () => {
  await child?.[Symbol.asyncDispose]();
  child = null;
  await provider.close();
  rmSync(folder, { recursive: true, force: true });
});

const directory = () => join(folder, 'student');
const start = (command: string, env: Record<string, string> = {}) => {
  child = new CliChild([command, '--port', '0', '--db', join(folder, 'capture.mdb')], {
    env: {
      DATA_DIR: folder,
      PORT: '0',
      GW_UPSTREAM_BASE: provider.url,
      SVC_DISTILL_DIR: directory(),
      SVC_STUDENT_KEYS: 'sk-ant-a-clients-key',
      GW_STUDENT_TIMEOUT_MS: '20000',
      GW_RELEGATION_AUDIT: '0',
      ...env,
    },
  });
  return child;
};

interface Stats {
  exchanges: { attempted: number; captured: number; dropped: number; in_flight: number };
  relegation: { enabled: boolean; student: string | null; served: number; fallback: number };
}

describe('a process', () => {
  it('starts with an empty directory, and loads the student that arrives', { tags: 'long' }, async () => {
    mkdirSync(directory());
    const process = start('gateway');
    const [, url] = await process.waitForOutput(/Gateway\s+(http:\/\/\S+)/);
    const stats = async () => (await (await fetch(`${url}/__gw/stats`)).json()) as Stats;
    expect((await stats()).relegation).toMatchObject({ enabled: true, student: null });
    await publishOrderStudent(directory());
    while ((await stats()).relegation.student === null);
  });

  it('with two server threads has one student, one memory of runs, and one sum of counts', {
    tags: 'long',
  }, async () => {
    await publishOrderStudent(directory());
    const env = { FRONT_THREADS: '2', SVC_KEYS: 'operator', GW_RELEGATION_STICKY: 'on' };
    const process = start('up', env);
    const [, url] = await process.waitForOutput(/Gateway\s+(http:\/\/\S+)/);
    const stats = async () => (await (await fetch(`${url}/__gw/stats`)).json()) as Stats;
    while ((await stats()).relegation.student === null);
    const port = Number(new URL(url!).port);
    // The kernel spreads connections over the server threads. With so many, both threads get some.
    const clients = await Promise.all(Array.from({ length: 24 }, () => openRawClient(port)));
    const prng = createPrng(5);
    // A connection that was idle for ten seconds is closed, perhaps just when it is used again. Then the request was
    // not read.
    const ask = async (place: number, bytes: Buffer): Promise<RawAnswer> => {
      for (;;) {
        const client = clients[place]!;
        const before = client.received_bytes;
        await client.write(bytes);
        try {
          return await client.readAnswer();
        } catch (error) {
          if (client.closed_how === null || client.received_bytes > before) throw error;
          clients[place] = await openRawClient(port);
        }
      }
    };
    let steps = 0;
    const send = async (at: number, run: OrderRun, headers: [string, string][] = []) => {
      const answer = await ask(at % clients.length, stepBytes(run.body(), headers));
      steps++;
      const { content } = JSON.parse(answer.body.toString()) as { content: never[] };
      return { by: serverOf(answer), isOver: run.take(content) };
    };
    // Steps of one run come to different server threads, and every thread knows the run.
    for (let at = 0; at < 24; at++) {
      const run = new OrderRun(makeOrder(prng, at % 2 === 0 ? 'open' : 'shipped'));
      const label: [string, string][] = at % 3 === 0 ? [] : [['x-svc-run', `run ${at}`]];
      for (let turn = 0, isOver = false; !isOver; turn++) {
        const step = await send(at + turn * 7, run, label);
        expect(step.by).toBe('student');
        isOver = step.isOver;
      }
    }
    expect(provider.requests).toEqual([]);
    for (let at = 0; at < 24; at++) {
      const label: [string, string][] = [['x-svc-run', `lost ${at}`]];
      const unknown = new OrderRun(makeOrder(prng, 'open'), false, 'Write a poem');
      expect((await send(at, unknown, label)).by).toBe('upstream');
      const known = new OrderRun(makeOrder(prng, 'open'));
      expect((await send(at + 11, known, label)).by).toBe('upstream');
    }
    const { relegation, exchanges } = await stats();
    expect(relegation).toMatchObject({ enabled: true, served: steps - 48, fallback: 48 });
    expect(exchanges.attempted).toBe(exchanges.captured + exchanges.dropped + exchanges.in_flight);
    expect(exchanges.attempted).toBe(steps);
    const api = /API\s+(http:\/\/\S+)/.exec(process.stdout)![1]!;
    const metrics = await (
      await fetch(`${api}/metrics`, { headers: { authorization: 'Bearer operator' } })
    ).text();
    expect(metrics).toContain(`understudy_relegation_served_total ${steps - 48}\n`);
    expect(metrics).toContain('understudy_relegation_fallbacks_total{reason="taken_over"} 24\n');
    expect(metrics).toContain('understudy_relegation_ready 1\n');
    // The metrics that the alerts use exist.
    const alerts = readFileSync(join(import.meta.dirname, '../../deploy/student-alerts.yml'), 'utf8');
    const asked = [...alerts.matchAll(/expr: .*?(understudy_\w+)/g)].map(([, name]) => name!);
    expect(asked).toHaveLength(3);
    for (const name of asked) expect(metrics).toMatch(new RegExp(`^${name}(\\{.*\\})? \\d`, 'm'));
    for (const client of clients) client.socket.destroy();
    process.process.kill('SIGTERM');
    expect((await process.ended).code).toBe(0);
  });

  const off: Record<string, string>[] = [{ SVC_DISTILL_DIR: '' }, { GW_RELEGATION: 'off' }];
  it.each(off)(
    'without a directory, or with relegation switched off, reports no relegation: %j',
    { tags: 'long' },
    async (env) => {
      const process = start('gateway', env);
      const [, url] = await process.waitForOutput(/Gateway\s+(http:\/\/\S+)/);
      const { relegation } = (await (await fetch(`${url}/__gw/stats`)).json()) as Stats;
      expect(relegation).toEqual({
        enabled: false,
        mode: 'off',
        student: null,
        version: null,
        share: 1,
        served: 0,
        fallback: 0,
        errors: 0,
        fallbacks: {},
        tokens_saved: { input: 0, output: 0 },
        money_saved_usd: null,
        audit: { asked: 0, compared: 0, agreed: 0, reading_differs: 0 },
        shadow: { would_serve: 0, compared: 0, agreed: 0, reading_differs: 0 },
        valid_until: null,
        expired: false,
        suspended: { agents: 0, kinds: 0 },
        ledger: [],
        ledger_total: null,
        agents: [],
      });
    },
  );

  const empty = async () => {
    await publishOrderStudent(directory());
    for (const name of readdirSync(directory())) rmSync(join(directory(), name));
  };
  const write = (name: string, text: string) => async () => {
    await empty();
    writeFileSync(join(directory(), name), text);
  };
  const damage: [string, () => Promise<void>][] = [
    ['no such directory', async () => {}],
    ['no manifest.json', write('notes.txt', '')],
    ['not JSON', write('manifest.json', '{')],
    ['svc_student_v9', write('manifest.json', '{"format":"svc_student_v9"}')],
    [
      'steps-',
      async () => {
        await publishOrderStudent(directory());
        const steps = readdirSync(directory()).find((name) => name.startsWith('steps-'))!;
        truncateSync(join(directory(), steps), 100);
      },
    ],
  ];
  it.each(damage)(
    'without a usable student ends with one line that says why: %s',
    { tags: 'long' },
    async (words, act) => {
      await act();
      const { code, stdout, stderr } = await start('gateway').ended;
      expect(code).toBe(1);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/^understudy: [^\n]+\n$/);
      expect(stderr).toContain(words);
      expect(stderr).toContain(directory());
    },
  );
});
