/**
 * A host's access to its journal: loads actors, and writes their events in batches (group commit). All events that are
 * recorded during a commit form the next batch. Wherever actors run (and in the simulator).
 */

import { Packr } from 'msgpackr';
import type { JournalStore, JournalWrite } from '../journal.ts';
import type { ActorAddress, Effect, RowWrite } from '../protocol.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Cell } from './cell.ts';

/** Writes that become durable together. */
export interface Batch {
  ticket: number;
  writes: JournalWrite[];
  /** Events of each actor in it. */
  events: Map<Cell, number>;
}

/** One host's side of its journal. */
export class HostJournal {
  readonly #store: JournalStore | null;
  readonly #scheduler: Scheduler;
  readonly #decided: (batch: Batch, error: Error | null) => void;
  readonly #packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

  #batch: Batch | null = null;
  #committing: Batch | null = null;
  #commitQueued = false;
  #lastTicket = 0;
  #decidedTicket = 0;
  #closed = false;

  /**
   * @param store null if no kind of this host is persistent
   * @param decided called for each batch that was stored, or with the error if it was not; must call `commit` when it
   *   has handled the batch
   */
  constructor(
    store: JournalStore | null,
    scheduler: Scheduler,
    decided: (batch: Batch, error: Error | null) => void,
  ) {
    this.#store = store;
    this.#scheduler = scheduler;
    this.#decided = decided;
  }

  /** Effects with a higher ticket wait for a commit. */
  get decidedTicket(): number {
    return this.#decidedTicket;
  }

  /** Whether recorded events or snapshots wait for the outcome of a commit. */
  get pending(): boolean {
    return this.#committing !== null || this.#batch !== null;
  }

  /** Ends at once: starts no commit, and ignores the outcome of a running one. */
  close(): void {
    this.#closed = true;
  }

  /** Makes committed data visible to other threads. @returns false if that failed; the next commit reports why */
  settle(): boolean {
    try {
      this.#store?.settle?.();
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Sets the actor's state from storage, or to its initial state.
   * @throws if it cannot be read
   */
  load(cell: Cell): void {
    const { behaviour } = cell.kind;
    const { kind, key } = cell.self;
    const { persistence } = behaviour;
    if (persistence === undefined) {
      cell.state = behaviour.initial(key);
      return;
    }
    const stored = this.#store!.load(kind, key);
    let state: unknown;
    if (stored.snapshot === null) {
      state = behaviour.initial(key);
      cell.seq = 0;
    } else {
      const { version } = stored.snapshot;
      if (version > persistence.snapshot.version) {
        throw new RangeError(`snapshot version ${version} is newer than ${persistence.snapshot.version}`);
      }
      state = persistence.snapshot.decode(this.#packr.unpack(stored.snapshot.state), version);
      cell.seq = stored.snapshot.seq;
    }
    for (const event of stored.events) {
      const decoded = this.#packr.unpack(event);
      state = persistence.apply(state, persistence.decodeEvent?.(decoded) ?? decoded);
    }
    cell.seq += stored.events.length;
    cell.events_since_snapshot = stored.events.length;
    cell.state = state;
  }

  /**
   * Adds the events among the effects to the next commit.
   * @throws if msgpack cannot encode an event; then nothing has changed
   */
  stageEvents(cell: Cell, effects: readonly Effect[]): void {
    const { ends, encodeEvent } = cell.kind.behaviour.persistence ?? {};
    const encoded: [event: Uint8Array, rows: readonly RowWrite[], isLast: boolean][] = [];
    for (const effect of effects) {
      if (effect.type !== 'persist') continue;
      const event = encodeEvent?.(effect.event as never) ?? effect.event;
      encoded.push([this.#packr.pack(event), effect.rows, ends?.(effect.event) ?? false]);
    }
    for (const [event, rows, isLast] of encoded) this.#stageEvent(cell, event, rows, isLast);
  }

  #stageEvent(cell: Cell, event: Uint8Array, rows: readonly RowWrite[], isLast: boolean): void {
    const batch = this.#openBatch();
    const { kind, key } = cell.self;
    cell.seq++;
    cell.events_since_snapshot++;
    cell.undurable++;
    cell.gate_ticket = batch.ticket;
    batch.events.set(cell, (batch.events.get(cell) ?? 0) + 1);
    if (isLast) {
      batch.writes.push({ type: 'forget', kind, key });
      cell.seq = 0;
      cell.events_since_snapshot = 0;
    } else batch.writes.push({ type: 'event', kind, key, seq: cell.seq, event });
    for (const row of rows) batch.writes.push({ type: 'row', kind, key, row });
  }

  /** Whether a snapshot of the actor is due, by its kind's rule. */
  isSnapshotDue(cell: Cell): boolean {
    const { persistence } = cell.kind.behaviour;
    if (persistence === undefined || cell.events_since_snapshot === 0) return false;
    const { every_events, isDue } = persistence.snapshot;
    return cell.events_since_snapshot >= every_events || (isDue?.(cell.state) ?? false);
  }

  /**
   * Adds the actor's state to the next commit.
   * @throws if it cannot be encoded
   */
  stageSnapshot(cell: Cell): void {
    const { snapshot } = cell.kind.behaviour.persistence!;
    const { kind, key } = cell.self;
    const state = this.#packr.pack(snapshot.encode(cell.state));
    this.#openBatch().writes.push({
      type: 'snapshot',
      kind,
      key,
      seq: cell.seq,
      version: snapshot.version,
      state,
    });
    cell.events_since_snapshot = 0;
  }

  #openBatch(): Batch {
    if (this.#batch === null) {
      this.#batch = { ticket: ++this.#lastTicket, writes: [], events: new Map() };
      if (this.#committing === null && !this.#commitQueued) {
        this.#commitQueued = true;
        // The commit starts at the end of the tick, so that everything recorded in this tick shares it.
        this.#scheduler.soon(() => {
          this.#commitQueued = false;
          this.commit();
        });
      }
    }
    return this.#batch;
  }

  /** Starts a commit of everything recorded, unless one is running. */
  commit(): void {
    if (this.#committing !== null || this.#batch === null || this.#closed) return;
    const batch = this.#batch;
    this.#batch = null;
    this.#committing = batch;
    this.#store!.commit(batch.writes, (error) => {
      if (this.#closed) return;
      this.#committing = null;
      this.#decidedTicket = batch.ticket;
      if (error !== null) this.#dropLost(batch);
      this.#decided(batch, error);
    });
  }

  /**
   * Removes from the next batch the records of actors of a failed batch, because they depend on events that do not
   * exist.
   */
  #dropLost(failed: Batch): void {
    const next = this.#batch;
    if (next === null) return;
    const lost = new Set<string>();
    for (const cell of failed.events.keys()) {
      lost.add(addressText(cell.self));
      next.events.delete(cell);
    }
    next.writes = next.writes.filter((write) => !lost.has(addressText(write)));
    if (next.writes.length === 0) this.#batch = null;
  }
}

function addressText(address: ActorAddress): string {
  return `${address.kind}\0${address.key}`;
}
