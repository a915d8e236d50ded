/** The secret with which this service signs tokens. Main thread of the command line. */
import { loadEmbeddedSecret } from '../auth/embedded-secret.ts';
import type { Config } from '../config.ts';
import { databasePaths } from '../storage/lmdb/stores.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';

/**
 * AUTH_JWT_SECRET, otherwise the embedded secret, created when missing.
 * @throws Error while a restore is not complete
 */
export function secretOf({ auth, data_dir }: Config): string {
  if (auth.jwt_secret !== null) return auth.jwt_secret;
  refuseHalfRestored(databasePaths(data_dir).main);
  return loadEmbeddedSecret(data_dir);
}
