/** A box that shares its rows, as tests open it: view, follower, tables and journal. Test thread. */
import { LmdbView } from '../../../src/storage/lmdb/view.ts';
import { Follower, type FollowerTimes } from '../../../src/storage/shared/follower.ts';
import { SharedJournal } from '../../../src/storage/shared/journal.ts';
import { SharedTables } from '../../../src/storage/shared/tables.ts';
import type { Truth } from '../../../src/storage/shared/truth.ts';
import type { OpenTables } from '../tables-suite.ts';

export class SharedBox {
  readonly view: LmdbView;
  readonly follower: Follower;
  readonly tables: SharedTables;
  readonly journal: SharedJournal;

  static async open(
    path: string,
    truth: Truth,
    times: Partial<FollowerTimes> = {},
    key: Uint8Array | null = null,
  ): Promise<SharedBox> {
    const view = await LmdbView.open(path, truth.identity, key);
    try {
      return new SharedBox(view, await Follower.start(truth, view, times));
    } catch (thrown) {
      await view.close();
      throw thrown;
    }
  }

  /** Prepares the suite of tables. Its tables and its journal use the same box, which is closed with the tables. */
  static prepareTables(path: string, truth: Truth): OpenTables {
    let box: SharedBox;
    return {
      open: async () => {
        box = await SharedBox.open(path, truth);
        return box.tables;
      },
      journal: () => new SharedJournal(box.view, box.follower),
    };
  }

  private constructor(view: LmdbView, follower: Follower) {
    this.view = view;
    this.follower = follower;
    const close = () => this.close();
    this.tables = Object.assign(new SharedTables(view, follower), { close });
    const journal = new SharedJournal(view, follower);
    const closeJournal = journal.close.bind(journal);
    this.journal = Object.assign(journal, {
      close: async () => {
        await closeJournal();
        await this.close();
      },
    });
  }

  async close(): Promise<void> {
    await this.follower.close();
    await this.view.close();
  }
}
