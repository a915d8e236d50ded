/**
 * Opens and closes a database without end, and prints a dot each time. Own process. Argument: the database's path.
 */
import { writeSync } from 'node:fs';
import { setImmediate as nextTick } from 'node:timers/promises';
import { open } from 'lmdb';

const path = process.argv[2]!;
for (;;) {
  const root = open({ path, noSubdir: true, readOnly: true, cache: false });
  writeSync(1, '.');
  await root.close();
  await nextTick();
}
