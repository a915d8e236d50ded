/** All tests of tunnel.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./tunnel.test.ts');
