/**
 * `npm run build`: compiles the sources to JavaScript and type declarations in `dist/`, with the folders of the source
 * tree. Only the published package needs this: Node runs a checkout's sources directly, but does not strip types under
 * node_modules.
 */

import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleDashboard } from './bundle.ts';
import { bundleService } from './bundle-service.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
rmSync(new URL('../dist', import.meta.url), { recursive: true, force: true });
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
const { status, error } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});
if (error !== undefined) throw error;
process.exitCode = status ?? 1;

if (status === 0) {
  await bundleDashboard();
  const built = 'src/dashboard/dist';
  cpSync(join(root, built), join(root, 'dist', built), { recursive: true });
  // Only a container needs the bundle. The published package omits it, because it contains copies of other packages.
  await bundleService(new URL('../dist/', import.meta.url));
}
