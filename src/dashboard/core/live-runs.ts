/**
 * Keeps a list of runs up to date with the live stream. What is shown are the service's own records: an event only says which
 * run to read again. So no count is made here, and none can be wrong after a restart or beyond some number of rows. Browser.
 */
import type { Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { call } from './api.ts';
import { type LiveMessage, type LiveState, useLive } from './live.ts';
import type { Run } from './run-reader.ts';

/** From the first event of some until they are read. */
const SETTLE_MS = 700;
/** Runs behind the first page that are read at once; others wait for the next time. */
const READ_AT_ONCE = 20;

interface FollowedList {
  /** Reads the first page again. */
  refresh(): void;
  isInHead(run_id: string): boolean;
  isShown(run_id: string): boolean;
}

/**
 * @param changed gets the runs behind the first page that have changed
 * @returns how the stream is doing
 */
export function useLiveRuns(
  org_id: string,
  list: FollowedList,
  changed: Signal<ReadonlyMap<string, Run>>,
): Signal<LiveState> {
  const follower = useMemo(() => new Follower(org_id, list, changed), [org_id, list, changed]);
  useEffect(() => () => follower.stop(), [follower]);
  return useLive(org_id, (messages) => follower.take(messages));
}

class Follower {
  readonly #org_id: string;
  readonly #list: FollowedList;
  readonly #changed: Signal<ReadonlyMap<string, Run>>;
  readonly #touched = new Set<string>();
  readonly #ends = new AbortController();
  #timer: number | null = null;

  constructor(org_id: string, list: FollowedList, changed: Signal<ReadonlyMap<string, Run>>) {
    this.#org_id = org_id;
    this.#list = list;
    this.#changed = changed;
  }

  take(messages: readonly LiveMessage[]): void {
    for (const message of messages) {
      // Events were lost: what stands behind the first page is as it was read, until it changes again.
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
    for (const run_id of behind.splice(READ_AT_ONCE)) this.#touched.add(run_id);
    const read = await Promise.all(behind.map((run_id) => this.#read(run_id)));
    if (this.#ends.signal.aborted) return;
    const found = read.filter((run) => run !== null);
    if (found.length > 0)
      this.#changed.value = new Map([
        ...this.#changed.peek(),
        ...found.map((run) => [run.run_id, run] as const),
      ]);
    if (this.#touched.size > 0) this.#plan();
  }

  /** @returns null for one that cannot be read now: the next event or reading brings it */
  #read(id: string): Promise<Run | null> {
    const ask = { params: { id }, query: { org_id: this.#org_id }, signal: this.#ends.signal };
    return call('GET /v1/monitor/runs/{id}', ask).catch(() => null);
  }
}
