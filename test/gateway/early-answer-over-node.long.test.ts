/** All tests of early-answer.test.ts with a gateway on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./early-answer.test.ts');
