/** All tests of upstream-pool.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./upstream-pool.test.ts');
