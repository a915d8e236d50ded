/**
 * `node tools/packages.ts`: builds the packages that agents install, from the sources under `src`, into
 * `clients/<package>/dist`. Development, main thread.
 *
 * Each package has ES modules, CommonJS files and types for both. The client's ES modules only import its CommonJS
 * files, so that `import` and `require` in one process share its state. An integration is bundled once as ES module and
 * once as CommonJS. The bundles do not contain the client and the framework, so the agent's own framework is loaded. A
 * package with a command (`bin`) has only one ES module, which the command loads.
 */

import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const CLIENT_PACKAGE = '@understudy-gateway/client';
/** The source of the client that integrations import. */
const CLIENT_ENTRY = 'src/client/understudy.ts';

const EDGE_ENTRY = 'src/client/edge/edge.ts';

interface PackageFile {
  name: string;
  bin?: Record<string, string>;
  exports: Record<string, string | { import: { types: string; default: string } }>;
}

/** An entry of a package, and its source. The entry `./label/auto` has the name `label-auto`. */
interface Entry {
  name: string;
  source: string;
}

/** Folders under `clients` with a package for npm. */
export const PACKAGES = [
  'node',
  'langchain',
  'openai-agents',
  'anthropic',
  'claude-agent-sdk',
  'ai-sdk',
  'mcp',
] as const;

/**
 * Builds one package into its `dist`.
 * @throws Error if the sources do not compile
 */
async function buildPackage(folder: string): Promise<void> {
  const place = join(ROOT, 'clients', folder);
  const manifest = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8')) as PackageFile;
  const entries = readEntries(manifest);
  const dist = join(place, 'dist');
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist, { recursive: true });
  copyFileSync(join(ROOT, 'LICENSE'), join(place, 'LICENSE'));
  if (manifest.bin !== undefined) {
    await bundleCommand(`clients/${folder}/${folder}.ts`, join(dist, `${folder}.mjs`));
    return;
  }
  for (const { name, source } of entries) {
    if (source === EDGE_ENTRY) {
      for (const kind of ['cjs', 'mjs']) await bundleEdge(join(dist, `${name}.${kind}`));
      continue;
    }
    await bundleEntry(manifest, source, join(dist, `${name}.cjs`), entries);
    if (manifest.name === CLIENT_PACKAGE) writeModule(join(dist, `${name}.cjs`), join(dist, `${name}.mjs`));
    else await bundleEntry(manifest, source, join(dist, `${name}.mjs`), entries);
  }
  writeTypes(manifest, entries, join(dist, 'types'));
}

function readEntries({ exports }: PackageFile): Entry[] {
  return Object.values(exports).flatMap((target) => {
    if (typeof target === 'string') return [];
    const { types, default: module } = target.import;
    const name = module.replace('./dist/', '').replace(/\.mjs$/, '');
    return [{ name, source: types.replace('./dist/types/', '').replace(/\.d\.mts$/, '.ts') }];
  });
}

async function bundleEntry(
  { name }: PackageFile,
  source: string,
  outfile: string,
  entries: readonly Entry[],
): Promise<void> {
  const isCommonJs = outfile.endsWith('.cjs');
  await build({
    absWorkingDir: ROOT,
    entryPoints: [source],
    outfile,
    bundle: true,
    format: isCommonJs ? 'cjs' : 'esm',
    ...(isCommonJs && name !== CLIENT_PACKAGE ? OWN_ADDRESS : {}),
    platform: 'node',
    target: 'node20',
    packages: 'external',
    logLevel: 'error',
    plugins: [shareEntries(name, source, entries, isCommonJs || name === CLIENT_PACKAGE ? 'cjs' : 'mjs')],
  });
}

/** Bundles a command as one ES module, without the packages that it depends on. */
async function bundleCommand(source: string, outfile: string): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: [source],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    logLevel: 'error',
    plugins: [usedSources],
  });
}

/**
 * Omits sources whose exports are not used. That is safe: no source of this project has a side effect when it is
 * loaded.
 */
const usedSources: Plugin = {
  name: 'used sources',
  setup(bundler) {
    bundler.onResolve({ filter: /^\./ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path),
      sideEffects: false,
    }));
  },
};

/**
 * Bundles the client for platforms that have `fetch` but not Node's modules.
 * @throws Error if a module of Node is imported
 */
export async function bundleEdge(outfile: string): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: [EDGE_ENTRY],
    outfile,
    bundle: true,
    format: outfile.endsWith('.cjs') ? 'cjs' : 'esm',
    platform: 'neutral',
    target: 'es2022',
    logLevel: 'error',
    plugins: [edgeSources],
  });
}

/** Sources under `src/client/edge` replace those of the same name in `src/client`. */
const edgeSources: Plugin = {
  name: 'edge sources',
  setup(bundler) {
    bundler.onResolve({ filter: /^\.\// }, ({ path, resolveDir }) => {
      if (relative(ROOT, resolveDir).replaceAll('\\', '/') !== 'src/client') return null;
      const standIn = join(resolveDir, 'edge', path);
      return existsSync(standIn) ? { path: standIn } : null;
    });
  },
};

/** CommonJS has no `import.meta`. */
const OWN_ADDRESS = {
  define: { 'import.meta.url': 'importMetaUrl' },
  banner: { js: "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;" },
};

/** Keeps imports of another entry as imports, so that the state of that entry exists only once. */
function shareEntries(
  packageName: string,
  ownSource: string,
  entries: readonly Entry[],
  kind: 'cjs' | 'mjs',
): Plugin {
  return {
    name: 'share entries',
    setup(bundler) {
      bundler.onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
        const source = relative(ROOT, join(resolveDir, path)).replaceAll('\\', '/');
        if (source === ownSource) return null;
        const sibling = entries.find((entry) => entry.source === source);
        if (sibling !== undefined) return { path: `./${sibling.name}.${kind}`, external: true };
        if (packageName !== CLIENT_PACKAGE && source === CLIENT_ENTRY)
          return { path: CLIENT_PACKAGE, external: true };
        return null;
      });
    },
  };
}

/** Writes an ES module that exports the names of a CommonJS file, which esbuild lists in that file. */
function writeModule(file: string, module: string): void {
  const names = readExports(file);
  const from = `./${relative(dirname(module), file)}`;
  const line = names.length === 0 ? `import '${from}';` : `export { ${names.join(', ')} } from '${from}';`;
  writeFileSync(module, `${line}\n`);
}

/** Reads the names that esbuild lists for Node in a line `0 && (module.exports = { a, b })`. */
function readExports(file: string): string[] {
  const [, names = ''] = /0 && \(module\.exports = \{([^}]*)\}\);/.exec(readFileSync(file, 'utf8')) ?? [];
  return names
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
}

/** Writes the type declarations of the entries and of their imports, once for each kind of module. */
function writeTypes({ name }: PackageFile, entries: readonly Entry[], target: string): void {
  // The folder is below the root, so that the compiler finds packages.
  const out = join(ROOT, 'node_modules', `.types-${name.split('/')[1]}`);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  try {
    const config = join(out, 'tsconfig.json');
    const compilerOptions = { emitDeclarationOnly: true, outDir: out, rootDir: ROOT };
    const files = entries.map(({ source }) => join(ROOT, source));
    writeFileSync(
      config,
      JSON.stringify({ extends: join(ROOT, 'tsconfig.build.json'), compilerOptions, include: [], files }),
    );
    const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
    const { status } = spawnSync(process.execPath, [tsc, '-p', config], { stdio: 'inherit' });
    if (status !== 0) throw new Error(`the types of ${name} do not compile`);
    const seen = new Set<string>();
    for (const { source } of entries) copyTypes(name, source.replace(/\.ts$/, ''), out, target, seen);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

function copyTypes(
  packageName: string,
  module: string,
  out: string,
  target: string,
  seen: Set<string>,
): void {
  if (seen.has(module)) return;
  seen.add(module);
  const text = readFileSync(join(out, `${module}.d.ts`), 'utf8');
  const isForeign = packageName !== CLIENT_PACKAGE;
  const imports = /(from |import\()'(\.[^']+)\.(?:js|ts)'/g;
  for (const kind of ['mts', 'cts'] as const) {
    const file = join(target, `${module}.d.${kind}`);
    mkdirSync(dirname(file), { recursive: true });
    const written = text.replace(imports, (_all, word: string, path: string) => {
      const other = join(dirname(module), path).replaceAll('\\', '/');
      // TypeScript treats two declarations of a class with private members as different types, so it must be declared
      // once.
      if (isForeign && other.startsWith('src/client/')) return `${word}'${CLIENT_PACKAGE}'`;
      copyTypes(packageName, other, out, target, seen);
      return `${word}'${path}.${kind === 'mts' ? 'mjs' : 'cjs'}'`;
    });
    writeFileSync(file, written);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const named = process.argv.slice(2);
  for (const folder of named.length > 0 ? named : PACKAGES) {
    if (!existsSync(join(ROOT, 'clients', folder, 'package.json')))
      throw new Error(`clients/${folder} is not a package`);
    await buildPackage(folder);
    process.stdout.write(`clients/${folder}\n`);
  }
}
