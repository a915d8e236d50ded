/** `node examples/tutorial/agent.mjs` runs agent.ts. If Node is too old for it, it says so in one line. */
import '../../src/cli/needs-node.mjs';

await import('./agent.ts');
