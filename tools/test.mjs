/**
 * Runs the tests once: `node tools/test.mjs ARGUMENTS` runs `vitest run ARGUMENTS`. If Node is too old, it prints one
 * line that says so.
 */
import '../src/cli/needs-node.mjs';

process.argv.splice(2, 0, 'run');
await import('../node_modules/vitest/vitest.mjs');
