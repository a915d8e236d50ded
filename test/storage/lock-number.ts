/** The number of the newest commit in LMDB's lock file. */
import { spawnSync } from 'node:child_process';
import { expect } from 'vitest';

/** Bytes of LMDB's lock file before the number of the newest commit. */
const NUMBER_AT = 8;

/** Sets the number of the newest commit back by `by`, in another process, as an opening process may do. */
export function setBack(path: string, by: number): void {
  const code = `
    const { openSync, readSync, writeSync } = require('node:fs');
    const file = openSync(process.argv[1] + '-lock', 'r+');
    const bytes = Buffer.alloc(8);
    readSync(file, bytes, 0, 8, ${NUMBER_AT});
    bytes.writeBigUInt64LE(bytes.readBigUInt64LE() - ${by}n);
    writeSync(file, bytes, 0, 8, ${NUMBER_AT});`;
  const { status, stderr } = spawnSync(process.execPath, ['-e', code, path], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(status).toBe(0);
}
