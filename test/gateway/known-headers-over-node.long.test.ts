/** All tests of known-headers.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./known-headers.test.ts');
