/**
 * The pattern store: rows on the disk, vectors in memory, and the rules between them — who sees what, what counts as the
 * same, what is found. Each scope (a project, an organization's commons, the universal patterns) has an index of its
 * own, so a search cannot meet another tenant's pattern. Actor thread.
 *
 * Texts stay on the disk and are read for what is answered. In memory a pattern takes its vector (4 bytes a dimension,
 * twice once a graph holds it) and about 500 bytes.
 */
import {
  cleanPattern,
  modelFamily,
  type NewPattern,
  type Pattern,
  type PatternScope,
  SAME_FAMILY_BOOST,
  TIERS,
  UNIVERSAL_SCOPE,
} from '../../src/domain/pattern.ts';
import {
  decodeVector,
  digest,
  encodeVector,
  type ImportRow,
  PATTERN_IMPORTS,
  PATTERN_SETTINGS,
  PATTERN_SOURCES,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  patternKey,
  putPattern,
  readPattern,
  type SourceRow,
  sourceKey,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import {
  cosineOf,
  embedSituations,
  type SituationVectors,
  situationVectorsId,
} from '../../src/domain/situation-vectors.ts';
import { CatalogueError } from '../../src/errors.ts';
import {
  EMBEDDINGS_REMEMBERED,
  PATTERN_SOURCES_KEPT,
  PATTERNS_MAX,
  PATTERNS_PER_SCOPE,
  SAME_SITUATION_COSINE,
} from '../../src/limits.ts';
import type { RowKey, RowWrite } from '../../src/runtime/protocol.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import type { MakeIndex } from '../../src/search/open-index.ts';
import { RememberedEmbedder } from '../../src/search/remembered-embedder.ts';
import type { VectorIndex, VectorMatch } from '../../src/search/vector-index.ts';
import type { Clock } from '../../src/std/clock.ts';
import type { Tables } from '../../src/storage/tables.ts';
import type { AddedPattern, FoundPattern, IndexState, MergedPattern, RetrieveRequest } from './protocol.ts';

/** Where the store says what it does; pino's logger is one. */
export interface StoreLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
}

export interface StoreParts {
  /** `main.mdb`. This store is the only writer of its tables in this process. */
  tables: Tables;
  embedder: Embedder;
  makeIndex: MakeIndex;
  clock: Clock;
  newId: () => string;
  log: StoreLog;
  /** The universal patterns that ship with the product. */
  starters: readonly Omit<NewPattern, 'model'>[];
}

/** A pattern as it is kept in memory; its place in the list is its id in the index. */
interface Entry {
  pattern_id: string;
  failure_type: string;
  family: string;
}

interface Scope {
  scope: PatternScope;
  entries: (Entry | undefined)[];
  /** Entries that are there. */
  size: number;
  index: VectorIndex;
  /** Entries whose situation has no vector yet. */
  unembedded: Set<number>;
}

/** A pattern that an `add` has decided on, not yet on the disk. */
interface Draft {
  pattern: Pattern;
  /** null: it was there before, and is changed. */
  vector: Float32Array | null;
}

/** What of our own universal patterns is in the store. */
interface StarterRow {
  /** Digest of each that was created → its id. */
  created: Record<string, string>;
  /** Digest of all of them together. */
  version: string;
}

/** Rows read in one go while the store loads. */
const LOAD_ROWS = 200;
/** Patterns near enough to be looked at whole: whether one of them is the same. */
const TWIN_CANDIDATES = 4;
const TWIN_SEARCH_COSINE = 0.8;
/** Situations embedded in one go. */
const EMBED_TEXTS = 32;
/** Longest stretch of work before the thread is left to others. */
const STRETCH_MS = 5;
/** Breath between two stretches of work that nobody waits for. */
const PAUSE_MS = 3;
/** A retrieval waits this long for a store that is being loaded, then answers from what is there. */
const LOAD_WAIT_MS = 2_000;
/** Beyond this many vectors outside the graph an import helps to build it, so that its look for duplicates stays quick. */
const UNLINKED_MAX = 512;
/** After an embedder that does not answer. */
const EMBED_RETRY_FIRST_MS = 1_000;
const EMBED_RETRY_MAX_MS = 60_000;
/** Found beyond what is wanted, for those that are not on the disk yet. */
const SPARE_MATCHES = 4;
const PROGRESS_EVERY_MS = 5_000;
/** How often the store looks for what the command line left. */
const IMPORTS_EVERY_MS = 2_000;

export class PatternStore {
  readonly #parts: StoreParts;
  readonly #queries: RememberedEmbedder;
  readonly #scopes = new Map<string, Scope>();
  /** Scopes of e1 by organization. */
  readonly #projects = new Map<string, Set<Scope>>();
  readonly #loaded: Promise<void>;
  #isLoaded = false;
  #patterns = 0;
  #unembedded = 0;
  /** Writes come one after another. */
  #writing: Promise<unknown> = Promise.resolve();
  #tending = false;
  /** Scopes whose graph has something to take up. */
  readonly #untended = new Set<Scope>();
  #embedding = false;
  #closed = false;
  readonly #wakes = new Set<() => void>();

  /** Begins to read the stored patterns in. */
  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#queries = new RememberedEmbedder(parts.embedder, EMBEDDINGS_REMEMBERED);
    this.#loaded = this.#load();
    // Whoever needs it loaded hears of a failure; with nobody there it must not end the process.
    this.#loaded.catch((thrown: unknown) =>
      parts.log.warn({ err: thrown }, 'the stored patterns cannot be read'),
    );
  }

  /** @throws Error when the stored patterns cannot be read */
  whenLoaded(): Promise<void> {
    return this.#loaded;
  }

  /**
   * Finds patterns for a task.
   * @returns best first, but for the preference of a model
   * @throws CatalogueError `unavailable` when the embedder cannot be asked now
   */
  async retrieve(request: RetrieveRequest): Promise<FoundPattern[]> {
    if (!this.#isLoaded) await this.#waitLoaded();
    const scopes = this.#visibleScopes(request).filter(({ size }) => size > 0);
    if (scopes.length === 0) return [];
    const vector = await this.#queries.embedOne(request.context);
    const found = this.#search(scopes, vector, request);
    return this.#read(found, request.top_k);
  }

  /**
   * Adds patterns, or merges each into its near-duplicate: all of them or none.
   * @returns one for each, in order, when they are on the disk
   * @throws CatalogueError `conflict` when there is no room, `unavailable` when they cannot be embedded or written now
   */
  async add(scope: PatternScope, added: readonly AddedPattern[]): Promise<MergedPattern[]> {
    await this.#loaded.catch((thrown: unknown) => {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    });
    const patterns = added.map(cleanAdded);
    const vectors = await this.#embed(patterns);
    return this.#alone(() => this.#addAlone(scope, patterns, vectors));
  }

  async #waitLoaded(): Promise<void> {
    try {
      await Promise.race([this.#loaded, this.#pause(LOAD_WAIT_MS)]);
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }

  state(): IndexState {
    let index_bytes = 0;
    let unlinked = 0;
    for (const { index } of this.#scopes.values()) {
      index_bytes += index.bytes;
      unlinked += index.unlinked;
    }
    return {
      is_loaded: this.#isLoaded,
      patterns: this.#patterns,
      unembedded: this.#unembedded,
      unlinked,
      scopes: this.#scopes.size,
      index_bytes,
    };
  }

  /** Resolves when every pattern has a vector and a place in its graph. */
  async whenSettled(): Promise<void> {
    await this.#loaded;
    while (!this.#closed && (this.#unembedded > 0 || this.#tending)) await this.#pause(PAUSE_MS);
  }

  /** Lets the write under way end and stops everything else. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const wake of this.#wakes) wake();
    await this.#loaded.catch(() => {});
    await this.#writing.catch(() => {});
  }

  // ---- finding ----

  #visibleScopes({ org_id, project_id, tier }: RetrieveRequest): Scope[] {
    const scopes: (Scope | undefined)[] = [];
    if (tier === null || tier === 'e1') {
      if (project_id !== null) scopes.push(this.#scopes.get(nameScope({ tier: 'e1', org_id, project_id })));
      else scopes.push(...(this.#projects.get(org_id) ?? []));
    }
    if (tier === null || tier === 'e2')
      scopes.push(this.#scopes.get(nameScope({ tier: 'e2', org_id, project_id: '' })));
    if (tier === null || tier === 'e3') scopes.push(this.#scopes.get(nameScope(UNIVERSAL_SCOPE)));
    return scopes.filter((scope) => scope !== undefined);
  }

  /** @returns best first, more than are wanted where there are more */
  #search(scopes: readonly Scope[], vector: Float32Array, request: RetrieveRequest): RankedMatch[] {
    const { top_k, min_similarity, failure_type, model } = request;
    const family = model === null ? '' : modelFamily(model);
    // A preferred one may come from a little further down.
    const wanted = (family === '' ? top_k : 2 * top_k + 16) + SPARE_MATCHES;
    const ranked: RankedMatch[] = [];
    for (const scope of scopes) {
      const { entries, index } = scope;
      const accept =
        failure_type === null ? undefined : (id: number) => entries[id]?.failure_type === failure_type;
      for (const { id, similarity } of index.search(vector, wanted, accept, min_similarity)) {
        const entry = entries[id];
        if (entry === undefined) continue;
        const isPreferred = family !== '' && entry.family === family;
        ranked.push({ scope, entry, similarity, rank: similarity + (isPreferred ? SAME_FAMILY_BOOST : 0) });
      }
    }
    return ranked.sort(compareMatches);
  }

  #read(found: readonly RankedMatch[], topK: number): FoundPattern[] {
    const patterns: FoundPattern[] = [];
    for (const { scope, entry, similarity } of found) {
      if (patterns.length === topK) break;
      const { tier } = scope.scope;
      const row = this.#parts.tables.get<PatternRow>(PATTERNS, patternKey(scope.scope, entry.pattern_id));
      // In the index a moment before it is on the disk.
      if (row === undefined) continue;
      const { situation, dead_ends, unlock } = row;
      patterns.push({
        tier,
        pattern_id: entry.pattern_id,
        similarity: Math.min(1, Math.round(similarity * 1e6) / 1e6),
        fields: { situation, dead_ends, unlock },
      });
    }
    return patterns;
  }

  // ---- adding ----

  async #addAlone(
    scope: PatternScope,
    patterns: readonly AddedPattern[],
    vectors: SituationVectors,
    more: (outcomes: readonly MergedPattern[]) => RowWrite[] = () => [],
  ): Promise<MergedPattern[]> {
    const home = this.#scopeOf(scope);
    this.#checkRoom(home, patterns.length);
    const drafts = new Map<string, Draft>();
    const sources = new Map<string, { row: RowKey; value: SourceRow }>();
    const entered: number[] = [];
    const outcomes: MergedPattern[] = [];
    /** Vectors of whole situations, of those here and of those they were compared with. */
    const known = new Map(patterns.map(({ situation }, at) => [situation, vectors.whole[at]!]));
    try {
      let until = performance.now() + STRETCH_MS;
      for (const [at, pattern] of patterns.entries()) {
        if (performance.now() >= until) {
          await nextTurn();
          until = performance.now() + STRETCH_MS;
        }
        while (home.index.unlinked > UNLINKED_MAX && home.index.tend(STRETCH_MS)) await nextTurn();
        const vector = vectors.search[at]!;
        const twin = await this.#findTwin(home, vector, vectors.whole[at]!, drafts, known);
        outcomes.push(this.#decide(home, pattern, vector, twin, drafts, sources, entered));
      }
      await this.#write(drafts, sources, more(outcomes));
    } catch (thrown) {
      for (const id of entered) this.#forget(home, id);
      if (thrown instanceof CatalogueError) throw thrown;
      throw new CatalogueError('unavailable', 'The pattern store takes nothing now', { cause: thrown });
    }
    this.#tendSoon();
    return outcomes;
  }

  /** Merges the pattern into one that is there, or enters it: in memory and in the drafts. */
  #decide(
    home: Scope,
    pattern: AddedPattern,
    vector: Float32Array,
    twin: Draft | null,
    drafts: Map<string, Draft>,
    sources: Map<string, { row: RowKey; value: SourceRow }>,
    entered: number[],
  ): MergedPattern {
    const { source_trace_id: trace, ...texts } = pattern;
    const { tables, clock, newId } = this.#parts;
    const row = trace === null ? null : sourceKey(home.scope, trace, pattern.situation);
    const sourceName = row?.join('/') ?? '';
    if (row !== null) {
      const before = sources.get(sourceName)?.value ?? tables.get<SourceRow>(PATTERN_SOURCES, row);
      if (before !== undefined) return { pattern_id: before.pattern_id, created: before.created };
    }
    const now = new Date(clock.wallMs()).toISOString();
    let outcome: MergedPattern;
    if (twin !== null) {
      const { pattern: known } = twin;
      const isNew = trace === null || !known.sources.includes(trace);
      const merged = {
        ...known,
        support: known.support + (isNew ? 1 : 0),
        sources:
          trace !== null && isNew ? [...known.sources, trace].slice(-PATTERN_SOURCES_KEPT) : known.sources,
        updated_at: now,
      };
      drafts.set(known.pattern_id, { ...twin, pattern: merged });
      outcome = { pattern_id: known.pattern_id, created: false };
    } else {
      const created: Pattern = {
        ...texts,
        ...home.scope,
        pattern_id: `pat_${newId()}`,
        support: 1,
        sources: trace === null ? [] : [trace],
        created_at: now,
        updated_at: now,
      };
      entered.push(this.#enter(home, created, vector));
      drafts.set(created.pattern_id, { pattern: created, vector });
      outcome = { pattern_id: created.pattern_id, created: true };
    }
    if (row !== null) sources.set(sourceName, { row, value: outcome });
    return outcome;
  }

  /** The stored or drafted pattern with nearly the same situation: among those that are found, by the whole of it. */
  async #findTwin(
    home: Scope,
    vector: Float32Array,
    whole: Float32Array,
    drafts: ReadonlyMap<string, Draft>,
    known: Map<string, Float32Array>,
  ): Promise<Draft | null> {
    let best: Draft | null = null;
    let bestCosine = SAME_SITUATION_COSINE;
    for (const { id } of home.index.search(vector, TWIN_CANDIDATES, undefined, TWIN_SEARCH_COSINE)) {
      const candidate = this.#draftOf(home, home.entries[id], drafts);
      if (candidate === null) continue;
      const { situation } = candidate.pattern;
      let other = known.get(situation);
      if (other === undefined) {
        [other] = await this.#parts.embedder.embed([situation]);
        known.set(situation, other!);
      }
      const cosine = cosineOf(whole, other!);
      if (cosine < bestCosine) continue;
      best = candidate;
      bestCosine = cosine;
    }
    return best;
  }

  #draftOf(home: Scope, entry: Entry | undefined, drafts: ReadonlyMap<string, Draft>): Draft | null {
    if (entry === undefined) return null;
    const draft = drafts.get(entry.pattern_id);
    if (draft !== undefined) return draft;
    const key = patternKey(home.scope, entry.pattern_id);
    const row = this.#parts.tables.get<PatternRow>(PATTERNS, key);
    return row === undefined ? null : { pattern: readPattern(key, row), vector: null };
  }

  async #write(
    drafts: ReadonlyMap<string, Draft>,
    sources: ReadonlyMap<string, { row: RowKey; value: SourceRow }>,
    more: readonly RowWrite[],
  ): Promise<void> {
    const { tables, embedder } = this.#parts;
    const writes: RowWrite[] = [...more];
    for (const { pattern, vector } of drafts.values()) {
      writes.push(putPattern(pattern));
      if (vector === null) continue;
      const row = vectorKey(situationVectorsId(embedder), pattern, pattern.pattern_id);
      writes.push({ op: 'put', table: PATTERN_VECTORS, row, value: encodeVector(vector) });
    }
    for (const { row, value } of sources.values())
      writes.push({ op: 'put', table: PATTERN_SOURCES, row, value });
    if (writes.length === 0) return;
    await tables.transact((transaction) => {
      for (const write of writes) transaction.write(write);
    });
  }

  #checkRoom(home: Scope, count: number): void {
    if (home.size + count > PATTERNS_PER_SCOPE)
      throw new CatalogueError('conflict', `There is room for ${PATTERNS_PER_SCOPE} patterns in one scope`);
    if (this.#patterns + count > PATTERNS_MAX)
      throw new CatalogueError('conflict', `The store has room for ${PATTERNS_MAX} patterns`);
  }

  /** @returns the pattern's id in its index */
  #enter(home: Scope, pattern: Pattern, vector: Float32Array | undefined): number {
    const { pattern_id, failure_type, model } = pattern;
    const id = home.entries.length;
    home.entries.push({ pattern_id, failure_type: intern(failure_type), family: intern(modelFamily(model)) });
    home.size++;
    this.#patterns++;
    if (vector === undefined) {
      home.unembedded.add(id);
      this.#unembedded++;
    } else {
      this.#give(home, id, vector);
    }
    return id;
  }

  #give(home: Scope, id: number, vector: Float32Array): void {
    home.index.add(id, vector);
    if (home.index.unlinked > 0) this.#untended.add(home);
  }

  #forget(home: Scope, id: number): void {
    if (home.entries[id] === undefined) return;
    home.entries[id] = undefined;
    home.index.remove(id);
    home.size--;
    this.#patterns--;
    if (home.unembedded.delete(id)) this.#unembedded--;
  }

  #scopeOf(scope: PatternScope): Scope {
    const name = nameScope(scope);
    let home = this.#scopes.get(name);
    if (home === undefined) {
      const index = this.#parts.makeIndex(this.#parts.embedder.dimensions);
      home = { scope, entries: [], size: 0, index, unembedded: new Set() };
      this.#scopes.set(name, home);
      if (scope.tier === 'e1') {
        const projects = this.#projects.get(scope.org_id);
        if (projects === undefined) this.#projects.set(scope.org_id, new Set([home]));
        else projects.add(home);
      }
    }
    return home;
  }

  // ---- loading ----

  async #load(): Promise<void> {
    const { tables, embedder, log } = this.#parts;
    const startedMs = performance.now();
    let toldMs = startedMs;
    let after: RowKey | undefined;
    for (;;) {
      if (this.#closed) return;
      const range =
        after === undefined ? { prefix: [], limit: LOAD_ROWS } : { prefix: [], after, limit: LOAD_ROWS };
      const rows = [...tables.range<PatternRow>(PATTERNS, range)];
      for (const { row, value } of rows) {
        const pattern = readPattern(row, value);
        const bytes = tables.get(
          PATTERN_VECTORS,
          vectorKey(situationVectorsId(embedder), pattern, pattern.pattern_id),
        );
        this.#enter(
          this.#scopeOf(scopeOfPattern(pattern)),
          pattern,
          decodeVector(bytes, embedder.dimensions),
        );
      }
      if (rows.length < LOAD_ROWS) break;
      after = rows.at(-1)!.row;
      if (performance.now() - toldMs >= PROGRESS_EVERY_MS) {
        toldMs = performance.now();
        log.info({ patterns: this.#patterns }, 'reading patterns');
      }
      await nextTurn();
    }
    this.#isLoaded = true;
    const facts = {
      patterns: this.#patterns,
      unembedded: this.#unembedded,
      duration_ms: Math.round(performance.now() - startedMs),
    };
    log.info(facts, 'patterns are loaded');
    this.#tendSoon();
    this.#embedSoon();
    void this.#bringStartersAtLast();
    void this.#takeImports();
  }

  /** Brings our own universal patterns to this version: what is new is added, what is gone is removed. */
  async #bringStarters(): Promise<void> {
    const { tables, starters, log } = this.#parts;
    const wanted = starters.map((starter) => cleanAdded({ ...starter, model: '', source_trace_id: null }));
    const digests = wanted.map((pattern) => digest(JSON.stringify(pattern)));
    const version = digest(digests.join());
    const row: RowKey = ['starters'];
    const before = tables.get<StarterRow>(PATTERN_SETTINGS, row) ?? { created: {}, version: '' };
    if (before.version === version) return;
    const created: Record<string, string> = {};
    const gone: string[] = [];
    for (const [name, id] of Object.entries(before.created)) {
      if (digests.includes(name)) created[name] = id;
      else gone.push(id);
    }
    const fresh = wanted.filter((_, at) => created[digests[at]!] === undefined);
    const vectors = await this.#embed(fresh);
    this.#forgetAll(this.#scopeOf(UNIVERSAL_SCOPE), gone);
    // In one transaction: what a crash leaves behind would be nobody's, and merged into at the next start.
    await this.#addAlone(UNIVERSAL_SCOPE, fresh, vectors, (outcomes) => {
      for (const [at, outcome] of outcomes.entries())
        if (outcome.created) created[digest(JSON.stringify(fresh[at]))] = outcome.pattern_id;
      return [
        ...gone.flatMap((id) => this.#removalOf(UNIVERSAL_SCOPE, id)),
        { op: 'put', table: PATTERN_SETTINGS, row, value: { created, version } satisfies StarterRow },
      ];
    });
    log.info({ added: fresh.length, removed: gone.length }, 'universal starter patterns are in place');
  }

  async #bringStartersAtLast(): Promise<void> {
    for (
      let retryMs = EMBED_RETRY_FIRST_MS;
      !this.#closed;
      retryMs = Math.min(2 * retryMs, EMBED_RETRY_MAX_MS)
    ) {
      try {
        return await this.#alone(() => this.#bringStarters());
      } catch (thrown) {
        if (this.#closed) return;
        this.#parts.log.warn({ err: thrown, retry_in_ms: retryMs }, 'starter patterns cannot be stored now');
        await this.#pause(retryMs);
      }
    }
  }

  /** Takes what the command line leaves in the database, now and from now on. */
  async #takeImports(): Promise<void> {
    const { tables, log } = this.#parts;
    while (!this.#closed) {
      try {
        const [first] = [...tables.range<ImportRow>(PATTERN_IMPORTS, { prefix: [], limit: 1 })];
        if (first !== undefined) {
          await this.#takeImport(first.row, first.value);
          continue;
        }
      } catch (thrown) {
        if (this.#closed) return;
        log.warn({ err: thrown }, 'imported patterns cannot be stored now');
      }
      await this.#pause(IMPORTS_EVERY_MS);
    }
  }

  async #takeImport(row: RowKey, { scope, patterns }: ImportRow): Promise<void> {
    const { tables, log } = this.#parts;
    const removal: RowWrite = { op: 'remove', table: PATTERN_IMPORTS, row };
    const clean = patterns.map((pattern) => cleanAdded({ ...pattern, source_trace_id: null }));
    const vectors = await this.#embed(clean);
    try {
      const outcomes = await this.#alone(() => this.#addAlone(scope, clean, vectors, () => [removal]));
      const created = outcomes.filter((outcome) => outcome.created).length;
      log.info({ created, merged: outcomes.length - created }, 'imported patterns are stored');
    } catch (thrown) {
      if (!(thrown instanceof CatalogueError) || thrown.code !== 'conflict') throw thrown;
      // It would be refused for ever.
      log.warn({ err: thrown, patterns: patterns.length }, 'imported patterns are dropped');
      await tables.transact((transaction) => transaction.write(removal));
    }
  }

  #removalOf(scope: PatternScope, patternId: string): RowWrite[] {
    return [
      { op: 'remove', table: PATTERNS, row: patternKey(scope, patternId) },
      {
        op: 'remove',
        table: PATTERN_VECTORS,
        row: vectorKey(situationVectorsId(this.#parts.embedder), scope, patternId),
      },
    ];
  }

  #forgetAll(home: Scope, patternIds: readonly string[]): void {
    const gone = new Set(patternIds);
    if (gone.size === 0) return;
    for (const [id, entry] of home.entries.entries())
      if (entry !== undefined && gone.has(entry.pattern_id)) this.#forget(home, id);
  }

  // ---- work in the background ----

  /** Builds graphs while nobody waits for it. */
  #tendSoon(): void {
    if (this.#tending || this.#closed || this.#untended.size === 0) return;
    this.#tending = true;
    void this.#tendAll().finally(() => {
      this.#tending = false;
    });
  }

  async #tendAll(): Promise<void> {
    const { log } = this.#parts;
    let toldMs = performance.now();
    let isTold = false;
    for (let [home] = this.#untended; home !== undefined && !this.#closed; [home] = this.#untended) {
      this.#untended.delete(home);
      while (!this.#closed && home.index.tend(STRETCH_MS)) {
        if (performance.now() - toldMs >= PROGRESS_EVERY_MS) {
          toldMs = performance.now();
          isTold = true;
          log.info({ unlinked: home.index.unlinked }, 'building the graph of patterns');
        }
        // Searches are slow until it is done: others have their turns between, and nothing more.
        await nextTurn();
      }
    }
    if (isTold && !this.#closed) log.info({}, 'the graphs of patterns are complete');
  }

  /** Gives vectors to patterns that have none of this embedder: it has changed, or was another's. */
  #embedSoon(): void {
    if (this.#embedding || this.#closed || this.#unembedded === 0) return;
    this.#embedding = true;
    void this.#embedAll().finally(() => {
      this.#embedding = false;
    });
  }

  async #embedAll(): Promise<void> {
    const { log, embedder } = this.#parts;
    const total = this.#unembedded;
    log.info({ patterns: total }, 'the embedder has changed: patterns are embedded anew');
    let toldMs = performance.now();
    let retryMs = EMBED_RETRY_FIRST_MS;
    for (const home of this.#scopes.values()) {
      while (home.unembedded.size > 0 && !this.#closed) {
        try {
          await this.#embedSome(home);
          retryMs = EMBED_RETRY_FIRST_MS;
        } catch (thrown) {
          log.warn({ err: thrown, retry_in_ms: retryMs }, 'patterns cannot be embedded now');
          await this.#pause(retryMs);
          retryMs = Math.min(2 * retryMs, EMBED_RETRY_MAX_MS);
        }
        if (performance.now() - toldMs >= PROGRESS_EVERY_MS) {
          toldMs = performance.now();
          log.info({ done: total - this.#unembedded, of: total }, 'embedding patterns anew');
        }
      }
    }
    if (this.#closed) return;
    log.info({ patterns: total }, 'every pattern is embedded anew');
    this.#tendSoon();
    await this.#dropVectorsBut(situationVectorsId(embedder));
  }

  async #embedSome(home: Scope): Promise<void> {
    const { tables, embedder } = this.#parts;
    const batch: { id: number; pattern_id: string; situation: string }[] = [];
    for (const id of home.unembedded) {
      const pattern_id = home.entries[id]!.pattern_id;
      const row = tables.get<PatternRow>(PATTERNS, patternKey(home.scope, pattern_id));
      if (row !== undefined) batch.push({ id, pattern_id, situation: row.situation });
      else this.#forget(home, id);
      if (batch.length === EMBED_TEXTS) break;
    }
    if (batch.length === 0) return;
    const { search: vectors } = await this.#embed(batch);
    await this.#alone(async () => {
      await tables.transact((transaction) => {
        for (const [at, { pattern_id }] of batch.entries()) {
          const row = vectorKey(situationVectorsId(embedder), home.scope, pattern_id);
          transaction.write({ op: 'put', table: PATTERN_VECTORS, row, value: encodeVector(vectors[at]!) });
        }
      });
      for (const [at, { id }] of batch.entries()) {
        if (!home.unembedded.delete(id)) continue;
        this.#unembedded--;
        this.#give(home, id, vectors[at]!);
      }
    });
  }

  /** Vectors of embedders that were: they would only take room. */
  async #dropVectorsBut(embedderId: string): Promise<void> {
    const { tables } = this.#parts;
    const kept = digest(embedderId);
    for (const prefix of this.#embeddersBeside(kept)) {
      for (;;) {
        if (this.#closed) return;
        const rows = [...tables.range(PATTERN_VECTORS, { prefix: [prefix], limit: LOAD_ROWS })];
        if (rows.length === 0) break;
        await tables.transact((transaction) => {
          for (const { row } of rows) transaction.write({ op: 'remove', table: PATTERN_VECTORS, row });
        });
        await this.#pause(PAUSE_MS);
      }
    }
  }

  *#embeddersBeside(kept: string): Iterable<string> {
    let after: RowKey | undefined;
    for (;;) {
      const range = after === undefined ? { prefix: [], limit: 1 } : { prefix: [], after, limit: 1 };
      let found: string | undefined;
      for (const { row } of this.#parts.tables.range(PATTERN_VECTORS, range)) found = String(row[0]);
      if (found === undefined) return;
      if (found !== kept) yield found;
      // The greatest text: past all keys that begin with this embedder.
      after = [found, '\u{10ffff}'];
    }
  }

  async #embed(patterns: readonly { situation: string }[]): Promise<SituationVectors> {
    const vectors: SituationVectors = { search: [], whole: [] };
    for (let at = 0; at < patterns.length; at += EMBED_TEXTS) {
      const situations = patterns.slice(at, at + EMBED_TEXTS).map(({ situation }) => situation);
      const { search, whole } = await embedSituations(this.#parts.embedder, situations);
      vectors.search.push(...search);
      vectors.whole.push(...whole);
    }
    return vectors;
  }

  #alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#writing.then(() => {
      if (this.#closed) throw new CatalogueError('unavailable', 'The pattern store is closed');
      return work();
    });
    this.#writing = done.catch(() => {});
    return done;
  }

  /** Ends early when the store is closed; keeps no process alive. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#wakes.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      timer.unref();
      this.#wakes.add(wake);
    });
  }
}

interface RankedMatch {
  scope: Scope;
  entry: Entry;
  similarity: VectorMatch['similarity'];
  /** With the preference of a model. */
  rank: number;
}

/** Best first; the nearer tier first among equals, then the older pattern. */
function compareMatches(a: RankedMatch, b: RankedMatch): number {
  return (
    b.rank - a.rank ||
    b.similarity - a.similarity ||
    TIERS.indexOf(a.scope.scope.tier) - TIERS.indexOf(b.scope.scope.tier) ||
    (a.entry.pattern_id < b.entry.pattern_id ? -1 : 1)
  );
}

function cleanAdded({ source_trace_id, ...pattern }: AddedPattern): AddedPattern {
  return { ...cleanPattern(pattern), source_trace_id };
}

function nameScope({ tier, org_id, project_id }: PatternScope): string {
  return JSON.stringify([tier, org_id, project_id]);
}

function scopeOfPattern({ tier, org_id, project_id }: Pattern): PatternScope {
  return { tier, org_id, project_id };
}

/** Names that many patterns share are kept once. Forgotten when there are too many of them. */
const names = new Map<string, string>();
const NAMES_MAX = 10_000;

function intern(name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  if (names.size >= NAMES_MAX) names.clear();
  names.set(name, name);
  return name;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
