/** All tests of slow-writes.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./slow-writes.test.ts');
