/** The ports over the tables of stores that need no server. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import type { RowWrite } from '../../src/runtime/protocol.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { MemoryTruth } from '../../src/storage/memory/truth.ts';
import { TableRunReads } from '../../src/storage/table-run-reads.ts';
import { toStores } from '../../src/storage/table-stores.ts';
import type { Tables } from '../../src/storage/tables.ts';
import { describePorts, type OpenPorts } from './ports-suite.ts';
import { SharedBox } from './shared/shared-box.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ports-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** @param runs `main` itself if both are in one database */
function openPorts(main: Tables, runs: Tables): OpenPorts {
  const writeTo = (tables: Tables) => (writes: readonly RowWrite[]) =>
    tables.transact((tx) => {
      for (const write of writes) tx.write(write);
    });
  return {
    stores: toStores(main, runs, new TableRunReads(runs)),
    writeMain: writeTo(main),
    writeRuns: writeTo(runs),
    close: async () => {
      await main.close();
      if (runs !== main) await runs.close();
    },
  };
}

describePorts('LMDB', () =>
  openPorts(
    new LmdbTables(join(folder, 'main.mdb'), 'disk'),
    new LmdbTables(join(folder, 'runs.mdb'), 'process'),
  ),
);
describePorts('memory', () => openPorts(new MemoryTables(), new MemoryTables()));
describePorts('a view of shared rows', async () => {
  const shared = await SharedBox.prepareTables(join(folder, 'view.mdb'), new MemoryTruth()).open();
  return openPorts(shared, shared);
});
