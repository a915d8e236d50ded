/** Over TLS the same is refused and taken as without: the whole of framing.test.ts, with clients and servers that speak it. */
import { speakTls } from '../fixtures/certificate.ts';

speakTls();
await import('./framing.test.ts');
