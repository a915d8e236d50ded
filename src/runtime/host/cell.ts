/**
 * The data of an actor in memory: its mailbox, the effects that wait for the journal, its timers. Data and simple
 * queries; each part is changed by one file of this folder. Actor threads, server threads (and the simulator).
 */

import { RingQueue } from '../../std/ring-queue.ts';
import type { ErrorData } from '../error.ts';
import type { KindStats } from '../host-stats.ts';
import type { Link } from '../link.ts';
import type { ActorAddress, AnyBehaviour, Effect, ReplyToken } from '../protocol.ts';
import type { KindPolicy, RestartHistory } from '../supervision.ts';

/** The destination of an answer. */
export interface ReplyTo {
  link: Link;
  id: number;
}

/** A message in a mailbox. */
export interface Delivery {
  name: string;
  payload: unknown;
  bodies: readonly Uint8Array[];
  body_bytes: number;
  /** Whether it is the actor's own message: a timer or an outcome. */
  internal: boolean;
  reply_to: ReplyTo | null;
  /** On the monotonic clock; Infinity for a message without a deadline, such as a tell. */
  deadline_ms: number;
}

/**
 * An effect that is ready to be released; answers have a destination. `kept`: the actor kept the answer for later, so
 * events of the asking message may be stored even if the events before the answer are not.
 */
export type Output =
  | { type: 'reply'; to: ReplyTo; value: unknown; name: string; kept: boolean }
  | { type: 'error'; to: ReplyTo; error: ErrorData; name: string; kept: boolean }
  | Extract<Effect, { type: 'tell' | 'publish' | 'count' }>
  /** `life`: the life of the actor (see `Cell.life`) that recorded the effect. Only this life gets the outcome. */
  | (Extract<Effect, { type: 'io' | 'compute' }> & { life: number });

/** An actor in memory. */
export interface Cell {
  self: ActorAddress;
  kind: Kind;

  // Its life (lifecycle.ts, passivation.ts).
  status: 'ready' | 'loading' | 'restarting' | 'gone';
  /**
   * The phase of loading. `waits`: the commit of the actor's last writes has no outcome yet. `moved`: the actor has
   * moved to another process; when its last writes have an outcome, it is loaded only if messages wait for it. `runs`:
   * the store is reading the actor. `stale`: the store is reading the actor, and must read it again, because the actor
   * may have moved in the meantime.
   */
  load: 'waits' | 'moved' | 'runs' | 'stale';
  state: unknown;
  /**
   * Increases when the actor fails, moves to another process or leaves memory, so that an outcome for an
   * earlier life is recognized.
   */
  life: number;
  history: RestartHistory;
  touched_at_ms: number;

  // Its messages (mailboxes.ts).
  mailbox: RingQueue<Delivery>;
  mailbox_bytes: number;
  /** Timers and outcomes; bounded by the limits on timers and io. */
  internal: RingQueue<Delivery>;
  /** Whether the actor is among the ready ones. */
  queued: boolean;

  // Its recorded events (host-journal.ts).
  /** Number of the last event recorded. */
  seq: number;
  events_since_snapshot: number;
  /** Number of events that were recorded and whose commit has no outcome yet. */
  undurable: number;
  /** Ticket of the last batch with an event of this actor. */
  gate_ticket: number;
  /** Ticket of the last batch with an event or a snapshot of this actor. */
  write_ticket: number;

  // Its pending effects (dispatch.ts, output-gate.ts).
  /** Outputs that are held back until the batch with their ticket is committed, in order. */
  held: RingQueue<{ ticket: number; output: Output }>;
  io_in_flight: number;
  timers: Map<string, () => void>;
  replies: Map<ReplyToken, ReplyTo>;
}

/** A kind and its actors in memory. */
export interface Kind {
  name: string;
  behaviour: AnyBehaviour;
  policy: KindPolicy;
  cells: Map<string, Cell>;
  /** Where the search for an actor to passivate continues. */
  room_cursor: Iterator<Cell> | null;
  /** Key → monotonic time until which the actor stays stopped. */
  stopped: Map<string, number>;
  stats: KindStats;
}

export const NO_BODIES: readonly Uint8Array[] = Object.freeze([]);
/** Maximum length of queues that other limits bound. */
export const UNBOUNDED = 2 ** 30;
/**
 * A map that all actors without timers share. Most actors have no timers, and a separate map would take as much memory
 * as a small state.
 */
export const NO_TIMERS: Cell['timers'] = new Map();
export const NO_REPLIES: Cell['replies'] = new Map();

/** Makes a kind without actors in memory. */
export function createKind(behaviour: AnyBehaviour, policy: KindPolicy): Kind {
  return {
    name: behaviour.kind,
    behaviour,
    policy,
    cells: new Map(),
    room_cursor: null,
    stopped: new Map(),
    stats: {
      live: 0,
      stopped: 0,
      mailbox_depth: 0,
      handled: 0,
      errors: 0,
      restarts: 0,
      activations: 0,
      passivations: 0,
      dead_letters: 0,
      counts: Object.create(null),
    },
  };
}

/** Maximum number of labels of a counter, and of counters of a kind. */
const COUNTS_MAX = 100;
/** The label under which everything beyond the maximum is counted. */
const OTHERS = 'others';

/** Adds to a kind's counter. What exceeds the number of counters or labels is counted under `OTHERS`. */
export function addCount({ stats: { counts } }: Kind, counter: string, of: string, by: number): void {
  const place = placeOf(counts, counter);
  counts[place] ??= Object.create(null) as Record<string, number>;
  const counted = counts[place];
  const name = placeOf(counted, of);
  counted[name] = (counted[name] ?? 0) + by;
}

function placeOf(counts: Readonly<Record<string, unknown>>, name: string): string {
  return Object.hasOwn(counts, name) || Object.keys(counts).length < COUNTS_MAX ? name : OTHERS;
}

/** Makes the data of an actor that has not been loaded from storage yet. */
export function createCell(kind: Kind, { key }: ActorAddress, nowMs: number): Cell {
  return {
    self: { kind: kind.name, key },
    kind,
    status: 'ready',
    load: 'waits',
    state: undefined,
    life: 0,
    history: { failed_at_ms: [] },
    touched_at_ms: nowMs,
    mailbox: new RingQueue(kind.policy.mailbox_capacity),
    mailbox_bytes: 0,
    internal: new RingQueue(UNBOUNDED),
    queued: false,
    seq: 0,
    events_since_snapshot: 0,
    undurable: 0,
    gate_ticket: 0,
    write_ticket: 0,
    held: new RingQueue(UNBOUNDED),
    io_in_flight: 0,
    timers: NO_TIMERS,
    replies: NO_REPLIES,
  };
}

/**
 * Whether the actor can be passivated: it is ready, and no messages, effects, commits, timers or kept answers are
 * pending.
 */
export function isIdle(cell: Cell): boolean {
  return (
    cell.status === 'ready' &&
    !cell.queued &&
    cell.mailbox.size === 0 &&
    cell.internal.size === 0 &&
    cell.io_in_flight === 0 &&
    cell.held.size === 0 &&
    cell.undurable === 0 &&
    cell.timers.size === 0 &&
    cell.replies.size === 0
  );
}

export function cancelTimers(cell: Cell): void {
  for (const cancel of cell.timers.values()) cancel();
  cell.timers.clear();
}

export function toldDelivery(name: string, payload: unknown, bodies: readonly Uint8Array[]): Delivery {
  return {
    name,
    payload,
    bodies,
    body_bytes: sumBytes(bodies),
    internal: false,
    reply_to: null,
    deadline_ms: Number.POSITIVE_INFINITY,
  };
}

export function isOverfull(cell: Cell, delivery: Delivery): boolean {
  const { mailbox } = cell;
  if (mailbox.full) return true;
  return mailbox.size > 0 && cell.mailbox_bytes + delivery.body_bytes > cell.kind.policy.mailbox_bytes;
}

export function sumBytes(bodies: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const body of bodies) bytes += body.length;
  return bytes;
}
