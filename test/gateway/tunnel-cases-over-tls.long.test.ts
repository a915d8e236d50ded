/** All tests of tunnel-cases.test.ts with clients and a gateway that use TLS. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./tunnel-cases.test.ts');
