/**
 * Ends the process with one line when its Node is too old for the sources, or when `npm ci` left packages out. Programs
 * that npm's scripts, the tutorial and the command line run import this file before anything else. Plain JavaScript
 * that any Node since 14 reads. Main thread.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { relative } from 'node:path';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `understudy needs Node 22.18 or newer, and this is ${process.version}. To run understudy with a newer Node:  npx -y -p node@22 ${sayCommand()}\n`,
  );
  process.exit(1);
}

// npm writes node_modules/.package-lock.json when it has installed everything. npm 10 may lose its connection before
// that, and report success.
const root = new URL('../../', import.meta.url);
if (
  existsSync(new URL('package-lock.json', root)) &&
  !existsSync(new URL('node_modules/.package-lock.json', root)) &&
  !hasDependencies()
) {
  process.stderr.write(
    'understudy needs packages that are not installed. To install the packages:  npx -y -p node@22 npm ci\n',
  );
  process.exit(1);
}

/** Whether all dependencies are installed. Other package managers do not write node_modules/.package-lock.json. */
function hasDependencies() {
  const { dependencies } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
  return Object.keys(dependencies).every((name) =>
    existsSync(new URL(`node_modules/${name}/package.json`, root)),
  );
}

/** The command that was given, without words that a shell would read otherwise. */
function sayCommand() {
  const script = (process.env.npm_lifecycle_event || '').replace(/^pre(?=start$|demo$)/, '');
  if (script === 'prepare') return 'npm ci';
  if (script === 'prepack') return 'npm pack --workspaces';
  if (script === 'start' || script === 'test') return `npm ${script}`;
  if (script !== '' && script !== 'npx') return `npm run ${script}`;
  const [, file = '', ...words] = process.argv;
  const isPlain = words.every((word) => /^[\w@%+=:,./-]+$/.test(word));
  return ['node', relative(process.cwd(), realpathSync(file)), ...(isPlain ? words : ['...'])].join(' ');
}
