/**
 * A page wipe for the kill test: kills itself with SIGKILL before the given write, or prints how many there were. Own
 * process; arguments: the file, its durability, and the number of the write.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const [, , path = '', durability = '', at = ''] = process.argv;
let writes = 0;
const real = fs.writeSync as (...given: unknown[]) => number;
const counted = (...given: unknown[]) => {
  if (++writes === Number(at)) process.kill(process.pid, 'SIGKILL');
  return real(...given);
};
Object.assign(fs, { writeSync: counted });
syncBuiltinESMExports();
const { WipedFile } = await import('./wiped-file.ts');
const file = new WipedFile(path, durability as 'disk' | 'process');
await file.wipe();
await file.tables.close();
fs.writeFileSync(1, `${writes}\n`);
