/**
 * Keeps a list of runs up to date with the live stream. An event only names a run, and the page reads that run again
 * from the service. The page never counts by itself, so a restart or a long list cannot make a count wrong. Browser.
 */
import type { Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { ListedRun } from './listed-runs.ts';
import { type LiveMessage, type LiveState, useLive } from './live.ts';

/** Delay between the first event and reading the changed runs. */
const SETTLE_MS = 700;
/** Maximum number of runs beyond the first page that are read at once; others wait for the next reading. */
const READ_AT_ONCE = 20;

interface FollowedList {
  /** Reads the first page again. */
  refresh(): void;
  /** Whether the first page has the run. @param run_id the id of a reported run */
  isInHead(run_id: string): boolean;
  /** Whether any page that was read has the run. */
  isShown(run_id: string): boolean;
  /** Reads some of these runs: the first `asked` of them. */
  read(run_ids: readonly string[], signal: AbortSignal): Promise<{ asked: number; rows: ListedRun[] }>;
}

/** Rows beyond the first page that have changed since they were read, by id. */
export type ChangedRuns = ReadonlyMap<string, ListedRun>;

/** Follows the live stream while the component is shown. @returns the state of the stream */
export function useLiveRuns(
  org_id: string,
  list: FollowedList,
  changed: Signal<ChangedRuns>,
): Signal<LiveState> {
  const follower = useMemo(() => new Follower(list, changed), [org_id, list, changed]);
  useEffect(() => () => follower.stop(), [follower]);
  return useLive(org_id, (messages) => follower.take(messages));
}

class Follower {
  readonly #list: FollowedList;
  readonly #changed: Signal<ChangedRuns>;
  readonly #touched = new Set<string>();
  readonly #ends = new AbortController();
  #timer: number | null = null;

  constructor(list: FollowedList, changed: Signal<ChangedRuns>) {
    this.#list = list;
    this.#changed = changed;
  }

  take(messages: readonly LiveMessage[]): void {
    for (const message of messages) {
      // Events were lost. Rows beyond the first page are shown as their page was read, until an event names them.
      if (message.event === 'reset') this.#changed.value = new Map();
      else if (message.data.run_id !== null) this.#touched.add(message.data.run_id);
    }
    this.#plan();
  }

  stop(): void {
    this.#ends.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #plan(): void {
    this.#timer ??= window.setTimeout(() => {
      this.#timer = null;
      void this.#settle();
    }, SETTLE_MS);
  }

  async #settle(): Promise<void> {
    this.#list.refresh();
    const behind = [...this.#touched].filter(
      (run_id) => !this.#list.isInHead(run_id) && this.#list.isShown(run_id),
    );
    this.#touched.clear();
    const ids = behind.slice(0, READ_AT_ONCE);
    // Runs that cannot be read now are read after their next event.
    const nothing = { asked: ids.length, rows: [] };
    const read =
      ids.length === 0 ? nothing : await this.#list.read(ids, this.#ends.signal).catch(() => nothing);
    if (this.#ends.signal.aborted) return;
    for (const run_id of behind.slice(read.asked)) this.#touched.add(run_id);
    if (read.rows.length > 0)
      this.#changed.value = new Map([
        ...this.#changed.peek(),
        ...read.rows.map((run) => [run.run_id, run] as const),
      ]);
    if (this.#touched.size > 0) this.#plan();
  }
}
