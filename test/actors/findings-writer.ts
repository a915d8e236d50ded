/**
 * For the kill test of findings: stores and invalidates findings until it is killed, and prints a line after each
 * acknowledged operation. Own process; arguments: the path of the database and the number of the first finding.
 */
import { writeSync } from 'node:fs';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { FindingsHost } from '../fixtures/findings-host.ts';
import { WordEmbedder } from '../fixtures/word-embedder.ts';

const embedder = new WordEmbedder('words', 4_096);
const { client } = new FindingsHost(new LmdbTables(process.argv[2]!, 'disk'), embedder);

for (let n = Number(process.argv[3]); ; n++) {
  const codebase = { org_id: 'org', codebase_id: `c${n % 3}` };
  const content = `finding number ${n}`;
  const finding = {
    finding_id: `find_${n}`,
    project_id: 'default',
    content,
    file_path: `${n}.ts`,
    finding_type: 'note',
    metadata: '{}',
    created_at: '2026-01-01T00:00:00.000Z',
  };
  const vector = n % 4 === 0 ? null : (await embedder.embed([content]))[0]!;
  await client.store(codebase, finding, `hash ${n}`, vector);
  // A synchronous write, so that lines printed before the kill are not lost.
  writeSync(1, `+${n}\n`);
  if (n % 5 !== 4) continue;
  const gone = n - 3;
  const scope = { org_id: 'org', codebase_id: `c${gone % 3}`, project_id: null };
  await client.invalidate(scope, [`${gone}.ts`], null);
  writeSync(1, `-${gone}\n`);
}
