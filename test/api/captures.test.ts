/**
 * `/capture/*` of the real service: who gets in, what the operator reads, and what an unknown path and a refused one have in
 * common. Then one API over a damaged database, whose reader may end while the service goes on.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadEmbeddedSecret } from '../../src/auth/embedded-secret.ts';
import { CAPTURES } from '../../src/contract/captures.ts';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { checkReply } from './check-reply.ts';

const HOSTILE = '<script>alert("captured")</script>\u0000\u2028';
const PICTURE = Buffer.from('a picture of few bytes').toString('base64');
const STATIC_KEY = 'static-key-of-the-operator';
const env = { SVC_KEYS: STATIC_KEY, OPERATORS: 'Op@example.com, other@example.com' };

const dir = mkdtempSync(join(tmpdir(), 'understudy-captures-'));
const before = new WholeService(dir, env);
let service: WholeService;
/** Who sees captures, and who does not. */
const operators = new Map<string, string>();
const others = new Map<string, string>();

interface Answer {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  body: any;
}

async function call(at: WholeService, credential: string, method: string, path: string, body?: object) {
  const response = await fetch(at.api + path, {
    method,
    headers: {
      ...(credential === '' ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = text !== '' && response.headers.get('content-type') === 'application/json';
  const answer: Answer = {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : undefined,
  };
  return answer;
}

/** As the operator; the answer is held against the interface description. */
async function read(endpoint: Endpoint, path: string): Promise<Answer> {
  const answer = await call(service, STATIC_KEY, 'GET', path);
  expect(answer.status, `${path} ${answer.text}`).toBe(200);
  checkReply(endpoint, { status: answer.status, body: answer.text });
  return answer;
}

async function flush(): Promise<void> {
  const flushed = await fetch(`${service.gateway}/__gw/flush`, { method: 'POST' });
  expect(flushed.status).toBe(200);
}

async function signUnverified(email: string): Promise<string> {
  return new SignJWT({ email, email_verified: false })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(`email:${email}`)
    .setIssuer('understudy')
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(loadEmbeddedSecret(dir)));
}

beforeAll(async () => {
  await before.start();
  const tokenOf = async (name: string) =>
    (await before.run('token', '--email', `${name}@example.com`)).trim();
  const boss = await tokenOf('boss');
  await call(before, boss, 'GET', '/auth/me');
  const [{ id: org }] = (await call(before, boss, 'GET', '/organizations/')).body as [{ id: string }];
  for (const role of ['admin', 'member']) {
    const token = await tokenOf(role);
    await call(before, token, 'GET', '/auth/me');
    const invited = await call(before, boss, 'POST', `/organizations/${org}/invite`, {
      email: `${role}@example.com`,
      role,
    });
    const accepted = await call(
      before,
      token,
      'POST',
      `/organizations/invitations/${invited.body.id}/accept`,
    );
    expect(accepted.status, accepted.text).toBe(200);
    (role === 'admin' ? operators : others).set(`the organization's ${role}`, token);
  }
  const key = await call(before, boss, 'POST', '/api-keys/', { name: 'agent', org_id: org });
  others.set("the organization's key", key.body.raw_key);
  const stranger = await tokenOf('stranger');
  await call(before, stranger, 'GET', '/auth/me');
  others.set("another organization's owner", stranger);
  others.set('an operator whose address is not verified', await signUnverified('op@example.com'));
  others.set('the owner whose address is not verified', await signUnverified('owner@understudy.local'));
  others.set('nobody', '');
  others.set('a wrong key', 'nonsense');
  operators.set("the organization's owner", boss);
  operators.set('an address of OPERATORS', await tokenOf('OP'));
  operators.set("the terminal's link", (await before.run('token', '--owner')).trim());
  operators.set('a static key', STATIC_KEY);
  await before.stop();

  // With several server threads some requests reach the reader through another thread.
  service = new WholeService(dir, { ...env, GW_ORG: org, SERVER_THREADS: '2' });
  await service.start();
  const said = (text: string) => ({ role: 'user', content: text });
  // Stored before the next one comes: with two server threads the later one may be the first that is written.
  await service.capture('run-one', { system: 'be brief', messages: [said(`fix the tests ${HOSTILE}`)] });
  await flush();
  await service.capture('run-two', { messages: [said('write the docs')] });
  await flush();
  const source = { type: 'base64', media_type: 'image/png', data: PICTURE };
  await service.capture('run-two', {
    messages: [
      said('write the docs'),
      { role: 'assistant', content: [{ type: 'text', text: 'You said write the docs' }] },
      {
        role: 'user',
        content: [
          { type: 'image', source },
          { type: 'text', text: 'like this' },
        ],
      },
    ],
  });
  await flush();
});
afterAll(async () => {
  await before[Symbol.asyncDispose]();
  await service?.[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

const PATHS: Readonly<Record<keyof typeof CAPTURES, string>> = {
  listCapturedRuns: '/capture/runs',
  readCapturedRun: '/capture/runs/run-one',
  readCapturedExchange: '/capture/exchanges/1',
  downloadCapturedRequest: '/capture/exchanges/1/request',
  downloadCapturedResponse: '/capture/exchanges/1/response',
  explainCapturedStep: '/capture/exchanges/1/explanation',
  listRelegatedSteps: '/capture/steps',
  readCapturedActivity: '/capture/activity',
  readStudentReport: '/capture/student',
  readCaptureStats: '/capture/stats',
};

const readable = ({ status, text, headers }: Answer) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id'),
});

describe('who sees captures', () => {
  it.each(Object.entries(PATHS))('%s: operators alone, and it is not there for others', async (_, path) => {
    for (const [who, credential] of operators) {
      const answer = await call(service, credential, 'GET', path);
      expect(answer.status, `${who} ${answer.text}`).toBe(200);
    }
    for (const [who, credential] of others) {
      for (const method of ['GET', 'POST', 'DELETE', 'PUT', 'HEAD']) {
        const answer = await call(service, credential, method, path);
        const unknown = await call(service, credential, method, '/captured/nothing');
        expect(readable(answer), `${method} as ${who}`).toEqual(readable(unknown));
        expect(answer.status).toBe(404);
      }
    }
  });

  it('says nothing of what is asked for wrongly to others either', async () => {
    for (const path of ['/capture/runs?limit=x', '/capture/exchanges/x', '/capture/runs?cursor=no']) {
      const answer = await call(service, '', 'GET', path);
      expect(readable(answer)).toEqual(readable(await call(service, '', 'GET', '/captured/nothing')));
      expect((await call(service, STATIC_KEY, 'GET', path)).status).toBe(422);
    }
  });

  it('tells operators what is not there', async () => {
    for (const path of ['/capture/runs/none', '/capture/exchanges/999', '/capture/exchanges/999/request'])
      expect((await call(service, STATIC_KEY, 'GET', path)).status, path).toBe(404);
  });
});

describe('what operators read', () => {
  const list = (query = '') => read(CAPTURES.listCapturedRuns, `/capture/runs${query}`);
  const ids = ({ body }: Answer) => body.runs.map((run: { run_id: string }) => run.run_id);

  it('lists runs, newest first, by filters and pages', async () => {
    // What bodies tell may come with a later answer.
    await expect
      .poll(async () =>
        (await list()).body.runs.every(
          (run: { task: unknown; golden: unknown }) => run.task !== null && run.golden !== null,
        ),
      )
      .toBe(true);
    const all = await list();
    expect(ids(all)).toEqual(['run-two', 'run-one']);
    expect(all.body).toMatchObject({ next_cursor: null, listed_runs: 2, left_out_runs: 0 });
    expect(all.body.runs[0]).toMatchObject({
      task: 'write the docs',
      models: ['m'],
      turns: 2,
      student_turns: 0,
      errors: 0,
      golden: true,
      reasons: [],
    });
    const first = await list('?limit=1');
    expect(ids(first)).toEqual(['run-two']);
    const second = await list(`?limit=1&cursor=${first.body.next_cursor}`);
    expect(ids(second)).toEqual(['run-one']);
    const { started_at } = all.body.runs[0];
    for (const [query, found] of [
      ['?model=m', ['run-two', 'run-one']],
      ['?model=none', []],
      ['?served_by=student', []],
      ['?served_by=upstream', ['run-two', 'run-one']],
      ['?golden=true', ['run-two', 'run-one']],
      ['?golden=false', []],
      ['?q=THE%20DOCS', ['run-two']],
      [`?from=${started_at}`, ['run-two']],
      [`?to=${started_at}`, ['run-one']],
    ] as const)
      expect(ids(await list(query)), query).toEqual(found);
  });

  it('tells a run as a conversation: what is new in each turn, images by reference', async () => {
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-two');
    expect(body.run.run_id).toBe('run-two');
    expect(body.next_cursor).toBeNull();
    expect(body.turns).toHaveLength(2);
    const [one, two] = body.turns;
    expect(one).toMatchObject({ link: 'starts', conversation: 1, follows: null, failed: false });
    expect(one.content).toEqual([{ type: 'text', text: 'You said write the docs' }]);
    expect(two).toMatchObject({ link: 'continues', conversation: 1, follows: one.exchange_id, system: null });
    const [added] = two.messages_added;
    expect(two.messages_added).toHaveLength(1);
    expect(added.content[0]).toMatchObject({ type: 'media', source: 'file', media_type: 'image/png' });
    expect(added.content[0].data).toMatch(/^[\da-f]{64}$/);
    expect(JSON.stringify(body)).not.toContain(PICTURE);
    expect(two.latency_ms).toBeGreaterThan(0);
    expect(two.usage).toMatchObject({ input_tokens: 1, output_tokens: 1 });
    const page = await read(CAPTURES.readCapturedRun, '/capture/runs/run-two?limit=1');
    expect(page.body.turns).toEqual([one]);
    const rest = await read(
      CAPTURES.readCapturedRun,
      `/capture/runs/run-two?limit=1&cursor=${page.body.next_cursor}`,
    );
    expect(rest.body.turns).toEqual([two]);
    expect(rest.body.next_cursor).toBeNull();
  });

  it('shows what is hostile as JSON and as a download, never as a page', async () => {
    const { body, headers } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-one');
    expect(body.turns[0].messages_added[0].content[0].text).toBe(`fix the tests ${HOSTILE}`);
    expect(body.turns[0].system).toEqual([{ type: 'text', text: 'be brief' }]);
    expect(headers.get('content-type')).toBe('application/json');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    const raw = await call(service, STATIC_KEY, 'GET', '/capture/exchanges/1/request');
    expect(JSON.parse(raw.text).messages[0].content).toBe(`fix the tests ${HOSTILE}`);
    expect(raw.headers.get('content-type')).toBe('application/octet-stream');
    expect(raw.headers.get('content-disposition')).toBe('attachment; filename="exchange-1-request.bin"');
    expect(raw.headers.get('content-security-policy')).toContain('sandbox');
    const record = await read(CAPTURES.readCapturedExchange, '/capture/exchanges/1');
    expect(record.body).toMatchObject({ id: 1, run_id: 'run-one', method: 'POST', status: 200 });
    const answer = await call(service, STATIC_KEY, 'GET', '/capture/exchanges/1/response');
    expect(JSON.parse(answer.text)).toMatchObject({ id: 'msg', stop_reason: 'end_turn' });
  });

  it('has the stats of the gateway', async () => {
    const { body } = await read(CAPTURES.readCaptureStats, '/capture/stats');
    expect(body.db.path).toBe(join(dir, 'capture.mdb'));
  });

  it('goes on with what is captured meanwhile, and over a rotation', async () => {
    await service.capture('run-three', { messages: [{ role: 'user', content: 'go on' }] });
    await flush();
    expect(ids(await list())).toEqual(['run-three', 'run-two', 'run-one']);
    const rotated = await fetch(`${service.gateway}/__gw/rotate`, { method: 'POST' });
    expect(rotated.status).toBe(200);
    await service.capture('run-one', { messages: [{ role: 'user', content: 'behind the rotation' }] });
    await service.capture('run-four', { messages: [{ role: 'user', content: 'new' }] });
    await flush();
    expect(ids(await list())).toEqual(['run-four', 'run-three', 'run-two', 'run-one']);
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-one');
    expect(body.turns).toHaveLength(2);
  });
});

/** The reading process of the service; null while there is none. */
function findReader(): number | null {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, ppid] = /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${name}/status`, 'utf8')) ?? [];
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8');
      if (Number(ppid) === service.pid && command.includes('capture-reader-entry')) return Number(name);
    } catch {
      // It ended meanwhile.
    }
  }
  return null;
}

describe('captures that cannot be read', () => {
  it.skipIf(process.platform !== 'linux')('end the process that reads them, and nothing else', async () => {
    const before = await read(CAPTURES.listCapturedRuns, '/capture/runs');
    const first = findReader()!;
    // As a damaged page would end it.
    process.kill(first, 'SIGSEGV');
    await expect
      .poll(async () => {
        const { status, body } = await call(service, STATIC_KEY, 'GET', '/capture/runs');
        if (status !== 200) expect([status, body.detail]).toEqual([503, expect.stringContaining('SIGSEGV')]);
        return status === 200 && findReader() !== first;
      })
      .toBe(true);
    await expect.poll(() => service.stderr).toContain('the process that reads captures for the API ended');
    expect((await fetch(`${service.api}/ready`)).status).toBe(200);
    await service.capture('run-after', { messages: [{ role: 'user', content: 'still here' }] });
    await flush();
    const after = await read(CAPTURES.listCapturedRuns, '/capture/runs');
    expect(after.body.runs.map((run: { run_id: string }) => run.run_id)).toEqual([
      'run-after',
      ...before.body.runs.map((run: { run_id: string }) => run.run_id),
    ]);
  });

  it('is told, and the service goes on', async () => {
    await using api = new ApiChild();
    await api.start();
    const none = await api.get('/capture/runs');
    expect(none.body).toMatchObject({ runs: [], next_cursor: null });
    writeFileSync(join(api.dir, 'capture.mdb'), Buffer.alloc(65_536, 0x5a));
    for (const path of ['/capture/runs', '/capture/exchanges/1', '/capture/exchanges/1/request']) {
      const { status, body } = await api.get(path);
      expect(status, path).toBe(503);
      expect(body.detail).toContain('capture.mdb');
    }
    const { status } = await api.post('/v1/monitor/runs', { run_id: 'r' });
    expect(status).toBe(200);
    expect((await fetch(`${api.url}/ready`)).status).toBe(200);
    const stats = await fetch(`${api.url}/capture/stats`, {
      headers: { authorization: `Bearer ${CHILD_KEY}` },
    });
    expect(stats.status).toBe(404);
  });
});
