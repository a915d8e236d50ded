/**
 * The wall clock tells when something happened. Durations and deadlines use the monotonic clock, which is never set
 * back.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const RECKONING = /Date\.now\(\)\s*[-+<>]|([-+<]|[^=]>)=?\s*Date\.now\(\)/;
/** Files that compare with times of a file system, which are wall-clock times. */
const BY_THE_WALL = ['src/hooks/run-journal.ts', 'src/student/directory.ts'];

describe('the wall clock', () => {
  it('is never used to measure time', () => {
    const sources = ['src', 'actors'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => `${folder}/${name}`),
    );
    const reckoning = sources.filter((path) => RECKONING.test(readFileSync(join(ROOT, path), 'utf8')));
    expect(reckoning).toEqual(BY_THE_WALL);
  });
});
