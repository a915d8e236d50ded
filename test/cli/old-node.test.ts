/** Each command of the guides on a Node that is too old: one line that says what to do, and no stack trace. */

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { longFrom } from '../long-parts.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
interface Manifest {
  scripts: Record<string, string>;
  workspaces: string[];
}
const readManifest = (folder: string) =>
  JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest;
const { scripts, workspaces } = readManifest('.');
/**
 * A module that fakes the version of Node. The process still runs on this Node, which could read files with types, so
 * the test only shows that the entries refuse first.
 */
const OLD = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.20.2'}})`;

function runOnOldNode(words: string[], script = '', folder = '.') {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', OLD, ...words], {
    cwd: join(root, folder),
    env: { PATH: process.env.PATH, ...(script === '' ? {} : { npm_lifecycle_event: script }) },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

it.each([
  ['prestart', 'npm start'],
  ['start', 'npm start'],
  ['demo', 'npm run demo'],
  ['test', 'npm test'],
  ['prepare', 'npm ci'],
])('an old Node is refused in the npm script %s', (name, again) => {
  const [first = ''] = scripts[name]!.split(' && ');
  expect(runOnOldNode(first.split(' ').slice(1), name)).toEqual({
    status: 1,
    stdout: '',
    stderr: `understudy needs Node 22.18 or newer, and this is ${process.version}. To run understudy with a newer Node:  npx -y -p node@22 ${again}\n`,
  });
});

for (const [at, folder] of workspaces.entries())
  it(`an old Node is refused in the npm script prepack of ${folder}`, longFrom(at, 1), () => {
    const words = readManifest(folder).scripts.prepack!.split(' ').slice(1);
    expect(runOnOldNode(words, 'prepack', folder)).toEqual({
      status: 1,
      stdout: '',
      stderr: `understudy needs Node 22.18 or newer, and this is ${process.version}. To run understudy with a newer Node:  npx -y -p node@22 npm pack --workspaces\n`,
    });
  });

it('no npm script starts a TypeScript file with Node directly', () => {
  for (const folder of ['.', ...workspaces])
    for (const [name, line] of Object.entries(readManifest(folder).scripts))
      expect(line.split('&&')[0], name).not.toMatch(/node (-\S+ )*\S+\.ts\b|^vitest/);
});

it.each([
  ['src/cli/understudy.mjs', 'keys', 'create', '--org', 'acme'],
  ['examples/tutorial/provider.mjs'],
  ['examples/tutorial/agent.mjs', '1', '80'],
])('an old Node is refused in %s', (...words) => {
  expect(runOnOldNode(words)).toEqual({
    status: 1,
    stdout: '',
    stderr: `understudy needs Node 22.18 or newer, and this is ${process.version}. To run understudy with a newer Node:  npx -y -p node@22 node ${words.join(' ')}\n`,
  });
});

it('the suggested command omits words that a shell would interpret', () => {
  const { stderr } = runOnOldNode(['src/cli/understudy.mjs', 'keys', 'create', '--org', 'a; b']);
  expect(stderr).toMatch(/ node src\/cli\/understudy\.mjs \.\.\.\n$/);
});

it('hooks exit with 0 on an old Node, so that the agent continues', () => {
  expect(runOnOldNode(['src/cli/understudy.mjs', 'hook', 'claude-code'])).toMatchObject({ status: 0 });
});

it('the error says how to install packages that `npm ci` left out', () => {
  const dir = mkdtempSync(join(tmpdir(), 'understudy-left-out-'));
  try {
    const place = (path: string, text: string) => {
      mkdirSync(dirname(join(dir, path)), { recursive: true });
      writeFileSync(join(dir, path), text);
    };
    const entry = 'src/cli/needs-node.mjs';
    place(entry, readFileSync(join(root, entry), 'utf8'));
    place('package.json', JSON.stringify({ dependencies: { zod: '4.6.7' } }));
    const run = () => spawnSync(process.execPath, [entry], { cwd: dir, encoding: 'utf8' });
    // Without a lock file, as in the published package, nothing is checked.
    expect(run()).toMatchObject({ status: 0, stderr: '' });
    place('package-lock.json', '{}');
    expect(run()).toMatchObject({
      status: 1,
      stdout: '',
      stderr:
        'understudy needs packages that are not installed. To install the packages:  npx -y -p node@22 npm ci\n',
    });
    place('node_modules/zod/package.json', '{}');
    expect(run()).toMatchObject({ status: 0, stderr: '' });
    rmSync(join(dir, 'node_modules/zod'), { recursive: true });
    place('node_modules/.package-lock.json', '{}');
    expect(run()).toMatchObject({ status: 0, stderr: '' });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
