/**
 * Builds the graphs of scopes in the background and saves them to disk, so that the next start need not build them.
 * Actor thread.
 */
import { digest } from '../../src/domain/pattern-rows.ts';
import type { GraphFolder } from '../../src/search/graph-folder.ts';
import type { VectorIndex } from '../../src/search/vector-index.ts';
import { nameScope } from './scope-names.ts';
import type { PatternScopes, Scope } from './scopes.ts';
import { nextTick, PROGRESS_EVERY_MS, STRETCH_MS, type StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/**
 * A graph is saved only if at least this many vectors are unsaved. Fewer vectors are linked again in less than a
 * second.
 */
const SAVED_MIN = 1_000;
/** If more than this share of a graph is unsaved, it is saved without waiting for a quiet period. */
const UNSAVED_SHARE_MAX = 0.25;
/** Number of checks for graphs to save in each quiet period. */
const LOOKS_PER_QUIET = 5;

export class GraphKeeper {
  readonly #parts: Pick<StoreParts, 'log' | 'graphs'>;
  readonly #scopes: PatternScopes;
  readonly #life: StoreLifecycle;
  readonly #vectorsId: string;
  /** Names of all embedders for which graphs may exist. */
  readonly #vectorIds: () => readonly string[];
  #tending: Promise<void> | null = null;
  #saving: Promise<void> | null = null;
  /** Scopes with vectors that are not in their graph yet. */
  readonly #untended = new Set<Scope>();
  /** For each scope: number of vectors added since its graph was saved, and the time of the last addition. */
  readonly #unsaved = new Map<Scope, { count: number; at_ms: number }>();

  /**
   * @param vectorsId names the embedder of the vectors in the scopes' indexes
   * @param formerVectorsId returns the name of the former embedder, whose vectors are searched while patterns are
   * embedded again; null: no former embedder
   */
  constructor(
    parts: Pick<StoreParts, 'log' | 'graphs'>,
    scopes: PatternScopes,
    life: StoreLifecycle,
    vectorsId: string,
    formerVectorsId: () => string | null = () => null,
  ) {
    this.#parts = parts;
    this.#scopes = scopes;
    this.#life = life;
    this.#vectorsId = vectorsId;
    this.#vectorIds = () => {
      const former = formerVectorsId();
      return former === null ? [vectorsId] : [vectorsId, former];
    };
  }

  /** Whether a graph is being built. */
  get isTending(): boolean {
    return this.#tending !== null;
  }

  /** Records that a vector was added to the scope's index. */
  note(home: Scope): void {
    if (home.index.unlinked === 0) return;
    this.#untended.add(home);
    const unsaved = this.#unsaved.get(home);
    // This is the first vector since the index began to need a graph, or since its graph was saved. Earlier vectors may
    // also be missing in the graph, so all missing vectors count as unsaved.
    if (unsaved === undefined)
      this.#unsaved.set(home, { count: home.index.unlinked, at_ms: performance.now() });
    else {
      unsaved.count++;
      unsaved.at_ms = performance.now();
    }
  }

  /**
   * Loads the graphs that the last process saved. Call it before any graph is built.
   * @returns the number of vectors in the loaded graphs
   */
  async restoreAll(): Promise<number> {
    let linked = 0;
    for (const home of this.#scopes.all()) {
      if (this.#life.isOver) break;
      const found = await this.restore(home, home.index, this.#vectorsId);
      linked += found;
      const unsaved = this.#unsaved.get(home);
      if (unsaved !== undefined) unsaved.count -= found;
    }
    return linked;
  }

  /**
   * Loads the saved graph of a scope into an index, if the index has many vectors without a graph.
   * @param vectorsId names the embedder of the vectors in the index
   * @returns the number of vectors in the loaded graph; 0 if none is loaded
   */
  async restore(home: Scope, index: VectorIndex, vectorsId: string): Promise<number> {
    const { graphs = null } = this.#parts;
    const { savable } = index;
    if (graphs === null || savable === null || index.unlinked < SAVED_MIN) return 0;
    const ids = new Map<string, number>();
    for (const [id, entry] of home.entries.entries()) if (entry !== undefined) ids.set(entry.pattern_id, id);
    return graphs.folder.restore(nameGraph(vectorsId, home), vectorsId, savable, (name) => ids.get(name));
  }

  /** Begins to build the parts of graphs that are not built yet, unless graphs are already being built. */
  tendSoon(): void {
    if (this.#tending !== null || this.#life.isOver || this.#untended.size === 0) return;
    this.#tending = this.#tendAll().finally(() => {
      this.#tending = null;
      this.#saveSoon();
    });
  }

  /**
   * Deletes the scope's saved graphs. The graph is not saved again before the next start, which builds it without the
   * removed patterns.
   * @throws Error if a file cannot be deleted
   */
  async discard(home: Scope): Promise<void> {
    home.has_removed = true;
    this.#unsaved.delete(home);
    const { graphs = null } = this.#parts;
    // `removeAllOf` waits for a save that is in progress.
    await graphs?.folder.removeAllOf(this.#vectorIds().map((vectorsId) => nameGraph(vectorsId, home)));
  }

  /** Deletes saved graphs of scopes that do not exist and of other embedders. A failure is ignored. */
  async forgetOthers(): Promise<void> {
    const names = new Set<string>();
    for (const home of this.#scopes.all()) names.add(nameGraph(this.#vectorsId, home));
    await this.#parts.graphs?.folder.keepOnly(names).catch(() => {});
  }

  /** Resolves when no graph is being built or written. Call it after `StoreLifecycle.end`. */
  async end(): Promise<void> {
    await this.#tending;
    await this.#saving;
  }

  async #tendAll(): Promise<void> {
    const { log } = this.#parts;
    let toldMs = performance.now();
    let isTold = false;
    for (let [home] = this.#untended; home !== undefined && !this.#life.isOver; [home] = this.#untended) {
      this.#untended.delete(home);
      while (!this.#life.isOver && home.index.tend(STRETCH_MS)) {
        if (performance.now() - toldMs >= PROGRESS_EVERY_MS) {
          toldMs = performance.now();
          isTold = true;
          log.info({ unlinked: home.index.unlinked }, 'building the graph of patterns');
        }
        // Searches are slow until the graph is complete, so the build pauses only for other work of the thread.
        await nextTick();
      }
    }
    if (isTold && !this.#life.isOver) log.info({}, 'the graphs of patterns are complete');
  }

  #saveSoon(): void {
    const { graphs = null } = this.#parts;
    if (graphs === null || this.#saving !== null || this.#listUnsaved().length === 0) return;
    this.#saving = this.#saveAll(graphs).finally(() => {
      this.#saving = null;
    });
  }

  /** Scopes whose graph has changed enough to be saved. */
  #listUnsaved(): Scope[] {
    const scopes: Scope[] = [];
    for (const [home, { count }] of this.#unsaved)
      if (count >= SAVED_MIN && !home.has_removed && home.index.savable !== null) scopes.push(home);
    return scopes;
  }

  /** Saves the graphs that are due. Resolves when all of them are on the disk, or the store ends. */
  async #saveAll({ folder, quiet_ms }: NonNullable<StoreParts['graphs']>): Promise<void> {
    for (let scopes = this.#listUnsaved(); scopes.length > 0; scopes = this.#listUnsaved()) {
      await this.#life.pause(quiet_ms / LOOKS_PER_QUIET);
      for (const home of scopes) {
        if (this.#life.isOver) return;
        if (!home.has_removed && this.#isDue(home, quiet_ms)) await this.#save(home, folder);
      }
    }
  }

  #isDue(home: Scope, quietMs: number): boolean {
    const { index } = home;
    const unsaved = this.#unsaved.get(home)!;
    // The file would lack the vectors that are not in the graph yet.
    if (index.unlinked >= SAVED_MIN) return false;
    return performance.now() - unsaved.at_ms >= quietMs || unsaved.count >= UNSAVED_SHARE_MAX * index.size;
  }

  async #save(home: Scope, folder: GraphFolder): Promise<void> {
    const { index } = home;
    if (index.savable === null) return;
    this.#unsaved.delete(home);
    try {
      const nameOf = (id: number) => home.entries[id]?.pattern_id;
      await folder.save(nameGraph(this.#vectorsId, home), this.#vectorsId, index.savable, nameOf);
    } catch (thrown) {
      this.#parts.log.warn({ err: thrown }, 'a graph of patterns cannot be saved: the next start builds it');
    }
    // Some vectors arrived while the file was written.
    if (index.unlinked === 0) return;
    this.#untended.add(home);
    this.tendSoon();
  }
}

/** Makes the file name of a graph: one for each scope and embedder. */
function nameGraph(vectorsId: string, { scope }: Scope): string {
  return digest(JSON.stringify([vectorsId, nameScope(scope)]));
}
