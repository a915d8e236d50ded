/**
 * Tables that several boxes share (../tables.ts). Reads come from this box's view; a transaction runs on the view, and
 * takes effect when the database has accepted it. Any thread.
 */
import type { RowKey } from '../../runtime/protocol.ts';
import type { Row, RowRange, TableReader, Tables, TableTransaction } from '../tables.ts';
import type { Committer } from './follower.ts';
import { TruthUnavailableError } from './truth.ts';
import type { View } from './view.ts';

/** Maximum number of attempts of a transaction that conflicts with others. */
const ATTEMPTS = 20;

export class SharedTables implements Tables {
  readonly #view: View;
  readonly #committer: Committer;
  /** Resolves after the last of the transactions that had a conflict. */
  #turn: Promise<void> = Promise.resolve();

  constructor(view: View, committer: Committer) {
    this.#view = view;
    this.#committer = committer;
  }

  get<Value>(table: string, row: RowKey): Value | undefined {
    return this.#view.tables.get<Value>(table, row);
  }

  range<Value>(table: string, range: RowRange): Iterable<Row<Value>> {
    return this.#view.tables.range<Value>(table, range);
  }

  snapshot<Value>(tables: readonly string[], work: (reader: TableReader) => Value): Value {
    return this.#view.tables.snapshot(tables, work);
  }

  /**
   * Runs a transaction on the view and sends its writes to the database. Repeats this after a conflict.
   * @param work may run several times; only the last run counts
   * @throws TruthUnavailableError, also after 20 conflicts; what `work` throws
   */
  async transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    const first = await this.#attempt(work);
    if (first !== null) return first.value;
    // Repeated one after the other, because transactions of this thread that change the same rows would otherwise
    // conflict again.
    const turn = this.#turn.then(() => this.#repeat(work));
    this.#turn = turn.then(ignore, ignore);
    return turn;
  }

  async #repeat<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
      const done = await this.#attempt(work);
      if (done !== null) return done.value;
    }
    throw new TruthUnavailableError('other commits to the same rows always came first');
  }

  /** Runs the transaction once. @returns null for a conflict */
  async #attempt<Value>(work: (transaction: TableTransaction) => Value): Promise<{ value: Value } | null> {
    const { value, base, history, reads, writes } = this.#view.attempt(work);
    // All reads saw the same position, so a transaction without writes needs no check.
    if (writes.length === 0) return { value };
    return (await this.#committer.commit({ base, history, reads, writes })) === null ? null : { value };
  }

  async close(): Promise<void> {}
}

function ignore(): void {}
