/** The secret that signs tokens if there is no identity provider: made once, kept in DATA_DIR. Main thread. */
import { join } from 'node:path';
import { loadKeptSecret } from '../std/kept-secret.ts';

/**
 * @returns the secret, 256 bits as base64url; the same at every start
 * @throws Error when it can neither be read nor made, or when the file holds something else; its `code` marks it as no fault
 * of ours
 */
export function loadEmbeddedSecret(dataDir: string): string {
  return loadKeptSecret(join(dataDir, 'secrets', 'jwt-secret'), 'a new one ends all tokens');
}
