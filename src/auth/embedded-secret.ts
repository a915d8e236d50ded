/**
 * The secret that signs tokens if there is no identity provider: created once, stored in DATA_DIR. Main thread.
 */
import { join } from 'node:path';
import { loadKeptSecret } from '../std/kept-secret.ts';

/**
 * Reads the secret, or creates it at the first start.
 * @returns the secret, 256 bits as base64url; the same at every start
 * @throws Error if it can be neither read nor created, or if the file has other content; its `code` marks it as an
 *   expected error
 */
export function loadEmbeddedSecret(dataDir: string): string {
  return loadKeptSecret(join(dataDir, 'secrets', 'jwt-secret'), 'a new secret invalidates all tokens');
}
