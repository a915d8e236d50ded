/**
 * Builds the graphs of scopes in the background, and keeps them on the disk, so that the next start does not build them.
 * Actor thread.
 */
import { digest } from '../../src/domain/pattern-rows.ts';
import type { GraphFolder } from '../../src/search/graph-folder.ts';
import type { VectorIndex } from '../../src/search/vector-index.ts';
import { nameScope } from './scope-names.ts';
import type { PatternScopes, Scope } from './scopes.ts';
import { nextTick, PROGRESS_EVERY_MS, STRETCH_MS, type StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/** Fewer new vectors than this are linked again in less than a second. */
const SAVED_MIN = 1_000;
/** So much of a graph may be new before it is saved without waiting for quiet. */
const UNSAVED_SHARE_MAX = 0.25;
/** Looks for graphs that are due, for each time of quiet. */
const LOOKS_PER_QUIET = 5;

export class GraphKeeper {
  readonly #parts: Pick<StoreParts, 'log' | 'graphs'>;
  readonly #scopes: PatternScopes;
  readonly #life: StoreLifecycle;
  readonly #vectorsId: string;
  /** Of every embedder whose graphs may be there. */
  readonly #vectorIds: () => readonly string[];
  #tending: Promise<void> | null = null;
  #saving: Promise<void> | null = null;
  /** Scopes whose graph has something to take up. */
  readonly #untended = new Set<Scope>();
  /** Vectors that a scope has got since its graph was saved, and when the last of them came. */
  readonly #unsaved = new Map<Scope, { count: number; at_ms: number }>();

  /**
   * @param vectorsId names the embedder whose vectors the scopes' indexes hold
   * @param formerVectorsId the same for the embedder that serves while patterns are embedded anew; null: no such embedder
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

  /** A graph is being built. */
  get isTending(): boolean {
    return this.#tending !== null;
  }

  /** The scope's index has got another vector. */
  note(home: Scope): void {
    if (home.index.unlinked === 0) return;
    this.#untended.add(home);
    const unsaved = this.#unsaved.get(home);
    // The first one that a graph is made for: those before it go into the graph with it.
    if (unsaved === undefined)
      this.#unsaved.set(home, { count: home.index.unlinked, at_ms: performance.now() });
    else {
      unsaved.count++;
      unsaved.at_ms = performance.now();
    }
  }

  /** Takes up what the last start left; to be called before anything is built. @returns vectors that were linked so */
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

  /** @param vectorsId names the embedder whose vectors the index holds */
  async restore(home: Scope, index: VectorIndex, vectorsId: string): Promise<number> {
    const { graphs = null } = this.#parts;
    const { savable } = index;
    if (graphs === null || savable === null || index.unlinked < SAVED_MIN) return 0;
    const ids = new Map<string, number>();
    for (const [id, entry] of home.entries.entries()) if (entry !== undefined) ids.set(entry.pattern_id, id);
    return graphs.folder.restore(nameGraph(vectorsId, home), vectorsId, savable, (name) => ids.get(name));
  }

  /** Builds what is not built yet. */
  tendSoon(): void {
    if (this.#tending !== null || this.#life.isOver || this.#untended.size === 0) return;
    this.#tending = this.#tendAll().finally(() => {
      this.#tending = null;
      this.#saveSoon();
    });
  }

  /**
   * The scope's graphs go from the disk, and none is saved again before the next start, which makes it without what is removed
   * now.
   * @throws Error when the disk keeps one
   */
  async discard(home: Scope): Promise<void> {
    home.has_removed = true;
    this.#unsaved.delete(home);
    const { graphs = null } = this.#parts;
    // Behind a save that is under way.
    await graphs?.folder.removeAllOf(this.#vectorIds().map((vectorsId) => nameGraph(vectorsId, home)));
  }

  /** Removes graphs of scopes and embedders that are no more. */
  async forgetOthers(): Promise<void> {
    const names = new Set<string>();
    for (const home of this.#scopes.all()) names.add(nameGraph(this.#vectorsId, home));
    await this.#parts.graphs?.folder.keepOnly(names).catch(() => {});
  }

  /** Resolves when nothing is being built or written any more; the life must be over. */
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
        // Searches are slow until it is done: others have their turns between, and nothing more.
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

  /** Scopes whose graph has changed so much that it is worth a file. */
  #listUnsaved(): Scope[] {
    const scopes: Scope[] = [];
    for (const [home, { count }] of this.#unsaved)
      if (count >= SAVED_MIN && !home.has_removed && home.index.savable !== null) scopes.push(home);
    return scopes;
  }

  /** Until every graph that is worth it is on the disk. */
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
    // What is not in the graph yet would be missing from the file.
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
    // What came while it was being written.
    if (index.unlinked === 0) return;
    this.#untended.add(home);
    this.tendSoon();
  }
}

/** The name of a file: one for each scope and embedder. */
function nameGraph(vectorsId: string, { scope }: Scope): string {
  return digest(JSON.stringify([vectorsId, nameScope(scope)]));
}
