#!/usr/bin/env node
/**
 * The command's entry, in plain JavaScript so that any Node can read it. In a checkout it runs the sources; in the
 * published package, which has no sources because Node does not strip types under node_modules, it runs `dist/`. If a
 * bundle exists and matches the sources (tools/bundle-service.ts), it runs the bundle: a thread then loads in a quarter
 * of the processor time.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

/** The address of a module that is named like its source, relative to this file. */
function findEntry(source, compiled) {
  const own = new URL(source, import.meta.url);
  return (existsSync(own) ? own : new URL(compiled, import.meta.url)).href;
}

// An agent waits for its hooks: they load nothing else, and never fail.
if (process.argv[2] === 'hook' && /^[a-z]/.test(process.argv[3] ?? '')) {
  try {
    await import(findEntry('../hooks/entry.ts', '../../dist/src/hooks/entry.js'));
  } catch {}
  process.exit(0);
}

await import('./needs-node.mjs');
await import(findBundle() ?? findEntry('./understudy.ts', '../../dist/src/cli/understudy.js'));

/**
 * Finds the bundle of the service.
 * @returns its address; null if there is no bundle, or if it was made of other sources
 */
function findBundle() {
  const built = new URL('../../dist/', import.meta.url);
  const root = existsSync(new URL('./understudy.ts', import.meta.url))
    ? new URL('../../', import.meta.url)
    : built;
  const folder = new URL('src/threads/dist/', root);
  try {
    const { sources } = JSON.parse(readFileSync(new URL('files.json', folder), 'utf8'));
    // The bundle of a published package always matches. Its files are not compared, because a copy has other file times.
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

/**
 * Keeps V8's compiled code between starts, also for threads and child processes. If the folder cannot be written,
 * nothing is kept.
 */
function keepCompiled(folder) {
  if (process.env.NODE_COMPILE_CACHE !== undefined || process.env.NODE_DISABLE_COMPILE_CACHE) return;
  const path = fileURLToPath(folder);
  module.enableCompileCache?.(path);
  process.env.NODE_COMPILE_CACHE = path;
}
