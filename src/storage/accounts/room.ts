/** Bounds of what one organization or one user may have. Any thread. */
import { CatalogueError } from '../../errors.ts';

/**
 * @throws CatalogueError `conflict` if the limit is reached
 */
export function requireRoom(present: number, max: number, what: string): void {
  if (present >= max) throw new CatalogueError('conflict', `No more than ${max} ${what} are possible here`);
}
