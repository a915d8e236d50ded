/**
 * A host's work with its journal: it loads actors from it, and writes what they record in batches.
 * Group commit: events of all actors recorded while one commit is under way make the next one. Wherever actors
 * run (and in the simulator).
 */

import { Packr } from 'msgpackr';
import type { HostStats } from '../host-stats.ts';
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

  #commits = 0;
  #failedCommits = 0;
  #events = 0;
  #snapshots = 0;
  #eventBytes = 0;

  /**
   * @param store null when no kind of this host is persistent
   * @param decided called for each batch that was stored, or with the error that says it was not; calls `commit` when
   *   it is through with it
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

  /** Whatever has a higher ticket waits for a commit. */
  get decidedTicket(): number {
    return this.#decidedTicket;
  }

  /** Something is recorded that no commit has decided yet. */
  get pending(): boolean {
    return this.#committing !== null || this.#batch !== null;
  }

  /** Ends at once: begins no commit, and ignores the outcome of one under way. */
  close(): void {
    this.#closed = true;
  }

  /** Brings what is committed to where other threads can read it. @returns false when that failed; the next commit says why */
  settle(): boolean {
    try {
      this.#store?.settle?.();
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Gives the actor the state that is stored of it, or its first one.
   * @throws when that cannot be read
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
   * Puts the events among the effects into the next commit.
   * @throws for an event that msgpack cannot hold, before it has changed anything
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
    this.#events++;
    this.#eventBytes += event.length;
  }

  /** By the kind's own rule. */
  isSnapshotDue(cell: Cell): boolean {
    const { persistence } = cell.kind.behaviour;
    if (persistence === undefined || cell.events_since_snapshot === 0) return false;
    const { every_events, isDue } = persistence.snapshot;
    return cell.events_since_snapshot >= every_events || (isDue?.(cell.state) ?? false);
  }

  /**
   * Puts the actor's state into the next commit.
   * @throws when it cannot be encoded
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
    this.#snapshots++;
  }

  #openBatch(): Batch {
    if (this.#batch === null) {
      this.#batch = { ticket: ++this.#lastTicket, writes: [], events: new Map() };
      if (this.#committing === null && !this.#commitQueued) {
        this.#commitQueued = true;
        // At the end of the tick: everything that this tick records shares one commit.
        this.#scheduler.soon(() => {
          this.#commitQueued = false;
          this.commit();
        });
      }
    }
    return this.#batch;
  }

  /** Begins a commit of what has been recorded, unless one is under way. */
  commit(): void {
    if (this.#committing !== null || this.#batch === null || this.#closed) return;
    const batch = this.#batch;
    this.#batch = null;
    this.#committing = batch;
    this.#store!.commit(batch.writes, (error) => {
      if (this.#closed) return;
      this.#committing = null;
      this.#decidedTicket = batch.ticket;
      if (error === null) {
        this.#commits++;
      } else {
        this.#failedCommits++;
        this.#dropLost(batch);
      }
      this.#decided(batch, error);
    });
  }

  /** Takes out of the next batch what actors of a failed one have recorded since: it stands on events that do not exist. */
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

  stats(): HostStats['journal'] {
    return {
      commits: this.#commits,
      failed_commits: this.#failedCommits,
      events: this.#events,
      snapshots: this.#snapshots,
      event_bytes: this.#eventBytes,
    };
  }
}

function addressText(address: ActorAddress): string {
  return `${address.kind}\0${address.key}`;
}
