/** All tests of secure-listening.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./secure-listening.test.ts');
