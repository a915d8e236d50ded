/**
 * Compiles the native code: the addons in this folder, one of them with hnswlib in it, with the C++ compiler alone.
 * Run by npm after an install (`postinstall`), by hand with `node native/compile.mjs [compiler]`. Plain JavaScript, and nothing newer
 * than Node 14 knows, since npm may run it under the machine's own Node.
 *
 * Why not node-gyp: it wants python3 and make, and fetches Node's headers from nodejs.org. Node-API is stable, its
 * headers are a package, and one file needs one call of the compiler. What is up to date is left alone.
 *
 * It never fails an install: without a compiler the program runs all the same, slower (`native/` has a TypeScript fallback
 * for bytes, texts and vectors, the search an exact index, sockets are used as Node has them, and what another process
 * stores goes there through a pipe).
 */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const COMPILE_DEADLINE_MS = 600_000;

const require = createRequire(import.meta.url);
const here = dirname(fileURLToPath(import.meta.url));

/**
 * @typedef {{ name: string, sources: string[], target: string, includes: string[] }} Addon of the sources the first is
 *   compiled, the others are what it includes; headers of packages are in the folders of `includes`
 */

/**
 * What is compiled. All use Node-API and nothing else of Node, so that one binary serves every version of Node.
 * @returns {Addon[]}
 */
export function listAddons() {
  const shared = join(here, 'arguments.h');
  const addons = ['bytes', 'memory', 'sockets', 'texts', 'vectors'].map((name) => ({
    name,
    sources: [join(here, `${name}.cc`), shared, ...listParts(name)],
    target: join(here, 'build', `${name}.node`),
    includes: [],
  }));
  // hnswlib itself is headers, which come with the package; its addon is not used.
  const hnswlib = findPackage('hnswlib-node');
  if (hnswlib !== null) {
    addons.push({
      name: 'graph',
      sources: [
        join(here, 'graph.cc'),
        shared,
        ...listParts('graph'),
        ...listParts('vectors'),
        ...listSources(join(hnswlib, 'src', 'hnswlib')),
      ],
      target: join(here, 'build', 'graph.node'),
      includes: [join(hnswlib, 'src')],
    });
  }
  return addons;
}

/** The headers of an addon, in the folder of its name. */
function listParts(name) {
  const folder = join(here, name);
  return existsSync(folder) ? listSources(folder) : [];
}

/** A package's folder, wherever npm put it; null when it is not there. */
function findPackage(name) {
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch {
    return null;
  }
}

/** The first C++ compiler that answers, starting with the one that the command line names; null if none does. */
function findCompiler() {
  return findFirst([...process.argv.slice(2, 3), 'c++', 'g++', 'clang++']);
}

/**
 * @param {string[]} compilers
 * @returns {{ compiler: string, version: string } | null}
 */
export function findFirst(compilers) {
  for (const compiler of compilers) {
    const { status, stdout } = spawnSync(compiler, ['--version'], { encoding: 'utf8' });
    if (status === 0) return { compiler, version: stdout.split('\n')[0] };
  }
  return null;
}

/**
 * What the compiler is told besides where to put the binary.
 * @param {Addon} addon
 * @param {string[]} ways how the binary is made: what a developer's check asks for instead of what a user gets
 */
export function listArguments(addon, ways = ['-O3', '-DNDEBUG']) {
  const mac = process.platform === 'darwin';
  return [
    '-std=c++17',
    ...ways,
    '-fPIC',
    '-fvisibility=hidden',
    ...(mac ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared']),
    '-DBUILDING_NODE_EXTENSION',
    '-DNODE_GYP_MODULE_NAME=addon',
    `-I${join(findPackage('node-api-headers'), 'include')}`,
    // Of others: their warnings are not ours.
    ...addon.includes.map((folder) => `-isystem${folder}`),
    addon.sources[0],
  ];
}

/** Of everything that the binary is made from, so that a change of any of it compiles again. */
function sumSources(addon, compilerVersion, given) {
  const sum = createHash('sha256');
  sum.update([process.platform, process.arch, compilerVersion, ...given].join('\n'));
  for (const file of addon.sources) sum.update(file).update(readFileSync(file));
  return sum.digest('hex');
}

function listSources(folder) {
  const files = [];
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) files.push(...(name === 'build' ? [] : listSources(path)));
    else if (/\.(?:cc|cpp|h)$/.test(name)) files.push(path);
  }
  return files;
}

/**
 * Compiles an addon where it is not up to date.
 * @param {Addon} addon
 * @param {{ compiler: string, version: string }} by
 * @param {string[]} [ways] as `listArguments` has them
 * @returns {string | null} what was done; null when there was nothing to do
 */
export function compile(addon, { compiler, version }, ways) {
  const given = listArguments(addon, ways);
  const sumFile = `${addon.target}.sum`;
  const sum = sumSources(addon, version, given);
  if (existsSync(addon.target) && existsSync(sumFile) && readFileSync(sumFile, 'utf8') === sum) return null;
  mkdirSync(dirname(addon.target), { recursive: true });
  // Beside the target and then renamed: a process that has the old one loaded keeps it, and none sees half a file.
  const draft = `${addon.target}.${process.pid}.tmp`;
  const { status, stderr, error } = spawnSync(compiler, [...given, '-o', draft], {
    encoding: 'utf8',
    timeout: COMPILE_DEADLINE_MS,
  });
  if (status !== 0) {
    rmSync(draft, { force: true });
    const [reason = 'it ended without a word'] = (error?.message ?? stderr)
      .split('\n')
      .filter((line) => /error|cannot|fatal/i.test(line));
    return `${addon.name}: ${compiler} failed (${reason.trim()})`;
  }
  renameSync(draft, addon.target);
  writeFileSync(sumFile, sum);
  return `${addon.name}: compiled`;
}

function run() {
  const compiler = findCompiler();
  if (compiler === null) {
    console.log(
      'understudy: no C++ compiler found, so the native code was not compiled; everything runs without it, slower. ' +
        'Install one (Debian: apt-get install -y g++) and call node native/compile.mjs',
    );
    return;
  }
  if (findPackage('node-api-headers') === null) {
    console.log('understudy: the package with the Node-API headers is missing; native code was not compiled');
    return;
  }
  for (const addon of listAddons()) {
    const result = compile(addon, compiler);
    if (result !== null) console.log(`understudy: ${result}`);
  }
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    run();
  } catch (error) {
    console.log(`understudy: the native code was not compiled: ${error.message}`);
  }
}
