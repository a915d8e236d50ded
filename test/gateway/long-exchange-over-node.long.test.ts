/** All tests of long-exchange.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./long-exchange.test.ts');
