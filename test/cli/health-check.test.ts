/** deploy/healthcheck.mjs: it finds the listeners where variables, files and flags put them, with TLS and without. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';
import { CliChild } from './child.ts';

const CHECK = fileURLToPath(new URL('../../deploy/healthcheck.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'health-'));
const cert = join(folder, 'cert.pem');
const key = join(folder, 'key.pem');
writeFileSync(cert, TEST_CERTIFICATE);
writeFileSync(key, TEST_KEY, { mode: 0o600 });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** `CLOSED`: a port without a listener. `NO_SERVICE`: the id of a process that is not the service. */
const CLOSED = '1';
const NO_SERVICE = String(process.pid);

function check(env: Record<string, string>, pid = NO_SERVICE): Promise<{ code: number; said: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [CHECK, pid], { env: { PATH: process.env.PATH!, ...env } }, (error, stdout) =>
      resolve({ code: error === null ? 0 : Number(error.code), said: stdout }),
    );
  });
}

const HEALTHY = { code: 0, said: 'capture: ok\n' };
const NOT_CAPTURING = { code: 0, said: 'capture: none\n' };
const ILL = { code: 1, said: 'capture: none\n' };

describe('a health check beside listeners that answer', () => {
  const answer = (path: string) => JSON.stringify(path === '/__gw/stats' ? { status: 'ok' } : {});
  const plain = createServer((request, response) => response.end(answer(request.url!)));
  const secure = createSecureServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }, (request, response) =>
    response.end(answer(request.url!)),
  );
  let plainPort = '';
  let securePort = '';

  beforeAll(async () => {
    for (const server of [plain, secure]) await once(server.listen(0, '127.0.0.1'), 'listening');
    plainPort = String((plain.address() as AddressInfo).port);
    securePort = String((secure.address() as AddressInfo).port);
  });
  afterAll(() => {
    plain.close();
    secure.close();
  });

  /** A process that has the command line of a service but does nothing. */
  async function actAsService(...words: string[]): Promise<string> {
    const script = join(folder, 'understudy.mjs');
    writeFileSync(script, `process.stdout.write('up'); setInterval(() => {}, 1e6);`);
    const child = spawn(process.execPath, [...words.slice(0, 1), script, ...words.slice(1)]);
    const ended = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    await once(child.stdout, 'data');
    return String(child.pid);
  }

  it('uses TLS where the variables name a certificate', async () => {
    const ports = { PORT: securePort, GW_PORT: securePort };
    expect(await check({ ...ports, TLS_CERT: cert, GW_TLS_CERT: cert })).toEqual(HEALTHY);
    expect(await check(ports)).toEqual(ILL);
    expect(await check({ PORT: plainPort, GW_PORT: securePort, GW_TLS_CERT: cert })).toEqual(HEALTHY);
  });

  it('accepts one healthy part if it does not know which parts were started', async () => {
    expect(await check({ PORT: plainPort, GW_PORT: CLOSED })).toEqual(NOT_CAPTURING);
    expect(await check({ PORT: CLOSED, GW_PORT: plainPort })).toEqual(HEALTHY);
    expect(await check({ PORT: CLOSED, GW_PORT: CLOSED })).toEqual(ILL);
  });

  it('reads host and port from the flags of the service', async () => {
    const up = await actAsService('--no-warnings', 'up', '--host', '0.0.0.0', '--port', plainPort);
    expect(await check({ PORT: plainPort, GW_PORT: CLOSED }, up)).toEqual(HEALTHY);
    const serve = await actAsService('--no-warnings', 'serve', `--port=${plainPort}`);
    expect(await check({ PORT: CLOSED, GW_PORT: CLOSED }, serve)).toEqual(NOT_CAPTURING);
  });

  it('checks each part that the command starts', async () => {
    const up = await actAsService('--no-warnings', 'up');
    expect(await check({ PORT: CLOSED, GW_PORT: plainPort }, up)).toEqual({ code: 1, said: 'capture: ok\n' });
    expect(await check({ PORT: plainPort, GW_PORT: CLOSED }, up)).toEqual(ILL);
  });

  it("reads the files of Node's --env-file, which variables override", async () => {
    const file = join(folder, 'own.env');
    writeFileSync(file, `GW_PORT=${securePort}\nGW_TLS_CERT=${cert}\nPORT=${CLOSED}\n`);
    const service = await actAsService(`--env-file=${file}`, 'up');
    expect(await check({ PORT: plainPort }, service)).toEqual(HEALTHY);
  });
});

it('the health check succeeds when both ports speak TLS, and fails after the service has ended', {
  tags: 'long',
}, async () => {
  const tls = { TLS_CERT: cert, TLS_KEY: key, GW_TLS_CERT: cert, GW_TLS_KEY: key };
  await using child = new CliChild(['up', '--port', '0'], {
    env: { DATA_DIR: join(folder, 'data'), PORT: '0', ...tls },
  });
  await child.waitForOutput(/See what/);
  const [, gateway = ''] = /^ {2}Gateway +(https:\/\/\S+) {2}->/m.exec(child.stdout)!;
  const [, api = ''] = /^ {2}API +(https:\/\/\S+)/m.exec(child.stdout)!;
  const env = { ...tls, PORT: new URL(api).port, GW_PORT: new URL(gateway).port };
  expect(await check(env)).toEqual(HEALTHY);
  child.process.kill('SIGTERM');
  await child.ended;
  expect(await check(env)).toEqual(ILL);
});
