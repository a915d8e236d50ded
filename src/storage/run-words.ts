/**
 * Reads the *words* about captured runs: the outcomes of finished monitor runs with the same ids (`runs.mdb`), and
 * users' marks (`main.mdb`). A box that shares its rows has both in one file, its view. Capture reader, command line. A
 * run is looked up by its id. All runs are scanned once if the service has not yet listed the outcomes that an earlier
 * version stored (row-listing.ts).
 */
import { existsSync } from 'node:fs';
import type { ReportedRun } from '../domain/reported-run.ts';
import { LATE_AMONG_BOXES_MS, ReportedRuns } from '../domain/reported-runs.ts';
import { RUN_LISTS } from '../domain/run-list.ts';
import {
  isUnmarked,
  NO_MARKS,
  NO_WORDS,
  RUN_MARKS,
  type RunMarkRow,
  type RunMarks,
  type RunWords,
  readMarks,
} from '../domain/run-mark.ts';
import { RUN_OUTCOMES, RUNS, type RunRow } from '../domain/run-rows.ts';
import { ChangedIds } from '../std/changed-ids.ts';
import { TableOrganizationReads } from './accounts/organizations.ts';
import { TableUserReads } from './accounts/users.ts';
import { checkFileHead } from './lmdb/file-head.ts';
import type { DatabasePaths } from './lmdb/stores.ts';
import { LmdbTables } from './lmdb/tables.ts';
import type { AccountReads } from './ports/accounts.ts';
import { isListed, OUTCOME_LISTING } from './row-listing.ts';

/** A database exists but cannot be read, so the outcomes and marks of runs are unknown. */
export class RunWordsError extends Error {
  constructor(path: string, cause: unknown) {
    super(`the outcomes and marks of runs in ${path} cannot be read: ${(cause as Error).message}`, { cause });
    this.name = 'RunWordsError';
  }
}

type People = Pick<AccountReads, 'users' | 'organizations'>;

/**
 * Whether the outcomes of an organization count for captured runs (accounts/capture-owner.ts).
 * @param accounts null if their database does not exist
 */
type SpeaksOfCaptures = (accounts: People | null, org_id: string) => boolean;

/** How long the answer for an organization is cached. */
const REMEMBERED_MS = 5_000;

/**
 * Maximum number of reported runs of one DATA_DIR in memory for queries. In the order of their ids, each organization
 * gets what the organizations before have left, for its newest runs.
 */
const REPORTED_RUNS = 100_000;
/**
 * Up to this many marks and organizations are reread for each query; if there are more, they are cached for a
 * while.
 */
const LISTED_EACH_TIME = { marks: 1_000, organizations: 100 } as const;

function peopleIn(main: LmdbTables): People {
  return { users: new TableUserReads(main), organizations: new TableOrganizationReads(main) };
}

/** The outcomes and marks in one DATA_DIR. */
class FolderWords {
  readonly #paths: DatabasePaths;
  readonly #speaks: SpeaksOfCaptures;
  /** Cache: whether an organization's outcomes count. */
  readonly #speakers = new Map<string, boolean>();
  #speakersUntil = 0;
  #runs: LmdbTables | null = null;
  #main: LmdbTables | null = null;
  /** Outcomes of an earlier version that are not listed by id; null: not scanned yet. */
  #unlisted: Map<string, string> | null = null;
  #isListed = false;
  /** Reported runs by organization. */
  #reported = new Map<string, ReportedRuns>();
  /** Number of organizations with runs, whether their outcomes count or not. */
  #organizations = 0;
  #organizationsUntil = 0;
  #marks: ReadonlyMap<string, RunMarks> = new Map();
  #marksUntil = 0;
  readonly #changes: ChangedIds;
  readonly #mostReported: number;
  readonly #lateMs: number | undefined;

  /** @param changes receives the ids of runs whose marks or reported runs changed */
  constructor(paths: DatabasePaths, speaks: SpeaksOfCaptures, changes: ChangedIds, mostReported: number) {
    this.#paths = paths;
    this.#mostReported = mostReported;
    // Equal paths mean a view, in which rows of other boxes arrive late.
    this.#lateMs = paths.runs === paths.main ? LATE_AMONG_BOXES_MS : undefined;
    this.#speaks = speaks;
    this.#changes = changes;
  }

  outcomeOf(runId: string): string | null {
    const { runs: path } = this.#paths;
    const runs = this.#openRuns();
    if (runs === null) return null;
    return read(path, () => {
      const found: string[] = [];
      for (const { row, value } of runs.range<string>(RUN_OUTCOMES, { prefix: [runId] }))
        if (this.#isHeard(row[1] as string)) found.push(value);
      if (found.length > 0) return worst(found);
      this.#isListed ||= isListed(runs, OUTCOME_LISTING);
      if (this.#isListed) return null;
      this.#unlisted ??= this.#goOver(runs);
      return this.#unlisted.get(runId) ?? null;
    });
  }

  /** Calls `tell` for each run with an outcome or a mark. */
  tellAll(tell: (runId: string, said: Partial<RunWords>) => void): void {
    const { runs: runsPath } = this.#paths;
    const runs = this.#openRuns();
    if (runs !== null)
      read(runsPath, () => {
        for (const { row, value } of runs.range<string>(RUN_OUTCOMES, { prefix: [] }))
          if (this.#isHeard(row[1] as string)) tell(row[0] as string, { outcome: value });
        if (isListed(runs, OUTCOME_LISTING)) return;
        for (const [runId, outcome] of this.#goOver(runs)) tell(runId, { outcome });
      });
    for (const [runId, marks] of this.#readMarks([])) tell(runId, marks);
  }

  /** Returns the current marks of a run; null if it has none. */
  marksNow(runId: string): RunMarks | null {
    return this.#readMarks([runId]).get(runId) ?? null;
  }

  /**
   * Reads the marks that count for captured runs. If several organizations marked a run, the marks that were changed
   * last count.
   * @param prefix of the keys
   */
  #readMarks(prefix: readonly string[]): Map<string, RunMarks> {
    const marks = new Map<string, RunMarks>();
    const main = this.#openMain();
    if (main === null) return marks;
    return read(this.#paths.main, () => {
      const last = new Map<string, string>();
      for (const { row, value } of main.range<RunMarkRow>(RUN_MARKS, { prefix })) {
        const [runId, org = ''] = row as string[];
        if (org !== '' && !this.#isHeard(org)) continue;
        if ((last.get(runId!) ?? '') > value.marked_at) continue;
        last.set(runId!, value.marked_at);
        marks.set(runId!, readMarks(value));
      }
      return marks;
    });
  }

  /**
   * Reads the marks, and the new reported runs that count for captured ones.
   * @returns whether there is more to read
   */
  followReported(hasTime: () => boolean): boolean {
    this.#listMarks();
    const runs = this.#openRuns();
    if (runs === null) return false;
    return read(this.#paths.runs, () => {
      this.#listOrganizations(runs);
      let left = this.#mostReported;
      let isMore = false;
      for (const reported of this.#reported.values()) {
        isMore = reported.follow(hasTime, left) || isMore;
        left -= reported.size;
      }
      return isMore;
    });
  }

  /** The reported runs as of the last {@link followReported}, by organization. */
  get reported(): Iterable<ReportedRuns> {
    return this.#reported.values();
  }

  /** The marks as of the last {@link followReported}. */
  get marks(): ReadonlyMap<string, RunMarks> {
    return this.#marks;
  }

  #listMarks(): void {
    const now = performance.now();
    if (this.#marks.size > LISTED_EACH_TIME.marks && now < this.#marksUntil) return;
    this.#marksUntil = now + REMEMBERED_MS;
    const before = this.#marks;
    this.#marks = this.#readMarks([]);
    for (const [runId, marks] of this.#marks)
      if (!areSameMarks(marks, before.get(runId))) this.#changes.add(runId);
    for (const runId of before.keys()) if (!this.#marks.has(runId)) this.#changes.add(runId);
  }

  /** Finds the organizations whose outcomes count. */
  #listOrganizations(runs: LmdbTables): void {
    const now = performance.now();
    if (this.#organizations > LISTED_EACH_TIME.organizations && now < this.#organizationsUntil) return;
    this.#organizations = 0;
    this.#organizationsUntil = now + REMEMBERED_MS;
    const reported = new Map<string, ReportedRuns>();
    for (let after: string | null = null; ; ) {
      const place = after === null ? {} : { after: [after, LAST_TEXT] };
      const [next] = [...runs.range(RUN_LISTS, { prefix: [], limit: 1, ...place })];
      if (next === undefined) break;
      after = next.row[0] as string;
      this.#organizations += 1;
      if (!this.#isHeard(after)) continue;
      reported.set(after, this.#reported.get(after) ?? this.#startReading(runs, after));
    }
    for (const org of this.#reported.keys()) if (!reported.has(org)) this.#changes.addAll();
    this.#reported = reported;
  }

  #startReading(runs: LmdbTables, org: string): ReportedRuns {
    const onChange = (runId: string) => this.#changes.add(runId);
    return new ReportedRuns(runs, org, this.#mostReported, onChange, this.#lateMs);
  }

  async close(): Promise<void> {
    await Promise.all([this.#runs?.close(), this.#main?.close()]);
  }

  #openRuns(): LmdbTables | null {
    this.#runs ??= open(this.#paths.runs, 'process', this.#paths.data_key);
    return this.#runs;
  }

  #openMain(): LmdbTables | null {
    this.#main ??= open(this.#paths.main, 'disk', this.#paths.data_key);
    return this.#main;
  }

  #isHeard(org_id: string): boolean {
    const now = performance.now();
    if (now >= this.#speakersUntil) {
      this.#speakers.clear();
      this.#speakersUntil = now + REMEMBERED_MS;
    }
    let isHeard = this.#speakers.get(org_id);
    if (isHeard === undefined) {
      const main = this.#openMain();
      isHeard = read(this.#paths.main, () => this.#speaks(main && peopleIn(main), org_id));
      this.#speakers.set(org_id, isHeard);
    }
    return isHeard;
  }

  /** Outcomes by run, for runs that an earlier version did not list by id. */
  #goOver(runs: LmdbTables): Map<string, string> {
    const outcomes = new Map<string, string>();
    for (const { value } of runs.range<RunRow>(RUNS, { prefix: [] })) {
      if (value.status !== 'finished' || !this.#isHeard(value.org_id)) continue;
      const known = outcomes.get(value.run_id);
      outcomes.set(value.run_id, known === undefined ? value.outcome : worst([known, value.outcome]));
    }
    return outcomes;
  }
}

/** Sorts after every name in a key. */
const LAST_TEXT = '\u{10ffff}';

export class StoredRunWords {
  readonly #folders: readonly FolderWords[];
  /** The ids of runs whose marks or reported runs changed in a {@link followReported}. */
  readonly changes = new ChangedIds();

  /**
   * @param paths databases that may be missing; if several of them have marks of a run, those of the first one count
   * @param mostReported for tests
   */
  constructor(paths: readonly DatabasePaths[], speaks: SpeaksOfCaptures, mostReported = REPORTED_RUNS) {
    this.#folders = paths.map((folder) => new FolderWords(folder, speaks, this.changes, mostReported));
  }

  /** Returns the outcome and the marks of a run. @throws RunWordsError */
  of(runId: string): RunWords {
    const outcomes = this.#folders
      .map((folder) => folder.outcomeOf(runId))
      .filter((outcome) => outcome !== null);
    let marks: RunMarks | null = null;
    for (const folder of this.#folders) marks ??= folder.marksNow(runId);
    return { outcome: outcomes.length === 0 ? null : worst(outcomes), ...(marks ?? NO_MARKS) };
  }

  /**
   * Returns the outcomes and marks of all runs of a command.
   * @param runs finds a captured run by its id; undefined for an unknown id
   * @throws RunWordsError
   */
  all(runs: { find(runId: string): unknown }): Map<string, RunWords> {
    const words = new Map<string, RunWords>();
    for (const folder of this.#folders)
      folder.tellAll((runId, { outcome = null, ...said }) => {
        if (runs.find(runId) === undefined) return;
        const known = words.get(runId) ?? NO_WORDS;
        const both = [known.outcome, outcome].filter((told) => told !== null);
        const marks = isUnmarked(known) ? { ...marksIn(known), ...said } : marksIn(known);
        words.set(runId, { outcome: both.length === 0 ? null : worst(both), ...marks });
      });
    return words;
  }

  /**
   * Reads the marks and the new reported runs. `reported`, `reportedOf`, `allReportedOf` and `marksOf` return what was
   * read.
   * @returns whether there is more to read
   * @throws RunWordsError
   */
  followReported(hasTime: () => boolean): boolean {
    let isMore = false;
    for (const folder of this.#folders) isMore = folder.followReported(hasTime) || isMore;
    return isMore;
  }

  /** Yields the reported runs that count for captured ones, in any order. */
  *reported(): Generator<ReportedRun> {
    for (const folder of this.#folders) for (const runs of folder.reported) yield* runs.values();
  }

  /** Returns a reported run by its id. If there are several, a run that did not succeed comes first. */
  reportedOf(runId: string): ReportedRun | undefined {
    let found: ReportedRun | undefined;
    for (const folder of this.#folders)
      for (const runs of folder.reported) {
        const run = runs.get(runId);
        if (run !== undefined && (found === undefined || found.outcome === 'success')) found = run;
      }
    return found;
  }

  /** Returns the reported runs with an id, one for each organization that used it. */
  allReportedOf(runId: string): ReportedRun[] {
    const found: ReportedRun[] = [];
    for (const folder of this.#folders)
      for (const runs of folder.reported) {
        const run = runs.get(runId);
        if (run !== undefined) found.push(run);
      }
    return found;
  }

  /** Marks as of the last {@link followReported}. */
  marksOf(runId: string): RunMarks {
    for (const folder of this.#folders) {
      const marks = folder.marks.get(runId);
      if (marks !== undefined) return marks;
    }
    return NO_MARKS;
  }

  async close(): Promise<void> {
    await Promise.all(this.#folders.map((folder) => folder.close()));
  }
}

function areSameMarks(marks: RunMarks, other: RunMarks | undefined): boolean {
  if (other === undefined || marks.mark !== other.mark || marks.note !== other.note) return false;
  if (marks.feedback_score !== other.feedback_score || marks.tags.length !== other.tags.length) return false;
  return marks.tags.every((tag, at) => tag === other.tags[at]);
}

function marksIn({ mark, tags, note, feedback_score }: RunMarks): RunMarks {
  return { mark, tags, note, feedback_score };
}

/** Returns an outcome other than success if there is one, and otherwise success. */
function worst(outcomes: readonly string[]): string {
  return outcomes.find((outcome) => outcome !== 'success') ?? 'success';
}

/** Opens a database; null if the file is missing. @throws RunWordsError */
function open(path: string, durability: 'process' | 'disk', key: Uint8Array | null): LmdbTables | null {
  if (!existsSync(path)) return null;
  return read(path, () => {
    // Reading a truncated file would crash the process.
    checkFileHead(path);
    return new LmdbTables(path, durability, key);
  });
}

function read<Value>(path: string, work: () => Value): Value {
  try {
    return work();
  } catch (cause) {
    throw new RunWordsError(path, cause);
  }
}
