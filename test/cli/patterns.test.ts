/** `understudy patterns`: imported patterns can be exported, and invalid files and flags are refused. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

const LESSON = {
  situation: 'The integration test times out now and then while the postgres container is still starting',
  dead_ends: 'raised the timeout',
  unlock: 'asked the health check',
  model: 'claude-sonnet-4-5',
  failure_type: 'semantic_loop',
};

async function run(dir: string, ...argv: string[]) {
  return await new CliChild(['patterns', ...argv], { env: { DATA_DIR: dir }, cwd: dir }).ended;
}

const here = (dir: string, ...argv: string[]) => runHere(['patterns', ...argv], { DATA_DIR: dir });

describe('understudy patterns', () => {
  it('imports patterns into a running service, and exports them', { tags: 'long' }, async () => {
    await using api = new ApiChild({ VECTOR_STORE_URL: 'embedded:' });
    await api.start();
    const file = join(api.dir, 'in.jsonl');
    writeFileSync(file, `${JSON.stringify(LESSON)}\n\n${JSON.stringify(LESSON)}\n`);
    const imported = await run(api.dir, 'import', '--tier', 'e2', '--org', 'acme', file);
    expect(imported).toMatchObject({ code: 0, stdout: 'Queued for the pattern store: 2 patterns.\n' });
    const ask = () =>
      api.post('/v1/traces/retrieve', { org_id: 'acme', tier: 'e2', context: LESSON.situation });
    await expect.poll(async () => (await ask()).body.traces.length).toBe(1);
    const other = await api.post('/v1/traces/retrieve', { tier: 'e2', context: LESSON.situation });
    expect(other.body.traces).toEqual([]);
    const out = join(api.dir, 'out.jsonl');
    expect((await here(api.dir, 'export', '--tier', 'e2', '--org', 'acme', out)).stdout).toContain(
      ': 1 pattern.\n',
    );
    const [line, ...rest] = readFileSync(out, 'utf8').trim().split('\n');
    expect(rest).toEqual([]);
    expect(JSON.parse(line!)).toMatchObject({ ...LESSON, tier: 'e2', support: 2 });
    const printed = await here(api.dir, 'export', '--tier', 'e2', '--org', 'acme', '-');
    expect(printed.stdout).toBe(`${line}\n`);
    expect(await here(api.dir, 'import', '--tier', 'e1', out)).toMatchObject({ code: 0 });
  });

  it('imports all of a file or nothing', async () => {
    const dir = makeFolder();
    const file = join(dir, 'in.jsonl');
    for (const [bad, words] of [
      ['{', 'not JSON'],
      ['[]', 'line 2'],
      [JSON.stringify({ ...LESSON, unlock: undefined }), 'unlock'],
      [JSON.stringify({ ...LESSON, situation: 's'.repeat(4_001) }), 'situation'],
    ] as const) {
      writeFileSync(file, `${JSON.stringify(LESSON)}\n${bad}\n`);
      const ended = await (bad === '{' ? run : here)(dir, 'import', '--tier', 'e3', file);
      expect(ended.code).toBe(1);
      expect(ended.stderr).toContain('line 2');
      expect(ended.stderr).toContain(words);
      expect(ended.stdout).toBe('');
    }
  });

  it('does not read a folder or overwrite one', async () => {
    const dir = makeFolder();
    expect((await here(dir, 'import', '--tier', 'e3', '/dev/null')).code).toBe(0);
    for (const action of ['import', 'export']) {
      const ended = await here(dir, action, '--tier', 'e3', dir);
      expect(ended).toMatchObject({
        code: 1,
        stdout: '',
        stderr: `understudy: ${dir} is a folder: name a file\n`,
      });
    }
  });

  it.each([
    [[], 'import or export'],
    [['import', 'x'], '--tier'],
    [['import', '--tier', 'e4', 'x'], '--tier'],
    [['import', '--tier', 'e1'], 'one file'],
    [['export', '--tier', 'e3', '--org', 'acme', 'x'], '--org'],
    [['export', '--tier', 'e2', '--project', 'web', 'x'], '--project'],
  ])('says what is wrong with %j', async (argv, words) => {
    const ended = await here(makeFolder(), ...argv);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(words);
  });
});
