/** Which box does the work for all boxes that share a database (api/box-duty.ts). Any thread. */
import type { DutyHolder, DutyReads, DutyWork } from '../ports/duties.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/** ['care'] → DutyHolder. */
const DUTIES = 'duties';
const KEY = ['care'];

export class TableDutyReads implements DutyReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(): DutyHolder | undefined {
    return this.#reader.get<DutyHolder>(DUTIES, KEY);
  }
}

export class TableDutyWork extends TableDutyReads implements DutyWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  give(holder: DutyHolder): void {
    this.#tx.write({ op: 'put', table: DUTIES, row: KEY, value: holder });
  }

  end(): void {
    this.#tx.write({ op: 'remove', table: DUTIES, row: KEY });
  }
}
