/** All tests of raw-head.test.ts with clients and a server that use TLS. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./raw-head.test.ts');
