/** All tests of tls.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./tls.test.ts');
