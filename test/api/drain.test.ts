/** SIGTERM to a process that serves the API: requests in flight are answered, later ones are not accepted. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { CliChild } from '../cli/child.ts';

const KEY = 'a-static-key';

it('a stop answers the request whose body is still arriving, and exits with 0', {
  tags: 'long',
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-drain-'));
  try {
    await using child = new CliChild(['serve', '--port', '0'], { env: { DATA_DIR: folder, SVC_KEYS: KEY } });
    const url = new URL((await child.waitForOutput(/http:\/\/[\d.]+:\d+/))[0]);
    const body = JSON.stringify({ run_id: 'drained' });
    const socket = connect(Number(url.port), url.hostname);
    await once(socket, 'connect');
    const head = [
      'POST /v1/monitor/runs HTTP/1.1',
      `host: ${url.host}`,
      `authorization: Bearer ${KEY}`,
      'content-type: application/json',
      `content-length: ${body.length}`,
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 5)}`);
    // The answer on another connection shows that the server has read the bytes that were sent before.
    expect((await fetch(`${url.origin}/health`, { headers: { connection: 'close' } })).status).toBe(200);

    child.process.kill('SIGTERM');
    await once(child.process.stderr!, 'data');
    expect(child.isRunning).toBe(true);
    socket.write(body.slice(5));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*"status":"running"/);
    const { code, stderr } = await child.ended;
    expect(code, stderr).toBe(0);
    await expect(fetch(`${url.origin}/health`)).rejects.toThrow();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
