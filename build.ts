/**
 * `npm run build`: the sources as JavaScript and types under `dist/`, laid out as the tree is. For the published
 * package alone: Node runs the sources of a checkout as they are, but strips no types under node_modules.
 */

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, rmSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('.', import.meta.url));
rmSync(new URL('dist', import.meta.url), { recursive: true, force: true });
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
const { status, error } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});
if (error !== undefined) throw error;
process.exitCode = status ?? 1;

/** Folders with files that are read as they are: what is no TypeScript in them goes along. */
const ASSET_FOLDERS = ['src/dashboard'];

if (status === 0) {
  for (const folder of ASSET_FOLDERS) {
    const from = fileURLToPath(new URL(folder, import.meta.url));
    if (!existsSync(from)) continue;
    const filter = (path: string) => statSync(path).isDirectory() || !path.endsWith('.ts');
    cpSync(from, fileURLToPath(new URL(`dist/${folder}`, import.meta.url)), { recursive: true, filter });
  }
}
