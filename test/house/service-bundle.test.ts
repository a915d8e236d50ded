/** The service's bundle has every entry that code looks for, and is used only if no source has changed. */
import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { makeFolder } from '../storage/folder.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const BUNDLE = 'src/threads/dist';

it('the bundle has an entry for each module that is loaded by address', () => {
  const asked = globSync('{src,actors}/**/*.ts', { cwd: ROOT }).flatMap((name) =>
    [...readFileSync(join(ROOT, name), 'utf8').matchAll(/resolveModuleUrl\('([^']+)\.ts'/g)].map(
      ([, entry]) => `${basename(entry!)}.mjs`,
    ),
  );
  expect(asked.length).toBeGreaterThan(5);
  const built = globSync('*.mjs', { cwd: join(ROOT, BUNDLE) });
  expect(asked.filter((name) => !built.includes(name))).toEqual([]);
});

it('the bundle runs if it is up to date, and otherwise the sources', () => {
  const folder = makeFolder();
  const write = (name: string, text: string) => {
    const path = join(folder, name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, text);
    return statSync(path);
  };
  const command = 'src/cli/understudy.mjs';
  for (const name of [command, 'src/cli/needs-node.mjs']) write(name, readFileSync(join(ROOT, name), 'utf8'));
  const run = () => execFileSync(process.execPath, [join(folder, command), 'up'], { encoding: 'utf8' });
  const source = 'src/cli/understudy.ts';
  const { size, mtimeMs } = write(source, `console.log('sources');`);
  expect(run()).toBe('sources\n');
  write(`${BUNDLE}/understudy.mjs`, `console.log('bundle');`);
  expect(run()).toBe('sources\n');
  write(`${BUNDLE}/files.json`, JSON.stringify({ sources: { [source]: [size, mtimeMs] } }));
  expect(run()).toBe('bundle\n');
  write(source, `console.log('changed sources');`);
  expect(run()).toBe('changed sources\n');
});
