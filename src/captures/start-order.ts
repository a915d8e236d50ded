/**
 * The runs of the list by their start: captured runs, and reported runs that were not captured. A page without a filter is
 * read from here, so that it looks at no more runs than it shows. Pure; capture reader.
 *
 * Memory: a reference for each run. The order is made for the first page, in about 10 ms for 100,000 runs, and again after
 * changes that it cannot follow: a run that left the list or began earlier than known, and new reported runs.
 */
import type { ReportedRun } from '../domain/reported-run.ts';
import { isBehind, type PagePlace } from '../domain/run-query/page.ts';
import type { ListedRun } from './listed-run.ts';
import { findReported, type RunEntry, type SaidOfRuns } from './run-entry.ts';

/** A run of the list, and its position by start. */
interface PlacedRun {
  run: RunEntry;
  place: PagePlace;
}

export class StartOrder {
  readonly #said: SaidOfRuns;
  /** Ascending by start, then by the first exchange; null: not made. */
  #listed: ListedRun[] | null = null;
  /** Reported runs that were not captured, ascending by start. */
  #alone: ReportedRun[] = [];
  /** The version of the reported runs in `#alone`. */
  #version = -1;
  /** Captured runs that `#alone` does not consider yet. */
  #unjoined: ListedRun[] = [];

  constructor(said: SaidOfRuns) {
    this.#said = said;
  }

  /** The list changed in a way that this order does not follow. */
  forget(): void {
    this.#listed = null;
  }

  /** Adds a new run, when its first exchange is known. */
  add(run: ListedRun): void {
    const listed = this.#listed;
    if (listed === null) return;
    this.#unjoined.push(run);
    const { first_ms } = run.tally;
    const newest = listed.at(-1);
    if (newest === undefined || newest.tally.first_ms <= first_ms) listed.push(run);
    else listed.splice(countBehind(listed, placeOfListed(run), placeOfListed), 0, run);
  }

  /** @param runs all runs of the list, which are then followed by {@link add} and {@link forget} */
  follow(runs: readonly ListedRun[]): void {
    const { version } = this.#said;
    const isMade = this.#listed !== null;
    if (this.#listed === null) {
      this.#listed = [...runs];
      this.#listed.sort(({ tally: a }, { tally: b }) => a.first_ms - b.first_ms || a.first_id - b.first_id);
    }
    if (isMade && this.#version === version) this.#joinNew(version);
    else this.#joinAll(this.#listed, version);
    this.#unjoined = [];
  }

  /** Number of all runs. */
  get size(): number {
    return (this.#listed?.length ?? 0) + this.#alone.length;
  }

  /** The runs after a place, newest first; null: from the newest on. */
  *newest(after: PagePlace | null): Generator<PlacedRun> {
    const listed = this.#listed ?? [];
    const alone = this.#alone;
    let inListed = after === null ? listed.length : countBehind(listed, after, placeOfListed);
    let inAlone = after === null ? alone.length : countBehind(alone, after, placeOfReported);
    while (inListed > 0 || inAlone > 0) {
      const captured = inListed === 0 ? null : placeOfListed(listed[inListed - 1]!);
      const reported = inAlone === 0 ? null : placeOfReported(alone[inAlone - 1]!);
      if (captured === null || (reported !== null && isBehind(captured, reported))) {
        yield { run: { listed: null, reported: alone[--inAlone]! }, place: reported! };
        continue;
      }
      const run = listed[--inListed]!;
      yield { run: { listed: run, reported: findReported(run, this.#said, this.#version) }, place: captured };
    }
  }

  #joinAll(listed: readonly ListedRun[], version: number): void {
    this.#version = version;
    this.#alone = [...this.#said.reported()];
    if (this.#alone.length === 0) return;
    const joined = new Set<ReportedRun | null>();
    for (const run of listed) joined.add(findReported(run, this.#said, version));
    this.#alone = this.#alone.filter((reported) => !joined.has(reported));
    this.#alone.sort((a, b) => a.started_ms - b.started_ms || (a.run_id < b.run_id ? -1 : 1));
  }

  #joinNew(version: number): void {
    for (const run of this.#unjoined) {
      const reported = findReported(run, this.#said, version);
      const at = reported === null ? -1 : this.#alone.indexOf(reported);
      if (at >= 0) this.#alone.splice(at, 1);
    }
  }
}

function placeOfListed({ tally: { first_ms, first_id, summary } }: ListedRun): PagePlace {
  return { key: first_ms, started: first_ms, stored: first_id, run_id: summary.run_id! };
}

function placeOfReported({ started_ms, run_id }: ReportedRun): PagePlace {
  return { key: started_ms, started: started_ms, stored: 0, run_id };
}

/** Counts the runs after a place. @param runs ascending */
function countBehind<Run>(runs: readonly Run[], place: PagePlace, placeOf: (run: Run) => PagePlace): number {
  let low = 0;
  let high = runs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBehind(placeOf(runs[middle]!), place)) low = middle + 1;
    else high = middle;
  }
  return low;
}
