/**
 * A captured run, served again: official SDKs record runs through a gateway, and get the same answers from the replay,
 * whole and streamed, with errors, masked credentials and a live continuation.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Anthropic, { BadRequestError, type RateLimitError } from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CaptureFiles } from '../../src/captures/capture-files.ts';
import { readForkTags } from '../../src/domain/fork-tags.ts';
import { readMarks } from '../../src/domain/run-mark.ts';
import { RecordedRun } from '../../src/replay/recorded-run.ts';
import { type ReplayEvent, type ReplayOptions, ReplayServer } from '../../src/replay/replay-server.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { databasePaths, openMain } from '../../src/storage/lmdb/stores.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import {
  CANARY_KEY,
  type ClientBench,
  collect,
  rejection,
  startClientBench,
} from '../clients/client-bench.ts';

let bench: ClientBench;
let files: CaptureFiles;

const MODEL = 'claude-demo-large';
const messages = (url: string, run?: string): Anthropic =>
  new Anthropic({
    apiKey: CANARY_KEY,
    baseURL: url,
    maxRetries: 0,
    ...(run === undefined ? {} : { defaultHeaders: { 'x-svc-run': run } }),
  });
const ask = (content: string, more: object = {}) => ({
  model: MODEL,
  max_tokens: 1000,
  messages: [{ role: 'user' as const, content }],
  ...more,
});

/**
 * The agent of the tests. It asks for a whole answer and for a stream of Messages and of chat completions, for an error
 * of Messages, and for a whole answer of responses.
 */
async function work(url: string, run?: string): Promise<unknown[]> {
  const anthropic = messages(url, run);
  const openai = new OpenAI({
    apiKey: CANARY_KEY,
    baseURL: `${url}/v1`,
    maxRetries: 0,
    ...(run === undefined ? {} : { defaultHeaders: { 'x-svc-run': run } }),
  });
  const chat = { model: 'gpt-demo', messages: [{ role: 'user' as const, content: 'Hello' }] };
  const { error } = (await rejection(anthropic.messages.create(ask('fail 429')))) as RateLimitError;
  return [
    await anthropic.messages.create(ask('think')),
    await collect(anthropic.messages.stream(ask('long'))),
    error,
    await openai.chat.completions.create(chat),
    await collect(await openai.chat.completions.create({ ...chat, stream: true })),
    (await openai.responses.create({ model: 'gpt-demo', input: 'Hello' })).output_text,
  ];
}

let recorded: unknown[];
beforeAll(async () => {
  bench = await startClientBench();
  recorded = await work(bench.gateway_url, 'work');
  const secret = `Use the key ${CANARY_KEY} for it.`;
  await messages(bench.gateway_url, 'secret').messages.create(ask(secret));
  const held = messages(bench.gateway_url, 'left').messages.stream(ask('hold'));
  for await (const event of held) if (event.type === 'content_block_delta') break;
  const gemini = new GoogleGenAI({
    apiKey: CANARY_KEY,
    httpOptions: { baseUrl: `${bench.gateway_url}/gemini`, headers: { 'x-svc-run': 'gemini' } },
  });
  await gemini.models.generateContent({ model: 'gemini-demo', contents: 'Hello' });
  await bench.waitForStats(({ exchanges }) => exchanges.in_flight === 0);
  await fetch(`${bench.gateway_url}/__gw/flush`, { method: 'POST' });
  files = await CaptureFiles.open(bench.db, { data_key: null });
});
afterAll(async () => {
  await files.close();
  await bench.close();
});

/** Serves a run without pauses. */
async function replay(
  runId: string,
  options: Partial<ReplayOptions> = {},
): Promise<{ server: ReplayServer; events: ReplayEvent[] }> {
  const run = RecordedRun.read(files, runId);
  expect(run).not.toBeNull();
  const events: ReplayEvent[] = [];
  const server = await ReplayServer.start(run!, {
    port: 0,
    speed: 0,
    is_loose: false,
    from_turn: null,
    live: null,
    tell: (event) => events.push(event),
    ...options,
  });
  onTestFinished(() => server.close());
  return { server, events };
}

describe('a replayed run', () => {
  it('gives the official SDKs the provider’s answers', async () => {
    const { server } = await replay('work');
    expect(await work(server.url)).toEqual(recorded);
    expect(server.result).toMatchObject({ exchanges: 6, served: 6, differing: 0, unknown: 0, unserved: [] });
  });

  it('keeps its timing, divided by the speed', async () => {
    const run = RecordedRun.read(files, 'work')!;
    const stream = run.exchanges.find(({ turn }) => turn === 3)!;
    const pauses: number[] = [];
    const pause = async (ms: number): Promise<void> => void pauses.push(ms);
    const { server } = await replay('work', { speed: 2, pause });
    await collect(messages(server.url).messages.stream(ask('long')));
    const [first, ...others] = pauses;
    expect(first).toBeCloseTo(stream.first_byte_ms / 2, 6);
    const rest = others.reduce((sum, ms) => sum + ms, 0);
    // Data that is due within two milliseconds of the end is written with it.
    expect(rest).toBeLessThanOrEqual((stream.duration_ms - stream.first_byte_ms) / 2 + 1e-6);
    expect(rest).toBeGreaterThan((stream.duration_ms - stream.first_byte_ms) / 2 - 2);
  });

  it('ends where the agent had disconnected, after every byte that the agent had received', async () => {
    const { server } = await replay('left');
    const run = RecordedRun.read(files, 'left')!;
    expect(run.exchanges).toMatchObject([{ aborted: true }]);
    const body = JSON.stringify({ ...ask('hold'), stream: true });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${server.url}/v1/messages`, { method: 'POST', headers, body });
    const pieces: Uint8Array[] = [];
    const read = async (): Promise<void> => {
      for await (const piece of answer.body!) pieces.push(piece);
    };
    await rejection(read());
    expect(Buffer.concat(pieces).equals(run.answer(run.exchanges[0]!).body)).toBe(true);
    expect(pieces.length).toBeGreaterThan(0);
  });

  it('answers an equal request again, for clients that retry', async () => {
    const { server, events } = await replay('work');
    const first = await messages(server.url).messages.create(ask('think'));
    expect(await messages(server.url).messages.create(ask('think'))).toEqual(first);
    expect(events).toMatchObject([
      { type: 'served', is_again: false },
      { type: 'served', is_again: true },
    ]);
    expect(server.result).toMatchObject({ served: 1, again: 1 });
  });

  it('ignores differences in the ids of a client', async () => {
    const { server } = await replay('work');
    await messages(server.url).messages.create(ask('think', { metadata: { user_id: 'another' } }));
    expect(server.result).toMatchObject({ served: 1, differing: 0 });
  });

  it('recognizes a request whose credentials the capture masked', async () => {
    const { server } = await replay('secret');
    await messages(server.url).messages.create(ask(`Use the key ${CANARY_KEY} for it.`));
    const error = await rejection(
      messages(server.url).messages.create(ask(`Drop the key ${CANARY_KEY} for it.`)),
    );
    expect(error).toBeInstanceOf(Error);
    expect(server.result.served).toBe(1);
  });

  it('accepts a path with or without the prefix of the gateway', async () => {
    const { server } = await replay('gemini');
    const gemini = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: server.url } });
    expect((await gemini.models.generateContent({ model: 'gemini-demo', contents: 'Hello' })).text).toContain(
      'Hello',
    );
  });
});

describe('a request that was not recorded', () => {
  it('is refused once, and the error says where it differs', async () => {
    const { server, events } = await replay('work');
    const client = new Anthropic({ apiKey: 'none', baseURL: server.url, maxRetries: 5 });
    const error = await rejection(client.messages.create(ask('fail 529')));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error.message).toContain(
      'does not repeat turn 1 (exchange 1): message 1 differs after 11 characters',
    );
    expect(error.message).toContain('\\"user: fail 429\\" was recorded, \\"user: fail 529\\" was requested');
    expect(events.map(({ type }) => type)).toEqual(['differs']);
    expect(server.result.unserved).toHaveLength(6);
  });

  it('gets the next recorded answer if differences are allowed', async () => {
    const { server, events } = await replay('secret', { is_loose: true });
    const answer = await messages(server.url).messages.create(ask('Something else'));
    expect(answer.content).toMatchObject([{ type: 'text' }]);
    expect(events).toMatchObject([{ type: 'differs', is_served: true }]);
    expect(server.result).toMatchObject({ differing: 1, unserved: [] });
  });

  it('gets a clear error if the run has no request of its kind', async () => {
    const { server } = await replay('secret');
    const answer = await fetch(`${server.url}/v1/models`);
    expect([answer.status, await answer.json()]).toMatchObject([
      404,
      { error: { type: 'not_recorded', message: 'understudy replay: the run has no GET /v1/models' } },
    ]);
  });
});

describe('a fork', () => {
  it('continues from a turn with a live provider and another model, as a new run', async () => {
    const { server, events } = await replay('work', {
      from_turn: 2,
      live: {
        base_url: bench.gateway_url,
        run_id: 'forked',
        fork_of: { run_id: 'work', turn: 2 },
        model: 'claude-demo-small',
      },
    });
    const client = messages(server.url);
    expect(((await rejection(client.messages.create(ask('fail 429')))) as RateLimitError).status).toBe(429);
    const live = await client.messages.create(ask('A new question', { temperature: 1e-7 }));
    expect(live.model).toBe('claude-demo-small');
    expect(events).toMatchObject([{ type: 'served' }, { type: 'live', turn: 2, status: 200 }]);
    await bench.waitForStats(({ exchanges }) => exchanges.in_flight === 0);
    await fetch(`${bench.gateway_url}/__gw/flush`, { method: 'POST' });
    const fresh = await CaptureFiles.open(bench.db, { data_key: null });
    onTestFinished(() => fresh.close());
    expect(RecordedRun.read(fresh, 'forked')?.exchanges).toMatchObject([
      { turn: 1, model: 'claude-demo-small' },
    ]);
  });

  it('reports that the live provider does not answer', async () => {
    const fork_of = { run_id: 'work', turn: 1 };
    const live = { base_url: 'http://127.0.0.1:1', run_id: 'forked', fork_of, model: null };
    const { server } = await replay('work', { from_turn: 1, live });
    const error = await rejection(messages(server.url).messages.create(ask('think')));
    expect(error.message).toContain('the request to http://127.0.0.1:1 failed');
  });
});

describe('understudy replay', () => {
  const agent = `
    const said = await fetch(process.env.ANTHROPIC_BASE_URL + '/v1/messages', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': process.env.ANTHROPIC_API_KEY },
      body: JSON.stringify({ model: '${MODEL}', max_tokens: 1000, messages: [{ role: 'user', content: process.argv[2] }] }),
    });
    console.log('agent got', said.status);
  `;

  it('starts the agent, reports what happened, and ends with its verdict', { tags: 'long' }, async () => {
    const script = join(bench.dir, 'agent.mjs');
    writeFileSync(script, agent);
    const run = (content: string, ...more: string[]): CliChild =>
      new CliChild([
        'replay',
        'secret',
        '--db',
        bench.db,
        '--speed',
        '0',
        ...more,
        '--',
        process.execPath,
        script,
        content,
      ]);
    await using same = run(`Use the key ${CANARY_KEY} for it.`);
    expect(await same.ended).toMatchObject({
      code: 0,
      stdout: 'agent got 200\n1 of 1 exchanges served\n',
      stderr: expect.stringMatching(
        /^replaying 1 exchange of secret at http.*\n#\d+ turn 1 {2}POST \/v1\/messages {2}200\n$/,
      ),
    });
    await using other = run('Something else', '--verify', 'exit 7');
    expect(await other.ended).toMatchObject({
      code: 7,
      stdout: 'agent got 400\n0 of 1 exchanges served, 1 differed, 1 not requested\n',
    });
  });

  it('exits with 1 if a request got no captured answer, and says how many did not', async () => {
    const requested = `Use the key ${CANARY_KEY} for it.`;
    const said = JSON.stringify(JSON.stringify(ask(requested)));
    const end = async (run: string, script: string) => {
      const argv = ['replay', run, '--db', bench.db, '--speed', '0'];
      const { code, stdout } = await runHere([
        ...argv,
        '--',
        process.execPath,
        '--input-type=module',
        '-e',
        script,
      ]);
      return [code, stdout];
    };
    const repeat = `const base = process.env.ANTHROPIC_BASE_URL;
      const post = () => fetch(base + '/v1/messages', { method: 'POST', body: ${said} });
      await post();`;
    expect(await end('secret', repeat)).toEqual([0, '1 of 1 exchanges served\n']);
    const more = "await fetch(base + '/v1/models'); await fetch(base + '/v1/models');";
    expect(await end('secret', repeat + more)).toEqual([1, '1 of 1 exchanges served, 2 not recorded\n']);
    const large = "await fetch(base + '/v1/files', { method: 'POST', body: Buffer.alloc((64 << 20) + 1) });";
    expect(await end('secret', repeat + large)).toEqual([
      1,
      '1 of 1 exchanges served, 1 could not be replayed\n',
    ]);
  });

  it('cannot continue at a turn that does not exist', async () => {
    const at = (turn: string) => [
      ...['replay', 'secret', '--db', bench.db, '--from', turn, '--', process.execPath, '-e', '0'],
    ];
    expect(await runHere(at('3'))).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining("--from 3 is beyond the run's 1 turn; give a turn from 1 to 2"),
    });
    await using after = new CliChild(at('2'));
    expect((await after.ended).stderr).toContain('from turn 2 on, ');
  });

  it('stores the verdict on a fork with its run, and says where the two runs are compared', {
    tags: 'long',
  }, async () => {
    const script = join(bench.dir, 'agent.mjs');
    writeFileSync(script, agent);
    const data_dir = join(bench.dir, 'verdicts');
    const flags = ['--db', bench.db, '--speed', '0', '--from', '1', '--to', bench.gateway_url];
    const fork = (run: string, verify: string): CliChild =>
      new CliChild(
        [
          'replay',
          'secret',
          ...flags,
          ...['--run', run, '--verify', verify],
          ...['--', process.execPath, script, 'Something else'],
        ],
        { env: { DATA_DIR: data_dir, PORT: '8123' } },
      );
    await using passed = fork('fork-1', 'true');
    expect(await passed.ended).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('compare both: http://127.0.0.1:8123/#/compare?a=secret&b=fork-1\n'),
    });
    await using failed = fork('fork-2', 'exit 3');
    expect((await failed.ended).code).toBe(3);
    const main = openMain(databasePaths(data_dir, null));
    onTestFinished(() => main.close());
    const marksOf = (run_id: string) => readMarks(new TableAccounts(main).marks.find({ run_id, org_id: '' }));
    expect(marksOf('fork-1')).toMatchObject({ tags: ['verify:passed'], mark: null });
    expect(marksOf('fork-2')).toMatchObject({
      tags: ['verify:failed'],
      note: 'exit 3: exit status 3; fork of secret from turn 1',
    });
    const fresh = await CaptureFiles.open(bench.db, { data_key: null });
    onTestFinished(() => fresh.close());
    const [exchange] = fresh.summaries({ run_id: 'fork-1' });
    expect(readForkTags(exchange!.tags ?? [])).toEqual({ run_id: 'secret', turn: 1 });
  });

  it('says which run is missing', async () => {
    await using child = new CliChild(['replay', 'none', '--db', bench.db]);
    expect(await child.ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('has no run "none"'),
    });
  });
});
