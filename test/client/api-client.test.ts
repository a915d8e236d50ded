/** The operations of document 2 as client functions, checked against the contract and the real server. */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { backOffMs } from '../../src/client/api-client.ts';
import { OPERATIONS } from '../../src/client/operations.ts';
import {
  type ApiError,
  AuthenticationError,
  ConnectionError,
  NotFoundError,
  RateLimitError,
  Understudy,
  type UnderstudyOptions,
  UnexpectedAnswerError,
  ValidationError,
} from '../../src/client/understudy.ts';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

let service: ClientService;
const servers: Server[] = [];
const clients: Understudy[] = [];

beforeAll(async () => {
  service = await ClientService.start();
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});
afterAll(() => service.stop());

function connect(baseUrl: string, options: UnderstudyOptions = {}): Understudy {
  const client = new Understudy({ apiKey: CLIENT_KEY, baseUrl, ...options });
  clients.push(client);
  return client;
}

/** A server that answers as the test says. @returns its address */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a service with several boxes', () => {
  it('gets back the highest position that it has sent to the client', async () => {
    const seen: (string | undefined)[] = [];
    const told = ['7', undefined, '9', '8', 'many'];
    const url = await serve((request, response) => {
      const position = told[seen.push(request.headers['x-svc-position'] as string | undefined) - 1];
      response.writeHead(200, {
        'content-type': 'application/json',
        ...(position === undefined ? {} : { 'x-svc-position': position }),
      });
      response.end('{"status":"ok","version":"1"}');
    });
    const client = connect(url);
    for (let call = 0; call < 6; call++) await client.api.health();
    expect(seen).toEqual([undefined, '7', '7', '9', '9', '9']);
  });
});

describe('the client’s operations', () => {
  it('are those of the contract', async () => {
    const declared = (await loadDeclaredEndpoints())
      .filter(({ path, id }) => path === '/health' || (path.startsWith('/v1/') && id !== 'live_stream'))
      // Exports are left out, because their answers are files and not JSON.
      .filter(({ path }) => !path.startsWith('/v1/export/'))
      .map(({ method, path }) => `${method} ${path}`);
    const known = Object.values(OPERATIONS).map(({ method, path }) => `${method} ${path}`);
    expect(known.sort()).toEqual(declared.sort());
  });

  it('work one after the other, with types', async () => {
    const { api } = connect(`${service.url}/`);
    expect((await api.health()).status).toBe('ok');
    const run_id = 'a/run with ünicode?';
    const started = await api.startRun({ body: { run_id, task: 'try the client', org_id: 'acme' } });
    expect(started).toEqual({ run_id, status: 'running', started_at: expect.any(String) });
    const step = { step_index: 0, action: 'look', org_id: 'acme' };
    const bundle = await api.logStep({ params: { id: run_id }, body: step });
    const fired: readonly string[] = bundle.fired;
    expect(fired).toEqual([]);
    expect(await api.evaluate({ body: { run_id, org_id: 'acme' } })).toMatchObject({
      inject: false,
      level: '',
    });
    const body = { outcome: 'success', org_id: 'acme' };
    expect((await api.finishRun({ params: { id: run_id }, body })).steps).toBe(1);
    const profile = { name: 'calm', weights: { semantic_loop: 1 } };
    expect((await api.putProfile({ body: profile })).name).toBe('calm');
    const patterns = [{ situation: 'the parser fails', dead_ends: '', unlock: 'parse as UTC' }];
    expect((await api.importPatterns({ body: { tier: 'e2', patterns } })).created).toBe(1);
    const trace = { trace_id: 't1', outcome: 'success', steps: [{ action: 'look' }] };
    expect(await api.submitTrace({ body: trace })).toMatchObject({ trace_id: 't1', status: 'accepted' });
    expect((await api.readTrace({ params: { trace_id: 't1' } })).status).toBe('done');
    const report = await api.reportExperiment({
      params: { experiment_id: 'e' },
      query: { expected_on_share: 0.3 },
    });
    expect(report.srm.expected_on).toBe(0.3);
  });
});

describe('a failure', () => {
  it('has a class, status and field', async () => {
    await expect(
      connect(service.url, { apiKey: 'unknown' }).api.startRun({ body: { run_id: 'r' } }),
    ).rejects.toThrow(AuthenticationError);
    const { api } = connect(service.url);
    const bad: ApiError = await api.startRun({ body: { run_id: '' } }).catch((thrown) => thrown);
    expect(bad).toBeInstanceOf(ValidationError);
    expect(bad).toMatchObject({
      name: 'ValidationError',
      status: 422,
      retryable: false,
      violations: [{ type: 'string_too_short', loc: ['body', 'run_id'] }],
      requestId: expect.any(String),
    });
    const nowhere = api.logStep({ params: { id: 'none' }, body: { step_index: 0 } });
    await expect(nowhere).rejects.toBeInstanceOf(NotFoundError);
    await expect(connect('http://127.0.0.1:1').api.health()).rejects.toBeInstanceOf(ConnectionError);
  });

  it('may be an answer that does not come from the API', async () => {
    const proxy = await serve((_, response) => response.writeHead(404).end('<h1>Not here</h1>'));
    await expect(connect(proxy).api.health()).rejects.toMatchObject({ status: 404, message: 'HTTP 404' });
    const page = await serve((_, response) => response.end('<h1>Welcome</h1>'));
    await expect(connect(page).api.health()).rejects.toBeInstanceOf(UnexpectedAnswerError);
    const list = await serve((_, response) => response.end('[]'));
    await expect(connect(list).api.health()).rejects.toBeInstanceOf(UnexpectedAnswerError);
    const elsewhere = await serve((_, response) => response.writeHead(302, { location: service.url }).end());
    await expect(connect(elsewhere).api.health()).rejects.toMatchObject({ status: 302 });
  });

  it('is retried if a retry repeats no effect, and not before the service allows it', {
    tags: 'long',
  }, async () => {
    let asked = 0;
    const url = await serve((request, response) => {
      asked += 1;
      request.resume().on('end', () => {
        if (asked === 1) response.writeHead(503).end();
        else if (asked === 2) response.writeHead(429, { 'retry-after': '1' }).end();
        else response.end('{"status":"ok","version":"0"}');
      });
    });
    const client = connect(url);
    await client.api.health();
    expect(client.stats().requests).toEqual({ sent: 3, repeated: 2, failed: 2 });
    const limited = new RateLimitError(429, { detail: '', retryAfter: 7, requestId: null });
    expect(backOffMs(1, limited)).toBe(7_000);
  });

  it('is not retried if the request could count twice', async () => {
    let asked = 0;
    const url = await serve((request, response) => {
      asked += 1;
      request.resume().on('end', () => response.writeHead(500).end());
    });
    const { api } = connect(url);
    await expect(api.retrievePatterns({ body: { context: 'c' } })).rejects.toMatchObject({ status: 500 });
    expect(asked).toBe(1);
  });

  it('is the caller’s own reason if the caller’s signal ends the request', async () => {
    const url = await serve((request) => request.resume());
    const abort = new AbortController();
    const { api } = connect(url);
    const call = api.health(undefined, { signal: abort.signal });
    abort.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
  });
});
