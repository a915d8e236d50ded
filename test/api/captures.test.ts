/**
 * `/capture/*` of the real service: who has access, what the operator reads, and that a refused path looks like an
 * unknown one. Then an API over a damaged database: the process that reads it may end, and the service continues.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { loadEmbeddedSecret } from '../../src/auth/embedded-secret.ts';
import { CAPTURES } from '../../src/contract/captures.ts';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { checkReply } from './check-reply.ts';

const HOSTILE = '<script>alert("captured")</script>\u0000\u2028';
const PICTURE = Buffer.from('a picture of few bytes').toString('base64');
const STATIC_KEY = 'static-key-of-the-operator';
const env = { SVC_KEYS: STATIC_KEY, OPERATORS: 'Op@example.com, other@example.com' };

const dir = mkdtempSync(join(tmpdir(), 'understudy-captures-'));
const before = new WholeService(dir, env);
let service: WholeService;
let org: string;
/** Credentials by name: those that may see captures, and those that may not. */
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

/** Requests as the operator, and checks the answer against the interface description. */
async function read(endpoint: Endpoint, path: string): Promise<Answer> {
  const answer = await call(service, STATIC_KEY, 'GET', path);
  expect(answer.status, `${path} ${answer.text}`).toBe(200);
  checkReply(endpoint, { status: answer.status, body: answer.text });
  return answer;
}

async function flush(): Promise<void> {
  const flushed = await fetch(`${service.gateway}/__gw/flush`, { method: 'POST' });
  expect(flushed.status).toBe(200);
  const countUnsearched = async () => {
    const stats = await fetch(`${service.gateway}/__gw/stats`);
    const { writer } = (await stats.json()) as { writer: { text_index: { unsearched: number } } };
    return writer.text_index.unsearched;
  };
  await vi.waitFor(async () => expect(await countUnsearched()).toBe(0), PATIENCE_MS);
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
  [{ id: org }] = (await call(before, boss, 'GET', '/organizations/')).body as [{ id: string }];
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
  others.set('stranger', '');
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
  // Each exchange is stored before the next is sent, because two server threads could store them in another order.
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
  // Ends its processes, so that nothing more is written into the folder.
  await service?.stop();
  await service?.[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

const POLL = { timeout: PATIENCE_MS };

const PATHS: Readonly<
  Record<Exclude<keyof typeof CAPTURES, 'markCapturedRun' | 'nameStudentAgent'>, string>
> = {
  listCapturedRuns: '/capture/runs',
  listCapturedRunValues: '/capture/run-values?field=model',
  readCapturedRun: '/capture/runs/run-one',
  readCapturedRunCache: '/capture/runs/run-one/cache',
  sumCacheMisses: '/capture/cache',
  readProviderLimits: '/capture/limits',
  searchCaptures: '/capture/search?q=docs',
  readTrafficFigures: '/capture/figures',
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

describe('a search', () => {
  const search = (q: string, more = '') =>
    read(CAPTURES.searchCaptures, `/capture/search?q=${encodeURIComponent(q)}${more}`);

  it('finds words of prompts and answers, with their place', async () => {
    const { body } = await search('FIX tests');
    expect(body.hits).toHaveLength(1);
    const [{ run_id, exchange_id, found }] = body.hits;
    expect({ run_id, exchange_id }).toEqual({ run_id: 'run-one', exchange_id: 1 });
    expect(found.map(({ place, match }: { place: string; match: string }) => [place, match])).toEqual([
      ['answer', 'fix'],
      ['answer', 'tests'],
    ]);
    expect(found[1]).toMatchObject({
      before: 'You said fix the ',
      after: expect.stringContaining('<script>'),
    });
    expect(body.searched).toEqual({ not_searched: 0, cut: 0 });
    expect((await search('brief')).body.hits[0].found[0].place).toBe('system');
    expect((await search('"like this"')).body.hits[0].found).toMatchObject([{ match: 'like this' }]);
  });

  it('finds a run once, at its latest match, and distinguishes phrases from words', async () => {
    const { body } = await search('"write the docs"');
    expect(body).toMatchObject({ runs: 1, next_cursor: null });
    expect(body.hits).toMatchObject([{ run_id: 'run-two', exchange_id: 3 }]);
    expect((await search('"docs the write"')).body.hits).toEqual([]);
    expect((await search('writ*')).body.hits).toHaveLength(1);
    expect((await search('like this docs')).body.hits).toMatchObject([{ run_id: 'run-two' }]);
    expect((await search('absentword')).body).toMatchObject({ hits: [], runs: 0, next_cursor: null });
  });

  it('continues where the last page ended', async () => {
    const first = (await search('the', '&limit=1')).body;
    expect(first.hits).toMatchObject([{ run_id: 'run-two' }]);
    const second = (await search('the', `&limit=1&cursor=${first.next_cursor}`)).body;
    expect(second.hits).toMatchObject([{ run_id: 'run-one' }]);
    expect(second.next_cursor).toBeNull();
  });

  it('works in the list of runs together with the other fields of a query', async () => {
    const list = async (q: string) =>
      (await read(CAPTURES.listCapturedRuns, `/capture/runs?q=${encodeURIComponent(q)}`)).body;
    const told = await list('text:tests status:ok,unknown');
    expect(told.runs.map(({ run_id }: { run_id: string }) => run_id)).toEqual(['run-one']);
    expect(told.found).toMatchObject([{ run_id: 'run-one', exchange_id: 1, match: 'tests' }]);
    expect(told.searched).toEqual({ not_searched: 0, cut: 0 });
    // "like this" is in the last message of run-two, which the list does not read.
    expect((await list('"like this"')).found).toMatchObject([{ run_id: 'run-two', exchange_id: 3 }]);
    expect((await list('"this like"')).runs).toEqual([]);
    expect((await list('"like this" -model:m')).matched_runs).toBe(0);
    const others = await list('-"like this"');
    expect(others.runs.map(({ run_id }: { run_id: string }) => run_id)).toContain('run-one');
    expect(others.runs.map(({ run_id }: { run_id: string }) => run_id)).not.toContain('run-two');
    expect((await list('status:ok')).searched).toBeNull();
  });

  it.each([
    ['', 422],
    ['q=', 422],
    ['q=%21%21', 422],
    [`q=${'w%20'.repeat(40)}`, 422],
    ['q=docs&cursor=x', 422],
    [`q=${'w'.repeat(1_001)}`, 422],
    ['q=%ED%A0%80', 422],
  ])('refuses %s', async (query, status) => {
    const answer = await call(service, STATIC_KEY, 'GET', `/capture/search?${query}`);
    expect(answer.status, answer.text).toBe(status);
  });

  it('reports how much has been indexed', async () => {
    const { body } = await call(service, STATIC_KEY, 'GET', '/capture/stats');
    expect(body.writer.text_index).toMatchObject({ searched_id: 3, unsearched: 0, cut: 0 });
  });
});

describe('access to captures', () => {
  /** What others get for a path that does not exist. */
  const unknownTo = new Map<string, object>();
  beforeAll(async () => {
    for (const [who, credential] of others)
      for (const method of ['GET', 'POST', 'DELETE', 'PUT', 'HEAD'])
        unknownTo.set(
          `${method} ${who}`,
          readable(await call(service, credential, method, '/captured/nothing')),
        );
  });

  it.each(Object.entries(PATHS))(
    '%s: operators only; for others the path does not exist',
    async (_, path) => {
      for (const [who, credential] of operators) {
        const answer = await call(service, credential, 'GET', path);
        expect(answer.status, `${who} ${answer.text}`).toBe(200);
      }
      for (const [who, credential] of others) {
        for (const method of ['GET', 'POST', 'DELETE', 'PUT', 'HEAD']) {
          const answer = await call(service, credential, method, path);
          const unknown = unknownTo.get(`${method} ${who}`);
          expect(readable(answer), `${method} as ${who}`).toEqual(unknown);
          expect(answer.status).toBe(404);
        }
      }
    },
  );

  it('markCapturedRun: operators only; for others the path does not exist', async () => {
    const path = '/capture/runs/run-one/mark';
    for (const [who, credential] of others) {
      const answer = await call(service, credential, 'POST', path, { mark: 'bad' });
      const unknown = await call(service, credential, 'POST', '/captured/nothing', { mark: 'bad' });
      expect(readable(answer), who).toEqual(readable(unknown));
      expect(answer.status).toBe(404);
    }
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-one');
    expect(body.run.mark).toBeNull();
    for (const [who, credential] of operators) {
      const answer = await call(service, credential, 'POST', path, { mark: null });
      expect(answer.status, `${who} ${answer.text}`).toBe(200);
    }
    for (const [wrong, status] of [
      [{ mark: 'fine' }, 422],
      [{}, 422],
    ] as const)
      expect((await call(service, STATIC_KEY, 'POST', path, wrong)).status).toBe(status);
    const missing = await call(service, STATIC_KEY, 'POST', '/capture/runs/none/mark', { mark: 'bad' });
    expect(missing.status).toBe(404);
  });

  it('nameStudentAgent: operators only; for others the path does not exist', async () => {
    const path = '/capture/student/names';
    const wanted = { agent: 'a1', name: 'Support desk' };
    for (const [who, credential] of others) {
      const answer = await call(service, credential, 'POST', path, wanted);
      const unknown = await call(service, credential, 'POST', '/captured/nothing', wanted);
      expect(readable(answer), who).toEqual(readable(unknown));
      expect(answer.status).toBe(404);
    }
    const missing = await call(service, STATIC_KEY, 'POST', path, wanted);
    expect([missing.status, missing.text]).toEqual([404, expect.stringContaining('no such agent variant')]);
    for (const wrong of [{ agent: 'a1' }, { agent: 'a1', name: '' }, { agent: 'a1', name: '\u200b' }])
      expect((await call(service, STATIC_KEY, 'POST', path, wrong)).status).toBe(422);
  });

  it('callers without a credential get the same answer to a malformed request as for an unknown path', async () => {
    for (const path of ['/capture/runs?limit=x', '/capture/exchanges/x', '/capture/runs?cursor=no']) {
      const answer = await call(service, '', 'GET', path);
      expect(readable(answer)).toEqual(readable(await call(service, '', 'GET', '/captured/nothing')));
      expect((await call(service, STATIC_KEY, 'GET', path)).status).toBe(422);
    }
  });

  it('operators get a 404 for a missing capture', async () => {
    for (const path of ['/capture/runs/none', '/capture/exchanges/999', '/capture/exchanges/999/request'])
      expect((await call(service, STATIC_KEY, 'GET', path)).status, path).toBe(404);
  });
});

describe('an operator', () => {
  const list = (query = '') => read(CAPTURES.listCapturedRuns, `/capture/runs${query}`);
  const ids = ({ body }: Answer) => body.runs.map((run: { run_id: string }) => run.run_id);

  it('lists runs, newest first, by filters and pages', async () => {
    // Data from bodies may appear only in a later answer.
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
    expect(all.body).toMatchObject({ matched_runs: 2, unread_runs: 0, scanned_runs: 2 });
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
      ['?q=status:ok%20sort:turns', ['run-two', 'run-one']],
      ['?q=-docs', ['run-one']],
      ['?q=is:golden%20model:m&served_by=student', []],
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

  it('gets an error that points at the unknown word of a query', async () => {
    const { status, body } = await call(service, STATIC_KEY, 'GET', '/capture/runs?q=cost:%3E1%20modle:x');
    expect(status).toBe(422);
    expect(body.detail).toMatchObject([
      {
        type: 'value_error',
        loc: ['query', 'q'],
        input: 'cost:>1 modle:x',
        ctx: { from: 8, to: 13, word: 'modle', nearest: 'model' },
      },
    ]);
    const { body: page } = await list('?limit=1&q=sort:turns');
    const other = `/capture/runs?limit=1&q=sort:cost&cursor=${page.next_cursor}`;
    expect((await call(service, STATIC_KEY, 'GET', other)).status).toBe(422);
  });

  it('lists reported runs beside captured ones, and both as one if they have the same id', async () => {
    const tell = (path: string, body: object) =>
      call(service, STATIC_KEY, 'POST', `/v1/monitor/runs${path}`, { org_id: org, ...body });
    const start = { run_id: 'run-reported', agent_name: 'clerk', task: 'Answer the mail.', model: 'm2' };
    expect((await tell('', start)).status).toBe(200);
    expect((await tell('', { run_id: 'run-one', agent_name: 'tester' })).status).toBe(200);
    // The capture reader sees a reported run once its row is in the database, a moment after the answer.
    const runs = (query: string) => expect.poll(async () => (await list(query)).body.runs, POLL);
    await runs('?q=agent:clerk').toMatchObject([
      { run_id: 'run-reported', is_captured: false, status: 'running', task: 'Answer the mail.', turns: 0 },
    ]);
    // A running run has data that only its actor knows.
    const step = {
      step_index: 0,
      action: 'read',
      action_input: 'the mail',
      observation: 'a bill',
      tokens: 7,
    };
    expect((await tell('/run-reported/steps', step)).status).toBe(200);
    await runs('?q=run:=run-reported').toMatchObject([
      { reported: { is_finished: false, steps: 1, tokens: 7 } },
    ]);
    expect((await read(CAPTURES.readCaptureStats, '/capture/stats')).body.org_id).toBe(org);
    expect((await tell('/run-reported/finish', { outcome: 'failure: no stamp' })).status).toBe(200);
    await runs('?q=status:failed').toMatchObject([
      { run_id: 'run-reported', status: 'failed', ended_by: 'agent', outcome: 'failure: no stamp' },
    ]);
    await runs('?q=is:captured%20is:reported').toMatchObject([
      { run_id: 'run-one', agent: 'tester', turns: 1, reported: { agent_name: 'tester', org_id: org } },
    ]);
    // Another organization's runs do not belong to the operator's captures.
    const stranger = { run_id: 'run-two', agent_name: 'spy', org_id: 'elsewhere' };
    expect((await call(service, STATIC_KEY, 'POST', '/v1/monitor/runs', stranger)).status).toBe(200);
    expect(ids(await list('?q=agent:spy'))).toEqual([]);
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-reported');
    expect(body).toMatchObject({ run: { run_id: 'run-reported', is_captured: false }, turns: [] });
    for (const run_id of ['run-reported', 'run-one'])
      await call(service, STATIC_KEY, 'DELETE', `/v1/monitor/runs/${run_id}?org_id=${org}`);
    await expect.poll(async () => ids(await list()), POLL).toEqual(['run-two', 'run-one']);
  });

  it('gets the values of a field with the number of runs, to complete a query', async () => {
    const values = async (query: string) =>
      (await read(CAPTURES.listCapturedRunValues, `/capture/run-values?${query}`)).body;
    const all = await values('field=model');
    const listed = (await list()).body.runs as { models: string[] }[];
    expect(all).toEqual({ values: [{ value: 'm', runs: listed.length }], is_whole: true });
    expect(listed.every(({ models }) => models[0] === 'm')).toBe(true);
    expect(await values('field=model&contains=nowhere')).toEqual({ values: [], is_whole: true });
    expect((await values('field=status&q=run:=run-one')).values).toMatchObject([{ runs: 1 }]);
    expect((await values('field=is&q=run:=run-one')).values).toContainEqual({ value: 'captured', runs: 1 });
    for (const query of ['', 'field=task', 'field=modle', 'field=model&q=modle:x', 'field=model&limit=0'])
      expect((await call(service, STATIC_KEY, 'GET', `/capture/run-values?${query}`)).status).toBe(422);
  });

  it('searches and reads captured runs over MCP', async () => {
    const ask = async (name: string, input: object) => {
      const params = { name, arguments: input };
      const response = await fetch(`${service.api}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${STATIC_KEY}`,
          'content-type': 'application/json',
          accept: 'application/json',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      });
      return ((await response.json()) as { result: { structuredContent: unknown } }).result.structuredContent;
    };
    expect(await ask('search_runs', { query: 'docs', limit: 5 })).toMatchObject({
      source: 'captured',
      matched: 1,
      runs: [{ run_id: 'run-two', status: 'ok', task: 'write the docs', models: ['m'] }],
    });
    const first = (await ask('read_run', { run_id: 'run-two' })) as { parts: string[]; next_cursor: null };
    expect(first.parts[0]).toContain('user: write the docs\nanswer: You said write the docs');
    expect(first).toMatchObject({ run: { run_id: 'run-two' }, next_cursor: null });
  });

  it('reads a run as a conversation: each turn’s new content, with references to images', async () => {
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-two');
    expect(body.run.run_id).toBe('run-two');
    expect(body.next_cursor).toBeNull();
    expect(body.turns).toHaveLength(2);
    const [first, two] = body.turns;
    expect(first).toMatchObject({ link: 'starts', conversation: 1, follows: null, failed: false });
    expect(first.content).toEqual([{ type: 'text', text: 'You said write the docs' }]);
    expect(two).toMatchObject({
      link: 'continues',
      conversation: 1,
      follows: first.exchange_id,
      system: null,
    });
    const [added] = two.messages_added;
    expect(two.messages_added).toHaveLength(1);
    expect(added.content[0]).toMatchObject({ type: 'media', source: 'file', media_type: 'image/png' });
    expect(added.content[0].data).toMatch(/^[\da-f]{64}$/);
    expect(JSON.stringify(body)).not.toContain(PICTURE);
    expect(two.latency_ms).toBeGreaterThan(0);
    expect(two.usage).toMatchObject({ input_tokens: 1, output_tokens: 1 });
    const page = await read(CAPTURES.readCapturedRun, '/capture/runs/run-two?limit=1');
    expect(page.body.turns).toEqual([first]);
    const rest = await read(
      CAPTURES.readCapturedRun,
      `/capture/runs/run-two?limit=1&cursor=${page.body.next_cursor}`,
    );
    expect(rest.body.turns).toEqual([two]);
    expect(rest.body.next_cursor).toBeNull();
  });

  it('gets hostile content as JSON and as a download, never as a page', async () => {
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

  it('gets a run with its marks and its monitor run as soon as they change', {
    tags: 'long',
  }, async () => {
    const owner = operators.get("the organization's owner")!;
    const mark = (word: string | null) =>
      call(service, owner, 'POST', '/capture/runs/run-two/mark', { mark: word });
    const runTwo = async () => (await read(CAPTURES.readCapturedRun, '/capture/runs/run-two')).body.run;
    const marked = await mark('bad');
    checkReply(CAPTURES.markCapturedRun, { status: marked.status, body: marked.text });
    expect(await runTwo()).toMatchObject({ golden: false, mark: 'bad', reasons: [{ code: 'marked_bad' }] });
    expect(ids(await list('?golden=false'))).toEqual(['run-two']);
    await mark(null);
    expect(await runTwo()).toMatchObject({ golden: true, mark: null, reasons: [] });

    const monitored = { org_id: org, run_id: 'run-two' };
    const started = await call(service, STATIC_KEY, 'POST', '/v1/monitor/runs', {
      ...monitored,
      task: 'write the docs',
    });
    expect(started.status, started.text).toBeLessThan(300);
    expect((await runTwo()).outcome).toBeNull();
    const path = '/v1/monitor/runs/run-two/finish';
    const finished = await call(service, STATIC_KEY, 'POST', path, {
      org_id: org,
      outcome: 'failure: Error',
    });
    expect(finished.status, finished.text).toBeLessThan(300);
    await expect.poll(async () => (await runTwo()).outcome).toBe('failure: Error');
    expect(await runTwo()).toMatchObject({ golden: false, reasons: [{ code: 'outcome' }] });
    expect(ids(await list('?golden=false'))).toEqual(['run-two']);
    const { body: activity } = await read(CAPTURES.readCapturedActivity, '/capture/activity');
    expect(activity.golden).toMatchObject({ not_golden: 1 });
    const shown = JSON.parse(await service.run('inspect', '--run', 'run-two', '--json'));
    expect(shown.run).toMatchObject({ golden: false, outcome: 'failure: Error' });

    await mark('good');
    expect(await runTwo()).toMatchObject({ golden: true, mark: 'good', overruled: [{ code: 'outcome' }] });
    const overruled = JSON.parse(await service.run('inspect', '--run', 'run-two', '--json'));
    expect(overruled.run).toMatchObject({ golden: true, mark: 'good', outcome: 'failure: Error' });
    expect(await service.run('runs', 'mark', 'run-two', 'clear')).toBe('run-two has no mark\n');
    const told = await service.run(
      'runs',
      'mark',
      'run-two',
      '--tag',
      'night',
      '--tag',
      'x',
      '--note',
      'see 3',
    );
    expect(told).toBe('run-two has no mark; tags: night, x; note: see 3\n');
    expect(await runTwo()).toMatchObject({ tags: ['night', 'x'], note: 'see 3', mark: null });
    expect(ids(await list('?q=tag:night'))).toEqual(['run-two']);
    const v1 = `/v1/runs/run-two/marks?org_id=${org}`;
    const cleared = await call(service, STATIC_KEY, 'POST', v1, { org_id: org, tags: [], note: '' });
    expect(cleared.body).toMatchObject({ tags: [], note: '', mark: null });
    expect(await runTwo()).toMatchObject({ tags: [], note: '' });
    expect(await runTwo()).toMatchObject({ golden: false, mark: null });
    await mark('good');

    const log = await call(service, owner, 'GET', `/organizations/${org}/audit-log`);
    const entries = log.body.filter(({ action }: { action: string }) => action === 'capture.mark');
    expect(entries[0]).toMatchObject({
      actor_type: 'user',
      target: 'run-two',
      before: { mark: null },
      after: { mark: 'good' },
    });
    expect(entries).toHaveLength(7);
  });

  it('exports runs, the turns of a run, and figures; other users cannot', async () => {
    const paths = ['runs?format=csv', 'runs/run-one/turns', 'figures?by=tag'].map(
      (at) => `/capture/export/${at}`,
    );
    for (const [who, credential] of others)
      for (const path of paths) expect((await call(service, credential, 'GET', path)).status, who).toBe(404);
    const get = async (path: string) => {
      const { status, text } = await call(service, STATIC_KEY, 'GET', `/capture/export/${path}`);
      expect(status, text).toBe(200);
      return text;
    };
    const lines = (text: string) =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    const listed = ids(await list(''));
    expect(lines(await get('runs?format=jsonl')).map(({ run_id }) => run_id)).toEqual(listed);
    expect((await get('runs')).trimEnd().split('\r\n').length).toBe(listed.length + 1);
    expect((await get('runs?format=parquet')).slice(-4)).toBe('PAR1');
    const turns = lines(await get('runs/run-one/turns?format=jsonl'));
    expect(turns.length).toBeGreaterThan(0);
    const [spans] = lines(await get('runs?format=otlp&q=run:=run-one'));
    expect(spans.resourceSpans[0].scopeSpans[0].spans).toHaveLength(
      turns.filter(({ kind }) => kind === 'turn').length,
    );
    expect(await get('figures?by=model&format=csv')).toMatch(/^name,query,/);
    expect((await call(service, STATIC_KEY, 'GET', '/capture/export/runs?q=modle:x')).status).toBe(422);
    expect((await call(service, STATIC_KEY, 'GET', '/capture/export/runs/none/turns')).status).toBe(404);
    const exported = await service.run('inspect', 'sort:started', '--export', 'jsonl');
    expect(lines(exported).map(({ run_id }) => run_id)).toEqual(listed);
  });

  it('finds runs and figures by the tags of requests, which no provider receives', async () => {
    const said = { messages: [{ role: 'user', content: 'tagged' }] };
    await service.capture('run-tagged', said, { 'x-svc-tags': 'night, a b,,night' });
    await flush();
    await expect.poll(async () => ids(await list('?q=tag:night'))).toEqual(['run-tagged']);
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-tagged');
    expect(body.run).toMatchObject({ request_tags: ['night', 'a b'], tags: [], keys: [expect.any(String)] });
    expect(ids(await list(`?q=${encodeURIComponent(`key:=${body.run.keys[0]} tag:"a b"`)}`))).toEqual([
      'run-tagged',
    ]);
    const { body: figures } = await read(CAPTURES.readTrafficFigures, '/capture/figures?by=tag&tag=night');
    expect(figures.rows.map(({ name }: { name: string }) => name).sort()).toEqual(['a b', 'night']);
    expect(figures.total.exchanges).toBe(1);
  });

  it('shows both readings of an answer that a request repeats differently, and counts the difference once', async () => {
    const said = (words: string) => ({ role: 'user', content: words });
    const count = async () =>
      Number(
        /^understudy_capture_reading_differs_total (\d+)$/m.exec(
          (await call(service, STATIC_KEY, 'GET', '/metrics')).text,
        )?.[1],
      );
    expect(await count()).toBe(0);
    await service.capture('run-echo', { messages: [said('count to three')] });
    await flush();
    const echo = [{ type: 'text', text: 'You said count to three, and so I did: one, two, three' }];
    const messages = [said('count to three'), { role: 'assistant', content: echo }, said('again')];
    await service.capture('run-echo', { messages });
    await flush();
    const runEcho = async () => (await read(CAPTURES.readCapturedRun, '/capture/runs/run-echo')).body.run;
    await expect.poll(async () => (await runEcho()).golden).toBe(false);
    const { reasons } = await runEcho();
    const differs = reasons.find(({ code }: { code: string }) => code === 'reading_differs');
    expect(differs.difference).toMatchObject({
      read: 'You said count to three',
      repeated: 'You said count to three, and so I did: one, two, three',
    });
    await list();
    await expect.poll(count).toBe(1);
    expect(await service.run('inspect', '--run', 'run-echo')).toContain(
      'repeated: You said count to three, and so',
    );
  });

  it('gets the stats of the gateway', async () => {
    const { body } = await read(CAPTURES.readCaptureStats, '/capture/stats');
    expect(body.db.path).toBe(join(dir, 'capture.mdb'));
  });

  it('gets exchanges as they are captured, also after a rotation', async () => {
    await service.capture('run-three', { messages: [{ role: 'user', content: 'go on' }] });
    await flush();
    expect(ids(await list())).toEqual(['run-three', 'run-echo', 'run-tagged', 'run-two', 'run-one']);
    const rotated = await fetch(`${service.gateway}/__gw/rotate`, { method: 'POST' });
    expect(rotated.status).toBe(200);
    await service.capture('run-one', { messages: [{ role: 'user', content: 'behind the rotation' }] });
    await service.capture('run-four', { messages: [{ role: 'user', content: 'new' }] });
    await flush();
    expect(ids(await list())).toEqual([
      ...['run-four', 'run-three', 'run-echo'],
      ...['run-tagged', 'run-two', 'run-one'],
    ]);
    const { body } = await read(CAPTURES.readCapturedRun, '/capture/runs/run-one');
    expect(body.turns).toHaveLength(2);
  });

  it('gets a captured run together with the run that was reported under its trace id or its session id', async () => {
    const said = { messages: [{ role: 'user', content: 'which bill is open?' }] };
    const trace = 'a3ce929d0e0e47364bf92f3577b34da6';
    const session = 'session-of-the-clerk';
    await service.capture('run-traced', said, { traceparent: `00-${trace}-00f067aa0ba902b7-01` });
    // The client names its session but no run.
    const unlabelled = await fetch(`${service.gateway}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-claude-code-session-id': session },
      body: JSON.stringify({
        model: 'm',
        max_tokens: 9,
        tools: [{ name: 'read', input_schema: {} }],
        ...said,
      }),
    });
    expect(unlabelled.status).toBe(200);
    await unlabelled.text();
    await flush();
    for (const run_id of [trace, session]) {
      const begun = { run_id, org_id: org, agent_name: `agent of ${run_id}` };
      expect((await call(service, STATIC_KEY, 'POST', '/v1/monitor/runs', begun)).status).toBe(200);
    }
    const query = encodeURIComponent(`is:captured is:reported run:=run-traced,=${session} sort:started-asc`);
    const joined = async () => (await list(`?q=${query}`)).body.runs;
    await expect.poll(joined, POLL).toMatchObject([
      { run_id: 'run-traced', trace_id: trace, reported: { run_id: trace }, agent: `agent of ${trace}` },
      { run_id: session, session_id: session, reported: { run_id: session }, agent: `agent of ${session}` },
    ]);
    // Both ids lead to the same run, on its page and in the list.
    for (const [captured, reported] of [
      ['run-traced', trace],
      [session, session],
    ] as const) {
      const { body } = await read(CAPTURES.readCapturedRun, `/capture/runs/${reported}`);
      expect(body.run).toMatchObject({ run_id: captured, reported: { run_id: reported } });
      expect(ids(await list(`?q=run:=${reported}`))).toEqual([captured]);
    }
    for (const run_id of [trace, session])
      await call(service, STATIC_KEY, 'DELETE', `/v1/monitor/runs/${run_id}?org_id=${org}`);
    await expect.poll(joined, POLL).toEqual([]);
  });
});

/** Finds the process id of the service's capture reader; null if there is no such process. */
function findReader(): number | null {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, ppid] = /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${name}/status`, 'utf8')) ?? [];
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8');
      if (Number(ppid) === service.pid && command.includes('capture-reader-entry')) return Number(name);
    } catch {
      // This process has ended meanwhile.
    }
  }
  return null;
}

describe('captures that cannot be read', { tags: 'long' }, () => {
  it.skipIf(process.platform !== 'linux')('end the process that reads them, and nothing else', async () => {
    const before = await read(CAPTURES.listCapturedRuns, '/capture/runs');
    const first = findReader()!;
    // Ends the process as a damaged page would.
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

  it('are reported, and the service continues', async () => {
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
