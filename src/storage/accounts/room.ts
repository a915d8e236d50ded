/** Checks limits on the number of rows of one organization or user. Any thread. */
import { CatalogueError } from '../../errors.ts';

/**
 * Checks that one more row is allowed.
 * @throws CatalogueError `conflict` if the limit is reached
 */
export function requireRoom(present: number, max: number, what: string): void {
  if (present >= max) throw new CatalogueError('conflict', `No more than ${max} ${what} are possible here`);
}
