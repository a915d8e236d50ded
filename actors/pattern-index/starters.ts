/** Keeps the universal patterns in the store equal to those of this version of the product. Actor thread. */
import { UNIVERSAL_SCOPE } from '../../src/domain/pattern.ts';
import {
  digest,
  PATTERN_SETTINGS,
  PATTERN_VECTORS,
  PATTERNS,
  patternKey,
  STARTERS_ROW,
  type StarterRow,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import { situationVectorsId } from '../../src/domain/situation-vectors.ts';
import type { RowWrite } from '../../src/runtime/protocol.ts';
import { cleanAdded, type PatternIntake } from './intake.ts';
import type { MergedPattern } from './protocol.ts';
import type { PatternScopes } from './scopes.ts';
import { RETRY_FIRST_MS, RETRY_MAX_MS, type StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

type StarterParts = Pick<StoreParts, 'tables' | 'starters' | 'log' | 'embedder'>;

/** Adds and removes patterns until the store has those of this version. Continues after a restart. */
export async function bringStarters(
  parts: StarterParts,
  scopes: PatternScopes,
  intake: PatternIntake,
  life: StoreLifecycle,
): Promise<void> {
  for (let retryMs = RETRY_FIRST_MS; !life.isOver; retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)) {
    try {
      return await life.alone(() => bringOnce(parts, scopes, intake));
    } catch (thrown) {
      if (life.isOver) return;
      parts.log.warn({ err: thrown, retry_in_ms: retryMs }, 'starter patterns cannot be stored now');
      await life.pause(retryMs);
    }
  }
}

async function bringOnce(parts: StarterParts, scopes: PatternScopes, intake: PatternIntake): Promise<void> {
  const { tables, starters, log } = parts;
  const wanted = starters.map((starter) => cleanAdded({ ...starter, model: '', source_trace_id: null }));
  const digests = wanted.map((pattern) => digest(JSON.stringify(pattern)));
  const version = digest(digests.join());
  const row = STARTERS_ROW;
  const stored = tables.get<StarterRow>(PATTERN_SETTINGS, row);
  const before = stored ?? { created: {}, version: '' };
  if (before.version === version) return;
  const created: Record<string, string> = {};
  const gone: string[] = [];
  for (const [name, id] of Object.entries(before.created)) {
    if (digests.includes(name)) created[name] = id;
    else gone.push(id);
  }
  const fresh = wanted.filter((_, at) => created[digests[at]!] === undefined);
  const vectors = await intake.embed(fresh);
  scopes.forgetAll(scopes.of(UNIVERSAL_SCOPE), gone);
  // All rows are written in one transaction, because a crash could otherwise leave patterns without the row that lists
  // them. Another box may add the patterns at the same time, so that row must be unchanged.
  const expected = [{ table: PATTERN_SETTINGS, row, value: stored }];
  const more = (outcomes: readonly MergedPattern[]): RowWrite[] => {
    const now = { ...created };
    for (const [at, outcome] of outcomes.entries())
      if (outcome.created) now[digest(JSON.stringify(fresh[at]))] = outcome.pattern_id;
    return [
      ...gone.flatMap((id) => listRemovals(parts, id)),
      { op: 'put', table: PATTERN_SETTINGS, row, value: { created: now, version } satisfies StarterRow },
    ];
  };
  await intake.take(UNIVERSAL_SCOPE, fresh, vectors, more, expected);
  log.info({ added: fresh.length, removed: gone.length }, 'universal starter patterns are in place');
}

function listRemovals({ embedder }: StarterParts, patternId: string): RowWrite[] {
  const vectorRow = vectorKey(situationVectorsId(embedder), UNIVERSAL_SCOPE, patternId);
  return [
    { op: 'remove', table: PATTERNS, row: patternKey(UNIVERSAL_SCOPE, patternId) },
    { op: 'remove', table: PATTERN_VECTORS, row: vectorRow },
  ];
}
