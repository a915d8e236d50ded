/** All tests of blocked-replies.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./blocked-replies.test.ts');
