/** Which findings indexes are told that another box has changed rows. */
import { expect, it } from 'vitest';
import { FindingsAdapter } from '../../actors/findings-index/adapter.ts';
import type { Codebase, Finding } from '../../src/domain/finding.ts';
import type { IndexedRow } from '../../src/domain/finding-rows.ts';
import { TableFindingIndex } from '../../src/storage/accounts/finding-index.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';

it('beyond the bound of remembered code bases, any index may be in memory', async () => {
  const store = new TableFindingIndex(new MemoryTables());
  const codebases: Codebase[] = ['a', 'b', 'c'].map((codebase_id) => ({ org_id: 'acme', codebase_id }));
  const [first, second, third] = codebases as [Codebase, Codebase, Codebase];
  for (const codebase of codebases)
    await store.store({
      codebase,
      seq: 0,
      finding: {} as Finding,
      indexed: { embedder_id: 'e' } as IndexedRow,
      evicted: [],
    });
  const adapter = new FindingsAdapter(store, 1);
  await adapter.load(first);
  await adapter.load(first);
  expect([adapter.knownOf(null), adapter.knownOf(codebases)]).toEqual([[first], [first]]);
  await adapter.load(second);
  expect([adapter.knownOf(null), adapter.knownOf([third])]).toEqual([codebases, [third]]);
});
