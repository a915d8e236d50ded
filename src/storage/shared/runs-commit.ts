/** Builds an actor's commit to the shared runs from the changes of its journal. Any thread. */
import type { Change } from '../lmdb/changes.ts';
import type { ActorCommit, Count, RowPhase, RowRemoval } from './runs-truth.ts';
import type { StoredRow } from './truth.ts';

/** Names of databases, such as `rows:usage`. All other databases have rows that every box follows. */
export interface RunTables {
  /** Databases with rows that are read only by queries. */
  queried: ReadonlySet<string>;
  /** Databases with counters. */
  counters: ReadonlySet<string>;
}

/** A limit of at least this many rows counts as no limit. */
const UNLIMITED = 1e9;

export class CommitBuilder {
  readonly #actor: Buffer;
  readonly #tables: RunTables;
  readonly #phases: RowPhase[] = [];
  readonly #common = new Map<string, StoredRow>();
  readonly #counts: Count[] = [];
  #removals: RowRemoval[] = [];
  /** By table and key. */
  #rows = new Map<string, StoredRow>();

  constructor(actor: Buffer, tables: RunTables) {
    this.#actor = actor;
    this.#tables = tables;
  }

  /** Adds a change to the commit. @throws TypeError for a change that is not possible in the table */
  add(change: Change): void {
    const { op, database: table, key } = change;
    if (this.#tables.counters.has(table)) {
      if (op !== 'add') throw new TypeError(`${op} in ${table}, which has counters`);
      for (const [name, by] of Object.entries(change.counts)) this.#counts.push({ table, key, name, by });
      return;
    }
    if (op === 'add') throw new TypeError(`counts in ${table}`);
    const isQueried = this.#tables.queried.has(table);
    if (op === 'put' || op === 'remove') {
      const row = { table, key, value: op === 'put' ? change.value : null };
      (isQueried ? this.#rows : this.#common).set(placeOf(row), row);
      return;
    }
    if (!isQueried) throw new TypeError(`${op} in ${table}, whose rows are removed one by one`);
    const limit = op === 'trim' && change.limit < UNLIMITED ? change.limit : null;
    this.#remove({ table, first: key, end: change.end, limit });
  }

  build(term: number): ActorCommit {
    this.#endPhase();
    return {
      actor: this.#actor,
      term,
      phases: this.#phases,
      common: [...this.#common.values()],
      counts: this.#counts,
    };
  }

  #remove(removal: RowRemoval): void {
    const { table, first, end, limit } = removal;
    const inside = [...this.#rows].filter(
      ([, row]) => row.table === table && row.key.compare(first) >= 0 && row.key.compare(end) < 0,
    );
    // A limited removal depends on earlier writes, so these must be applied before, in their own phase.
    if (limit !== null && inside.length > 0) this.#endPhase();
    else for (const [place] of inside) this.#rows.delete(place);
    this.#removals.push(removal);
  }

  #endPhase(): void {
    if (this.#removals.length === 0 && this.#rows.size === 0) return;
    this.#phases.push({ removals: this.#removals, rows: [...this.#rows.values()] });
    this.#removals = [];
    this.#rows = new Map();
  }
}

function placeOf({ table, key }: StoredRow): string {
  return `${table}\0${key.toString('latin1')}`;
}
