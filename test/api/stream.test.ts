/** The live stream of a real process: switched off, watched, resumed, after a kill, and at the end of the process. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventSource } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { StreamReader } from '../fixtures/stream-reader.ts';

const KEY = 'a-static-key-for-tests';
const AUTH = { authorization: `Bearer ${KEY}` };

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-stream-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function start(env: Record<string, string> = { AUTH_DB_CONN_URL: 'embedded:' }) {
  const child = new CliChild(['serve'], { env: { PORT: '0', DATA_DIR: dir, SVC_KEYS: KEY, ...env } });
  const [, url] = await child.waitForOutput(/^ {2}API +(http:\/\/\S+)$/m);
  return { child, url: url! };
}

const Reader = {
  open: (url: string, headers: Record<string, string> = {}) =>
    StreamReader.open(url, { ...AUTH, ...headers }),
  join: (url: string, headers: Record<string, string> = {}) =>
    StreamReader.join(url, { ...AUTH, ...headers }),
};

async function post(url: string, body: object): Promise<Response> {
  const headers = { ...AUTH, 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  expect(response.status, await response.clone().text()).toBe(200);
  return response;
}

const until = (check: () => void) => vi.waitFor(check, { timeout: PATIENCE_MS, interval: 5 });

/** Waits for the first start of a run in a stream. @returns the data of the event, which names the organization */
async function firstRunOf(source: EventSource): Promise<{ run_id: string; org_id: string }> {
  return new Promise((resolve, reject) => {
    source.addEventListener('run_start', (event) =>
      resolve(JSON.parse((event as Event & { data: string }).data)),
    );
    source.addEventListener('error', () => {
      if (source.readyState === EventSource.CLOSED) reject(new Error('the stream was refused'));
    });
  });
}

describe('GET /v1/monitor/stream', () => {
  /** Serves all tests that need no special settings. The last test stops it. */
  let service: Awaited<ReturnType<typeof start>>;
  const folder = mkdtempSync(join(tmpdir(), 'understudy-stream-'));
  beforeAll(async () => {
    const limits = { RATE_LIMIT_PER_SEC: '1000000', RATE_LIMIT_BURST: '1000000' };
    service = await start({ AUTH_DB_CONN_URL: 'embedded:', DATA_DIR: folder, ...limits });
  });
  afterAll(async () => {
    await service.child[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it('answers 503 if the live stream is off, after the credential was checked', {
    tags: 'long',
  }, async () => {
    const { child, url } = await start({});
    await using _ = child;
    for (const path of ['/v1/monitor/stream', '/monitor/stream', '/v1/monitor/stream/']) {
      const answer = await fetch(url + path, { headers: AUTH });
      expect(answer.status).toBe(503);
      expect(await answer.json()).toEqual({ detail: expect.stringContaining('AUTH_DB_CONN_URL') });
      expect((await fetch(url + path)).status).toBe(401);
    }
  });

  it('reports a run’s events as they happen, only to its organization', async () => {
    const { url } = service;
    const [mine, project, others] = await Promise.all([
      Reader.join(`${url}/v1/monitor/stream?org_id=org_a`),
      Reader.join(`${url}/monitor/stream?org_id=org_a&project_id=proj_b`),
      Reader.join(`${url}/v1/monitor/stream?org_id=org_b`),
    ]);
    expect(mine.response.headers['content-type']).toMatch(/^text\/event-stream/);
    expect(mine.response.headers['cache-control']).toContain('no-cache');
    expect(mine.text).toContain('retry: ');
    const run = { org_id: 'org_a', run_id: 'run-1', agent_name: 'lead', task: 'a secret task' };
    await post(`${url}/v1/monitor/runs`, run);
    await post(`${url}/v1/monitor/runs/run-1/steps`, {
      org_id: 'org_a',
      step_index: 0,
      action: 'bash',
      action_input: 'a secret input',
      tokens: 5,
    });
    await post(`${url}/v1/monitor/runs`, { ...run, run_id: 'run-2', project_id: 'proj_b' });
    await post(`${url}/v1/monitor/runs/run-1/finish`, { org_id: 'org_a', outcome: 'success' });
    await until(() => expect(mine.names).toEqual(['run_start', 'step', 'run_start', 'run_finish']));
    await until(() =>
      expect(project.events).toMatchObject([{ event: 'run_start', data: { run_id: 'run-2' } }]),
    );
    const [begun, step, , finished] = mine.events;
    expect(begun!.data).toMatchObject({
      run_id: 'run-1',
      org_id: 'org_a',
      project_id: 'default',
      task_profile: 'coding',
    });
    expect(begun!.data.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(step!.data).toMatchObject({ step_index: 0, action: 'bash', tokens: 5, fired: [] });
    expect(Object.keys(step!.data.scores as object)).toHaveLength(6);
    expect(finished!.data).toMatchObject({ run_id: 'run-1', outcome: 'success', steps: 1 });
    expect(mine.text).not.toContain('secret');
    const ids = mine.events.map(({ id }) => Number(id));
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
    expect(others.events).toEqual([]);
    for (const reader of [mine, project, others]) reader.close();
  });

  it('is read by an EventSource with a ticket, of its organization and project only', async () => {
    const { url } = service;
    const issue = async (body: object) => (await post(`${url}/v1/monitor/stream/tickets`, body)).json();
    const { ticket, expires_in_s } = (await issue({ org_id: 'org_t', project_id: 'proj_t' })) as {
      ticket: string;
      expires_in_s: number;
    };
    expect(expires_in_s).toBe(60);
    expect(ticket).not.toContain(KEY);
    const source = new EventSource(`${url}/v1/monitor/stream?org_id=org_elsewhere&ticket=${ticket}`);
    const first = firstRunOf(source);
    await new Promise((resolve) => source.addEventListener('open', resolve, { once: true }));
    for (const [org_id, project_id] of [
      ['org_elsewhere', 'proj_t'],
      ['org_t', 'proj_u'],
      ['org_t', 'proj_t'],
    ])
      await post(`${url}/v1/monitor/runs`, { org_id, project_id, run_id: `${org_id}-${project_id}` });
    expect(await first).toMatchObject({ run_id: 'org_t-proj_t', org_id: 'org_t', project_id: 'proj_t' });
    source.close();

    const damaged = ticket.slice(0, -2) + (ticket.endsWith('AA') ? 'BB' : 'AA');
    for (const wrong of [damaged, 'nonsense', '', 'a.b.c.d.e', ticket.repeat(3)]) {
      const answer = await fetch(`${url}/v1/monitor/stream?ticket=${wrong}`);
      expect(answer.status, wrong).toBe(401);
      expect(await answer.text()).not.toContain(KEY);
    }
    // Only the stream accepts a ticket.
    expect((await fetch(`${url}/v1/monitor/runs?ticket=${ticket}`)).status).toBe(401);
  });

  it('reaches the readers of every server thread, from every actor thread', { tags: 'long' }, async () => {
    const { child, url } = await start({
      AUTH_DB_CONN_URL: 'embedded:',
      SERVER_THREADS: '2',
      ACTOR_THREADS: '2',
    });
    await using _ = child;
    // The kernel spreads the connections over the server threads.
    const readers = await Promise.all(
      Array.from({ length: 24 }, (_, at) => Reader.join(`${url}/v1/monitor/stream?org_id=org_${at % 4}`)),
    );
    for (let at = 0; at < 8; at++) {
      await post(`${url}/v1/monitor/runs`, { org_id: `org_${at % 4}`, run_id: `run-${at}` });
    }
    for (const [at, reader] of readers.entries()) {
      const expected = [`run-${at % 4}`, `run-${(at % 4) + 4}`];
      await until(() => expect(reader.events.map(({ data }) => data.run_id).sort()).toEqual(expected));
    }
    child.process.kill('SIGTERM');
    expect(await child.ended).toMatchObject({ code: 0 });
    for (const reader of readers) await until(() => expect(reader.is_over).toBe(true));
  });

  it('resumes by header or query, and after a kill with higher ids and a reset', {
    tags: 'long',
  }, async () => {
    const first = await start();
    const watcher = await Reader.join(`${first.url}/v1/monitor/stream`);
    for (const run_id of ['1', '2', '3']) await post(`${first.url}/v1/monitor/runs`, { run_id });
    await until(() => expect(watcher.events).toHaveLength(3));
    const [event] = watcher.events;
    const resumed = [
      await Reader.open(`${first.url}/v1/monitor/stream`, { 'last-event-id': event!.id! }),
      await Reader.open(`${first.url}/v1/monitor/stream?last_event_id=${event!.id}`),
      await Reader.open(`${first.url}/v1/monitor/stream?last_event_id=999`, { 'last-event-id': event!.id! }),
    ];
    for (const reader of resumed) {
      await until(() => expect(reader.events.map(({ data }) => data.run_id)).toEqual(['2', '3']));
    }
    for (const nonsense of ['999', '-1', 'abc', '1e3', '99999999999999999999']) {
      const reader = await Reader.open(`${first.url}/v1/monitor/stream`, { 'last-event-id': nonsense });
      await until(() => expect(reader.names).toEqual(['reset', 'run_start', 'run_start', 'run_start']));
      reader.close();
    }
    const lastId = Number(watcher.events.at(-1)!.id);
    await first.child.kill();

    const second = await start();
    await using _ = second.child;
    const back = await Reader.open(`${second.url}/v1/monitor/stream`, { 'last-event-id': String(lastId) });
    await until(() => expect(back.names).toEqual(['reset']));
    await post(`${second.url}/v1/monitor/runs`, { run_id: '4' });
    await until(() => expect(back.names).toEqual(['reset', 'run_start']));
    expect(Number(back.events[1]!.id)).toBeGreaterThan(lastId);
    back.close();
  });

  it('sends nothing to a key after its revocation or to a member after the removal, on any thread', {
    tags: 'long',
  }, async () => {
    await using api = new ControlPlaneChild({ AUTH_DB_CONN_URL: 'embedded:', SERVER_THREADS: '2' });
    await api.start();
    const owner = await api.person('owner');
    const guest = await api.person('guest');
    await api.join(owner, owner.org_id, guest, 'viewer');
    const { body: project } = await api.call(owner.token, 'POST', `/projects/?org_id=${owner.org_id}`, {
      name: 'p',
    });
    const keyOf = async (project_id: string | null) =>
      (await api.call(owner.token, 'POST', '/api-keys/', { name: 'k', project_id })).body;
    const key = await keyOf(null);
    const ofProject = await keyOf(project.id);
    const stream = `${api.url}/v1/monitor/stream?org_id=${owner.org_id}`;
    const join = (credential: string) =>
      Promise.all(
        Array.from({ length: 6 }, () => Reader.join(stream, { authorization: `Bearer ${credential}` })),
      );
    const staying = await join(owner.token);
    const begin = (run_id: string, project_id: string | null = project.id) =>
      api.post('/v1/monitor/runs', { org_id: owner.org_id, project_id, run_id });
    const ends: [string, () => Promise<unknown>][] = [
      [key.raw_key, () => api.call(owner.token, 'DELETE', `/api-keys/${key.id}`)],
      [
        guest.token,
        () => api.call(owner.token, 'DELETE', `/organizations/${owner.org_id}/members/${guest.id}`),
      ],
      [ofProject.raw_key, () => api.call(owner.token, 'DELETE', `/projects/${project.id}`)],
    ];
    for (const [at, [credential, end]] of ends.entries()) {
      const readers = await join(credential);
      await begin(`before-${at}`);
      for (const reader of readers)
        await until(() => expect(reader.events.map(({ data }) => data.run_id)).toEqual([`before-${at}`]));
      await end();
      // A deleted project has no events.
      await begin(`after-${at}`, at < 2 ? project.id : null);
      for (const reader of readers) {
        await until(() => expect(reader.is_over).toBe(true));
        expect(reader.text).not.toContain('after');
      }
    }
    const told = ['before-0', 'after-0', 'before-1', 'after-1', 'before-2', 'after-2'];
    for (const reader of staying) {
      await until(() => expect(reader.events.map(({ data }) => data.run_id)).toEqual(told));
      reader.close();
    }
  });

  it('continues for other readers while a thousand readers connect and vanish', async () => {
    const { url } = service;
    const { hostname, port } = new URL(url);
    const stay = await Reader.join(`${url}/v1/monitor/stream?org_id=org_x`);
    const { connect } = await import('node:net');
    const vanish = (at: number): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect(Number(port), hostname, () => {
          socket.write(
            `GET /v1/monitor/stream?org_id=org_${at % 40} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n\r\n`,
          );
          // The reader disconnects before, during or after the answer.
          if (at % 3 === 0) socket.destroy();
          else if (at % 3 === 1) setImmediate(() => socket.resetAndDestroy());
          else socket.once('data', () => socket.destroy());
        });
        socket.on('error', () => {});
        socket.on('close', () => resolve());
      });
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 100 }, (_, at) => vanish(at)));
    }
    await vi.waitFor(
      async () => {
        await post(`${url}/v1/monitor/runs`, { org_id: 'org_x', run_id: 'after' });
        expect(stay.events.at(-1)?.data.run_id).toBe('after');
      },
      { timeout: PATIENCE_MS, interval: 100 },
    );
    stay.close();
  });

  it('answers HEAD, and no open stream delays the stop of the process', async () => {
    const { child, url } = service;
    const head = await fetch(`${url}/v1/monitor/stream`, { method: 'HEAD', headers: AUTH });
    expect(head.status).toBe(200);
    expect(head.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const readers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => Reader.open(`${url}/v1/monitor/stream?org_id=org_${at % 3}`)),
    );
    for (const reader of readers) await until(() => expect(reader.text).toContain('retry: '));
    child.process.kill('SIGTERM');
    // A clean exit shows that the drain did not have to cut the streams at its deadline.
    expect(await child.ended).toMatchObject({ code: 0 });
    for (const reader of readers) {
      await until(() => expect(reader.is_over).toBe(true));
      expect(reader.response.complete, 'the stream ends whole').toBe(true);
    }
  });
});
