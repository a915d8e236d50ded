/** A command whose output cannot be written fails with one line that says so. */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { PATTERNS } from '../../src/domain/pattern-rows.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { databasePaths, openMain } from '../../src/storage/lmdb/stores.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild, runCli } from './child.ts';

const ENTRY = fileURLToPath(new URL('../../src/cli/understudy.mjs', import.meta.url));

it('a command says that its output cannot be written, and fails', () => {
  const full = openSync('/dev/full', 'w');
  try {
    const { status, stderr } = spawnSync(process.execPath, [ENTRY, '--help'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    expect(stderr).toMatch(/^understudy: the output cannot be written: ENOSPC[^\n]*\n$/);
    expect(status).toBe(1);
  } finally {
    closeSync(full);
  }
});

/** A DATA_DIR with a key and a captured run. */
async function makeData(): Promise<string> {
  const DATA_DIR = makeFolder();
  const log = await CaptureLog.open({ path: join(DATA_DIR, 'capture.mdb'), redact: false });
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] });
  await log.append([makeExchange({ run_id: 'r', seq: 1, request_body: Buffer.from(body) })]);
  await log.indexSome(decodeExchange, 1_000);
  await log.close();
  await runCli(['keys', 'create', '--org', 'acme', '--name', 'ci'], { DATA_DIR });
  return DATA_DIR;
}

describe('an error names the path that is full', () => {
  it('for files of lines', { tags: 'long' }, async () => {
    const DATA_DIR = await makeData();
    const traces = join(DATA_DIR, 'traces.jsonl');
    symlinkSync('/dev/full', `${traces}.partial`);
    const traced = await runCli(['trace', '--out', traces], { DATA_DIR });
    expect(traced).toMatchObject({
      code: 1,
      stderr: `understudy: no space is left for ${traces}: name another path\n`,
    });
    const patterns = join(DATA_DIR, 'patterns.jsonl');
    symlinkSync('/dev/full', patterns);
    const main = openMain(databasePaths(DATA_DIR));
    await main.transact((transaction) =>
      transaction.write({ op: 'put', table: PATTERNS, row: ['e3', '', '', 'pat_1'], value: { unlock: 'x' } }),
    );
    await main.close();
    const exported = await runCli(['patterns', 'export', '--tier', 'e3', patterns], { DATA_DIR });
    expect(exported).toMatchObject({
      code: 1,
      stderr: `understudy: no space is left for ${patterns}: name another path\n`,
    });
  });

  const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
  it.skipIf(!hasPrlimit)('for databases and secrets', { tags: 'long' }, async () => {
    const DATA_DIR = await makeData();
    const lastLine = async (argv: string[], data: string, bytesMax: string): Promise<string | undefined> => {
      const env = { DATA_DIR: data };
      const { code, stdout, stderr } = await new CliChild(argv, { env, file_bytes_max: bytesMax }).ended;
      expect({ code, stdout }, stderr).toEqual({ code: 1, stdout: '' });
      // LMDB itself prints lines before the last one.
      return stderr.trimEnd().split('\n').at(-1);
    };
    const other = `correct the path, or set another DATA_DIR (now ${DATA_DIR})`;
    const out = join(DATA_DIR, 'backup');
    expect(await lastLine(['backup', '--out', out], DATA_DIR, '4096')).toBe(
      `understudy: ${out} may become no larger: name another path`,
    );
    expect(readdirSync(DATA_DIR).filter((name) => name.startsWith('backup'))).toEqual([]);
    const keys = ['keys', 'create', '--org', 'acme', '--name', 'more'];
    expect(await lastLine(keys, DATA_DIR, '16384')).toBe(
      `understudy: ${join(DATA_DIR, 'main.mdb')} may become no larger: ${other}`,
    );
    expect(await lastLine(['token', '--email', 'ann@example.com'], DATA_DIR, '0')).toBe(
      `understudy: ${join(DATA_DIR, 'secrets', 'jwt-secret')} may become no larger: ${other}`,
    );
    expect(readdirSync(join(DATA_DIR, 'secrets'))).toEqual([]);
    await runCli(['backup', '--out', out], { DATA_DIR });
    const empty = makeFolder();
    expect(await lastLine(['restore', '--from', out], empty, '4096')).toBe(
      `understudy: ${join(empty, 'main.mdb')} may become no larger: correct the path, or set another DATA_DIR (now ${empty})`,
    );
  });
});
