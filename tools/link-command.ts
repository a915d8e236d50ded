/**
 * `node tools/link-command.ts`: puts the command into node_modules/.bin as `understudy-gateway`, the name that the published package
 * has. `npx` runs what is there. A name in package.json's `bin` it would first install into its cache, by the folder's path: a
 * cache of an earlier version lacks the name for good. Development, main thread.
 */

import { mkdirSync, rmSync, symlinkSync } from 'node:fs';

const folder = new URL('../node_modules/.bin/', import.meta.url);
const link = new URL('understudy-gateway', folder);
mkdirSync(folder, { recursive: true });
rmSync(link, { force: true });
symlinkSync('../../src/cli/understudy.mjs', link);
