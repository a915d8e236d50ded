/**
 * Writes and removes rows until its input ends, with short pauses, and checks what it reads. Own process; argument: the
 * file. Its exit status is 1 if a row differs from what it wrote.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { FINDINGS } from '../../src/domain/finding-rows.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { CANARY } from './wiped-file.ts';

const tables = new LmdbTables(process.argv[2]!, 'process');
const wordsOf = (n: number) => `${CANARY} ${n} `.repeat(1 + ((n * 37) % 400));
let isEnding = false;
process.stdin.on('end', () => {
  isEnding = true;
});
process.stdin.resume();
for (let n = 0; !isEnding; n++) {
  await tables.transact((tx) => {
    tx.write({ op: 'put', table: FINDINGS, row: ['written', n], value: wordsOf(n) });
    if (n >= 20) tx.write({ op: 'remove', table: FINDINGS, row: ['written', n - 20] });
  });
  for (let i = Math.max(0, n - 19); i <= n; i++)
    if (tables.get<string>(FINDINGS, ['written', i]) !== wordsOf(i)) process.exit(1);
  if (n === 0) process.stdout.write('begun\n');
  // The pauses differ, so that some passes of the wipe complete and some do not.
  await pause((n * 7) % 40);
}
await tables.transact((tx) => {
  for (const { row } of [...tx.range(FINDINGS, { prefix: ['written'] })])
    tx.write({ op: 'remove', table: FINDINGS, row });
});
await tables.close();
