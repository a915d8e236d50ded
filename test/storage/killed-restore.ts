/**
 * A restore for the kill test: kills itself with SIGKILL at the file with the given number. Own process; arguments: the
 * backup, the data folder, the number.
 */
import { join } from 'node:path';
import { restoreBackup } from '../../src/storage/restore.ts';

const [, , source = '', folder = '', at = ''] = process.argv;
await restoreBackup(source, { data_dir: folder, capture_db: join(folder, 'capture.mdb') }, (_name, done) => {
  if (done === Number(at)) process.kill(process.pid, 'SIGKILL');
});
