/** `node examples/tutorial/provider.mjs` runs provider.ts, and says in one line when Node is too old for it. */
import '../../src/cli/needs-node.mjs';

await import('./provider.ts');
