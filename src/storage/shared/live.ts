/**
 * Interface for data in the shared database that are not synced to its disk: which boxes are alive, and the events of
 * the live stream. Implementation: ../postgres/live.ts. Types; any thread.
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

/**
 * What a box reports about one organization, in this order: whether events were lost, which events to forget, and new
 * events.
 */
export interface LiveBatch {
  org_id: string;
  has_lost: boolean;
  forgets: readonly LiveForget[];
  events: readonly LiveEntry[];
}

/** A stored event or removal, with its id. */
export type StoredLive = { id: number } & ({ event: LiveEntry } | { forget: LiveForget });

export interface LiveHead {
  org_id: string;
  /** Id of the newest event. */
  last_id: number;
  /** Events up to this id may be missing. */
  lost_id: number;
}

/** An organization's events and removals after an id. */
export interface LiveDelta extends LiveHead {
  /** In order of their ids. If there are as many as the limit, there may be more. */
  stored: StoredLive[];
}

/** The connection of a box. It runs one call at a time: begin the next call after the last one has ended. */
export interface LiveSession extends RatesSession {
  /**
   * Reports that the box is alive.
   * @returns all live boxes, including this one
   * @throws TruthUnavailableError
   */
  beat(): Promise<string[]>;
  /**
   * Reports that the organizations have readers, so that their events are stored for some minutes.
   * @returns the head of each organization
   * @throws TruthUnavailableError
   */
  want(orgs: readonly string[]): Promise<LiveHead[]>;
  /** Returns those organizations whose events are stored. @throws TruthUnavailableError */
  findWanted(orgs: readonly string[]): Promise<string[]>;
  /**
   * Stores the batches of organizations whose events are stored, with the next ids, and drops the others.
   * @param batches each organization once
   * @throws TruthUnavailableError: each batch may or may not be stored
   */
  write(batches: readonly LiveBatch[]): Promise<void>;
  /**
   * Reads later entries of the organizations that have any.
   * @param after ids by organization
   * @param limit events of an organization
   * @throws TruthUnavailableError
   */
  read(after: ReadonlyMap<string, number>, limit: number): Promise<LiveDelta[]>;
  /** Forgets organizations that have had no readers for long. @throws TruthUnavailableError */
  tidy(): Promise<void>;
  /** Forgets events before a time. @throws TruthUnavailableError */
  expire(before_ms: number): Promise<void>;
  /** Reports the end of the box, if the database answers at once, and ends the session. A running call rejects. */
  close(): Promise<void>;
}

export interface LiveTruth {
  /** Opens the session of a box. @param box identifies the process @throws TruthUnavailableError, TruthRefusedError */
  openLive(box: string): Promise<LiveSession>;
}
