/** All tests of recorded-cases.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./recorded-cases.test.ts');
