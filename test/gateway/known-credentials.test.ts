/**
 * Which credentials the student serves: those that the operator named, and those that the upstream accepted recently.
 * Over real sockets. Also the content of the memory of credentials.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { KnownCredentials, STUDENT_CREDENTIALS } from '../../src/gateway/relegation/known-credentials.ts';
import type { RelegationCounters } from '../../src/gateway/relegation/relegation-ledger.ts';
import { openRawClient, type RawAnswer } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import {
  type RelegatedGateway,
  serverOf,
  startRelegatedGateway,
  stepBody,
} from '../fixtures/relegated-gateway.ts';

/** A different key in each test, because a gateway remembers keys until it ends. */
let GOOD = '';
let test = 0;
const OWN = 'sk-ant-of-the-operator';

/** A provider that requires a known key on /v1/messages, and no key on other paths. */
let upstream: Server;
let asked: IncomingMessage[] = [];
let goodKeys = new Set<string>();
/** Status of the provider's answer to an unknown key. */
let refusal = 401;
/** Status of the provider's answer to a known key. */
let acceptance = 200;

let folder: string;
let gateway: RelegatedGateway;
/** The gateway's counts at the beginning of a test. */
let before: RelegationCounters;

beforeAll(async () => {
  upstream = createServer((request, response) => {
    request.resume().on('end', () => {
      asked.push(request);
      const key = request.headers['x-api-key'] ?? request.headers.authorization?.replace(/^Bearer /, '');
      const isOpen = request.url !== '/v1/messages';
      const status = isOpen ? 200 : goodKeys.has(String(key)) ? acceptance : refusal;
      response.writeHead(status, { 'content-type': 'application/json' }).end('{"type":"message"}');
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  folder = mkdtempSync(join(tmpdir(), 'understudy-known-'));
  gateway = await startRelegatedGateway({
    sticky: true,
    upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    folder,
    client_keys: [OWN],
  });
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true });
  upstream.close();
  upstream.closeAllConnections();
});

beforeEach(() => {
  asked = [];
  GOOD = `sk-ant-good-${test++}`;
  goodKeys = new Set([GOOD]);
  refusal = 401;
  acceptance = 200;
  before = gateway.counts();
});

type Header = [name: string, value: string];
const key = (value: string): Header => ['x-api-key', value];
const bearer = (value: string): Header => ['Authorization', `Bearer ${value}`];

/** Sends a step that the student covers, on a new connection. */
async function step(
  credentials: Header[],
  more: Header[] = [],
  line = 'POST /v1/messages',
): Promise<RawAnswer> {
  const headers: Header[] = [
    ['Host', 'gw'],
    ['Content-Type', 'application/json'],
    ['anthropic-version', '2023-06-01'],
    ...credentials,
    ...more,
  ];
  const body = Buffer.from(JSON.stringify(stepBody('serve this')));
  const client = await openRawClient(gateway.port);
  await client.write(messageBytes(`${line} HTTP/1.1`, headers, body));
  const answer = await client.readAnswer();
  client.socket.destroy();
  return answer;
}

const served = async (...credentials: Header[]) => serverOf(await step(credentials));
const countUnknown = ({ fallbacks }: RelegationCounters) => fallbacks.unknown_credential ?? 0;
const unknown = () => countUnknown(gateway.counts()) - countUnknown(before);

describe('a step', () => {
  it('with an unknown credential goes to the upstream each time', async () => {
    for (let at = 1; at <= 3; at++) {
      const answer = await step([key('sk-ant-made-up')]);
      expect([answer.status, serverOf(answer)]).toEqual([401, 'upstream']);
      expect(asked.length).toBe(at);
      expect(unknown()).toBe(at);
    }
    const { served, fallback, errors } = gateway.counts();
    expect([served - before.served, fallback - before.fallback, errors]).toEqual([0, 3, 0]);
  });

  it.each([
    ['x-api-key', key],
    ['authorization', bearer],
  ])('is served once the upstream has accepted its %s', async (_name, headerOf) => {
    const credential = headerOf(GOOD);
    expect(await served(credential)).toBe('upstream');
    expect(await served(credential)).toBe('student');
    expect(await served(credential)).toBe('student');
    expect(asked.length).toBe(1);
    expect(asked[0]!.headers['x-svc-served-by']).toBeUndefined();
    // Only that credential was accepted.
    for (const other of [
      key('sk-ant-made-up'),
      bearer('sk-ant-made-up'),
      key(`${GOOD} `),
      key(GOOD.toUpperCase()),
    ])
      if (other[1].trim() !== GOOD) expect(await served(other), other[1]).toBe('upstream');
    expect(await served(key('sk-ant-made-up'), bearer(GOOD))).toBe('upstream');
  });

  it('with a credential of SVC_STUDENT_KEYS is served at once, in either header', async () => {
    expect(await served(key(OWN))).toBe('student');
    expect(await served(bearer(OWN))).toBe('student');
    expect(asked).toEqual([]);
    for (const near of [OWN.slice(0, -1), `${OWN}x`, `Bearer ${OWN}x`, '', OWN.toUpperCase()])
      expect(await served(key(near)), near).toBe('upstream');
  });

  it.each([401, 403])(
    'goes to the upstream again after the upstream has answered its credential with %i',
    async (status) => {
      await served(key(GOOD));
      expect(await served(key(GOOD))).toBe('student');
      goodKeys.clear();
      refusal = status;
      // A step that the student does not cover.
      const declined = Buffer.from(JSON.stringify(stepBody('decline this')));
      const client = await openRawClient(gateway.port);
      await client.write(
        messageBytes(
          'POST /v1/messages HTTP/1.1',
          [
            ['Host', 'gw'],
            ['Content-Type', 'application/json'],
            ['anthropic-version', '2023-06-01'],
            key(GOOD),
          ],
          declined,
        ),
      );
      expect((await client.readAnswer()).status).toBe(status);
      client.socket.destroy();
      expect(await served(key(GOOD))).toBe('upstream');
      expect((await step([key(GOOD)])).status).toBe(status);
    },
  );

  it.each([300, 400, 404, 429, 500, 529])(
    'does not make its credential known if the upstream answers with %i',
    async (status) => {
      acceptance = status;
      expect((await step([key(GOOD)])).status).toBe(status);
      expect(await served(key(GOOD))).toBe('upstream');
      expect(unknown()).toBe(2);
    },
  );

  it('is not served if its credential was only sent with requests that need none', async () => {
    for (const line of ['GET /', 'POST /', 'POST /v1/messages/count_tokens', 'POST /v1/complete']) {
      expect((await step([key('sk-ant-made-up')], [], line)).status, line).toBe(200);
      expect(await served(key('sk-ant-made-up')), line).toBe('upstream');
    }
  });

  it('is served only if its combination of credentials is known', async () => {
    const proxy = (value: string): Header => ['x-proxy-auth-token', value];
    expect(await served(key(GOOD), proxy('a'))).toBe('upstream');
    expect(await served(key(GOOD), proxy('a'))).toBe('student');
    expect(await served(key(GOOD), proxy('b'))).toBe('upstream');
    expect(await served(key(GOOD))).toBe('upstream');
  });

  it('moves a sticky run to the upstream only if the upstream accepts its credential', async () => {
    const run: Header[] = [['x-svc-run', 'r1']];
    expect((await step([key('sk-ant-made-up')], run)).status).toBe(401);
    expect(serverOf(await step([key(OWN)], run))).toBe('student');
    expect((await step([key(GOOD)], [['x-svc-run', 'r2']])).status).toBe(200);
    expect(serverOf(await step([key(OWN)], [['x-svc-run', 'r2']]))).toBe('upstream');
  });
});

describe('the memory of credentials', () => {
  const headers = (value: string) => ['host', 'gw', 'x-api-key', value];
  const clock = { now_ms: 1_000, wallMs: () => 0, monotonicMs: () => clock.now_ms };

  it('lasts an hour from the upstream’s last acceptance', () => {
    const known = new KnownCredentials([], clock);
    const digest = known.digest(headers(GOOD));
    const isKnown = () => known.isKnown(headers(GOOD), digest);
    expect(isKnown()).toBe(false);
    known.noteAnswer(digest, 200);
    clock.now_ms += STUDENT_CREDENTIALS.fresh_ms - 1;
    expect(isKnown()).toBe(true);
    known.noteAnswer(digest, 201);
    clock.now_ms += STUDENT_CREDENTIALS.fresh_ms - 1;
    expect(isKnown()).toBe(true);
    clock.now_ms += 1;
    expect(isKnown()).toBe(false);
  });

  it('is bounded, and holds no credential', () => {
    const known = new KnownCredentials([OWN], clock);
    for (let at = 0; at < 3 * STUDENT_CREDENTIALS.entries; at++)
      known.noteAnswer(known.digest(headers(`${GOOD}-${at}`)), 200);
    const count = Array.from({ length: 3 * STUDENT_CREDENTIALS.entries }, (_, at) => `${GOOD}-${at}`).filter(
      (key) => known.isKnown(headers(key), known.digest(headers(key))),
    ).length;
    expect(count).toBeGreaterThanOrEqual(STUDENT_CREDENTIALS.entries / 2);
    expect(count).toBeLessThanOrEqual(STUDENT_CREDENTIALS.entries);
    const shown = inspect(known, { depth: 9, showHidden: true, maxArrayLength: null });
    expect(shown).not.toContain(GOOD);
    expect(shown).not.toContain(OWN);
  });

  it('hashes the same credential differently in each instance', () => {
    const [first, second] = [new KnownCredentials([], clock), new KnownCredentials([], clock)];
    expect(first.digest(headers(GOOD))).toBe(first.digest(headers(GOOD)));
    expect(first.digest(headers(GOOD))).not.toBe(second.digest(headers(GOOD)));
  });

  it('includes the boundary between values in the hash', () => {
    const known = new KnownCredentials([], clock);
    const digests = [
      ['x-api-key', 'ab', 'authorization', 'c'],
      ['x-api-key', 'a', 'authorization', 'bc'],
      ['x-api-key', 'abc'],
      ['x-api-key', 'a', 'x-api-key', 'bc'],
      ['authorization', 'abc'],
    ].map((list) => known.digest(list));
    expect(new Set(digests).size).toBe(digests.length);
  });
});
