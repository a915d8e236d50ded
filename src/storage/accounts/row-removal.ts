/** Removes rows of a table in portions, so that requests can run in between. Any thread. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RowKey } from '../../runtime/protocol.ts';
import type { Row, Tables, TableTransaction } from '../tables.ts';

/** Maximum number of rows that are read in one portion, whether they match or not. */
const LOOKED_ROWS = 500;

/**
 * Removes the rows of a table that begin with a prefix and match.
 * @param also called for each removed row in the same transaction, to remove related data
 * @throws Error from the store; a later call removes the remaining rows
 */
export async function removeRows<Value>(
  tables: Tables,
  table: string,
  prefix: RowKey,
  isMeant: (row: Row<Value>) => boolean,
  also: (tx: TableTransaction, row: Row<Value>) => void = () => {},
): Promise<void> {
  let after: RowKey | null = null;
  for (;;) {
    const range: Parameters<Tables['range']>[1] = {
      prefix,
      limit: LOOKED_ROWS,
      ...(after === null ? {} : { after }),
    };
    const rows: Row<Value>[] = [...tables.range<Value>(table, range)];
    const meant = rows.filter(isMeant);
    if (meant.length > 0)
      await tables.transact((tx) => {
        for (const row of meant) {
          // A concurrent call may have removed the row with its related data.
          if (tx.get(table, row.row) === undefined) continue;
          tx.write({ op: 'remove', table, row: row.row });
          also(tx, row);
        }
      });
    if (rows.length < LOOKED_ROWS) return;
    after = rows.at(-1)!.row;
    await nextTurn();
  }
}
