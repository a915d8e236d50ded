/**
 * Embeds patterns again after the embedder has changed. Until a pattern has a vector of the new embedder, a search
 * finds it by its vector of the former embedder, or of the model that replaces an embedder that is no longer available.
 * Actor thread.
 */
import {
  decodeVector,
  digest,
  encodeVector,
  PATTERN_SETTINGS,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  patternKey,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import { EMBEDDINGS_REMEMBERED, RememberedEmbedder } from '../../src/domain/remembered-embedder.ts';
import { formerSituationVectorsId, situationVectorsId } from '../../src/domain/situation-vectors.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import type { EmbedderRecord } from '../../src/search/former-embedders.ts';
import { createDeferred } from '../../src/std/deferred.ts';
import type { GraphKeeper } from './graph-keeper.ts';
import { EMBED_TEXTS, embedInPortions } from './intake.ts';
import { listEmbedders } from './removal.ts';
import type { PatternScopes, Scope } from './scopes.ts';
import {
  nextTick,
  PROGRESS_EVERY_MS,
  RETRY_FIRST_MS,
  RETRY_MAX_MS,
  STRETCH_MS,
  type StoreLifecycle,
} from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/**
 * Key of the row with the embedder of the stored vectors. The row is written when every pattern has a vector of that
 * embedder.
 */
const EMBEDDER_ROW: RowKey = ['embedder'];
/** Number of rows removed in one transaction, and the pause between two transactions. */
const DROP_ROWS = 200;
const PAUSE_MS = 3;

interface FormerEmbedder {
  embedder: Embedder;
  /** Name of the stored vectors that are searched. */
  vectorsId: string;
  queries: RememberedEmbedder;
}

export class Reembedding {
  readonly #parts: StoreParts;
  readonly #scopes: PatternScopes;
  readonly #keeper: GraphKeeper;
  readonly #life: StoreLifecycle;
  /** null: there is no former embedder, or it is not needed. */
  #former: FormerEmbedder | null = null;
  #running: Promise<void> | null = null;

  constructor(parts: StoreParts, scopes: PatternScopes, keeper: GraphKeeper, life: StoreLifecycle) {
    this.#parts = parts;
    this.#scopes = scopes;
    this.#keeper = keeper;
    this.#life = life;
  }

  /** Name of the former embedder's vectors; null if there is no former embedder. */
  get formerVectorsId(): string | null {
    return this.#former?.vectorsId ?? null;
  }

  /** Embeds a text with the former embedder; null without one. Rejects with the embedder's error. */
  embedFormerly(text: string): Promise<Float32Array> | null {
    return this.#former?.queries.embedOne(text) ?? null;
  }

  /**
   * Embeds the patterns that need a new vector, and then removes the vectors of other embedders. Call it once.
   * @param onEmbedded called when every pattern has a vector of the new embedder, if some had none
   * @returns a promise that resolves when all patterns with a usable vector of either embedder can be found, or when
   *   the work has failed
   */
  start(onEmbedded: () => void): Promise<void> {
    const serving = createDeferred();
    this.#running = this.#run(serving.resolve, onEmbedded)
      .catch((thrown: unknown) => {
        if (!this.#life.isOver) this.#parts.log.warn({ err: thrown }, 'patterns could not be embedded again');
      })
      .finally(serving.resolve);
    return serving.promise;
  }

  /** Waits for the end of the work. Call it only after the store has ended. */
  async end(): Promise<void> {
    await this.#running;
    await this.#letGo();
  }

  async #run(onServing: () => void, onEmbedded: () => void): Promise<void> {
    if (this.#scopes.unembedded > 0) {
      const total = this.#scopes.unembedded;
      this.#parts.log.info(
        { patterns: total },
        'the embedder or its recipe has changed: patterns are embedded anew',
      );
      await this.#openFormer();
      onServing();
      await this.#embedAll(total);
      await this.#letGo();
      if (this.#life.isOver) return;
      onEmbedded();
      this.#parts.log.info({ patterns: total }, 'every pattern is embedded anew');
      this.#keeper.tendSoon();
    }
    onServing();
    await this.#remember();
    await this.#dropVectorsBut(situationVectorsId(this.#parts.embedder));
    await this.#keeper.forgetOthers();
  }

  // ---- serving meanwhile ----

  /**
   * Opens the first former embedder that is available, and loads its vectors. Embeds the patterns that have no vector
   * of this embedder.
   */
  async #openFormer(): Promise<void> {
    const { tables, log, embedder, listFormer = () => [] } = this.#parts;
    if (this.#hasVectors(formerSituationVectorsId(embedder))) {
      // Only the recipe for stored texts has changed, so the vector of a query is the same.
      await this.#takeUp(embedder, formerSituationVectorsId(embedder));
      return;
    }
    const record = tables.get<EmbedderRecord>(PATTERN_SETTINGS, EMBEDDER_ROW) ?? null;
    for (const open of listFormer(record)) {
      if (this.#life.isOver) return;
      let former: Embedder | null = null;
      try {
        former = await open();
        if (former.id === embedder.id || former.dimensions === 0)
          throw new Error('this embedder cannot replace the former one');
        const earlier = formerSituationVectorsId(former);
        await this.#takeUp(former, this.#hasVectors(earlier) ? earlier : situationVectorsId(former));
        log.info({ embedder: former.id }, 'a former embedder finds patterns until all are embedded again');
        return;
      } catch (thrown) {
        log.info({ reason: String(thrown) }, 'a former embedder is not available');
        this.#former = null;
        for (const home of this.#scopes.all()) home.former = null;
        await former?.close();
      }
    }
    log.warn({}, 'patterns are not found until they are embedded');
  }

  /** Whether any stored vector has this name. */
  #hasVectors(vectorsId: string): boolean {
    const rows = this.#parts.tables.range(PATTERN_VECTORS, { prefix: [digest(vectorsId)], limit: 1 });
    return [...rows].length > 0;
  }

  async #takeUp(embedder: Embedder, vectorsId: string): Promise<void> {
    const queries = new RememberedEmbedder(embedder, EMBEDDINGS_REMEMBERED);
    this.#former = { embedder, vectorsId, queries };
    for (const home of this.#scopes.all()) {
      if (home.unembedded.size === 0) continue;
      const index = this.#parts.makeIndex(embedder.dimensions);
      home.former = index;
      const lacking: number[] = [];
      let until = performance.now() + STRETCH_MS;
      for (const id of [...home.unembedded]) {
        if (performance.now() >= until) {
          await nextTick();
          if (this.#life.isOver) return;
          until = performance.now() + STRETCH_MS;
        }
        const entry = home.entries[id];
        if (entry === undefined) continue;
        const bytes = this.#parts.tables.get(
          PATTERN_VECTORS,
          vectorKey(vectorsId, home.scope, entry.pattern_id),
        );
        const vector = decodeVector(bytes, embedder.dimensions);
        if (vector === undefined) lacking.push(id);
        else index.add(id, vector);
      }
      await this.#keeper.restore(home, index, vectorsId);
      await this.#embedLacking(home, embedder, lacking);
    }
  }

  /** Embeds patterns without a vector. The vectors are kept only in memory, because they are soon replaced. */
  async #embedLacking(home: Scope, embedder: Embedder, lacking: readonly number[]): Promise<void> {
    for (let at = 0; at < lacking.length && !this.#life.isOver; at += EMBED_TEXTS) {
      const batch = this.#readSituations(home, lacking.slice(at, at + EMBED_TEXTS));
      const vectors = await embedInPortions(embedder, batch);
      for (const [i, { id }] of batch.entries())
        if (home.unembedded.has(id)) home.former?.add(id, vectors[i]!);
    }
  }

  async #letGo(): Promise<void> {
    const former = this.#former;
    this.#former = null;
    for (const home of this.#scopes.all()) home.former = null;
    if (former !== null && former.embedder !== this.#parts.embedder) await former.embedder.close();
  }

  // ---- embedding again ----

  async #embedAll(total: number): Promise<void> {
    const { log } = this.#parts;
    let toldMs = performance.now();
    let retryMs = RETRY_FIRST_MS;
    for (const home of this.#scopes.all()) {
      while (home.unembedded.size > 0 && !this.#life.isOver) {
        try {
          await this.#embedSome(home);
          retryMs = RETRY_FIRST_MS;
        } catch (thrown) {
          if (this.#life.isOver) return;
          log.warn({ err: thrown, retry_in_ms: retryMs }, 'patterns cannot be embedded now');
          await this.#life.pause(retryMs);
          retryMs = Math.min(2 * retryMs, RETRY_MAX_MS);
        }
        if (performance.now() - toldMs >= PROGRESS_EVERY_MS) {
          toldMs = performance.now();
          log.info({ done: total - this.#scopes.unembedded, of: total }, 'embedding patterns anew');
        }
      }
    }
  }

  async #embedSome(home: Scope): Promise<void> {
    const { tables, embedder } = this.#parts;
    const ids: number[] = [];
    for (const id of home.unembedded) {
      ids.push(id);
      if (ids.length === EMBED_TEXTS) break;
    }
    const batch = this.#readSituations(home, ids);
    if (batch.length === 0) return;
    const vectors = await embedInPortions(embedder, batch);
    await this.#life.alone(async () => {
      await tables.transact((transaction) => {
        for (const [at, { id, pattern_id }] of batch.entries()) {
          // The pattern may have been removed in the meantime.
          if (home.entries[id] === undefined) continue;
          const row = vectorKey(situationVectorsId(embedder), home.scope, pattern_id);
          transaction.write({ op: 'put', table: PATTERN_VECTORS, row, value: encodeVector(vectors[at]!) });
        }
      });
      for (const [at, { id }] of batch.entries()) this.#scopes.give(home, id, vectors[at]!);
    });
  }

  /** Reads situations. Removes patterns from memory whose rows do not exist any more. */
  #readSituations(
    home: Scope,
    ids: readonly number[],
  ): { id: number; pattern_id: string; situation: string }[] {
    const batch: { id: number; pattern_id: string; situation: string }[] = [];
    for (const id of ids) {
      const entry = home.entries[id];
      if (entry === undefined) continue;
      const { pattern_id } = entry;
      const row = this.#parts.tables.get<PatternRow>(PATTERNS, patternKey(home.scope, pattern_id));
      if (row !== undefined) batch.push({ id, pattern_id, situation: row.situation });
      else this.#scopes.forget(home, id);
    }
    return batch;
  }

  /** Records that the stored vectors belong to this embedder. */
  async #remember(): Promise<void> {
    const { tables, embedder, embedder_source } = this.#parts;
    if (embedder_source === undefined) return;
    const record: EmbedderRecord = { id: embedder.id, source: embedder_source };
    if (JSON.stringify(tables.get(PATTERN_SETTINGS, EMBEDDER_ROW)) === JSON.stringify(record)) return;
    await tables.transact((transaction) => {
      transaction.write({ op: 'put', table: PATTERN_SETTINGS, row: EMBEDDER_ROW, value: record });
    });
  }

  /** Removes the vectors of earlier embedders, which are not used any more. */
  async #dropVectorsBut(vectorsId: string): Promise<void> {
    const { tables } = this.#parts;
    const kept = digest(vectorsId);
    for (const prefix of [...listEmbedders(tables)].filter((name) => name !== kept)) {
      for (;;) {
        if (this.#life.isOver) return;
        const rows = [...tables.range(PATTERN_VECTORS, { prefix: [prefix], limit: DROP_ROWS })];
        if (rows.length === 0) break;
        await tables.transact((transaction) => {
          for (const { row } of rows) transaction.write({ op: 'remove', table: PATTERN_VECTORS, row });
        });
        await this.#life.pause(PAUSE_MS);
      }
    }
  }
}
