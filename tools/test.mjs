/**
 * Runs the tests once: `node tools/test.mjs ARGUMENTS` is `vitest run ARGUMENTS`. If Node is too old, it says so in one
 * line.
 */
import '../src/cli/needs-node.mjs';

process.argv.splice(2, 0, 'run');
await import('../node_modules/vitest/vitest.mjs');
