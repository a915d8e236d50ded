/** All tests of event-stream.test.ts with servers on node:http. */
import { loadServer } from '../../src/http/server.ts';

await loadServer('node');
await import('./event-stream.test.ts');
