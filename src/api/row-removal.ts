/** Removes rows of a table in portions, between which requests have their turns. Server threads. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RowKey } from '../runtime/protocol.ts';
import type { Row, Tables, TableTransaction } from '../storage/tables.ts';

/** Rows looked at in one go where few are meant. */
const LOOKED_ROWS = 500;

/**
 * @param also what goes with a row, in its own transaction
 * @throws Error of the store; what is left is found by the next call
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
          // Two may be at it: what goes with a row goes once.
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
