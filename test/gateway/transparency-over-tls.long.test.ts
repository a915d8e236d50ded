/** The whole of transparency.test.ts with clients and a gateway that use TLS: the same bytes arrive. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./transparency.test.ts');
