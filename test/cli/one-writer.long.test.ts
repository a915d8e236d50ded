/**
 * Two gateways with one capture database, and two services with one DATA_DIR: the second one is refused, or waits until
 * the first one has drained, and nothing is lost. Meanwhile the operator's commands on the database work.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { makeFolder } from '../storage/folder.ts';
import { CliChild, runCli } from './child.ts';

const GATEWAY = /^ {2}Gateway +(http:\/\/\S+) {2}->/m;

/** An upstream that completes its answers when `finish` is called. */
async function openUpstream() {
  const open: ServerResponse[] = [];
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-length': 2 });
    response.write('o');
    open.push(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const finish = () => {
    for (const response of open.splice(0)) response.end('k');
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, finish };
}

/** @param entry a file that is started instead of the command's own entry */
function startGateway(folder: string, upstream: string, entry?: string): CliChild {
  const child = new CliChild(['gateway'], {
    env: { GW_PORT: '0', DATA_DIR: folder, GW_UPSTREAM_BASE: upstream },
    ...(entry === undefined ? {} : { entry }),
  });
  onTestFinished(() => child[Symbol.asyncDispose]());
  return child;
}

/**
 * An entry of the command that loads everything and then waits until it is released. Without it, a busy machine may
 * take longer to load a process than the half minute that a drain waits.
 */
function holdEntry(): { path: string; reached(): Promise<() => Promise<void>> } {
  const folder = makeFolder();
  const [path, gate] = [join(folder, 'entry.mjs'), join(folder, 'gate')];
  execFileSync('mkfifo', [gate]);
  const source = (name: string) => JSON.stringify(new URL(`../../src/${name}`, import.meta.url).href);
  writeFileSync(
    path,
    `import { readFileSync } from 'node:fs';
    await import(${source('main.ts')});
    readFileSync(${JSON.stringify(gate)});
    await import(${source('cli/understudy.mjs')});\n`,
  );
  return {
    path,
    reached: async () => {
      const opened = await open(gate, 'w');
      return () => opened.close();
    },
  };
}

const findUrl = async (child: CliChild) => (await child.waitForOutput(GATEWAY))[1]!;

describe('a capture database to which another process writes', () => {
  it('is used by the second gateway after the first has drained, and contains the exchanges of both', async () => {
    const folder = makeFolder();
    const { url, finish } = await openUpstream();
    const first = startGateway(folder, url);
    const slow = await fetch(`${await findUrl(first)}/v1/messages`, { method: 'POST', body: '{"first":1}' });
    const held = holdEntry();
    const second = startGateway(folder, url, held.path);
    const letGo = await held.reached();
    first.process.kill('SIGTERM');
    await vi.waitFor(() => expect(first.stderr).toContain('finishing requests in flight'), 60_000);
    await letGo();
    await vi.waitFor(() => expect(second.stderr).toContain('waiting for a process that is ending'), 60_000);
    expect(second.stdout).toBe('');
    finish();
    expect(await slow.text()).toBe('ok');
    expect((await first.ended).code).toBe(0);

    const next = await fetch(`${await findUrl(second)}/v1/messages`, {
      method: 'POST',
      body: '{"second":1}',
    });
    finish();
    expect(await next.text()).toBe('ok');
    second.process.kill('SIGTERM');
    expect((await second.ended).code).toBe(0);
    const db = join(folder, 'capture.mdb');
    for (const [id, body] of [
      ['1', '{"first":1}'],
      ['2', '{"second":1}'],
    ] as const) {
      const { stdout } = await runCli(['inspect', '--db', db, '--exchange', id, '--raw', 'request']);
      expect(stdout).toBe(body);
    }
  });
});

describe('a DATA_DIR from which another process serves', () => {
  const API = /^ {2}API +(http:\/\/\S+)/m;
  const KEY = 'static-key-of-this-test';

  function start(command: 'up' | 'serve', folder: string, entry?: string) {
    const child = new CliChild([command], {
      env: { PORT: '0', GW_PORT: '0', DATA_DIR: folder, SVC_KEYS: KEY, AUTH_DB_URL: 'embedded:' },
      ...(entry === undefined ? {} : { entry }),
    });
    onTestFinished(() => child[Symbol.asyncDispose]());
    return child;
  }

  it('is refused to a second service while the first one runs, but not to the operator’s commands', async () => {
    const folder = makeFolder();
    const first = start('serve', folder);
    await first.waitForOutput(API);
    for (const command of ['serve', 'up'] as const) {
      const { code, stdout, stderr } = await start(command, folder).ended;
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toBe(
        `understudy: process ${first.process.pid} uses DATA_DIR ${folder}, and only one process can: ` +
          'stop that process, or set another DATA_DIR\n',
      );
    }
    for (const argv of [
      ['keys', 'create', '--org', 'acme', '--name', 'ci'],
      ['keys', 'list', '--org', 'acme'],
      ['token', '--email', 'ann@example.com'],
      ['feedback'],
      ['patterns', 'export', '--tier', 'e2', '--org', 'acme', join(folder, 'lessons.jsonl')],
      ['patterns', 'import', '--tier', 'e2', '--org', 'acme', join(folder, 'lessons.jsonl')],
      ['backup', '--out', join(folder, 'backup')],
    ]) {
      const { code, stderr } = await runCli(argv, { DATA_DIR: folder, AUTH_DB_URL: 'embedded:' });
      expect({ argv, code, stderr }).toEqual({ argv, code: 0, stderr: '' });
    }
    // The service does not capture, so a separate gateway may write to the capture database.
    await findUrl(startGateway(folder, 'http://127.0.0.1:9'));
    await first.kill();
    await start('serve', folder).waitForOutput(API);
    // A dozen processes run one after the other, hence this timeout.
  }, 600_000);

  it('is used by the second service after the first has drained', async () => {
    const folder = makeFolder();
    const first = start('serve', folder);
    const [, url] = await first.waitForOutput(API);
    const held = holdEntry();
    const second = start('serve', folder, held.path);
    const letGo = await held.reached();
    // An incomplete request delays the drain.
    const slow = connect(Number(new URL(url!).port), '127.0.0.1');
    onTestFinished(() => void slow.destroy());
    slow.on('error', () => {});
    const body = JSON.stringify({ org_id: 'acme', run_id: 'run-1' });
    slow.write(
      `POST /v1/monitor/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    // The same thread answers after it has read the head above.
    expect((await fetch(`${url}/health`)).status).toBe(200);
    first.process.kill('SIGTERM');
    await vi.waitFor(() => expect(first.stderr).toContain('finishing requests in flight'), 60_000);
    await letGo();
    await vi.waitFor(() => expect(second.stderr).toContain('waiting for a process that is ending'), 60_000);
    expect(second.stdout).toBe('');
    const answered = once(slow, 'data');
    slow.write(body.slice(5));
    expect(String((await answered)[0])).toContain('200 OK');
    expect((await first.ended).code).toBe(0);

    const [, next] = await second.waitForOutput(API);
    const finish = await fetch(`${next}/v1/monitor/runs/run-1/finish`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ org_id: 'acme', outcome: 'success' }),
    });
    expect(finish.status).toBe(200);
  });
});
