/**
 * `npm run build`: writes the sources as JavaScript and types to `dist/`, in the layout of the tree. Only the published
 * package needs this: Node runs a checkout's sources as they are, but does not strip types under node_modules.
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
  // For a container. The published package leaves it out, because it contains copies of other packages.
  await bundleService(new URL('../dist/', import.meta.url));
}
