/**
 * What boxes ask of the common database beside its rows: which boxes live, and the live stream's events. Nothing here is
 * worth a sync to the disk. Implementation: ../postgres/live.ts. Types; any thread.
 */
import type { RatesSession } from './rates.ts';

/** An event for the readers of all boxes. */
export interface LiveEntry {
  name: string;
  project_id: string | null;
  run_id: string | null;
  /** Milliseconds since the epoch. */
  at_ms: number;
  /** JSON on one line. */
  data: string;
}

/** Which events to forget: those that match every given field. */
export interface LiveForget {
  project_id: string | null;
  run_id: string | null;
  /** Events before this time, in milliseconds since the epoch; 0: of any time. */
  before_ms: number;
}

/** What a box reports of one organization, in this order: events were lost, then these are to be forgotten, then these happened. */
export interface LiveBatch {
  org_id: string;
  has_lost: boolean;
  forgets: readonly LiveForget[];
  events: readonly LiveEntry[];
}

/** What is stored with an id. */
export type StoredLive = { id: number } & ({ event: LiveEntry } | { forget: LiveForget });

export interface LiveHead {
  org_id: string;
  /** Id of the newest event. */
  last_id: number;
  /** Events up to this id may be missing. */
  lost_id: number;
}

/** What followed an id in an organization. */
export interface LiveDelta extends LiveHead {
  /** In order of their ids. If there are as many as were asked for, more may follow. */
  stored: StoredLive[];
}

/** One box's connection. Its calls must follow each other: the next one begins after the last one has ended. */
export interface LiveSession extends RatesSession {
  /** Says that the box lives. @returns the boxes that do, with this one @throws TruthUnavailableError */
  beat(): Promise<string[]>;
  /**
   * Says that the organizations have readers: for some minutes from now their events are stored.
   * @returns the heads of all of them
   * @throws TruthUnavailableError
   */
  want(orgs: readonly string[]): Promise<LiveHead[]>;
  /** Those of the organizations whose events are stored. @throws TruthUnavailableError */
  findWanted(orgs: readonly string[]): Promise<string[]>;
  /**
   * Stores what is wanted, each organization's with the ids that follow, and drops the rest.
   * @param batches each organization once
   * @throws TruthUnavailableError: it may or may not be stored
   */
  write(batches: readonly LiveBatch[]): Promise<void>;
  /**
   * Reads what has followed, in organizations where something has.
   * @param after ids by organization
   * @param limit events of an organization
   * @throws TruthUnavailableError
   */
  read(after: ReadonlyMap<string, number>, limit: number): Promise<LiveDelta[]>;
  /** Forgets organizations that have had no readers for long. @throws TruthUnavailableError */
  tidy(): Promise<void>;
  /** Forgets events before a time. @throws TruthUnavailableError */
  expire(before_ms: number): Promise<void>;
  /** Says that the box ends, if the database answers at once, and ends the session. A running call rejects. */
  close(): Promise<void>;
}

export interface LiveTruth {
  /** @param box identifies the process @throws TruthUnavailableError, TruthRefusedError */
  openLive(box: string): Promise<LiveSession>;
}
