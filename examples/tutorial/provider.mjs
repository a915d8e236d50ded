/** `node examples/tutorial/provider.mjs` runs provider.ts. If Node is too old for it, it says so in one line. */
import '../../src/cli/needs-node.mjs';

await import('./provider.ts');
