/**
 * A follower for the kill test: it makes a point, and kills itself with SIGKILL before the object with the given
 * number. Own process; arguments: the data folder, the place, the number.
 */
import { join } from 'node:path';
import { FolderStore } from '../../src/storage/bucket/folder-store.ts';
import { Follower } from '../../src/storage/points/follower.ts';

const [, , data_dir = '', place = '', at = ''] = process.argv;
let objects = 0;
const store = new (class extends FolderStore {
  override async put(name: string, bytes: Uint8Array): Promise<void> {
    if (++objects === Number(at)) process.kill(process.pid, 'SIGKILL');
    await super.put(name, bytes);
  }
})(place);
const source = { data_dir, capture_db: join(data_dir, 'capture.mdb') };
const follower = await Follower.open(source, store, 86_400_000, Date.now());
await follower.pass(Date.now, new AbortController().signal);
await follower.close();
