/** `/alerts` of the real service: access, answers, secrets, the test button, and what survives a kill. */
import { createHmac } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ALERT_ROUTES } from '../../src/contract/alerts.ts';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { checkReply } from '../api/check-reply.ts';
import { runHere } from '../cli/here.ts';
import { SmtpReceiver } from '../fixtures/smtp-receiver.ts';
import { WebhookReceiver } from '../fixtures/webhook-receiver.ts';
import { WholeService } from '../fixtures/whole-service.ts';

const KEY = 'static-key-of-the-operator';
const SECRET = 'secret-that-no-answer-shows';

const dir = mkdtempSync(join(tmpdir(), 'understudy-alert-service-'));
let hook: WebhookReceiver;
let mail: SmtpReceiver;
let service: WholeService;
const told: string[] = [];

async function ask(credential: string, method: string, path: string, body?: object) {
  const response = await fetch(service.api + path, {
    method,
    headers: {
      ...(credential === '' ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  told.push(text);
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  return { status: response.status, text, body: (text === '' ? null : JSON.parse(text)) as any };
}

async function call(endpoint: Endpoint, path: string, body?: object) {
  const answer = await ask(KEY, endpoint.method, path, body);
  expect(answer.status, answer.text).toBeLessThan(300);
  if (answer.text !== '') checkReply(endpoint, { status: answer.status, body: answer.text });
  return answer.body;
}

const make = (over: object = {}) =>
  call(ALERT_ROUTES.createAlert, '/alerts', {
    name: 'runs fail',
    measure: 'runs',
    query: 'status:failed,error',
    threshold: 2,
    destinations: [{ kind: 'webhook', url: hook.url, secret: SECRET }],
    ...over,
  });

beforeAll(async () => {
  hook = await WebhookReceiver.open();
  mail = await SmtpReceiver.open();
  service = new WholeService(dir, {
    SVC_KEYS: KEY,
    ALERT_PRIVATE_TARGETS: '127.0.0.1',
    ALERT_SMTP_URL: mail.url,
    SERVER_THREADS: '2',
  });
  await service.start();
});
afterAll(async () => {
  await service?.stop();
  await service?.[Symbol.asyncDispose]();
  hook?.close();
  mail?.close();
  rmSync(dir, { recursive: true, force: true });
});

describe('/alerts', () => {
  it('creates, shows, changes and deletes alerts', async () => {
    const made = await make();
    expect(made).toMatchObject({
      name: 'runs fail',
      is_on: true,
      fires: 'above',
      window_s: 3_600,
      interval_s: 3_600,
      quiet: null,
      state: null,
      destinations: [{ kind: 'webhook', target: `127.0.0.1:${hook.port}` }],
    });
    const path = `/alerts/${made.id}`;
    expect(await call(ALERT_ROUTES.readAlert, path)).toEqual(made);
    const quiet = { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' };
    const [{ id }] = made.destinations;
    const changed = await call(ALERT_ROUTES.changeAlert, path, {
      quiet,
      is_on: false,
      destinations: [
        { id, kind: 'webhook' },
        { kind: 'email', to: ['ops@example.com'] },
      ],
    });
    expect(changed).toMatchObject({ quiet, is_on: false, query: 'status:failed,error' });
    expect(changed.destinations).toMatchObject([{ id }, { kind: 'email', target: 'ops@example.com' }]);
    const { alerts, has_mail } = await call(ALERT_ROUTES.listAlerts, '/alerts');
    expect({ alerts, has_mail }).toEqual({ alerts: [changed], has_mail: true });
    expect((await ask(KEY, 'DELETE', path)).status).toBe(204);
    expect((await ask(KEY, 'GET', path)).status).toBe(404);
    expect((await ask(KEY, 'PATCH', path, {})).status).toBe(404);
    expect((await ask(KEY, 'DELETE', path)).status).toBe(404);
    expect((await ask(KEY, 'GET', `${path}/events`)).status).toBe(404);
  });

  it.each([
    ['query', { query: 'modle:x' }],
    ['of_query', { measure: 'share', of_query: 'cost:>' }],
    ['threshold', { threshold: 'high' }],
    ['measure', { measure: 'mood' }],
    ['window_s', { window_s: 86_401 }],
    ['time_zone', { quiet: { from: '22:00', to: '07:00', time_zone: 'Europe/Atlantis' } }],
    ['from', { quiet: { from: '24:00', to: '07:00', time_zone: 'UTC' } }],
    ['destinations', { destinations: [] }],
    ['url', { destinations: [{ kind: 'slack', url: 'ftp://example.com/' }] }],
    ['url', { destinations: [{ kind: 'slack', url: 'https://name:password@example.com/' }] }],
    ['url', { destinations: [{ kind: 'slack' }] }],
    ['url', { destinations: [{ kind: 'slack', url: 'http://10.0.0.1/' }] }],
    ['url', { destinations: [{ kind: 'slack', url: 'http://[::1]:8000/' }] }],
    ['url', { destinations: [{ kind: 'slack', url: 'http://169.254.169.254/latest/meta-data/' }] }],
    ['secret', { destinations: [{ kind: 'webhook', url: 'https://example.com/', secret: 'short' }] }],
    ['to', { destinations: [{ kind: 'email', to: [] }] }],
    ['id', { destinations: [{ id: 'dst_other', kind: 'email', to: ['a@example.com'] }] }],
  ])('refuses a wrong %s: %j', async (field, over) => {
    const valid = { kind: 'email', to: ['a@example.com'] };
    const base = { name: 'a', measure: 'runs', threshold: 1, destinations: [valid] };
    const { status, body } = await ask(KEY, 'POST', '/alerts', { ...base, ...over });
    expect(status, JSON.stringify(body)).toBe(422);
    expect(body.detail[0].loc).toContain(field);
  });

  it('does not exist for other users', async () => {
    const { id } = await make();
    const user = (await service.run('token', '--email', 'ann@example.com')).trim();
    for (const credential of ['', 'nonsense', user])
      for (const [method, path] of [
        ['GET', '/alerts'],
        ['POST', '/alerts'],
        ['GET', `/alerts/${id}`],
        ['PATCH', `/alerts/${id}`],
        ['DELETE', `/alerts/${id}`],
        ['POST', `/alerts/${id}/test`],
        ['GET', `/alerts/${id}/events`],
      ] as const)
        expect((await ask(credential, method, path)).status, `${method} ${path}`).toBe(404);
    await call(ALERT_ROUTES.deleteAlert, `/alerts/${id}`);
  });

  it('can be used from the command line to create, test, switch and delete', async () => {
    const alerts = (...argv: string[]) =>
      runHere(['alerts', ...argv, '--url', service.api], { SVC_API_KEY: KEY, DATA_DIR: dir });
    const file = join(dir, 'alert.json');
    const destinations = [{ kind: 'webhook', url: hook.url, secret: SECRET }];
    writeFileSync(file, JSON.stringify({ name: 'by file', measure: 'runs', threshold: 2, destinations }));
    const { stdout } = await alerts('create', file);
    const id = stdout.trim();
    expect(id).toMatch(/^alr_/);
    expect((await alerts('list')).stdout).toMatch(
      /by file +not checked yet +- +runs above 2 \(last 3600 s\)/,
    );
    hook.received.length = 0;
    expect(await alerts('test', 'by file')).toMatchObject({
      code: 0,
      stdout: `127.0.0.1:${hook.port}: delivered\n`,
    });
    expect(hook.received).toHaveLength(1);
    hook.status = 500;
    expect(await alerts('test', id)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('answered 500'),
    });
    hook.status = 200;
    expect((await alerts('off', id)).stdout).toBe('by file is off\n');
    expect(JSON.parse((await alerts('show', id, '--json')).stdout)).toMatchObject({
      is_on: false,
      events: [{ type: 'test' }, { type: 'test' }],
    });
    writeFileSync(file, JSON.stringify({ name: 'x', measure: 'rums', threshold: 2, destinations }));
    expect(await alerts('create', file)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('measure: '),
    });
    expect((await alerts('show', 'unknown')).stderr).toContain('there is no alert "unknown"');
    // Without a key, the command signs in as the owner.
    const own = await runHere(['alerts', 'delete', id, '--url', service.api], {
      DATA_DIR: dir,
      AUTH_DB_URL: 'embedded:',
    });
    expect(own).toMatchObject({ code: 0, stdout: 'by file is deleted\n' });
    told.push((await alerts('list')).stdout, stdout);
    expect(told.at(-2)).toMatch(/^No alerts yet|^NAME/);
    const nowhere = await runHere(['alerts', 'list', '--url', 'http://127.0.0.1:1'], { SVC_API_KEY: KEY });
    expect(nowhere).toMatchObject({ code: 1, stderr: expect.stringContaining('does not answer') });
  });

  it('sends a test to each destination at once, and reports the results', async () => {
    const { id } = await make({
      destinations: [
        { kind: 'webhook', url: hook.url, secret: SECRET },
        { kind: 'slack', url: 'http://localhost.invalid/token' },
        { kind: 'email', to: ['ops@example.com'] },
      ],
    });
    hook.received.length = 0;
    const event = await call(ALERT_ROUTES.testAlert, `/alerts/${id}/test`);
    expect(event).toMatchObject({ type: 'test', value: null });
    const [signed, slack, mailed] = event.deliveries;
    expect([signed, slack, mailed].map(({ state }) => state)).toEqual(['delivered', 'given_up', 'delivered']);
    expect(slack.problem).toMatch(/^it could not be reached/);
    const [{ headers, body }] = hook.received as [(typeof hook.received)[0]];
    const signature = createHmac('sha256', SECRET).update(`${headers['x-understudy-timestamp']}.${body}`);
    expect(headers['x-understudy-signature']).toBe(`sha256=${signature.digest('hex')}`);
    expect(headers['x-understudy-delivery']).toBe(signed.delivery_id);
    expect(mail.mails.at(-1)!.text).toContain('Test of the alert: runs fail');
    const page = await call(ALERT_ROUTES.listAlertEvents, `/alerts/${id}/events`);
    expect(page).toEqual({ events: [event], next_cursor: null });
    await call(ALERT_ROUTES.testAlert, `/alerts/${id}/test`);
    const first = await call(ALERT_ROUTES.listAlertEvents, `/alerts/${id}/events?limit=1`);
    const rest = await call(
      ALERT_ROUTES.listAlertEvents,
      `/alerts/${id}/events?limit=1&cursor=${first.next_cursor}`,
    );
    expect(rest).toEqual(page);
    expect((await ask(KEY, 'GET', `/alerts/${id}/events?cursor=x`)).status).toBe(422);
    await call(ALERT_ROUTES.deleteAlert, `/alerts/${id}`);
  });

  it('fires for runs of its queries, repeats the message under the same id after a kill, and recovers once', {
    tags: 'long',
  }, async () => {
    await service.capture('run-one', { messages: [{ role: 'user', content: 'a' }] });
    await service.capture('run-two', { messages: [{ role: 'user', content: 'b' }] });
    expect((await fetch(`${service.gateway}/__gw/flush`, { method: 'POST' })).status).toBe(200);
    const watched = { query: 'is:captured', measure: 'share', threshold: 0.4, of_query: 'model:m' };
    const { id } = await make({ ...watched, query: 'run:run-two' });
    const { id: quietId } = await make({ ...watched, query: 'run:run-none', name: 'never' });
    await service.stop();
    hook.received.length = 0;
    // The hook accepts the message, and the service is killed before the hook answers.
    hook.status = null;
    await service.start();
    await expect.poll(() => hook.received.length).toBe(1);
    await service.kill();
    hook.status = 200;
    await service.start();
    const eventsOf = async (of: string) =>
      (await call(ALERT_ROUTES.listAlertEvents, `/alerts/${of}/events`)).events;
    await expect.poll(async () => (await eventsOf(id))[0]?.deliveries[0]?.state).toBe('delivered');
    const messages = hook.received.map(({ body }) => JSON.parse(body));
    expect(messages).toHaveLength(2);
    expect(messages[1]).toEqual(messages[0]);
    expect(messages[0]).toMatchObject({ alert_id: id, type: 'fired', value: 0.5 });
    const { state } = await call(ALERT_ROUTES.readAlert, `/alerts/${id}`);
    expect(state).toMatchObject({ is_firing: true, value: 0.5, problem: '' });
    expect(await eventsOf(id)).toHaveLength(1);
    expect(await eventsOf(quietId)).toEqual([]);
    const metrics = await fetch(`${service.api}/metrics`, { headers: { authorization: `Bearer ${KEY}` } });
    const text = await metrics.text();
    expect(text).toContain('understudy_alerts_firing 1\n');
    expect(text).toContain('understudy_alerts_outbox_waiting 0\n');
  });

  it('never shows an address beyond its host, or a secret', () => {
    expect(told.length).toBeGreaterThan(30);
    for (const text of told)
      for (const word of [SECRET, 'token-of-the-hook', 'password']) expect(text).not.toContain(word);
    expect(service.stderr).not.toContain('token-of-the-hook');
    for (const name of readdirSync(dir).filter((file) => file.endsWith('.log')))
      expect(readFileSync(join(dir, name), 'utf8')).not.toContain(SECRET);
  });
});
