/** The dependencies of a pattern store, which the caller provides. Actor thread. */
import type { NewPattern } from '../../src/domain/pattern.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import type { EmbedderRecord } from '../../src/search/former-embedders.ts';
import type { GraphFolder } from '../../src/search/graph-folder.ts';
import type { IndexCatalog } from '../../src/search/index-catalog.ts';
import type { MakeIndex } from '../../src/search/open-index.ts';
import type { Clock } from '../../src/std/clock.ts';
import type { Tables } from '../../src/storage/tables.ts';

/** The store's log; pino's logger fits. */
interface StoreLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
}

export interface StoreParts {
  /** `main.mdb`. This store is the only writer of its tables in this process. */
  tables: Tables;
  embedder: Embedder;
  makeIndex: MakeIndex;
  /**
   * The catalog in which other threads find the indexes; the store closes it. null or absent: the indexes are not
   * shared.
   */
  catalog?: IndexCatalog | null;
  clock: Clock;
  newId: () => string;
  log: StoreLog;
  /** The universal patterns that ship with the product. */
  starters: readonly Omit<NewPattern, 'model'>[];
  /** Where graphs are saved, so that a start need not build them; null: they are not saved. */
  graphs?: { folder: GraphFolder; quiet_ms: number } | null;
  /** Where the embedder comes from. A later start with another embedder can then open it again; absent: it cannot. */
  embedder_source?: EmbedderRecord['source'];
  /**
   * Embedders that may find patterns without a vector of the current embedder, best first. Each is opened when it is
   * needed, and the store closes it.
   * @param record the embedder of the stored vectors; null: unknown
   */
  listFormer?: (record: EmbedderRecord | null) => readonly (() => Promise<Embedder>)[];
}
