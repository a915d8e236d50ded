/** What a pattern store is made of; the composition root puts it together. Actor thread. */
import type { NewPattern } from '../../src/domain/pattern.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import type { EmbedderRecord } from '../../src/search/former-embedders.ts';
import type { GraphFolder } from '../../src/search/graph-folder.ts';
import type { IndexCatalog } from '../../src/search/index-catalog.ts';
import type { MakeIndex } from '../../src/search/open-index.ts';
import type { Clock } from '../../src/std/clock.ts';
import type { Tables } from '../../src/storage/tables.ts';

/** Where the store says what it does; pino's logger is one. */
interface StoreLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
}

export interface StoreParts {
  /** `main.mdb`. This store is the only writer of its tables in this process. */
  tables: Tables;
  embedder: Embedder;
  makeIndex: MakeIndex;
  /** Where other threads find the indexes; the store closes it. null or absent: nowhere. */
  catalog?: IndexCatalog | null;
  clock: Clock;
  newId: () => string;
  log: StoreLog;
  /** The universal patterns that ship with the product. */
  starters: readonly Omit<NewPattern, 'model'>[];
  /** Where graphs are kept, so that a start need not make them again; null: nowhere. */
  graphs?: { folder: GraphFolder; quiet_ms: number } | null;
  /** How another start finds the present embedder again when it has become the former one. */
  embedder_source?: EmbedderRecord['source'];
  /**
   * Embedders that may find patterns which have no vector of the present one yet, best first; each is opened when it is
   * needed, and closed by the store.
   * @param record the embedder that the stored vectors are of; null: not known
   */
  listFormer?: (record: EmbedderRecord | null) => readonly (() => Promise<Embedder>)[];
}
