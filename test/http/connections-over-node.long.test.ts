/** All tests of connections.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./connections.test.ts');
