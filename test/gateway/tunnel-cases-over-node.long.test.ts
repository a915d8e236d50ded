/** All tests of tunnel-cases.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./tunnel-cases.test.ts');
