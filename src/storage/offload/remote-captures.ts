/**
 * Fetches captures of gateways from a bucket, for a command on another machine. The files without blocks are written
 * into a folder, where they are read like any capture database. Command line.
 */
import { join } from 'node:path';
import { StoreError } from '../bucket/object-store.ts';
import { openStore } from '../bucket/open-store.ts';
import { listGateways, RemoteFiles, readManifest } from './remote-files.ts';

/** The captures of one gateway. */
export interface RemoteCaptures {
  gateway: string;
  /** Path of the local database. */
  db: string;
  /** When the gateway last wrote its list of files to the bucket. */
  written_at: string;
}

interface RemoteOptions {
  place: string;
  /** null: all gateways. */
  gateway: string | null;
  /** The folder for the files. */
  folder: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
}

/**
 * Fetches new files, and removes files that are not in the bucket any more.
 * @returns the gateways, without those that have not listed any files yet
 * @throws StoreError with a one-line message; a file system error
 */
export async function fetchCaptures({
  place,
  gateway,
  folder,
  data_key,
}: RemoteOptions): Promise<RemoteCaptures[]> {
  const store = await openStore(place);
  try {
    const names = await listGateways(store);
    if (names.length === 0)
      throw new StoreError(`${store.name} has no captures: CAPTURE_BUCKET_URL of a gateway names the place`);
    if (gateway !== null && !names.includes(gateway))
      throw new StoreError(`${store.name} has no gateway ${gateway}; it has ${names.join(', ')}`);
    const found: RemoteCaptures[] = [];
    for (const name of gateway === null ? names : [gateway]) {
      const content = await readManifest(store, name, data_key);
      if (content === null) continue;
      const db = join(folder, name, 'capture.mdb');
      const remote = new RemoteFiles({ store, db, data_key });
      for (const file of await remote.prepare(place, content)) await remote.fetch(file);
      for (const file of content.files) await remote.fetchText(file);
      remote.removeOtherText(content.files);
      found.push({ gateway: name, db, written_at: content.written_at });
    }
    return found;
  } finally {
    store.close();
  }
}
