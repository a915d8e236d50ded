/** All tests of open-bodies.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./open-bodies.test.ts');
