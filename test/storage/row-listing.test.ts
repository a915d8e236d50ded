/** Runs of an earlier version are added to the lists exactly once, even if this work is interrupted. */

import { expect, it } from 'vitest';
import { RUN_LISTS } from '../../src/domain/run-list.ts';
import { RUNS } from '../../src/domain/run-rows.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { listOldRows, RUN_LISTING, RUN_LISTING_ROWS } from '../../src/storage/row-listing.ts';
import { makeFolder } from './folder.ts';

it('every run is listed under its project and under all; an interrupted listing continues', async () => {
  const tables = new LmdbTables(`${makeFolder()}/runs.mdb`, 'process');
  const count = 2 * RUN_LISTING_ROWS + 7;
  await tables.transact((tx) => {
    for (let at = 0; at < count; at++) {
      const [run_id, project_id] = [`run-${at}`, `p${at % 3}`];
      const started_at = new Date(1_700_000_000_000 + at).toISOString();
      const value = { org_id: 'acme', project_id, run_id, started_at };
      tx.write({ op: 'put', table: RUNS, row: ['acme', project_id, run_id], value });
    }
  });
  let asked = 0;
  await listOldRows(tables, RUN_LISTING, () => asked++ > 0);
  const listed = () => [...tables.range(RUN_LISTS, { prefix: ['acme', ''] })].map(({ row }) => row[3]);
  expect(listed()).toHaveLength(RUN_LISTING_ROWS);
  await listOldRows(tables, RUN_LISTING, () => false);
  expect(listed()).toEqual(Array.from({ length: count }, (_, at) => `run-${at}`));
  expect([...tables.range(RUN_LISTS, { prefix: ['acme', 'p1'] })]).toHaveLength(Math.floor((count + 1) / 3));
  // The listing is complete, so a further call does nothing even with many rows.
  await tables.transact((tx) =>
    tx.write({ op: 'remove', table: RUN_LISTS, row: ['acme', '', 1_700_000_000_000, 'run-0'] }),
  );
  await listOldRows(tables, RUN_LISTING, () => false);
  expect(listed()).toHaveLength(count - 1);
  await tables.close();
});
