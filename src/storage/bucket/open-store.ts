/** Opens the place that an operator named. Command line. */
import { resolve } from 'node:path';
import { isBucketPlace, readBucketPlace } from './bucket-place.ts';
import { FolderStore } from './folder-store.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * @param place a folder, or a bucket (bucket-place.ts)
 * @throws StoreError
 */
export async function openStore(place: string): Promise<ObjectStore> {
  if (!isBucketPlace(place)) return new FolderStore(resolve(place));
  const bucket = readBucketPlace(place);
  // The SDK has hundreds of modules, which a folder does not need.
  const { openS3Store } = await import('./s3-store.ts');
  return openS3Store(bucket);
}
