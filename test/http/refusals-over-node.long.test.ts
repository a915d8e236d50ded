/** All tests of refusals.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./refusals.test.ts');
