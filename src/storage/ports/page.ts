/** A page of a list. Types; any thread. */

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
