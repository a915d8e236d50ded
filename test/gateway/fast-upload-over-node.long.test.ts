/** All tests of fast-upload.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./fast-upload.test.ts');
