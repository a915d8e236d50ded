/**
 * `npm run pin`: corrects the lock file. Older versions of npm run the install scripts of all packages that the lock
 * file marks. So this script first removes the marks of packages whose scripts `allowScripts` forbids. Then it adds
 * missing hashes. The lock file may lack the `integrity` of binaries for other platforms; the script gets it from the
 * registry. It also fetches the packages with the binaries of uWebSockets.js, and writes the binaries' hashes to
 * `native/uwebsockets.sha256`. It never changes an existing hash: if one differs, it reports this and exits with 1. It
 * prints the names of packages, and of missing hashes, that the registry does not have.
 */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
// @ts-expect-error plain JavaScript, for Nodes that strip no types
import { readHashes } from '../native/uwebsockets-binary.mjs';

/** The folder that contains the lock file and `native`. Tests pass another folder. */
const root = process.argv[2] ?? '.';
const lockPath = join(root, 'package-lock.json');
const listPath = join(root, 'native', 'uwebsockets.sha256');

interface Locked {
  version?: string;
  integrity?: string;
  hasInstallScript?: boolean;
  /** `false`: npm does not compile the package although it has a `binding.gyp`. */
  gypfile?: boolean;
}

function npm(argv: string[], cwd: string): string | null {
  const { status, stdout, error } = spawnSync('npm', argv, { cwd, encoding: 'utf8' });
  if (error !== undefined) throw error;
  return status === 0 ? stdout : null;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

const { allowScripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  allowScripts: Record<string, boolean>;
};
const lock = JSON.parse(readFileSync(lockPath, 'utf8')) as { packages: Record<string, Locked> };
const missing: string[] = [];
const differing: string[] = [];
for (const [path, locked] of Object.entries(lock.packages)) {
  if (path === '' || allowScripts[nameOf(path)] !== false) continue;
  delete locked.hasInstallScript;
  locked.gypfile = false;
}
for (const [path, locked] of Object.entries(lock.packages)) {
  if (path === '' || locked.integrity !== undefined) continue;
  const spec = `${nameOf(path)}@${locked.version}`;
  const answer = npm(['view', spec, 'dist.integrity', '--json'], root);
  const integrity: unknown = answer === null || answer.trim() === '' ? null : JSON.parse(answer);
  if (typeof integrity === 'string' && /^sha512-[A-Za-z\d+/]{86}==$/.test(integrity)) {
    // npm writes `integrity` right after the version.
    const { version, ...rest } = locked;
    lock.packages[path] = { version: version!, integrity, ...rest };
  } else missing.push(`${spec}: no integrity`);
}
writeFileSync(lockPath, `${JSON.stringify(lock, null, 2)}\n`);

const text = readFileSync(listPath, 'utf8');
const hashes = readHashes(text) as Map<string, string>;
const folder = mkdtempSync(join(tmpdir(), 'understudy-pin-'));
try {
  for (const [path, { version }] of Object.entries(lock.packages)) {
    const name = nameOf(path);
    if (!/^@uwsjs\/.*-\d+$/.test(name)) continue;
    const spec = `${name}@${version}`;
    const packed = npm(['pack', spec, '--json', '--pack-destination', folder], folder);
    if (packed === null) {
      missing.push(`${spec}: no package`);
      continue;
    }
    const [{ filename, integrity }] = JSON.parse(packed) as [{ filename: string; integrity: string }];
    if (integrity !== lock.packages[path]!.integrity) {
      differing.push(`${spec}: the registry's package differs from the one in the lock file`);
      continue;
    }
    const binary = spawnSync('tar', ['-xzOf', join(folder, filename), 'package/uws.node'], {
      maxBuffer: 256 * 1024 * 1024,
    });
    if (binary.status !== 0) throw new Error(`${spec}: ${binary.stderr}`);
    const hash = createHash('sha256').update(binary.stdout).digest('hex');
    const listed = hashes.get(`${name}/uws.node`);
    if (listed === undefined) hashes.set(`${name}/uws.node`, hash);
    else if (listed !== hash)
      differing.push(
        `${spec}: the binary has the hash ${hash}, but native/uwebsockets.sha256 lists ${listed}`,
      );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const said = text.split('\n').filter((line) => line.startsWith('#'));
const lines = [...hashes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, hash]) => `${hash}  ${path}`);
writeFileSync(listPath, `${[...said, ...lines].join('\n')}\n`);
for (const line of missing) console.log(`the registry does not have ${line}`);
for (const line of differing) console.error(line);
if (differing.length > 0) process.exitCode = 1;
