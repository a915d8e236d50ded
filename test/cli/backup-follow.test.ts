/** `understudy backup --follow` as a process during writes, and `restore --to`. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { makeFolder } from '../storage/folder.ts';
import { putRows, readRows } from '../storage/points.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

interface PointLine {
  point: string;
  from: string;
}

it('backup --follow makes points until a signal ends it, and a restore returns to the named time', async () => {
  const folder = makeFolder();
  const [DATA_DIR, place] = [join(folder, 'data'), join(folder, 'place')];
  const main = new LmdbTables(join(DATA_DIR, 'main.mdb'), 'disk');
  await putRows(main, 't', [[1, 'first']]);
  await using child = new CliChild(['backup', '--follow', '--every', '1s', '--json', '--out', place], {
    env: { DATA_DIR },
  });
  const nextPoint = async (n: number): Promise<PointLine> => {
    await child.waitForOutput(new RegExp(`^(?:.*\\n){${n}}`));
    return JSON.parse(child.stdout.split('\n')[n - 1]!);
  };
  const first = await nextPoint(1);
  await putRows(main, 't', [[1, 'second']]);
  const second = await nextPoint(2);
  expect(Date.parse(second.from)).toBeGreaterThan(Date.parse(first.from));
  child.process.kill('SIGTERM');
  expect(await child.ended).toMatchObject({ code: 0, signal: null, stderr: '' });
  await main.close();

  const restore = async (name: string, ...to: string[]): Promise<string> => {
    const again = join(folder, name);
    const { code, stdout, stderr } = await runHere(['restore', '--from', place, ...to], { DATA_DIR: again });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(
      /^Restored and checked .+\nThe restored data has everything acknowledged before .+Z\.\n$/,
    );
    return (await readRows(again, 't'))[0]!;
  };
  expect(await restore('newest')).toBe('second');
  expect(await restore('earlier', '--to', second.from)).toBe('first');
  const listed = await runHere(['restore', '--from', place, '--list'], { DATA_DIR: join(folder, 'none') });
  expect(listed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^(?:20\S+Z\n){2}$/) });
  const address = pathToFileURL(place).href;
  const byAddress = { DATA_DIR: join(folder, 'by-address') };
  expect(await runHere(['restore', '--from', address, '--list'], byAddress)).toEqual(listed);
  expect(await runHere(['restore', '--from', address], byAddress)).toMatchObject({ code: 0, stderr: '' });
  expect(await readRows(byAddress.DATA_DIR, 't')).toEqual(['second']);
  const early = await runHere(['restore', '--from', place, '--to', '2020-01-01'], {
    DATA_DIR: join(folder, 'early'),
  });
  expect(early).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/no point at or before that time; the oldest is of 20.+Z\n$/),
  });
});

it('backup and restore take the file address of a folder', async () => {
  const folder = makeFolder();
  const DATA_DIR = join(folder, 'data');
  const main = new LmdbTables(join(DATA_DIR, 'main.mdb'), 'disk');
  await putRows(main, 't', [[1, 'kept']]);
  await main.close();
  const address = `${pathToFileURL(folder).href}/a%20copy`;
  expect(await runHere(['backup', '--out', address], { DATA_DIR })).toMatchObject({ code: 0, stderr: '' });
  expect(existsSync(join(folder, 'a copy', 'manifest.json'))).toBe(true);
  const again = { DATA_DIR: join(folder, 'again') };
  expect(await runHere(['restore', '--from', address], again)).toMatchObject({ code: 0, stderr: '' });
  expect(await readRows(again.DATA_DIR, 't')).toEqual(['kept']);
  for (const place of ['file://host/folder', 'file:folder', 'file:///a%2Fb', 'file:///folder?x'])
    expect(await runHere(['restore', '--from', place], again), place).toEqual({
      code: 1,
      stdout: '',
      stderr: 'understudy: the address of a folder is written like file:///mnt/other-disk/understudy\n',
    });
});

describe('backup --follow is refused in one line', () => {
  it.each([
    [['backup', '--out', 'x', '--every', '5s'], 2, '--every and --keep require --follow'],
    [['backup', '--follow', '--out', 'x', '--every', '5'], 2, '--every takes a time from 1s to 1d'],
    [['backup', '--follow', '--out', 'x', '--keep', '2y'], 2, '--keep takes a time from 1s to 3650d'],
    [['backup', '--follow'], 2, 'name the folder with --out'],
    [['restore', '--from', 'x', '--to', 'noon'], 2, '--to noon: must be a time like 2026-01-31'],
  ])('%j', async (argv, code, words) => {
    const refused = await runHere(argv, { DATA_DIR: makeFolder() });
    expect(refused).toMatchObject({ code, stdout: '' });
    expect(refused.stderr).toContain(words);
  });

  it('without a DATA_DIR, with an empty one, and with --to for a backup of one moment', async () => {
    const folder = makeFolder();
    const follow = (DATA_DIR: string) =>
      runHere(['backup', '--follow', '--out', join(folder, 'place')], { DATA_DIR });
    expect(await follow(join(folder, 'none'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('there is no'),
    });
    expect(await follow(makeFolder())).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('holds nothing to copy'),
    });
    writeFileSync(join(folder, 'manifest.json'), '{}');
    const env = { DATA_DIR: join(folder, 'again') };
    expect(await runHere(['restore', '--from', folder, '--to', '2026-01-01'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('leave out --to'),
    });
    expect(await runHere(['restore', '--from', folder, '--list'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('has no points in time'),
    });
  });
});
