/** Work that one box does for all boxes that share a database. Types; any thread. */

/** Who is on duty. */
export interface DutyHolder {
  box: string;
  until_ms: number;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface DutyReads {
  /** undefined: no box is on duty. */
  find(): DutyHolder | undefined;
}

/** What a transaction may do. */
export interface DutyWork extends DutyReads {
  give(holder: DutyHolder): void;
  end(): void;
}
