/**
 * A compaction for the kill test: kills itself with SIGKILL before the given file operation, or prints how many there
 * were. Own process; arguments: the folder and the operation.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const [, , folder = '', at = ''] = process.argv;
let operations = 0;
for (const name of ['rmSync', 'renameSync', 'fsyncSync'] as const) {
  const real = fs[name] as (...given: unknown[]) => void;
  const counted = (...given: unknown[]) => {
    if (++operations === Number(at)) process.kill(process.pid, 'SIGKILL');
    real(...given);
  };
  Object.assign(fs, { [name]: counted });
}
syncBuiltinESMExports();
const { compactData } = await import('../../src/storage/compaction.ts');
await compactData({ data_dir: folder, data_key: null }, () => {});
process.stdout.write(`${operations}\n`);
