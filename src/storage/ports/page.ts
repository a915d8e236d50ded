/** Pages of lists. Types; any thread. */

export interface Page {
  /** ≥ 1 */
  limit: number;
  /** ≥ 0 */
  offset: number;
}

export interface Listing<Value> {
  items: Value[];
  /** Number of entries on all pages. */
  total: number;
}

/** A place in a list by time: the time in milliseconds, and parts that distinguish equal times. */
export type ListPlace = (string | number)[];

/** Which entries of an organization's list by time, newest first. */
export interface NewestFirst {
  org_id: string;
  /** null: of all projects */
  project_id: string | null;
  /** The end of the previous page, or only a time; null: begin with the newest. */
  after: readonly (string | number)[] | null;
  /** The oldest time, in milliseconds; -Infinity: no bound. */
  from_ms: number;
  limit: number;
  /** Projects that are left out. */
  hidden: ReadonlySet<string>;
}

/**
 * A page of a list with a filter. At most PAGE_SCAN_ROWS entries are read. If few of them match, the page is short, but
 * `last` still says where the next page begins. Other work runs during the scan.
 */
export interface ScannedPage<Item> {
  found: Item[];
  /** The end of this page, after which the next one begins; null if this is the last page. */
  last: ListPlace | null;
  /** Number of entries that were read. */
  looked: number;
}

/** Which entries of an organization's list by time, oldest first. */
export interface OldestFirst {
  org_id: string;
  /** null: of all projects */
  project_id: string | null;
  /** Only entries from before this time. */
  before_ms: number;
  /** The end of the previous portion; null: begin with the oldest. */
  after: ListPlace | null;
  limit: number;
}
