/** Opens the place that an operator named. Command line. */
import { resolve } from 'node:path';
import { FolderStore } from './folder-store.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * @param place a folder
 * @throws StoreError
 */
export async function openStore(place: string): Promise<ObjectStore> {
  return new FolderStore(resolve(place));
}
