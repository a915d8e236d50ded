/**
 * Ends the process with one line when its Node is too old for the sources. To be imported before anything else by what npm's
 * scripts, the tutorial and the command line run. Plain JavaScript that any Node since 14 reads. Main thread.
 */
import { realpathSync } from 'node:fs';
import { relative } from 'node:path';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `understudy needs Node 22.18 or newer, and this is ${process.version}. This brings one for one command:  npx -y -p node@22 ${sayCommand()}\n`,
  );
  process.exit(1);
}

/** The command that was given, without words that a shell would read otherwise. */
function sayCommand() {
  const script = (process.env.npm_lifecycle_event || '').replace(/^pre(?=start$|demo$)/, '');
  if (script === 'prepare') return 'npm ci';
  if (script === 'start' || script === 'test') return `npm ${script}`;
  if (script !== '' && script !== 'npx') return `npm run ${script}`;
  const [, file = '', ...words] = process.argv;
  const isPlain = words.every((word) => /^[\w@%+=:,./-]+$/.test(word));
  return ['node', relative(process.cwd(), realpathSync(file)), ...(isPlain ? words : ['...'])].join(' ');
}
