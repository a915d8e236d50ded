#!/usr/bin/env node
/**
 * The command's entry, plain JavaScript so that any Node can read it. In a checkout it runs the sources as they are;
 * in the published package, which holds no sources because Node strips no types under node_modules, it runs `dist/`.
 * Where the bundle of either is there and is that of the sources (bundle-service.ts), it runs that: a thread then loads in a
 * quarter of the processor time.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import module from 'node:module';
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

await import(findBundle() ?? findEntry('./understudy.ts', '../../dist/src/cli/understudy.js'));

/** @returns null where there is none, or one of other sources */
function findBundle() {
  const built = new URL('../../dist/', import.meta.url);
  const root = existsSync(new URL('./understudy.ts', import.meta.url))
    ? new URL('../../', import.meta.url)
    : built;
  const folder = new URL('src/threads/dist/', root);
  try {
    const { sources } = JSON.parse(readFileSync(new URL('files.json', folder), 'utf8'));
    // What was built changes no more; a copy of it may have other times.
    if (root !== built && !Object.entries(sources).every((source) => isUnchanged(root, source))) return null;
  } catch {
    return null;
  }
  keepCompiled(new URL('compiled/', folder));
  return new URL('understudy.mjs', folder).href;
}

function isUnchanged(root, [name, [bytes, changedMs]]) {
  const found = statSync(new URL(name, root));
  return found.size === bytes && found.mtimeMs === changedMs;
}

/** What V8 compiles is kept from one start to the next, by threads and processes that are started too. A folder that cannot be written to keeps nothing. */
function keepCompiled(folder) {
  if (process.env.NODE_COMPILE_CACHE !== undefined || process.env.NODE_DISABLE_COMPILE_CACHE) return;
  const path = fileURLToPath(folder);
  module.enableCompileCache?.(path);
  process.env.NODE_COMPILE_CACHE = path;
}
