/**
 * Builds the shim as plain JavaScript in a temporary folder, as in the published package: for Node versions that do not
 * strip types, and as a second copy. Test thread.
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const SOURCES = join(import.meta.dirname, '../../src/label');

/** @returns the folder, and a function that removes it */
export function buildShim(): { folder: string; [Symbol.dispose](): void } {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-label-'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  for (const name of readdirSync(SOURCES).filter((file) => file.endsWith('.ts'))) {
    const script = stripTypeScriptTypes(readFileSync(join(SOURCES, name), 'utf8'));
    writeFileSync(
      join(folder, name.replace(/\.ts$/, '.js')),
      script.replaceAll(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'"),
    );
  }
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

/** This Node, and one of each other major version from 20 on in PATH: version and program. */
export function findNodes(): [version: string, program: string][] {
  const found = new Map([
    [process.versions.node.split('.')[0]!, [process.version, process.execPath] as const],
  ]);
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const program = join(folder, 'node');
    let version: string;
    try {
      version = execFileSync(program, ['--version'], { encoding: 'utf8', stdio: 'pipe' }).trim();
    } catch {
      continue;
    }
    const major = /^v(\d+)\./.exec(version)?.[1] ?? '0';
    if (Number(major) >= 20 && !found.has(major)) found.set(major, [version, program]);
  }
  return [...found.values()].map(([version, program]) => [version, program]);
}
