/**
 * The second half of `node tools/bundle.ts`: bundles the service's own code into a few files in src/threads/dist: one
 * file for the entry of each thread and process, and files that these share. Without the bundle, each thread resolves
 * and reads a thousand modules and strips their types, which takes a second of processor time. The bundle is made only
 * if a source has changed. src/cli/understudy.mjs compares it with the sources, and runs the sources if they differ.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'esbuild';

/**
 * The folder for the bundle, relative to the root of the tree that is bundled. That tree is the checkout, or the copy
 * that `npm run build` makes of the checkout.
 */
const TARGET = 'src/threads/dist/';
const ENTRIES = [
  'src/cli/understudy',
  'src/storage/offload/bucket-thread-entry',
  'src/teaching/round-thread-entry',
  'src/threads/actor-thread-entry',
  'src/threads/capture-process-entry',
  'src/threads/capture-reader-entry',
  'src/threads/otel-export-entry',
  'src/threads/compute-thread-entry',
  'src/threads/proxy-thread-entry',
  'src/threads/sealing-thread-entry',
  'src/threads/server-thread-entry',
  'src/threads/shared-store-entry',
  'src/threads/student-sharing-entry',
  'src/threads/student-thread-entry',
];
/** Packages that are not bundled. Most have native code, or load files from their own folder. */
const LEFT_OUT = [
  // Loaded only if storage is in a bucket. It has hundreds of modules.
  '@aws-sdk/client-s3',
  // This package uses functions that reflect-metadata adds to JavaScript's globals.
  '@peculiar/x509',
  'reflect-metadata',
  'hnswlib-node',
  // Loaded by the first export as Parquet.
  'hyparquet-writer',
  'lmdb',
  'msgpackr',
  'onnxruntime-node',
  'pino',
  // Loaded only by a box that shares a PostgreSQL database.
  'pg',
  'piscina',
  // Loaded when the first mail is sent.
  'nodemailer',
  // Loaded by the first code that needs it. It is CommonJS, and a bundled chunk of a CommonJS package does not export
  // names.
  'undici',
  'uWebSockets.js',
];
/** npm writes this file whenever the installed packages change. */
const INSTALLED = 'node_modules/.package-lock.json';
/** The only source whose `import.meta.url` must be the address of the bundle. */
const ASKS_FOR_BUNDLE = /[\\/]std[\\/]module-url\.[tj]s$/;

/** The manifest that src/cli/understudy.mjs reads. */
interface ServiceManifest {
  /** Length and time of the last change of each source, by the source's path in the bundled tree. */
  sources: Record<string, readonly [bytes: number, changed_ms: number]>;
}

/**
 * Makes the bundle if a source has changed.
 * @param root root of the tree, as a URL that ends with a slash
 * @returns whether the bundle was made
 */
export async function bundleService(root: URL = new URL('../', import.meta.url)): Promise<boolean> {
  const target = new URL(TARGET, root);
  if (isCurrent(root, target)) return false;
  const { build } = await import('esbuild');
  const folder = fileURLToPath(root);
  const extension = existsSync(new URL(`${ENTRIES[0]}.ts`, root)) ? 'ts' : 'js';
  const { metafile, outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: ENTRIES.map((entry) => `${entry}.${extension}`),
    entryNames: '[name]',
    chunkNames: 'part-[hash]',
    outdir: TARGET,
    write: false,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    external: LEFT_OUT,
    banner: { js: REQUIRE },
    plugins: [placesOfSources(folder), QUICK_HTTP],
    tsconfigRaw: '{}',
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  });
  for (const { imports } of Object.values(metafile.inputs)) {
    const lost = imports.find(
      ({ kind, path }) => kind === 'dynamic-import' && path.includes('node_modules/'),
    );
    if (lost !== undefined)
      throw new Error(`${lost.path} is loaded by a call of import(): add it to LEFT_OUT`);
  }
  const own = Object.keys(metafile.inputs).filter((name) => !/node_modules\/|^required:/.test(name));
  const sources: ServiceManifest['sources'] = {};
  for (const name of [...own, INSTALLED]) {
    const described = describe(new URL(name, root));
    if (described !== null) sources[name] = described;
  }
  // Renamed in one step, because another process may be reading.
  const partial = new URL(`${TARGET.slice(0, -1)}.${process.pid}/`, root);
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  for (const { path, contents } of outputFiles) writeFileSync(new URL(basename(path), partial), contents);
  writeFileSync(new URL('files.json', partial), JSON.stringify({ sources } satisfies ServiceManifest));
  const former = new URL(`${TARGET.slice(0, -1)}.${process.pid}.former/`, root);
  try {
    if (existsSync(target)) renameSync(target, former);
    renameSync(partial, target);
  } catch (error) {
    // Another process has just made the same bundle.
    if (!isCurrent(root, target)) throw error;
    rmSync(partial, { recursive: true, force: true });
  }
  rmSync(former, { recursive: true, force: true });
  return true;
}

/** Defines `require`, with which bundled CommonJS packages load Node's own modules. */
const REQUIRE = `import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);`;

/**
 * Loads Node's own HTTP modules with `require`. An `import` of such a module reads all of its exports, and reading one
 * of them loads undici, which takes a tenth of a second in each thread.
 */
const QUICK_HTTP: Plugin = {
  name: 'quick http',
  setup(build) {
    build.onResolve({ filter: /^(node:)?https?$/ }, ({ path, kind }) =>
      kind === 'require-call' ? null : { path: path.replace(/^(node:)?/, 'node:'), namespace: 'required' },
    );
    build.onLoad({ filter: /^/, namespace: 'required' }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(path)});`,
    }));
  },
};

/** Sets `import.meta.url` of bundled modules, so that they find the files beside their source. */
function placesOfSources(folder: string): Plugin {
  return {
    name: 'places of sources',
    setup(build) {
      build.onLoad({ filter: /\.[tj]s$/ }, ({ path }) => {
        const name = relative(folder, path).replaceAll('\\', '/');
        if (name.includes('node_modules/') || ASKS_FOR_BUNDLE.test(path)) return null;
        const source = readFileSync(path, 'utf8');
        if (!source.includes('import.meta.url')) return null;
        const place = JSON.stringify(posix.relative(TARGET, name));
        return {
          contents: source.replaceAll('import.meta.url', `new URL(${place}, import.meta.url).href`),
          loader: path.endsWith('.ts') ? 'ts' : 'js',
        };
      });
    },
  };
}

function isCurrent(root: URL, target: URL): boolean {
  let sources: ServiceManifest['sources'];
  try {
    ({ sources } = JSON.parse(readFileSync(new URL('files.json', target), 'utf8')) as ServiceManifest);
  } catch {
    return false;
  }
  // A change of this file changes the bundle, so it counts as a source.
  const madeAt = statSync(new URL('files.json', target)).mtimeMs;
  if (statSync(new URL(import.meta.url)).mtimeMs > madeAt) return false;
  return Object.entries(sources).every(([name, [bytes, changed_ms]]) => {
    const now = describe(new URL(name, root));
    return now !== null && now[0] === bytes && now[1] === changed_ms;
  });
}

function describe(file: URL): readonly [number, number] | null {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? null : [found.size, found.mtimeMs];
}
