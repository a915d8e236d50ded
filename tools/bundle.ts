/**
 * `node tools/bundle.ts`: bundles the dashboard's page (src/dashboard) for the browser into src/dashboard/dist. The
 * names of the files contain a digest of their content, and the files are compressed once. Then it bundles the
 * service's code (bundle-service.ts). `npm ci`, `npm start`, `npm run demo` and `npm run build` call it. It does nothing
 * if no source has changed.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { bundleService } from './bundle-service.ts';

const SOURCES = new URL('../src/dashboard/', import.meta.url);
const TARGET = new URL('dist/', SOURCES);

/** The manifest that the server reads (src/api/dashboard.ts). */
interface BuiltFiles {
  /** Digest of the sources of the bundle. */
  sources: string;
  files: { name: string; is_hashed: boolean; encodings: string[] }[];
}

/** Bundles the dashboard if a source has changed. @returns whether the bundle was made */
export async function bundleDashboard(): Promise<boolean> {
  const sources = digestSources();
  if (readBuilt()?.sources === sources) return false;
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(SOURCES),
    entryPoints: { app: 'main.tsx', style: 'style/style.css', docs: 'docs-forms.ts' },
    entryNames: '[name]',
    outdir: 'dist',
    write: false,
    bundle: true,
    minify: true,
    format: 'esm',
    target: ['es2022'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    tsconfigRaw: '{}',
    legalComments: 'none',
    logLevel: 'warning',
  });
  const texts = new Map(outputFiles.map(({ path, text }) => [basename(path), text]));
  const script = nameByContent('app.js', texts.get('app.js')!);
  const style = nameByContent('style.css', texts.get('style.css')!);
  const page = read('index.html').replace('{script}', script).replace('{style}', style);
  // Renamed in one step, because another process may be reading.
  const partial = new URL(`dist.${process.pid}/`, SOURCES);
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  const files = [
    write(partial, script, texts.get('app.js')!, true),
    write(partial, style, texts.get('style.css')!, true),
    write(partial, 'docs.js', texts.get('docs.js')!, false),
    write(partial, 'icon.svg', read('icon.svg'), false),
    write(partial, 'index.html', page, false),
  ];
  writeFileSync(new URL('files.json', partial), JSON.stringify({ sources, files } satisfies BuiltFiles));
  const former = new URL(`dist.${process.pid}.former/`, SOURCES);
  try {
    if (existsSync(TARGET)) renameSync(TARGET, former);
    renameSync(partial, TARGET);
  } catch (error) {
    // Another process has just made the same bundle.
    if (readBuilt()?.sources !== sources) throw error;
    rmSync(partial, { recursive: true, force: true });
  }
  rmSync(former, { recursive: true, force: true });
  return true;
}

function read(name: string): string {
  return readFileSync(new URL(name, SOURCES), 'utf8');
}

function readBuilt(): BuiltFiles | null {
  try {
    return JSON.parse(readFileSync(new URL('files.json', TARGET), 'utf8'));
  } catch {
    return null;
  }
}

/** Computes the digest of the sources, of this file and of the bundler. */
function digestSources(): string {
  const digest = createHash('sha256');
  const cwd = fileURLToPath(SOURCES);
  const names = globSync('**/*.{ts,tsx,css,html,svg}', { cwd, exclude: ['dist*/**'] }).sort();
  for (const name of names) digest.update(`${name}\0`).update(read(name));
  digest.update(readFileSync(new URL(import.meta.url)));
  for (const name of ['preact', '@preact/signals', 'uplot', 'esbuild']) {
    const path = new URL(`../node_modules/${name}/package.json`, import.meta.url);
    digest.update(existsSync(path) ? readFileSync(path) : name);
  }
  return digest.digest('hex');
}

function nameByContent(name: string, text: string): string {
  const extension = extname(name);
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 10);
  return `${basename(name, extension)}-${digest}${extension}`;
}

function write(folder: URL, name: string, text: string, is_hashed: boolean): BuiltFiles['files'][number] {
  const bytes = Buffer.from(text);
  writeFileSync(new URL(name, folder), bytes);
  writeFileSync(new URL(`${name}.gz`, folder), gzipSync(bytes, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.byteLength };
  writeFileSync(new URL(`${name}.br`, folder), brotliCompressSync(bytes, { params }));
  return { name, is_hashed, encodings: ['br', 'gzip'] };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await bundleDashboard();
    await bundleService();
  } catch (error) {
    // An installation without development packages has no bundler. The service still runs, and the dashboard's page
    // says that the bundle is missing.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    process.stderr.write(
      'esbuild is not installed, so the dashboard is not bundled and the service starts more slowly. Run npm ci to install it.\n',
    );
  }
}
