/**
 * `node tools/link-command.ts`: links the command in node_modules/.bin as `understudy-gateway`, which is also the name
 * of the published package. `npx` runs commands from that folder. If the name were in the `bin` field of package.json,
 * `npx` would first install the folder into its cache, and a cache made by an earlier version would never get the name.
 * Development, main thread.
 */

import { mkdirSync, rmSync, symlinkSync } from 'node:fs';

const folder = new URL('../node_modules/.bin/', import.meta.url);
const link = new URL('understudy-gateway', folder);
mkdirSync(folder, { recursive: true });
rmSync(link, { force: true });
symlinkSync('../../src/cli/understudy.mjs', link);
