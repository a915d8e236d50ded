/** Over TLS the same arrives as without: the whole of transparency.test.ts, with clients and a gateway that speak it. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./transparency.test.ts');
