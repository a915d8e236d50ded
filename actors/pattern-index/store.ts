/**
 * The pattern store: rows on the disk, vectors in memory, and the rules that connect them (visibility, near-duplicates,
 * search). This class is the interface of the store; the store's parts are in the files beside this one. Actor thread.
 */
import type { PatternScope } from '../../src/domain/pattern.ts';
import {
  decodeVector,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  readPattern,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import { EMBEDDINGS_REMEMBERED, RememberedEmbedder } from '../../src/domain/remembered-embedder.ts';
import { situationVectorsId } from '../../src/domain/situation-vectors.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import { TickQueue } from '../../src/std/tick-queue.ts';
import { type ChangedPattern, followAll, followPatterns } from './following.ts';
import { GraphKeeper } from './graph-keeper.ts';
import { takeImports } from './imports.ts';
import { cleanAdded, PatternIntake } from './intake.ts';
import type {
  AddedPattern,
  FoundMatches,
  IndexState,
  MergedPattern,
  RemoveRequest,
  RetrieveRequest,
} from './protocol.ts';
import { Reembedding } from './reembedding.ts';
import { removePatterns } from './removal.ts';
import { repairPatterns } from './repair.ts';
import { nameGroup, nameScope } from './scope-names.ts';
import { PatternScopes, type Scope, type ScopeIndex } from './scopes.ts';
import { findPatterns, type QueryVectors } from './search.ts';
import { bringStarters } from './starters.ts';
import { nextTick, PROGRESS_EVERY_MS, StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';
import { packVectors } from './vector-packing.ts';

/** Maximum number of rows read at a time while the store loads. */
const LOAD_ROWS = 200;
/** Maximum time that a retrieval waits for a store that is loading. After that it searches what is loaded. */
const LOAD_WAIT_MS = 2_000;
/** Interval of the checks whether all work is done. */
const PAUSE_MS = 3;

export class PatternStore {
  readonly #parts: StoreParts;
  readonly #life = new StoreLifecycle();
  readonly #scopes: PatternScopes;
  readonly #keeper: GraphKeeper;
  readonly #intake: PatternIntake;
  readonly #reembedding: Reembedding;
  readonly #queries: RememberedEmbedder;
  /**
   * Vectors arrive in batches. If all searches of a batch ran in one turn, the first answer would wait for the last
   * search.
   */
  readonly #ticks = new TickQueue();
  readonly #loaded: Promise<void>;
  /** Resolves when the patterns and the saved graphs are loaded. After that, new patterns are accepted. */
  readonly #ready: Promise<void>;
  /**
   * Resolves when the patterns are loaded and can be found. If there is an earlier embedder, searches find the patterns
   * without a vector of the current embedder by their vectors of the earlier one.
   */
  readonly #serving: Promise<void>;
  #isLoaded = false;
  #isServing = false;

  /** Starts to load the stored patterns. */
  constructor(parts: StoreParts) {
    const { embedder } = parts;
    this.#parts = parts;
    this.#scopes = new PatternScopes(
      (scope) => this.#makeIndex(scope),
      (home) => this.#keeper.note(home),
    );
    const vectorsId = situationVectorsId(embedder);
    const formerId = (): string | null => this.#reembedding.formerVectorsId;
    this.#keeper = new GraphKeeper(parts, this.#scopes, this.#life, vectorsId, formerId);
    this.#intake = new PatternIntake(parts, this.#scopes);
    this.#reembedding = new Reembedding(parts, this.#scopes, this.#keeper, this.#life);
    this.#queries = new RememberedEmbedder(embedder, EMBEDDINGS_REMEMBERED);
    this.#loaded = this.#load();
    this.#ready = this.#loaded.then(() => this.#takeGraphs());
    this.#serving = this.#ready.then(() => this.#beginWork());
    this.#serving.then(
      () => {
        this.#isServing = true;
        this.#share();
      },
      () => {},
    );
    // Callers that need the patterns get the error. If there are no such callers, the rejection must be handled here,
    // or it would end the process.
    this.#loaded.catch((thrown: unknown) =>
      parts.log.warn({ err: thrown }, 'the stored patterns cannot be read'),
    );
  }

  /** Resolves when the stored patterns are loaded. @throws Error (rejects) when they cannot be read */
  whenLoaded(): Promise<void> {
    return this.#loaded;
  }

  /**
   * Finds patterns for a task.
   * @returns best first, apart from the preference for a model; more than requested if possible
   * @throws CatalogueError `unavailable` if the embedder does not answer, or the stored patterns cannot be read
   */
  async retrieve(request: RetrieveRequest): Promise<FoundMatches> {
    if (!this.#isServing) await this.#waitServing();
    const scopes = this.#scopes.visible(request);
    if (scopes.length === 0) return { scopes: [], matches: [] };
    const vectors = await this.#embedQuery(request, scopes);
    await this.#ticks.next();
    return findPatterns(scopes, vectors, request);
  }

  /**
   * Adds patterns, or merges each into its near-duplicate: all of them or none.
   * @returns one result for each, in order, when they are on the disk
   * @throws CatalogueError `conflict` if there is no room, `unavailable` if they cannot be embedded or written now
   */
  async add(scope: PatternScope, added: readonly AddedPattern[]): Promise<MergedPattern[]> {
    await this.#ready.catch((thrown: unknown) => {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    });
    const patterns = added.map(cleanAdded);
    const vectors = await this.#intake.embed(patterns);
    const outcomes = await this.#life.alone(() => this.#intake.take(scope, patterns, vectors));
    this.#keeper.tendSoon();
    return outcomes;
  }

  /**
   * Removes patterns of a scope from the disk, from memory and from saved graphs.
   * @returns how many of them existed
   * @throws CatalogueError `unavailable` if they cannot be removed now: then all of them still exist
   */
  async remove(request: RemoveRequest): Promise<number> {
    await this.#ready.catch((thrown: unknown) => {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    });
    return this.#life.alone(() => removePatterns(this.#parts, this.#scopes, this.#keeper, request));
  }

  /**
   * Brings changes of other boxes into memory.
   * @param changed null: anything may have changed
   * @throws Error if the rows cannot be read now
   */
  async follow(changed: readonly ChangedPattern[] | null): Promise<void> {
    await this.#ready;
    const own = { parts: this.#parts, scopes: this.#scopes, keeper: this.#keeper };
    await this.#life.alone(() => (changed === null ? followAll(own) : followPatterns(own, changed)));
    this.#keeper.tendSoon();
  }

  state(): IndexState {
    let index_bytes = 0;
    let unlinked = 0;
    let formerly_embedded = 0;
    for (const { index, former } of this.#scopes.all()) {
      index_bytes += index.bytes + (former?.bytes ?? 0);
      unlinked += index.unlinked;
      formerly_embedded += former?.size ?? 0;
    }
    return {
      is_loaded: this.#isLoaded,
      patterns: this.#scopes.patterns,
      unembedded: this.#scopes.unembedded,
      formerly_embedded,
      unlinked,
      scopes: this.#scopes.size,
      index_bytes,
    };
  }

  /** Resolves when every pattern has a vector and no graph is being built, or when the store is closed. */
  async whenSettled(): Promise<void> {
    await this.#ready;
    while (!this.#life.isOver && (this.#scopes.unembedded > 0 || this.#keeper.isTending))
      await this.#life.pause(PAUSE_MS);
  }

  /** Waits for the current write and stops all other work. */
  async close(): Promise<void> {
    this.#parts.catalog?.close();
    await this.#life.end();
    await this.#ready.catch(() => {});
    await this.#keeper.end();
    await this.#reembedding.end();
  }

  async #waitServing(): Promise<void> {
    try {
      await Promise.race([this.#serving, this.#life.pause(LOAD_WAIT_MS)]);
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }

  /** Embeds a query, with the former embedder too if it is needed. One of the two vectors is enough for a search. */
  async #embedQuery({ context, vector }: RetrieveRequest, scopes: readonly Scope[]): Promise<QueryVectors> {
    const needsFormer = scopes.some((scope) => scope.former !== null);
    const asked = needsFormer ? this.#reembedding.embedFormerly(context) : null;
    const embedded = vector === undefined ? this.#queries.embedOne(context) : Promise.resolve(vector);
    if (asked === null) return { present: await embedded, former: null };
    const [present, former] = await Promise.allSettled([embedded, asked]);
    if (present.status === 'rejected' && former.status === 'rejected') throw present.reason;
    return {
      present: present.status === 'fulfilled' ? present.value : null,
      former: former.status === 'fulfilled' ? former.value : null,
    };
  }

  #makeIndex(scope: PatternScope): ScopeIndex {
    const { makeIndex, embedder, catalog = null } = this.#parts;
    const group = scope.tier === 'e1' ? nameGroup(scope.org_id) : '';
    const shared = catalog?.share(nameScope(scope), group, embedder.dimensions) ?? null;
    return { index: makeIndex(embedder.dimensions, shared), shared };
  }

  /** Shares the indexes with other threads when all patterns are loaded and have vectors of the current embedder. */
  #share(): void {
    const { catalog = null, embedder } = this.#parts;
    if (catalog === null || this.#life.isOver || !this.#isServing || this.#scopes.unembedded > 0) return;
    catalog.serve(situationVectorsId(embedder));
  }

  async #load(): Promise<void> {
    const { log } = this.#parts;
    const startedMs = performance.now();
    let toldMs = startedMs;
    let after: RowKey | undefined;
    for (;;) {
      if (this.#life.isOver) return;
      after = this.#loadSome(after);
      if (after === undefined) break;
      if (performance.now() - toldMs >= PROGRESS_EVERY_MS) {
        toldMs = performance.now();
        log.info({ patterns: this.#scopes.patterns }, 'reading patterns');
      }
      await nextTick();
    }
    const { patterns, unembedded } = this.#scopes;
    this.#isLoaded = true;
    log.info(
      { patterns, unembedded, duration_ms: Math.round(performance.now() - startedMs) },
      'patterns are loaded',
    );
  }

  /** Loads the next rows. @returns the last key that was read; undefined if all rows are loaded */
  #loadSome(after: RowKey | undefined): RowKey | undefined {
    const { tables, embedder } = this.#parts;
    const vectorsId = situationVectorsId(embedder);
    const range =
      after === undefined ? { prefix: [], limit: LOAD_ROWS } : { prefix: [], after, limit: LOAD_ROWS };
    let count = 0;
    let last: RowKey | undefined;
    for (const { row, value } of tables.range<PatternRow>(PATTERNS, range)) {
      const pattern = readPattern(row, value);
      const { tier, org_id, project_id, pattern_id } = pattern;
      const home = this.#scopes.of({ tier, org_id, project_id });
      const bytes = tables.get(PATTERN_VECTORS, vectorKey(vectorsId, home.scope, pattern_id));
      this.#scopes.enter(home, pattern, decodeVector(bytes, embedder.dimensions));
      count++;
      last = row;
    }
    return count < LOAD_ROWS ? undefined : last;
  }

  async #takeGraphs(): Promise<void> {
    if (this.#life.isOver) return;
    const startedMs = performance.now();
    const linked = await this.#keeper.restoreAll();
    if (linked === 0) return;
    const facts = { linked, duration_ms: Math.round(performance.now() - startedMs) };
    this.#parts.log.info(facts, 'graphs of patterns are taken from the disk');
  }

  /**
   * Begins the work that follows the loading, which continues in the background. Resolves when every pattern with a
   * usable vector can be found, or when embedding again has failed.
   */
  async #beginWork(): Promise<void> {
    if (this.#life.isOver) return;
    const tend = () => this.#keeper.tendSoon();
    tend();
    const serving = this.#reembedding.start(() => this.#share());
    void bringStarters(this.#parts, this.#scopes, this.#intake, this.#life).then(tend);
    void packVectors(this.#parts, this.#life);
    void takeImports(this.#parts, this.#intake, this.#life, tend);
    void repairPatterns({
      parts: this.#parts,
      scopes: this.#scopes,
      keeper: this.#keeper,
      intake: this.#intake,
      life: this.#life,
    }).then(tend);
    await serving;
  }
}
