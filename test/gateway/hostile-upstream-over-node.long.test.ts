/** All tests of hostile-upstream.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./hostile-upstream.test.ts');
