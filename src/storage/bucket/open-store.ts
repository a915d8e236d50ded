/** Opens the object store that an operator configured. Any thread. */
import { resolve } from 'node:path';
import { isBucketPlace, readBucketPlace, readFolderAddress } from './bucket-place.ts';
import { FolderStore } from './folder-store.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * Checks the name of a place without opening it. Only the name of a bucket is checked; a folder may have any name.
 * @throws StoreError
 */
export function checkPlace(place: string): void {
  if (isBucketPlace(place)) readBucketPlace(place);
}

/**
 * Opens the store at a place.
 * @param place a folder, its file:// address, or a bucket (bucket-place.ts)
 * @throws StoreError
 */
export async function openStore(place: string): Promise<ObjectStore> {
  if (!isBucketPlace(place)) return new FolderStore(resolve(readFolderAddress(place)));
  const bucket = readBucketPlace(place);
  // Imported only for buckets, because the SDK has hundreds of modules.
  const { openS3Store } = await import('./s3-store.ts');
  return openS3Store(bucket);
}
