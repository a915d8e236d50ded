/**
 * Alerts over real sockets and a real database, with a clock that the test moves: the outbox, webhooks, mail, and the
 * addresses to which no message may go.
 */
import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AlertSender } from '../../src/alerts/alert-outbox.ts';
import { AlertTargets } from '../../src/alerts/alert-targets.ts';
import { AlertWatch } from '../../src/alerts/alert-watch.ts';
import { ALERT_BOUNDS, type AlertDestination, type AlertRow, type Measured } from '../../src/domain/alert.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { closeStores, databasePaths, openStores } from '../../src/storage/lmdb/stores.ts';
import type { TableStores } from '../../src/storage/stores.ts';
import { SmtpReceiver } from '../fixtures/smtp-receiver.ts';
import { WebhookReceiver } from '../fixtures/webhook-receiver.ts';

const SECRET = 'a signing secret of the test';
const change = { actor: { type: 'operator', id: 'op', address: '' }, now_ms: 0, log: '' } as const;

let dir: string;
let stores: TableStores;
let hook: WebhookReceiver;
let mail: SmtpReceiver;
let clock: ReturnType<typeof createManualClock>;
let found: Measured;
let watch: AlertWatch;

const webhook = (over: Partial<AlertDestination> = {}): AlertDestination => ({
  id: 'd1',
  kind: 'webhook',
  url: hook.url,
  secret: SECRET,
  to: [],
  ...over,
});

function alertWith(destinations: AlertDestination[], over: Partial<AlertRow> = {}): AlertRow {
  return {
    id: 'alr_1',
    org_id: '',
    name: 'too <many> failures & more',
    is_on: true,
    measure: 'runs',
    query: 'status:failed',
    of_query: '',
    provider: '',
    fires: 'above',
    threshold: 2,
    window_s: 3_600,
    quiet: null,
    interval_s: 0,
    destinations,
    created_at: '2026-01-01T00:00:00.000Z',
    updated_at: '2026-01-01T00:00:00.000Z',
    ...over,
  };
}

function watchWith(sender: AlertSender, org_id = ''): AlertWatch {
  return new AlertWatch({
    accounts: stores.accounts,
    org_id,
    measures: { begin: async () => {}, measure: async () => found },
    sender,
    report: (thrown) => {
      throw thrown;
    },
    clock,
  });
}

const settings = () => ({
  private_targets: ['127.0.0.0/8'],
  mail: { url: mail.url, from: 'alerts@example.com' },
});

const put = (alert: AlertRow) => stores.accounts.transact((tx) => tx.alerts.put(alert, change));
const eventsOf = (alert: AlertRow) => stores.accounts.alerts.listEvents(alert, { limit: 200, before: null });

async function lookAt(value: number | null): Promise<void> {
  found = { value, problem: '' };
  await watch.look();
  await watch.deliverDue();
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-alerts-'));
  stores = openStores(databasePaths(dir, null));
  hook = await WebhookReceiver.open();
  mail = await SmtpReceiver.open();
});
afterAll(async () => {
  hook.close();
  mail.close();
  await closeStores(stores);
  rmSync(dir, { recursive: true, force: true });
});
beforeEach(async () => {
  await stores.accounts.transact((tx) => {
    for (const { org_id, id } of tx.alerts.list('')) tx.alerts.remove({ org_id, id }, change);
  });
  Object.assign(hook, { status: 200, location: '' });
  hook.received.length = 0;
  mail.mails.length = 0;
  mail.recipient_reply = '250 ok';
  clock = createManualClock(Date.parse('2026-01-01T12:00:00Z'));
  watch = watchWith(new AlertSender(settings()));
});

describe('a webhook', () => {
  it('gets signed JSON once when the alert fires and once when it recovers', async () => {
    const alert = alertWith([webhook()]);
    await put(alert);
    for (const value of [2, 3, 4, 1, 0]) await lookAt(value);
    const told = hook.received.map(({ body }) => JSON.parse(body));
    expect(told.map(({ type, value }) => [type, value])).toEqual([
      ['fired', 3],
      ['recovered', 1],
    ]);
    expect(told[0]).toMatchObject({ alert_id: 'alr_1', name: alert.name, measure: 'runs', threshold: 2 });
    for (const { headers, body } of hook.received) {
      const timestamp = headers['x-understudy-timestamp'];
      expect(timestamp).toBe(String(Date.parse('2026-01-01T12:00:00Z') / 1_000));
      const signature = createHmac('sha256', SECRET).update(`${timestamp}.${body}`).digest('hex');
      expect(headers['x-understudy-signature']).toBe(`sha256=${signature}`);
      expect(headers['x-understudy-delivery']).toBe(JSON.parse(body).delivery_id);
    }
    expect(eventsOf(alert).map(({ type, deliveries }) => [type, deliveries[0]?.state])).toEqual([
      ['recovered', 'delivered'],
      ['fired', 'delivered'],
    ]);
    expect(stores.accounts.alerts.listOutbox()).toEqual([]);
  });

  it('of Slack gets a text in which names are not markup', async () => {
    await put(alertWith([webhook({ kind: 'slack', secret: '' })]));
    await lookAt(3);
    expect(hook.received.map(({ body }) => JSON.parse(body))).toEqual([
      {
        text: 'Alert: too &lt;many&gt; failures &amp; more: runs 3 (fires above 2; status:failed, last 1 h)',
      },
    ]);
    expect(hook.received[0]!.headers['x-understudy-signature']).toBeUndefined();
  });

  it('that fails gets the same message again after growing pauses, until it accepts the message', async () => {
    const alert = alertWith([webhook()]);
    await put(alert);
    hook.status = 500;
    await lookAt(3);
    await watch.deliverDue();
    expect(hook.received).toHaveLength(1);
    clock.advance(10_000);
    await watch.deliverDue();
    expect(hook.received).toHaveLength(2);
    expect(eventsOf(alert)[0]!.deliveries).toMatchObject([
      { state: 'waiting', attempts: 2, problem: 'it answered 500' },
    ]);
    hook.status = 204;
    clock.advance(29_999);
    await watch.deliverDue();
    expect(hook.received).toHaveLength(2);
    clock.advance(1);
    await watch.deliverDue();
    const ids = new Set(hook.received.map(({ headers }) => headers['x-understudy-delivery']));
    expect([hook.received.length, ids.size]).toEqual([3, 1]);
    expect(eventsOf(alert)[0]!.deliveries).toMatchObject([{ state: 'delivered', attempts: 3, problem: '' }]);
  });

  it('is given up after a day, and redirects are not followed', async () => {
    const alert = alertWith([webhook()]);
    await put(alert);
    Object.assign(hook, { status: 307, location: `http://127.0.0.1:${hook.port}/elsewhere` });
    await lookAt(3);
    expect(hook.received.map(({ path }) => path)).toEqual(['/hook/token-of-the-hook']);
    clock.advance(24 * 3_600_000);
    await watch.deliverDue();
    expect(eventsOf(alert)[0]!.deliveries).toMatchObject([
      { state: 'given_up', attempts: 2, problem: 'it answered 307; redirects are not followed' },
    ]);
    expect(stores.accounts.alerts.listOutbox()).toEqual([]);
  });

  it('whose alert is deleted gets no further messages', async () => {
    const alert = alertWith([webhook()]);
    await put(alert);
    hook.status = 500;
    await lookAt(3);
    await stores.accounts.transact((tx) => tx.alerts.remove(alert, change));
    expect(stores.accounts.alerts.listOutbox()).toEqual([]);
    expect(eventsOf(alert)).toEqual([]);
  });

  it('with a corrected address gets the waiting messages', async () => {
    await put(alertWith([webhook({ url: 'http://127.0.0.1:1/' })]));
    await lookAt(3);
    await put(alertWith([webhook()]));
    clock.advance(10_000);
    await watch.deliverDue();
    expect(hook.received).toHaveLength(1);
  });
});

describe('the alerts of an organization', () => {
  it('are evaluated for it alone, and are deleted with it', async () => {
    const [first, second] = ['org_1', 'org_2'].map((org_id) => alertWith([webhook()], { org_id }));
    await put(first!);
    await put(second!);
    found = { value: 3, problem: '' };
    hook.status = 500;
    for (const { org_id } of [first!, second!]) {
      await watchWith(new AlertSender(settings()), org_id).look();
      expect(stores.accounts.alerts.listOutbox().at(-1)).toMatchObject({ org_id });
    }
    expect([eventsOf(first!).length, eventsOf(second!).length]).toEqual([1, 1]);
    await stores.accounts.removeAllOfOrganization('org_1');
    expect(stores.accounts.alerts.list('org_1')).toEqual([]);
    expect(eventsOf(first!)).toEqual([]);
    expect(stores.accounts.alerts.findState(first!)).toBeNull();
    expect(stores.accounts.alerts.listOutbox()).toMatchObject([{ org_id: 'org_2' }]);
    expect(stores.accounts.alerts.list('org_2')).toEqual([second]);
    expect(eventsOf(second!)).toHaveLength(1);
    await stores.accounts.removeAllOfOrganization('org_2');
    expect(stores.accounts.alerts.listOutbox()).toEqual([]);
  });
});

describe('mail', () => {
  const toMail: AlertDestination = {
    id: 'd2',
    kind: 'email',
    url: '',
    secret: '',
    to: ['a@example.com', 'b@example.com'],
  };

  it('goes to all receivers in one message with the id of the delivery', async () => {
    const alert = alertWith([toMail]);
    await put(alert);
    await lookAt(3);
    expect(mail.mails).toHaveLength(1);
    const [{ from, to, text }] = mail.mails as [(typeof mail.mails)[0]];
    expect({ from, to }).toEqual({ from: 'alerts@example.com', to: ['a@example.com', 'b@example.com'] });
    const [{ deliveries }] = eventsOf(alert) as [ReturnType<typeof eventsOf>[0]];
    expect(deliveries[0]!.state).toBe('delivered');
    expect(text).toContain(`X-Understudy-Delivery: ${deliveries[0]!.delivery_id}`);
    expect(text).toContain('Alert: too <many> failures & more: runs 3');
  });

  it('that the server refuses waits, with the reason', async () => {
    mail.recipient_reply = '550 no such mailbox';
    const alert = alertWith([toMail]);
    await put(alert);
    await lookAt(3);
    expect(eventsOf(alert)[0]!.deliveries).toMatchObject([
      { state: 'waiting', problem: 'the mail server answered 550' },
    ]);
  });

  it('without a server has an error that says so', async () => {
    watch = watchWith(new AlertSender({ private_targets: [], mail: null }));
    const alert = alertWith([toMail]);
    await put(alert);
    await lookAt(3);
    expect(eventsOf(alert)[0]!.deliveries).toMatchObject([{ problem: 'ALERT_SMTP_URL is not set' }]);
  });
});

describe('addresses', () => {
  const sendTo = async (url: string, targets: AlertTargets): Promise<string> => {
    const sender = new AlertSender(settings(), targets);
    const alert = alertWith([webhook({ url })]);
    await stores.accounts.transact((tx) => tx.alerts.remove(alert, change));
    await put(alert);
    watch = watchWith(sender);
    await lookAt(3);
    return eventsOf(alert)[0]!.deliveries[0]!.problem;
  };
  const named =
    (address: string) =>
    (
      _name: string,
      _options: object,
      callback: (error: null, found: { address: string; family: number }[]) => void,
    ) =>
      callback(null, [{ address, family: address.includes(':') ? 6 : 4 }]);

  it.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.100.100.200',
    '[::1]',
    '[fd00:ec2::254]',
    '[fe80::1]',
    '[::ffff:127.0.0.1]',
    '2130706433',
    '0x7f.1',
  ])('%s is refused', async (host) => {
    const problem = await sendTo(`http://${host}:${hook.port}/`, new AlertTargets([]));
    expect(problem).toContain('ALERT_PRIVATE_TARGETS');
    expect(hook.received).toEqual([]);
  });

  it('that serve credentials of a cloud are refused even if every network is allowed', async () => {
    const targets = new AlertTargets(['0.0.0.0/0', '::/0']);
    for (const host of ['169.254.169.254', '[fd00:ec2::254]'])
      expect(await sendTo(`http://${host}/`, targets)).toContain('ALERT_PRIVATE_TARGETS');
  });

  it('of a host name are checked when it is resolved for the connection', async () => {
    const url = `http://rebound.example.com:${hook.port}/`;
    // The rule's check resolved the name to a public address; now the name resolves to this machine.
    expect(await sendTo(url, new AlertTargets([], named('127.0.0.1')))).toContain('ALERT_PRIVATE_TARGETS');
    expect(hook.received).toEqual([]);
    expect(await sendTo(url, new AlertTargets(['127.0.0.1/32'], named('127.0.0.1')))).toBe('');
    expect(hook.received).toHaveLength(1);
  });
});

describe('the outbox', () => {
  it('holds a limited number of messages: a new one replaces the oldest', async () => {
    const alert = alertWith(['a', 'b', 'c', 'd'].map((id) => webhook({ id })));
    await put(alert);
    for (let n = 0; n <= ALERT_BOUNDS.outbox / 4; n++) {
      found = { value: n % 2 === 0 ? 3 : 0, problem: '' };
      clock.advance(1);
      await watch.look();
    }
    expect(stores.accounts.alerts.listOutbox()).toHaveLength(ALERT_BOUNDS.outbox);
    expect(eventsOf(alert)).toHaveLength(ALERT_BOUNDS.events);
    expect(watch.listMetrics()).toEqual([]);
  });

  it('survives a restart of the database', async () => {
    const alert = alertWith([webhook()]);
    await put(alert);
    found = { value: 3, problem: '' };
    await watch.look();
    await closeStores(stores);
    stores = openStores(databasePaths(dir, null));
    watch = watchWith(new AlertSender(settings()));
    await watch.deliverDue();
    expect(hook.received).toHaveLength(1);
    expect(stores.accounts.alerts.findState(alert)).toMatchObject({ is_firing: true, is_told: true });
  });
});

describe('the alert loops', () => {
  it('evaluate at once, deliver waiting messages, and stop pending ones at the end', async () => {
    hook.status = null;
    await put(alertWith([webhook()]));
    found = { value: 3, problem: '' };
    watch.start();
    await expect.poll(() => hook.received.length).toBe(1);
    const metrics = JSON.stringify(watch.listMetrics());
    expect(metrics).toContain('"name":"understudy_alerts_firing"');
    await watch.end();
    expect(stores.accounts.alerts.listOutbox()).toHaveLength(1);
  });
});
