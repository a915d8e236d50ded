#!/usr/bin/env node
/**
 * The command's entry, in plain JavaScript so that any Node can read it. The published package has `dist`; in a checkout the
 * command runs the sources. Main thread of a separate process.
 */
import { existsSync } from 'node:fs';

const built = new URL('./dist/mcp.mjs', import.meta.url);
const isBuilt = existsSync(built);
if (!isBuilt) await import('../../src/cli/needs-node.mjs');
if (Number.parseInt(process.versions.node, 10) < 20) {
  process.stderr.write(`understudy-mcp needs Node 20 or newer, and this is ${process.version}.\n`);
  process.exit(1);
}
await import((isBuilt ? built : new URL('./mcp.ts', import.meta.url)).href);
