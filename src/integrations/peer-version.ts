/**
 * Checks whether the installed framework has a version that the integration supports. The check runs when the
 * integration is imported, so that the error can name both versions. Any thread.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CLIENT_VERSION } from '../client/options.ts';
import type { Integration } from './watched-run.ts';

/**
 * Checks the version of the installed framework.
 * @param range the range in the package's `peerDependencies`, such as `>=1.2.3 <2`
 * @throws Error that names both versions, if the framework's is outside of the range. A framework that is not in a
 *   `node_modules` above this file (bundled, Plug'n'Play) is not checked
 */
export function requirePeer({ name }: Integration, peer: string, range: string): void {
  const version = findVersion(peer);
  if (version === null || isWithin(version, range)) return;
  throw new Error(`${name} ${CLIENT_VERSION} needs ${peer} ${range}, but ${peer} ${version} is installed`);
}

/** Returns the version of the package that an import in this file would load; null: unknown. */
function findVersion(peer: string): string | null {
  try {
    let folder = dirname(fileURLToPath(import.meta.url));
    for (;;) {
      const manifest = join(folder, 'node_modules', peer, 'package.json');
      if (existsSync(manifest)) return String(JSON.parse(readFileSync(manifest, 'utf8')).version);
      const above = dirname(folder);
      if (above === folder) return null;
      folder = above;
    }
  } catch {
    return null;
  }
}

/** Whether a version is in a range. A prerelease counts as its release. */
function isWithin(version: string, range: string): boolean {
  const [from = '', below = ''] = range.split(' ').map((bound) => bound.replace(/^\D+/, ''));
  return compare(version, from) >= 0 && compare(version, below) < 0;
}

function compare(left: string, right: string): number {
  const [lefts = [], rights = []] = [left, right].map(readNumbers);
  for (const at of [0, 1, 2]) {
    const difference = (lefts[at] ?? 0) - (rights[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function readNumbers(version: string): number[] {
  return version
    .replace(/[-+].*$/, '')
    .split('.')
    .map(Number);
}
