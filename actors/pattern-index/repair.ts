/**
 * Applies the current rule (docs/patterns.md, "The rule, not the case") to stored patterns. A distilled pattern that
 * contains a value of its run is rewritten without the value, merged into a pattern with the same lesson, or removed if
 * nothing remains. Each version of the rule is applied once, to a few patterns at a time; after a restart the work
 * continues where it stopped. Searches and retrievals do not wait for it. Actor thread.
 */

import type { Pattern } from '../../src/domain/pattern.ts';
import {
  encodeVector,
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
import { generalizePattern, joinPatterns } from '../../src/domain/patterns/drafts.ts';
import { RULE_VERSION, teachesSomething } from '../../src/domain/patterns/rule-text.ts';
import { situationVectorsId } from '../../src/domain/situation-vectors.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import type { GraphKeeper } from './graph-keeper.ts';
import { isOfTrace, PATTERN_SOURCES_KEPT, type PatternIntake } from './intake.ts';
import { listEmbedders, removeRows } from './removal.ts';
import type { PatternScopes, Scope } from './scopes.ts';
import { nextTick, RETRY_FIRST_MS, RETRY_MAX_MS, type StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/** Key of the row that records how far the current rule has been applied. */
const RULE_ROW: RowKey = ['rule'];
/** Number of patterns that are checked at a time, and the pause between two such checks. */
const BATCH = 32;
const PAUSE_MS = 3;

interface RuleRow {
  version: number;
  /** The last pattern that was checked; null: none was checked yet. */
  after: RowKey | null;
  is_done: boolean;
  checked: number;
  repaired: number;
  merged: number;
  retired: number;
}

interface RepairParts {
  parts: StoreParts;
  scopes: PatternScopes;
  keeper: GraphKeeper;
  intake: PatternIntake;
  life: StoreLifecycle;
}

/** Applies the current rule to every stored pattern once, across restarts. Ends when all are done or the store is closed. */
export async function repairPatterns(own: RepairParts): Promise<void> {
  const { parts, life } = own;
  const repair = new Repair(own);
  for (let retryMs = RETRY_FIRST_MS; !life.isOver; ) {
    try {
      const progress = await repair.takeBatch();
      if (progress.is_done) return;
      retryMs = RETRY_FIRST_MS;
      await life.pause(PAUSE_MS);
    } catch (thrown) {
      if (life.isOver) return;
      parts.log.warn({ err: thrown, retry_in_ms: retryMs }, 'stored patterns cannot be checked now');
      await life.pause(retryMs);
      retryMs = Math.min(2 * retryMs, RETRY_MAX_MS);
    }
  }
}

class Repair {
  readonly #own: RepairParts;

  constructor(own: RepairParts) {
    this.#own = own;
  }

  /** Checks the next patterns. @returns the progress */
  async takeBatch(): Promise<RuleRow> {
    const { tables, log } = this.#own.parts;
    const before = this.#readProgress();
    if (before.is_done) return before;
    const range = { prefix: [], limit: BATCH, ...(before.after === null ? {} : { after: before.after }) };
    const rows = [...tables.range<PatternRow>(PATTERNS, range)];
    const now = { ...before, after: rows.at(-1)?.row ?? before.after, checked: before.checked + rows.length };
    const wrong = rows
      .map(({ row, value }) => readPattern(row, value))
      .filter((pattern) => isOfTrace(pattern) && !isGeneral(pattern));
    const vectors = await this.#own.intake.embed(wrong.map((pattern) => generalizePattern(pattern)));
    for (const [at, pattern] of wrong.entries()) now[await this.#mend(pattern, vectors[at]!)]++;
    now.is_done = rows.length < BATCH;
    await tables.transact((transaction) => {
      transaction.write({ op: 'put', table: PATTERN_SETTINGS, row: RULE_ROW, value: now });
    });
    const { checked, repaired, merged, retired } = now;
    if (now.is_done && repaired + merged + retired > 0)
      log.info(
        { checked, repaired, merged, retired },
        'stored patterns hold no values of single runs any more',
      );
    return now;
  }

  #readProgress(): RuleRow {
    const known = this.#own.parts.tables.get<RuleRow>(PATTERN_SETTINGS, RULE_ROW);
    if (known?.version === RULE_VERSION) return known;
    return {
      version: RULE_VERSION,
      after: null,
      is_done: false,
      checked: 0,
      repaired: 0,
      merged: 0,
      retired: 0,
    };
  }

  /** Rewrites, merges or removes one pattern. @param vector vector of the situation without values */
  #mend(seen: Pattern, vector: Float32Array): Promise<'repaired' | 'merged' | 'retired'> {
    const { parts, scopes, keeper, intake, life } = this.#own;
    return life.alone(async () => {
      const home = scopes.of(seen);
      const row = parts.tables.get<PatternRow>(PATTERNS, patternKey(home.scope, seen.pattern_id));
      // The pattern was removed in the meantime.
      if (row === undefined) return 'retired';
      const stored = { ...seen, ...row };
      const general = generalizePattern(stored);
      // A saved graph contains traces of the old vector.
      await keeper.discard(home);
      if (!teachesSomething(general)) return this.#replace(home, stored, null, vector);
      const twin = intake.findTwin(home, general, vector);
      return this.#replace(home, stored, twin === null ? general : mergeInto(twin, general), vector);
    });
  }

  /**
   * Replaces a pattern on the disk and in memory.
   * @param next the replacement: the pattern without values, or its twin with added support; null: the pattern is
   * removed
   */
  async #replace(
    home: Scope,
    old: Pattern,
    next: Pattern | null,
    vector: Float32Array,
  ): Promise<'repaired' | 'merged' | 'retired'> {
    const { parts, scopes } = this.#own;
    const isSame = next?.pattern_id === old.pattern_id;
    await parts.tables.transact((tx) => {
      // Another box may have replaced the pattern in the meantime.
      const isThere = removeRows(tx, home.scope, old.pattern_id, [...listEmbedders(tx)]);
      if (next === null || !isThere) return;
      const now = new Date(parts.clock.wallMs()).toISOString();
      tx.write(putPattern({ ...next, updated_at: now }));
      for (const trace of old.sources) {
        const value: SourceRow = { pattern_id: next.pattern_id, created: false };
        tx.write({
          op: 'put',
          table: PATTERN_SOURCES,
          row: sourceKey(home.scope, trace, next.situation),
          value,
        });
      }
      if (!isSame) return;
      const row = vectorKey(situationVectorsId(parts.embedder), home.scope, next.pattern_id);
      tx.write({ op: 'put', table: PATTERN_VECTORS, row, value: encodeVector(vector) });
    });
    const id = home.entries.findIndex((entry) => entry?.pattern_id === old.pattern_id);
    if (id >= 0) scopes.forget(home, id);
    if (isSame) scopes.enter(home, next, vector);
    await nextTick();
    if (next === null) return 'retired';
    return isSame ? 'repaired' : 'merged';
  }
}

function isGeneral(pattern: Pattern): boolean {
  const { situation, dead_ends, unlock } = generalizePattern(pattern);
  return situation === pattern.situation && dead_ends === pattern.dead_ends && unlock === pattern.unlock;
}

/** Returns the twin with the other pattern's support, sources and dead ends added. */
function mergeInto(twin: Pattern, other: Pattern): Pattern {
  const sources = [...new Set([...twin.sources, ...other.sources])].slice(-PATTERN_SOURCES_KEPT);
  return { ...joinPatterns(twin, other), support: twin.support + other.support, sources };
}
