/**
 * A view that reports which rows other boxes changed. The caller notes the box's own commits, so that their rows are
 * not reported. Any thread; only the thread that applies changes to the view uses it.
 */
import type { JournalWrite, StoredActor } from '../../runtime/journal.ts';
import type { TableTransaction } from '../tables.ts';
import type { Mark, Proposal, StoredRow } from './truth.ts';
import type { Attempt, View } from './view.ts';

interface ViewWatcher {
  /** Called after the view shows the rows, before {@link onPosition}. */
  onChanged(rows: readonly StoredRow[]): void;
  /** Called after everything was loaded: any row may have changed. */
  onLoaded(): void;
  /** Called when the view shows another position. */
  onPosition(position: number): void;
}

export class WatchedView implements View {
  readonly #view: View;
  readonly #watcher: ViewWatcher;
  /** Values that this box is committing. */
  readonly #own = new Map<string, StoredRow[]>();

  constructor(view: View, watcher: ViewWatcher) {
    this.#view = view;
    this.#watcher = watcher;
  }

  /** Records a commit of this box until the returned function is called. */
  noteOwn({ writes }: Proposal): () => void {
    for (const row of writes) {
      const rows = this.#own.get(nameOf(row));
      if (rows === undefined) this.#own.set(nameOf(row), [row]);
      else rows.push(row);
    }
    return () => {
      for (const row of writes) {
        const left = this.#own.get(nameOf(row))!.filter((other) => other !== row);
        if (left.length === 0) this.#own.delete(nameOf(row));
        else this.#own.set(nameOf(row), left);
      }
    };
  }

  get tables(): View['tables'] {
    return this.#view.tables;
  }

  get mark(): Mark | null {
    return this.#view.mark;
  }

  get history(): string {
    return this.#view.history;
  }

  attempt<Value>(work: (transaction: TableTransaction) => Value): Attempt<Value> {
    return this.#view.attempt(work);
  }

  attemptWrites(writes: readonly JournalWrite[]): Attempt<void> {
    return this.#view.attemptWrites(writes);
  }

  load(kind: string, key: string): StoredActor {
    return this.#view.load(kind, key);
  }

  apply(rows: readonly StoredRow[], mark: Mark): void {
    this.#view.apply(rows, mark);
    const foreign = rows.filter((row) => !this.#isOwn(row));
    if (foreign.length > 0) this.#watcher.onChanged(foreign);
    this.#watcher.onPosition(mark.position);
  }

  beginLoad(): void {
    this.#view.beginLoad();
  }

  fill(rows: readonly StoredRow[]): void {
    this.#view.fill(rows);
  }

  endLoad(mark: Mark, isOtherHistory: boolean): void {
    this.#view.endLoad(mark, isOtherHistory);
    this.#watcher.onLoaded();
    this.#watcher.onPosition(mark.position);
  }

  close(): Promise<void> {
    return this.#view.close();
  }

  #isOwn(row: StoredRow): boolean {
    const own = this.#own.get(nameOf(row));
    return (own ?? []).some(({ value }) => isSame(value, row.value));
  }
}

function nameOf({ table, key }: StoredRow): string {
  return `${table}\0${key.toString('latin1')}`;
}

function isSame(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b);
}
