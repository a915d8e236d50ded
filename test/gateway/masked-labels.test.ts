/**
 * Labels that contain keys, through a gateway in a separate process: `inspect` shows one run for each label, and each
 * run can be marked by its shown id.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { makeFolder } from '../storage/folder.ts';

const KEYS = ['sk-ant-api03-Qm7Zt2Lx9Vb4Nc8Kd3Rf', 'sk-ant-api03-Hy5Wp1Gs6Ju0Ea7Xo2Ti'] as const;

it('runs whose labels differ in a key are shown and marked separately, also after a restart', async () => {
  const provider = await startFakeProvider({ script: () => ({ text: 'It is here.' }) });
  onTestFinished(() => provider.close());
  const folder = makeFolder();
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const db = join(folder, 'elsewhere', 'capture.mdb');
  const env = { GW_UPSTREAM_BASE: provider.url, DATA_DIR: join(folder, 'data') };
  // Starts one gateway after the other; each gets a turn of both runs.
  for (const seq of ['1', '2']) {
    await using child = new CliChild(['gateway', '--port', '0', '--db', db], { env });
    const [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
    for (const key of KEYS) {
      const answer = await fetch(`${url}/v1/messages`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-key': 'provider-key',
          'x-svc-run': `job-${key}`,
          'x-svc-seq': seq,
        },
        body: JSON.stringify({
          model: 'claude-demo-large',
          max_tokens: 10,
          messages: [{ role: 'user', content: `Where is it? ${seq}` }],
        }),
      });
      expect(answer.status).toBe(200);
      await answer.arrayBuffer();
    }
    await flush(url);
  }

  const command = async (...words: string[]) => (await runHere(words, env)).stdout;
  const inspected = await command('inspect', '--db', db, '--json');
  const runs = JSON.parse(inspected).runs as { run_id: string; turns: number }[];
  expect(runs).toEqual([
    expect.objectContaining({ run_id: expect.stringMatching(/^job-\[redacted-[\da-f]{16}\]$/), turns: 2 }),
    expect.objectContaining({ run_id: expect.stringMatching(/^job-\[redacted-[\da-f]{16}\]$/), turns: 2 }),
  ]);
  const [first, second] = runs.map(({ run_id }) => run_id);
  expect(first).not.toBe(second);
  for (const key of KEYS) expect(inspected).not.toContain(key.slice(-8));

  await command('runs', 'mark', first!, 'bad', '--db', db);
  await command('runs', 'mark', second!, 'good', '--db', db);
  const marked = JSON.parse(await command('inspect', '--db', db, '--json')).runs as {
    run_id: string;
    mark: string;
  }[];
  expect(marked.map(({ run_id, mark }) => [run_id, mark])).toEqual([
    [first, 'bad'],
    [second, 'good'],
  ]);
});
