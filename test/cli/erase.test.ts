/** `understudy erase` as a person uses it: what it says, with which status, and what it refuses. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from '../storage/captured.ts';
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

describe('understudy erase', () => {
  it('says what is wrong with its flags', async () => {
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

  it('erases what it is told to, and says how much', async () => {
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
});
