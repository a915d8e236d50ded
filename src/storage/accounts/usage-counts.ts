/** Usage that is counted in the main database, in tables. Any thread. */
import {
  type CountedDay,
  readCountedDays,
  readInterventionSum,
  readProjectDays,
  type UsageCounts,
} from '../../domain/usage.ts';
import type { UsageReads } from '../ports/usage.ts';
import type { TableReader } from '../tables.ts';

export class TableUsageReads implements UsageReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  listCounts(org_id: string, first_day: string): CountedDay[] {
    return readCountedDays(this.#reader, org_id, first_day);
  }

  listProjectCounts(org_id: string, project_id: string, days: readonly string[]): CountedDay[] {
    return readProjectDays(this.#reader, org_id, project_id, days);
  }

  sumInterventions(org_id: string, project_id: string | null): Partial<UsageCounts> {
    return readInterventionSum(this.#reader, org_id, project_id);
  }
}
