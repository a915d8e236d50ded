/** All tests of transparency.test.ts with clients and a gateway that use TLS. The same bytes must arrive. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./transparency.test.ts');
