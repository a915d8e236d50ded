/** `node examples/tutorial/agent.mjs` runs agent.ts, and says in one line when Node is too old for it. */
import '../../src/cli/needs-node.mjs';

await import('./agent.ts');
