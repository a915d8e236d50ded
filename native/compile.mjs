/**
 * Compiles the addons in this folder. It needs only a C++ compiler. npm runs it after an install (`postinstall`); to
 * run it by hand: `node native/compile.mjs [compiler]`. Plain JavaScript for Node 14 and newer, because npm may run it
 * with the machine's own Node.
 * It does not use node-gyp, because node-gyp needs python3 and make and downloads Node's headers from nodejs.org. The
 * headers of Node-API come from a package, and one call of the compiler builds an addon. Up-to-date addons are not
 * compiled again.
 * A missing compiler does not fail the install; the program is only slower. Bytes, texts and vectors are then
 * processed in TypeScript; searches use an exact index; sockets work as in Node; and data for other processes goes
 * through a pipe.
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
 * @typedef {{ name: string, sources: string[], target: string, includes: string[] }} Addon the first of `sources` is
 *   compiled, and includes the others; `includes` are the folders with the headers of packages
 */

/**
 * Lists the addons to compile. All use only Node-API, so that one binary works with every version of Node.
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
  // hnswlib consists of headers, which the package contains; the package's addon is not used.
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

/** Lists the headers of an addon, which are in the folder with its name. */
function listParts(name) {
  const folder = join(here, name);
  return existsSync(folder) ? listSources(folder) : [];
}

/** Finds the folder in which npm installed a package; null if it is not installed. */
function findPackage(name) {
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch {
    return null;
  }
}

/**
 * Finds the first C++ compiler that runs. The compiler named on the command line is tried first.
 * @returns null if none runs
 */
function findCompiler() {
  return findFirst([...process.argv.slice(2, 3), 'c++', 'g++', 'clang++']);
}

/**
 * Finds the first of these compilers that runs; null if none runs.
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
 * Lists the compiler's arguments, except for the output path.
 * @param {Addon} addon
 * @param {string[]} ways options for the binary, which differ for developers' checks
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
    // Suppresses warnings in headers of other projects.
    ...addon.includes.map((folder) => `-isystem${folder}`),
    addon.sources[0],
  ];
}

/** Computes the digest of all inputs of a compilation. An addon is compiled again if its digest has changed. */
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
 * Compiles an addon if it is not up to date.
 * @param {Addon} addon
 * @param {{ compiler: string, version: string }} by the compiler, and its version
 * @param {string[]} [ways] as for `listArguments`
 * @returns {string | null} a line that says that the addon was compiled, or why the compiler failed; null if the addon
 * was up to date
 */
export function compile(addon, { compiler, version }, ways) {
  const given = listArguments(addon, ways);
  const sumFile = `${addon.target}.sum`;
  const sum = sumSources(addon, version, given);
  if (existsSync(addon.target) && existsSync(sumFile) && readFileSync(sumFile, 'utf8') === sum) return null;
  mkdirSync(dirname(addon.target), { recursive: true });
  // The compiler writes a temporary file, which is then renamed. A process that has loaded the old file keeps it, and
  // no process can load an incomplete file.
  const draft = `${addon.target}.${process.pid}.tmp`;
  const { status, stderr, error } = spawnSync(compiler, [...given, '-o', draft], {
    encoding: 'utf8',
    timeout: COMPILE_DEADLINE_MS,
  });
  if (status !== 0) {
    rmSync(draft, { force: true });
    const [reason = 'the compiler failed without an error message'] = (error?.message ?? stderr)
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
      'understudy: no C++ compiler was found, so the native code was not compiled. Everything works without it, but more slowly. ' +
        'Install a compiler (Debian: apt-get install -y g++), then run node native/compile.mjs',
    );
    return;
  }
  if (findPackage('node-api-headers') === null) {
    console.log(
      'understudy: the package with the Node-API headers is missing, so the native code was not compiled',
    );
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
