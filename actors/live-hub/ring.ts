/**
 * A ring of the latest events of an organization, bounded by number and bytes. Events can be read from any id on.
 * Server threads; the store thread, if several boxes share the stream.
 */

import type { NumberedEvent, ReplayReply } from './protocol.ts';

/** Estimated size of an event in addition to its text: the object, and its entry in the list. */
const EVENT_OVERHEAD_BYTES = 100;

export class EventRing {
  readonly #capacity: number;
  readonly #maxBytes: number;
  /** Oldest first, from `#first` on; earlier entries are dropped events. */
  #events: (NumberedEvent | undefined)[] = [];
  #first = 0;
  #bytes = 0;
  #lastId = 0;
  /** Id up to which events were dropped, or were never in this ring. */
  #lostId = 0;

  /**
   * @param capacity maximum number of events, ≥ 1
   * @param maxBytes approximate maximum for the events' texts; the newest event is kept even if it is larger
   */
  constructor(capacity: number, maxBytes: number) {
    this.#capacity = capacity;
    this.#maxBytes = maxBytes;
  }

  /** The id up to which the ring knows all events. The event with this id need not be in the ring. */
  get last_id(): number {
    return this.#lastId;
  }

  /** Id up to which events may be missing: dropped, or never in this ring. */
  get lost_id(): number {
    return this.#lostId;
  }

  get size(): number {
    return this.#events.length - this.#first;
  }

  /** Sets the id after which the ids of events continue. Call it only while the ring is empty. */
  beginAfter(id: number): void {
    this.#lastId = id;
    this.#lostId = id;
  }

  /** Records that there are no further events up to an id. @param id at least `last_id` */
  advance(id: number): void {
    this.#lastId = id;
  }

  /**
   * Adds an event, and drops the oldest ones beyond the bounds, but never the new one.
   * @param event its id must be greater than all earlier ids
   */
  push({ id, name, project_id, run_id, at_ms, data }: NumberedEvent): void {
    this.#events.push({ id, name, project_id, run_id, at_ms, data });
    this.#lastId = id;
    this.#bytes += data.length + EVENT_OVERHEAD_BYTES;
    while (this.size > this.#capacity || (this.#bytes > this.#maxBytes && this.size > 1)) this.#drop();
    // Removes the empty entries together, because removing each with `shift` would move the whole list each time.
    if (this.#first > this.#capacity) {
      this.#events = this.#events.slice(this.#first);
      this.#first = 0;
    }
  }

  /**
   * Reads the events after an id, oldest first. If events after this id are lost, or the id is greater than `last_id`,
   * reads all events that are left.
   * @param afterId null: no events, only the id from which to continue
   * @param projectId null: of all projects
   */
  read(afterId: number | null, projectId: string | null, limit: number): ReplayReply {
    if (afterId === null) return { is_reset: false, events: [], last_id: this.#lastId, more: false };
    const is_reset = afterId < this.#lostId || afterId > this.#lastId;
    let at = is_reset ? this.#first : this.#placeAfter(afterId);
    const events: NumberedEvent[] = [];
    let last_id = is_reset ? this.#lostId : afterId;
    for (; at < this.#events.length && events.length < limit; at++) {
      const event = this.#events[at]!;
      last_id = event.id;
      if (projectId === null || event.project_id === projectId) events.push(event);
    }
    const more = at < this.#events.length;
    return { is_reset, events, last_id: more ? last_id : this.#lastId, more };
  }

  /**
   * Removes matching events. A reader that continues after a removed event gets all later events, and is not told about
   * the removal.
   * @returns how many were removed
   */
  forget(isMeant: (event: NumberedEvent) => boolean): number {
    const before = this.size;
    const kept: NumberedEvent[] = [];
    for (const event of this.#events) {
      if (event === undefined) continue;
      if (isMeant(event)) this.#bytes -= event.data.length + EVENT_OVERHEAD_BYTES;
      else kept.push(event);
    }
    this.#events = kept;
    this.#first = 0;
    return before - kept.length;
  }

  /** Drops the oldest events, up to the first one that is not before this time. */
  expire(beforeMs: number): void {
    while (this.size > 0 && this.#events[this.#first]!.at_ms < beforeMs) this.#drop();
  }

  #drop(): void {
    const event = this.#events[this.#first]!;
    this.#events[this.#first++] = undefined;
    this.#bytes -= event.data.length + EVENT_OVERHEAD_BYTES;
    this.#lostId = event.id;
  }

  /** Finds the index of the first event with a greater id. */
  #placeAfter(id: number): number {
    let low = this.#first;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#events[middle]!.id <= id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
