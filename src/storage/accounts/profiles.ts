/** Monitor profiles of organizations. Any thread. */
import type { MonitorProfile } from '../../domain/monitors/profiles.ts';
import { CatalogueError } from '../../errors.ts';
import type { ProfileReads, ProfileWork } from '../ports/profiles.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/** Maximum number of profiles of one organization. Further ones are refused. */
const PROFILES_PER_ORG_MAX = 100;

/** [org, name] → MonitorProfile. */
export const PROFILES = 'profiles';

export class TableProfileReads implements ProfileReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(org_id: string, name: string): MonitorProfile | undefined {
    return this.#reader.get<MonitorProfile>(PROFILES, [org_id, name]);
  }

  list(org_id: string, after: string | null): MonitorProfile[] {
    const range = { prefix: [org_id], ...(after === null ? {} : { after: [org_id, after] }) };
    return [...this.#reader.range<MonitorProfile>(PROFILES, range)].map(({ value }) => value);
  }
}

export class TableProfileWork extends TableProfileReads implements ProfileWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  put(org_id: string, profile: MonitorProfile): void {
    const isNew = this.find(org_id, profile.name) === undefined;
    if (isNew && this.list(org_id, null).length >= PROFILES_PER_ORG_MAX)
      throw new CatalogueError('conflict', `An organization may have ${PROFILES_PER_ORG_MAX} profiles`);
    this.#tx.write({ op: 'put', table: PROFILES, row: [org_id, profile.name], value: profile });
  }

  remove(org_id: string, name: string): void {
    this.#tx.write({ op: 'remove', table: PROFILES, row: [org_id, name] });
  }
}
