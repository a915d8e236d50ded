/**
 * The whole service with TLS on both ports, used by clients that require HTTPS: curl, fetch, undici, the Anthropic and
 * the OpenAI SDK. The service is a separate process, the provider a fake. With wrong files the start ends with a
 * message.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Agent, fetch, request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { CliChild } from '../cli/child.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';
import { issueCertificate } from '../fixtures/issued-certificate.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const run = promisify(execFile);
const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
);

let folder: string;
let provider: FakeProvider;
let service: CliChild;
let gateway: string;
let api: string;
const dispatcher = new Agent({ connect: { ca: TEST_CERTIFICATE } });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-https-'));
  writeFileSync(join(folder, 'cert.pem'), TEST_CERTIFICATE);
  writeFileSync(join(folder, 'key.pem'), TEST_KEY, { mode: 0o600 });
  provider = await startFakeProvider();
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  service = new CliChild(['up'], {
    cwd: folder,
    env: {
      ...{
        DATA_DIR: join(folder, 'data'),
        SERVER_THREADS: '2',
        PORT: '0',
        GW_PORT: '0',
        GW_UPSTREAM_BASE: provider.url,
      },
      ...{ TLS_CERT: files.cert, TLS_KEY: files.key, GW_TLS_CERT: files.cert, GW_TLS_KEY: files.key },
    },
  });
  const [, apiPort] = await service.waitForOutput(/API\s+https:\/\/[^:]+:(\d+)/);
  const [, gatewayPort] = await service.waitForOutput(/Gateway\s+https:\/\/[^:]+:(\d+)/);
  api = `https://127.0.0.1:${apiPort}`;
  gateway = `https://127.0.0.1:${gatewayPort}`;
}, 60_000);
afterAll(async () => {
  await dispatcher.close();
  await service[Symbol.asyncDispose]();
  await provider.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A `fetch` that trusts the test certificate. */
const fetchHere = ((url: string, init: object) => fetch(url, { ...init, dispatcher })) as never;

const MESSAGE = { role: 'user', content: 'Begin.' } as const;

describe('a client that requires HTTPS', () => {
  it.skipIf(!hasCurl)('may be curl (needs the binary)', async () => {
    const { stdout } = await run('curl', [
      '-sS',
      '--cacert',
      join(folder, 'cert.pem'),
      `${gateway}/__gw/stats`,
    ]);
    expect(JSON.parse(stdout)).toHaveProperty('exchanges');
    await expect(run('curl', ['-sS', `${gateway}/__gw/stats`])).rejects.toThrow(/certificate/);
  });

  it('may be fetch and undici, on both ports', async () => {
    const health = await fetch(`${api}/health`, { dispatcher });
    expect(health.status).toBe(200);
    const { statusCode, body } = await request(`${gateway}/v1/models`, { dispatcher });
    await body.dump();
    expect(statusCode).toBeGreaterThanOrEqual(200);
  });

  it('may be the Anthropic SDK, in one piece and as a stream', async () => {
    const client = new Anthropic({
      apiKey: 'sk-test',
      baseURL: gateway,
      fetch: fetchHere,
    });
    const asked = { model: 'claude-demo-large', max_tokens: 100, messages: [MESSAGE] };
    expect((await client.messages.create(asked)).role).toBe('assistant');
    expect((await client.messages.stream(asked).finalMessage()).role).toBe('assistant');
  });

  it('may be the OpenAI SDK, in one piece and as a stream', async () => {
    const client = new OpenAI({
      apiKey: 'sk-test',
      baseURL: `${gateway}/v1`,
      fetch: fetchHere,
    });
    const asked = { model: 'gpt-demo', messages: [MESSAGE] };
    const answer = await client.chat.completions.create(asked);
    expect(answer.choices[0]!.message.role).toBe('assistant');
    let pieces = 0;
    for await (const _ of await client.chat.completions.create({ ...asked, stream: true })) pieces++;
    expect(pieces).toBeGreaterThan(0);
  });

  it('is captured, and no exchange is dropped', async () => {
    await fetch(`${gateway}/__gw/flush`, { dispatcher });
    const stats = (await (await fetch(`${gateway}/__gw/stats`, { dispatcher })).json()) as {
      exchanges: { turns: number; dropped: number };
    };
    expect(stats.exchanges.turns).toBeGreaterThanOrEqual(4);
    expect(stats.exchanges.dropped).toBe(0);
  });
});

describe('a certificate that changes', () => {
  const lines = (words: RegExp) =>
    `${service.stdout}\n${service.stderr}`.split('\n').filter((line) => words.test(line));
  const STAYS = /the earlier one stays/;
  const TAKEN = /new connections get the new certificate/;

  it('is reported once, although two ports and two threads use it; a certificate for another key is ignored', {
    tags: 'long',
    timeout: 60_000,
  }, async () => {
    const other = await issueCertificate('other');
    const write = (cert: string, key: string) => {
      writeFileSync(join(folder, 'cert.pem'), cert);
      writeFileSync(join(folder, 'key.pem'), key, { mode: 0o600 });
    };
    const poll = (words: RegExp) => expect.poll(() => lines(words), { timeout: PATIENCE_MS });
    const health = () =>
      fetch(`${api}/health`, { dispatcher: new Agent({ connect: { ca: TEST_CERTIFICATE } }) });
    write(other.cert, TEST_KEY);
    await poll(STAYS).toHaveLength(1);
    expect(lines(STAYS)[0]).toContain('the key does not belong to the first certificate');
    expect((await health()).status).toBe(200);
    write(other.cert, other.key);
    await poll(TAKEN).toHaveLength(1);
    write(TEST_CERTIFICATE, other.key);
    await poll(STAYS).toHaveLength(2);
    write(TEST_CERTIFICATE, TEST_KEY);
    // At the last change, all files of the first certificate are in place again.
    await poll(TAKEN).toHaveLength(2);
    expect(lines(STAYS)).toHaveLength(2);
    // One thread logs the change. The other threads load the certificate a moment later.
    const answer = () => health().then(({ status }) => status, String);
    await expect.poll(answer, { timeout: PATIENCE_MS }).toBe(200);
  });
});

describe('unusable certificate files', () => {
  const start = async (files: Record<string, string>) => {
    await using child = new CliChild(['gateway', '--port', '0'], {
      cwd: folder,
      env: { DATA_DIR: join(folder, 'other'), GW_CAPTURE: 'off', ...files },
    });
    return await child.ended;
  };
  const cert = () => join(folder, 'cert.pem');
  const key = () => join(folder, 'key.pem');

  it('end the start with one line', { tags: 'long' }, async () => {
    const other = await issueCertificate('other');
    const path = (name: string, content: string) => {
      writeFileSync(join(folder, name), content, { mode: 0o600 });
      return join(folder, name);
    };
    const cases: [Record<string, string>, RegExp][] = [
      [{ GW_TLS_CERT: cert() }, /GW_TLS_KEY="": GW_TLS_CERT is set: set both or neither/],
      [{ GW_TLS_KEY: key() }, /GW_TLS_CERT="": GW_TLS_KEY is set: set both or neither/],
      [{ GW_TLS_CERT: join(folder, 'none'), GW_TLS_KEY: key() }, /GW_TLS_CERT=.*there is no such file/],
      [{ GW_TLS_CERT: cert(), GW_TLS_KEY: folder }, /GW_TLS_KEY=.*the path is not a file/],
      [{ GW_TLS_CERT: key(), GW_TLS_KEY: key() }, /GW_TLS_CERT=.*no certificate in PEM/],
      [{ GW_TLS_CERT: cert(), GW_TLS_KEY: cert() }, /GW_TLS_KEY=.*no private key in PEM/],
      [
        { GW_TLS_CERT: cert(), GW_TLS_KEY: path('o.pem', other.key) },
        /GW_TLS_KEY=.*does not belong to the first certificate/,
      ],
      [
        { GW_TLS_CERT: path('b.pem', TEST_CERTIFICATE.replace(/MII/, 'AII')), GW_TLS_KEY: key() },
        /GW_TLS_CERT=.*certificate 1 of the file cannot be read/,
      ],
    ];
    for (const [files, line] of cases) {
      const { code, stderr } = await start(files);
      expect(stderr).toMatch(line);
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(code).toBe(78);
    }
  });

  it('get a warning, and are used, if the certificate has expired or others can read the key', {
    tags: 'long',
  }, async () => {
    const old = await issueCertificate('old', [-30, -1]);
    writeFileSync(join(folder, 'old.pem'), old.cert);
    writeFileSync(join(folder, 'open.pem'), old.key);
    chmodSync(join(folder, 'open.pem'), 0o644);
    const child = new CliChild(['gateway', '--port', '0'], {
      cwd: folder,
      env: {
        ...{ DATA_DIR: join(folder, 'other'), GW_CAPTURE: 'off' },
        ...{ GW_TLS_CERT: join(folder, 'old.pem'), GW_TLS_KEY: join(folder, 'open.pem') },
      },
    });
    await child.waitForOutput(/Gateway\s+https:/);
    await expect.poll(() => child.stderr).toMatch(/certificate in GW_TLS_CERT expired on/);
    await expect.poll(() => child.stderr).toMatch(/chmod 600 \S*open\.pem/);
    await child[Symbol.asyncDispose]();
  });
});
