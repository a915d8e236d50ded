/** Findings of a real process with the shipped model: they are found by meaning, even after a kill. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CliChild } from '../cli/child.ts';

const KEY = 'a-static-key-for-tests';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-findings-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function start() {
  const child = new CliChild(['serve'], { env: { PORT: '0', DATA_DIR: dir, SVC_KEYS: KEY } });
  const [, url] = await child.waitForOutput(/^ {2}API +(http:\/\/\S+)$/m);
  const send = async (method: string, path: string, body?: object) => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return JSON.parse(text) as Record<string, unknown> & { findings: { content: string; score: number }[] };
  };
  return { child, send };
}

const NOTES = [
  'The session cache is never invalidated when a user logs out, so old tokens keep working.',
  'Database migrations run in alphabetical order of their file names.',
  'The image resizer leaks a file handle for every upload that fails.',
  'Feature flags are read once at startup and need a restart to change.',
];

describe('the findings of a process', () => {
  it('are found by meaning, also after kill -9', async () => {
    const first = await start();
    const stored: unknown[] = [];
    for (const [at, content] of NOTES.entries()) {
      stored.push(await first.send('POST', '/v1/findings/shop', { content, file_path: `src/part-${at}.ts` }));
    }
    const query = { query: 'which uploads leak a file handle?' };
    const before = await first.send('POST', '/v1/findings/shop/recall', query);
    expect(before.findings[0]!.content).toBe(NOTES[2]);
    expect(before.findings.map(({ score }) => score).every((score) => score >= 0.25 && score <= 1)).toBe(
      true,
    );
    await first.child.kill();

    const second = await start();
    await using _ = second.child;
    expect(await second.send('POST', '/findings/shop/recall', query)).toEqual(before);
    expect((await second.send('GET', '/v1/findings/shop')).findings.map(({ content }) => content)).toEqual(
      [...NOTES].reverse(),
    );
    expect(
      await second.send('POST', '/v1/findings/shop', { content: NOTES[0]!, file_path: 'src/part-0.ts' }),
    ).toEqual(stored[0]);
    const coverage = { file_paths: ['part-0.ts', 'src/part-9.ts'] };
    expect(await second.send('POST', '/v1/findings/shop/coverage', coverage)).toEqual({ coverage: 0.5 });
    expect(await second.send('DELETE', '/v1/findings/shop?org_id=other')).toEqual({ cleared: true });
    expect((await second.send('GET', '/v1/findings/shop')).total).toBe(4);
    expect(await second.send('DELETE', '/v1/findings/shop')).toEqual({ cleared: true });
    expect((await second.send('GET', '/v1/findings/shop')).total).toBe(0);
    second.child.process.kill('SIGTERM');
    expect(await second.child.ended).toMatchObject({ code: 0 });
  });
});
