/**
 * Reads a database in one transaction without end, for the test of the watch over reads. Own process; argument: the
 * path.
 */
import { open } from 'lmdb';

const root = open({
  path: process.argv[2]!,
  noSubdir: true,
  readOnly: true,
  maxDbs: 8,
  overlappingSync: false,
});
root.useReadTransaction();
process.stdout.write('reading\n');
// Keeps the process alive, with the transaction open.
setInterval(() => {}, 1_000_000);
