/** Stored patterns, in tables. Any thread. */
import type { NewPattern, Pattern, PatternScope } from '../../domain/pattern.ts';
import {
  type ImportRow,
  PATTERN_IMPORTS,
  PATTERN_SETTINGS,
  PATTERNS,
  type PatternRow,
  patternKey,
  readPattern,
  STARTERS_ROW,
  type StarterRow,
} from '../../domain/pattern-rows.ts';
import { newUlid } from '../../std/id.ts';
import type { PatternReads, PatternWork } from '../ports/patterns.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

export class TablePatternReads implements PatternReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(scope: PatternScope, pattern_id: string): PatternRow | undefined {
    return this.#reader.get<PatternRow>(PATTERNS, patternKey(scope, pattern_id));
  }

  *list(
    { tier, org_id, project_id }: PatternScope,
    order: 'newest' | 'oldest',
    after: string | null,
  ): Iterable<Pattern> {
    const prefix = [tier, org_id, project_id];
    const place = after === null ? {} : { after: [...prefix, after] };
    const range = { prefix, reverse: order === 'newest', ...place };
    for (const { row, value } of this.#reader.range<PatternRow>(PATTERNS, range))
      yield readPattern(row, value);
  }

  listOf(
    tier: PatternScope['tier'],
    org_id: string,
    project_id: string | null,
    limit: number,
  ): { project_id: string; pattern_id: string }[] {
    const prefix = project_id === null ? [tier, org_id] : [tier, org_id, project_id];
    return [...this.#reader.range(PATTERNS, { prefix, limit })].map(({ row }) => ({
      project_id: String(row[2]),
      pattern_id: String(row[3]),
    }));
  }

  isStarter(pattern_id: string): boolean {
    const starters = this.#reader.get<StarterRow>(PATTERN_SETTINGS, STARTERS_ROW);
    return starters !== undefined && Object.values(starters.created).includes(pattern_id);
  }
}

export class TablePatternWork extends TablePatternReads implements PatternWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  addImport(scope: PatternScope, patterns: readonly NewPattern[]): void {
    const value: ImportRow = { scope, patterns: [...patterns] };
    this.#tx.write({ op: 'put', table: PATTERN_IMPORTS, row: [newUlid()], value });
  }
}
