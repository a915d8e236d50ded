/** The whole of framing.test.ts with clients and servers that use TLS: the same is accepted and refused. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./framing.test.ts');
