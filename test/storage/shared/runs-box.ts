/** A box that shares its runs, as tests open it: view, follower, sender and journal. Test thread and its processes. */
import type { JournalStore, JournalWrite } from '../../../src/runtime/journal.ts';
import { LmdbView } from '../../../src/storage/lmdb/view.ts';
import { Follower, type FollowerTimes } from '../../../src/storage/shared/follower.ts';
import type { RunTables } from '../../../src/storage/shared/runs-commit.ts';
import { SharedRunsJournal } from '../../../src/storage/shared/runs-journal.ts';
import { RunsSender, type RunsTimes, type RunsWatcher } from '../../../src/storage/shared/runs-sender.ts';
import { readLost } from '../../../src/storage/shared/runs-store.ts';
import { OWNERS, type RunsTruth } from '../../../src/storage/shared/runs-truth.ts';
import type { Truth } from '../../../src/storage/shared/truth.ts';
import { WatchedView } from '../../../src/storage/shared/watched-view.ts';

export const TABLES: RunTables = {
  queried: new Set(['journal', 'snapshots', 'rows:run_steps', 'rows:run_totals']),
  counters: new Set(['rows:usage']),
};

interface RunsBoxTruths {
  truth: Truth;
  runs: RunsTruth;
}

export class RunsBox {
  readonly view: WatchedView;
  readonly follower: Follower;
  readonly runs: RunsSender;
  readonly journal: SharedRunsJournal;

  static async open(
    path: string,
    { truth, runs }: RunsBoxTruths,
    times: Partial<FollowerTimes & RunsTimes> = {},
    watcher: RunsWatcher | null = null,
  ): Promise<RunsBox> {
    let journal: SharedRunsJournal | null = null;
    const view = new WatchedView(await LmdbView.open(path, truth.identity), {
      onChanged: (rows) => {
        const owners = rows.filter(({ table }) => table === OWNERS);
        if (owners.length > 0) journal?.noteLost(owners.map(readLost));
      },
      onLoaded: () => journal?.noteLost(null),
      onPosition: () => {},
    });
    let follower: Follower | null = null;
    try {
      follower = await Follower.start(truth, view, times);
      const sender = await RunsSender.start(runs, follower, times, watcher);
      journal = new SharedRunsJournal(sender, TABLES);
      return new RunsBox(view, follower, sender, journal);
    } catch (thrown) {
      await follower?.close();
      await view.close();
      throw thrown;
    }
  }

  private constructor(view: WatchedView, follower: Follower, runs: RunsSender, journal: SharedRunsJournal) {
    this.view = view;
    this.follower = follower;
    this.runs = runs;
    this.journal = journal;
  }

  async close(): Promise<void> {
    await this.journal.close();
    await this.runs.close();
    await this.follower.close();
    await this.view.close();
  }
}

/**
 * Makes a journal for a suite that commits without loading. The journal loads each actor first, as the runtime does.
 */
export function loadFirst(box: RunsBox): JournalStore {
  const { journal } = box;
  const loaded = new Set<string>();
  let outstanding: Promise<void> = Promise.resolve();
  const load = (kind: string, key: string) => {
    loaded.add(`${kind}\0${key}`);
    return journal.load(kind, key);
  };
  const loadAll = async (writes: readonly JournalWrite[]) => {
    for (const { kind, key } of writes) if (!loaded.has(`${kind}\0${key}`)) await load(kind, key);
  };
  return {
    load,
    commit: (writes, done) => {
      outstanding = loadAll(writes).then(
        () =>
          new Promise((resolve) => {
            journal.commit(writes, (error, lost) => {
              done(error, lost);
              resolve();
            });
          }),
        done,
      );
    },
    close: async () => {
      await outstanding;
      await box.close();
    },
  };
}
