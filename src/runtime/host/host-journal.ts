/**
 * A host's access to its journal: loads actors, and writes their events in batches (group commit). All events that are
 * recorded during a commit form the next batch. Any thread with actors (and the simulator).
 */

import { Packr } from 'msgpackr';
import type { JournalStore, JournalWrite, StoredActor } from '../journal.ts';
import type { ActorAddress, Effect, RowWrite } from '../protocol.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Cell } from './cell.ts';

/** Writes that become durable together. */
export interface Batch {
  ticket: number;
  writes: JournalWrite[];
  /** Number of events of each actor in the batch. */
  events: Map<Cell, number>;
}

/** The outcome of a commit. `lost`: actors of which nothing was stored, because another process owns them now. */
export interface Verdict {
  error: Error | null;
  lost: readonly ActorAddress[];
}

const NONE_LOST: readonly ActorAddress[] = Object.freeze([]);

/** One host's side of its journal. */
export class HostJournal {
  readonly #store: JournalStore | null;
  readonly #scheduler: Scheduler;
  readonly #decided: (batch: Batch, verdict: Verdict) => void;
  readonly #packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

  #batch: Batch | null = null;
  #committing: Batch | null = null;
  #commitQueued = false;
  #lastTicket = 0;
  #decidedTicket = 0;
  #closed = false;
  /**
   * Actors that have left memory, with the ticket of the batch that has their last write. Bounded by the number of
   * writes in two batches.
   */
  readonly #leaving = new Map<string, { ticket: number; self: ActorAddress }>();

  /**
   * @param store null if no kind of this host is persistent
   * @param decided called for each batch when its commit has ended; must call `commit` when it has handled the batch
   * @param lose called with actors that another process owns now
   */
  constructor(
    store: JournalStore | null,
    scheduler: Scheduler,
    decided: (batch: Batch, verdict: Verdict) => void,
    lose: (addresses: readonly ActorAddress[]) => void,
  ) {
    this.#store = store;
    this.#scheduler = scheduler;
    this.#decided = decided;
    if (store !== null) {
      store.onLost = (addresses) => {
        if (!this.#closed) lose(addresses);
      };
    }
  }

  /** Ticket of the last batch whose commit has ended. Effects with a higher ticket wait for a commit. */
  get decidedTicket(): number {
    return this.#decidedTicket;
  }

  /** Whether recorded events or snapshots wait for the outcome of a commit. */
  get pending(): boolean {
    return this.#committing !== null || this.#batch !== null;
  }

  /** Starts no further commit, and ignores the outcome of a running one. */
  close(): void {
    this.#closed = true;
  }

  /** Makes committed data visible to other threads. @returns false if the store failed; the next commit reports why */
  settle(): boolean {
    try {
      this.#store?.settle?.();
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Whether the actor has writes without an outcome. The actor must not be loaded before all its writes have an
   * outcome: its stored state is not complete, and in a shared store the load would take away the ownership with which
   * these writes could still be stored.
   */
  isWriting(cell: Cell): boolean {
    if (cell.write_ticket > this.#decidedTicket) return true;
    return this.#leaving.size > 0 && this.#leaving.has(addressText(cell.self));
  }

  /** Records that the actor has left memory. The store lets go of the actor once its writes have an outcome. */
  leave({ self, kind, write_ticket: ticket }: Cell): void {
    if (ticket > this.#decidedTicket) this.#leaving.set(addressText(self), { ticket, self });
    else if (kind.behaviour.persistence !== undefined) this.#store!.letGo?.(self.kind, self.key);
  }

  /**
   * Reads the actor's history: at once, or later if the store takes time.
   * @returns null if the actor is not persistent
   * @throws if the history cannot be read
   */
  read({ kind: { behaviour }, self }: Cell): StoredActor | Promise<StoredActor> | null {
    return behaviour.persistence === undefined ? null : this.#store!.load(self.kind, self.key);
  }

  /**
   * Sets the actor's state from its history, or to its initial state.
   * @throws if the history is damaged
   */
  restore(cell: Cell, stored: StoredActor | null): void {
    const { behaviour } = cell.kind;
    const { key } = cell.self;
    const { persistence } = behaviour;
    if (persistence === undefined || stored === null) {
      cell.state = behaviour.initial(key);
      return;
    }
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
    cell.write_ticket = batch.ticket;
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
    const batch = this.#openBatch();
    const { seq } = cell;
    batch.writes.push({ type: 'snapshot', kind, key, seq, version: snapshot.version, state });
    cell.write_ticket = batch.ticket;
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

  /** Starts a commit of all recorded writes, unless a commit is running. */
  commit(): void {
    if (this.#committing !== null || this.#batch === null || this.#closed) return;
    const batch = this.#batch;
    this.#batch = null;
    this.#committing = batch;
    this.#store!.commit(batch.writes, (error, lost = NONE_LOST) => {
      if (this.#closed) return;
      this.#committing = null;
      this.#decidedTicket = batch.ticket;
      if (error !== null) this.#dropNext(Array.from(batch.events.keys(), ({ self }) => self));
      else if (lost.length > 0) this.#dropNext(lost);
      this.#arrive();
      this.#decided(batch, { error, lost });
    });
  }

  /**
   * Removes from the next batch the records of actors whose events were not stored, because they depend on events that
   * do not exist.
   */
  #dropNext(actors: readonly ActorAddress[]): void {
    const next = this.#batch;
    if (next === null) return;
    const unstored = new Set(actors.map(addressText));
    for (const cell of next.events.keys()) {
      if (unstored.has(addressText(cell.self))) next.events.delete(cell);
    }
    next.writes = next.writes.filter((write) => !unstored.has(addressText(write)));
    if (next.writes.length === 0) this.#batch = null;
  }

  /** Releases actors that have left memory and whose last writes have an outcome. */
  #arrive(): void {
    for (const [address, { ticket, self }] of this.#leaving) {
      if (ticket > this.#decidedTicket && this.#batch !== null) continue;
      this.#leaving.delete(address);
      this.#store!.letGo?.(self.kind, self.key);
    }
  }
}

/** Writes an address as a text that can be the key of a map. */
export function addressText(address: ActorAddress): string {
  return `${address.kind}\0${address.key}`;
}
