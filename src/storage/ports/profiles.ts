/** Monitor profiles that organizations have made. Types; any thread. */
import type { MonitorProfile } from '../../domain/monitors/profiles.ts';

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface ProfileReads {
  find(org_id: string, name: string): MonitorProfile | undefined;
  /** Lists profiles in the order of their names. @param after only profiles after this name; null: all */
  list(org_id: string, after: string | null): MonitorProfile[];
}

/** What a transaction may do. */
export interface ProfileWork extends ProfileReads {
  /** Stores a profile. @throws CatalogueError `conflict` if it is new and the organization has reached its limit */
  put(org_id: string, profile: MonitorProfile): void;
  remove(org_id: string, name: string): void;
}
