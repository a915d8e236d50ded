/** All tests of end-cause.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./end-cause.test.ts');
