#!/usr/bin/env node
/**
 * The command's entry, plain JavaScript so that any Node can read it. In a checkout it runs the sources as they are;
 * in the published package, which holds no sources because Node strips no types under node_modules, it runs `dist/`.
 */
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

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

const source = new URL('./understudy.ts', import.meta.url);
const entry = existsSync(source) ? source : new URL('../../dist/src/cli/understudy.js', import.meta.url);
await import(entry.href);
