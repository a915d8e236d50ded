/** `understudy erase` as a person uses it: its output, its exit status, and its refusals. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { findAnywhere, makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

const KEY = 'a-key-that-leaked-4711';
let dir = '';
const erase = (...argv: string[]) => runHere(['erase', ...argv], { DATA_DIR: dir });

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-erase-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function fill(): Promise<void> {
  const log = await CaptureLog.open({ path: join(dir, 'capture.mdb'), redact: false });
  const said = (run_id: string, words: string) =>
    makeExchange({ run_id, kind: 'other', shape: null, request_body: Buffer.from(words) });
  await log.append([said('one', 'first'), said('two', `with ${KEY} in it`), said('two', 'third')]);
  await log.close();
}

/** Answers each request with its body. */
async function startUpstream(): Promise<string> {
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    request.pipe(response);
  });
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('understudy erase', () => {
  it('refuses wrong flags and missing files', async () => {
    expect((await erase('--help')).stdout).toContain('understudy erase --run invoice-4711');
    for (const argv of [
      [],
      ['--run', 'a', '--before', '2026-01-01'],
      ['--before', 'yesterday'],
      ['--run', ''],
    ])
      expect((await erase(...argv)).code, argv.join(' ')).toBe(2);
    expect((await erase('--credential', join(dir, 'missing'))).stderr).toContain('ENOENT');
    expect((await erase('--run', 'a')).stderr).toContain('no such capture database');
  });

  it('erases the named data, and says how much', async () => {
    await fill();
    expect(await erase('--run', 'one', '--dry-run')).toMatchObject({
      code: 0,
      stdout: '1 exchange would be erased.\n',
    });
    expect((await erase('--run', 'one')).stdout).toBe(
      'Erased 1 exchange and 0 attachments; 1 file changed.\n',
    );
    const file = join(dir, 'key');
    writeFileSync(file, `${KEY}\n`);
    const done = await erase('--credential', file);
    expect(done.stdout).toBe('Erased 1 exchange and 0 attachments; 1 file changed.\n');
    expect(done.stdout + done.stderr).not.toContain(KEY);
    expect((await erase('--before', '2000-01-01')).stdout).toBe('There is nothing to erase.\n');
  });

  it('erases while a gateway captures; the gateway continues to forward', { tags: 'long' }, async () => {
    const folder = makeFolder();
    const gateway = new CliChild(['gateway'], {
      env: { GW_PORT: '0', DATA_DIR: folder, GW_UPSTREAM_BASE: await startUpstream() },
    });
    onTestFinished(() => gateway[Symbol.asyncDispose]());
    const [, url] = await gateway.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
    const send = async (run: string, words: string) => {
      const headers = { 'content-type': 'application/json', 'x-svc-run': run };
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: words }] });
      const response = await fetch(`${url}/v1/messages`, { method: 'POST', headers, body });
      expect(await response.text()).toBe(body);
    };
    for (const run of ['gone', 'stays', 'gone']) await send(run, `words of ${run}`);
    await fetch(`${url}/__gw/flush`, { method: 'POST' });
    const [erased] = await Promise.all([
      runHere(['erase', '--run', 'gone'], { DATA_DIR: folder }),
      send('stays', 'meanwhile'),
    ]);
    expect(erased.stdout, erased.stderr).toBe('Erased 2 exchanges and 0 attachments; 1 file changed.\n');
    await send('stays', 'afterwards');
    gateway.process.kill('SIGTERM');
    expect((await gateway.ended).code).toBe(0);
    const stored = await readCaptured(join(folder, 'capture.mdb'));
    expect(stored.map(({ record }) => record.run_id)).toEqual([null, 'stays', null, 'stays', 'stays']);
    expect(stored[0]!.request).toHaveLength(0);
    expect(stored[1]!.request.toString()).toContain('words of stays');
    expect(findAnywhere(folder, 'words of gone')).toEqual([]);
  });
});
