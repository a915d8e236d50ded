/**
 * Compares the installed binary of uWebSockets.js, which parses data from the network, with a list of hashes
 * (uwebsockets.sha256). npm runs it after an install, before anything is compiled; to run it by hand: `node
 * native/uwebsockets-binary.mjs`. If a hash is wrong, it exits with 1, which fails the install. If a binary is not in
 * the list, it prints the name and the hash. Plain JavaScript for Node 14 and newer, because npm may run it with the
 * machine's own Node.
 * npm itself compares the downloaded package with the lock file's `integrity`. This script checks the installed file.
 */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const LIST = fileURLToPath(new URL('uwebsockets.sha256', import.meta.url));
const BINARY = 'uws.node';

/**
 * Reads the list of hashes.
 * @param {string} text lines as sha256sum writes them; lines that begin with # are comments
 * @returns {Map<string, string>} path below node_modules → hexadecimal hash
 * @throws {Error} for any other line
 */
export function readHashes(text) {
  const hashes = new Map();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([0-9a-f]{64}) {2}(\S+)$/.exec(line);
    if (match === null || hashes.has(match[2]))
      throw new Error(`${LIST}: this line has no valid hash: ${line}`);
    hashes.set(match[2], match[1]);
  }
  return hashes;
}

/**
 * Finds the installed binaries. npm installs the one for this machine; a copied tree may have more.
 * @returns {{ name: string, path: string }[]}
 */
export function findBinaries() {
  let entry;
  try {
    entry = createRequire(import.meta.url).resolve('uWebSockets.js');
  } catch {
    return [];
  }
  const { optionalDependencies = {} } = JSON.parse(
    readFileSync(join(dirname(entry), 'package.json'), 'utf8'),
  );
  const require = createRequire(entry);
  const found = [];
  for (const name of Object.keys(optionalDependencies).sort()) {
    try {
      const path = join(dirname(require.resolve(name)), BINARY);
      if (existsSync(path)) found.push({ name: `${name}/${BINARY}`, path });
    } catch {
      // The binary belongs to another platform.
    }
  }
  return found;
}

/**
 * Compares the hash of each binary with the list.
 * @param {Map<string, string>} hashes
 * @param {{ name: string, path: string }[]} binaries
 * @returns {{ name: string, hash: string, verdict: 'listed' | 'other' | 'unlisted' }[]}
 */
export function judgeBinaries(hashes, binaries) {
  return binaries.map(({ name, path }) => {
    const hash = createHash('sha256').update(readFileSync(path)).digest('hex');
    const listed = hashes.get(name);
    return { name, hash, verdict: listed === undefined ? 'unlisted' : listed === hash ? 'listed' : 'other' };
  });
}

function run() {
  const binaries = findBinaries();
  if (binaries.length === 0)
    console.log(
      "understudy: uWebSockets.js has no binary for this Node and machine: the service uses Node's own HTTP server, which is slower",
    );
  for (const { name, hash, verdict } of judgeBinaries(readHashes(readFileSync(LIST, 'utf8')), binaries)) {
    if (verdict === 'other') {
      console.error(
        `understudy: ${name} is not the binary that native/uwebsockets.sha256 lists. It has SHA-256 ${hash}. Remove ` +
          'node_modules and install again; if it is your own build, put its hash into the list (SECURITY.md)',
      );
      process.exitCode = 1;
    } else if (verdict === 'unlisted') {
      console.error(
        `understudy: warning: ${name} is not verified: native/uwebsockets.sha256 does not list it. It has SHA-256 ` +
          `${hash}. SECURITY.md says what to compare it with`,
      );
    }
  }
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) run();
