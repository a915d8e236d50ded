/** Runs the tests once: `node tools/test.mjs ARGUMENTS` is `vitest run ARGUMENTS`, and says in one line when Node is too old. */
import '../src/cli/needs-node.mjs';

process.argv.splice(2, 0, 'run');
await import('../node_modules/vitest/vitest.mjs');
