#!/usr/bin/env node
/**
 * The command's entry, plain JavaScript so that any Node can read it. In a checkout it runs the sources as they are;
 * in the published package, which holds no sources because Node strips no types under node_modules, it runs `dist/`.
 */
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Of a module that is named as its source is, from here. */
function findEntry(source, compiled) {
  const own = new URL(source, import.meta.url);
  return (existsSync(own) ? own : new URL(compiled, import.meta.url)).href;
}

// An agent waits for its hooks: they load nothing of the rest, and never fail.
if (process.argv[2] === 'hook' && /^[a-z]/.test(process.argv[3] ?? '')) {
  try {
    await import(findEntry('../hooks/entry.ts', '../../dist/src/hooks/entry.js'));
  } catch {}
  process.exit(0);
}

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  const self = relative(process.cwd(), fileURLToPath(import.meta.url));
  const words = process.argv.slice(2).every((word) => /^[\w@%+=:,./-]+$/.test(word))
    ? process.argv.slice(2)
    : ['...'];
  process.stderr.write(
    `understudy needs Node 22.18 or newer and this is ${process.version}. npm can bring one for a single command:\n` +
      `  npx -y -p node@22 -c "${['node', self, ...words].join(' ')}"\n`,
  );
  process.exit(1);
}

await import(findEntry('./understudy.ts', '../../dist/src/cli/understudy.js'));
