/**
 * All tests of framing.test.ts with clients and servers that use TLS. The same requests must be accepted and refused.
 */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./framing.test.ts');
