/** Which files open an LMDB database with lmdb-js itself, and why they may. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const SOURCES = join(import.meta.dirname, '../../src');
const OPEN = /import \{[^}]*\bopen\b[^}]*\} from 'lmdb'/s;

/** Files that no write transaction of a shared database comes from. */
const ALLOWED: Record<string, string> = {
  'storage/backup-copy.ts': 'reads',
  'storage/capture/layout.ts': 'reads, and makes files that no other process opens yet',
  'storage/capture/run-index.ts': 'reads',
  'storage/lmdb/checkpoint.ts': 'reads',
  'storage/lmdb/file-replacement.ts': 'an empty transaction, which waits for the writer',
  'storage/lmdb/newest-commit.ts': 'checks each write transaction',
  'storage/lmdb/store-file.ts': 'makes a draft that no other process opens',
  'storage/lmdb/unused-bytes.ts': 'reads',
  'storage/points/page-source.ts': 'reads',
  'storage/rekey.ts': 'reads, and makes a copy that no other process opens',
  'storage/store-reads.ts': 'reads',
};

it('every database that other processes may open is opened for writing by openForWriting', () => {
  const found = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && OPEN.test(readFileSync(join(SOURCES, name), 'utf8')))
    .sort();
  // A new file either uses `openForWriting` (src/storage/lmdb/newest-commit.ts) or gets its reason here.
  expect(found).toEqual(Object.keys(ALLOWED).sort());
});
