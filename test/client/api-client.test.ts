/** The typed client against the real server. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ApiError, createClient } from '../../src/client/api-client.ts';
import { loadConfig, raiseParserHeadLimit } from '../../src/config.ts';
import { health, metrics } from '../../src/contract/health.ts';
import { RUNS } from '../../src/contract/runs.ts';
import type { RunningUnderstudy } from '../../src/main.ts';

let folder: string;
let running: RunningUnderstudy;
const api_key = 'a-static-key';

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-client-'));
  raiseParserHeadLimit();
  const { startUnderstudy } = await import('../../src/main.ts');
  const env = { DATA_DIR: folder, PORT: '0', SVC_KEYS: api_key, LOG_LEVEL: 'silent' };
  running = await startUnderstudy(loadConfig({ listener: 'api' }, env), { api: true, gateway: false });
});
afterAll(async () => {
  await running.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe('a client made from a table', () => {
  it('calls what the table declares, and gives what the schemas say', async () => {
    const base_url = running.api_url!;
    expect(await createClient({ base_url: `${base_url}/` }, { health }).health()).toMatchObject({
      status: 'ok',
    });
    const runs = createClient({ base_url, api_key }, RUNS);
    const run_id = 'a/run with ünicode?';
    const started = await runs.startRun({ body: { run_id, task: 'try the client', org_id: 'acme' } });
    expect(started).toEqual({ run_id, status: 'running', started_at: expect.any(String) });
    const bundle = await runs.logStep({
      params: { id: run_id },
      body: { step_index: 0, action: 'look', org_id: 'acme' },
    });
    const fired: readonly string[] = bundle.fired;
    expect(fired).toEqual([]);
    const text = await createClient({ base_url }, { metrics }).metrics();
    expect(await text.text()).toContain(
      'understudy_http_requests_total{route="health",method="GET",status="200"} 1',
    );
  });

  it('throws what went wrong', async () => {
    const base_url = running.api_url!;
    const strangers = createClient({ base_url, api_key: 'unknown' }, RUNS);
    await expect(strangers.startRun({ body: { run_id: 'r' } })).rejects.toMatchObject({
      name: 'ApiError',
      status: 401,
      retryable: false,
      request_id: expect.any(String),
    });
    const runs = createClient({ base_url, api_key }, RUNS);
    const bad = await runs.startRun({ body: { run_id: '' } }).catch((thrown: unknown) => thrown);
    expect(bad).toBeInstanceOf(ApiError);
    expect(bad).toMatchObject({
      status: 422,
      violations: [{ type: 'string_too_short', loc: ['body', 'run_id'] }],
    });
    await expect(runs.logStep({ params: { id: 'none' }, body: { step_index: 0 } })).rejects.toMatchObject({
      status: 404,
    });
    await expect(createClient({ base_url: 'http://127.0.0.1:1' }, { health }).health()).rejects.toThrow();
  });

  it('survives an answer that is none of the API’s', async () => {
    const proxy = async () => new Response('<h1>Bad Gateway</h1>', { status: 502 });
    const { health: call } = createClient({ base_url: 'http://a', fetch: proxy as typeof fetch }, { health });
    await expect(call()).rejects.toMatchObject({ status: 502, message: 'HTTP 502', retryable: true });
    const odd = async () => new Response('{"status":"odd"}', { status: 200 });
    const { health: other } = createClient({ base_url: 'http://a', fetch: odd as typeof fetch }, { health });
    await expect(other()).rejects.toMatchObject({ name: 'ZodError' });
  });
});
