/**
 * What a host keeps of an actor that is in memory: its mailbox, what waits for the journal, its timers. Data alone;
 * host.ts moves it. Actor threads, front threads (and the simulator).
 */

import type { RingQueue } from '../std/ring-queue.ts';
import type { ErrorData } from './error.ts';
import type { KindStats } from './host-stats.ts';
import type { JournalWrite } from './journal.ts';
import type { Link } from './link.ts';
import type { ActorAddress, AnyBehaviour, Effect, ReplyToken } from './protocol.ts';
import type { KindPolicy, RestartHistory } from './supervision.ts';

/** Where an answer goes. */
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
  /** From the actor itself: a timer or an outcome. */
  internal: boolean;
  reply_to: ReplyTo | null;
  /** Monotonic; Infinity for a tell. */
  deadline_ms: number;
}

/** An effect ready to be released: answers know where they go. */
export type Output =
  | { type: 'reply'; to: ReplyTo; value: unknown; name: string }
  | { type: 'error'; to: ReplyTo; error: ErrorData; name: string }
  | Extract<Effect, { type: 'tell' | 'publish' }>
  /** `life`: the one that decided it; its outcome is for no other. */
  | (Extract<Effect, { type: 'io' | 'compute' }> & { life: number });

/** An actor in memory. */
export interface Cell {
  self: ActorAddress;
  kind: Kind;
  status: 'ready' | 'restarting' | 'gone';
  state: unknown;
  /** Number of the last event recorded. */
  seq: number;
  events_since_snapshot: number;
  mailbox: RingQueue<Delivery>;
  mailbox_bytes: number;
  /** Timers and outcomes; bounded by the limits on timers and io. */
  internal: RingQueue<Delivery>;
  /** It stands in the host's ready queue. */
  queued: boolean;
  /** Outputs waiting for the commit with their ticket, in order. */
  held: RingQueue<{ ticket: number; output: Output }>;
  /** Ticket of the last batch that holds an event of this actor. */
  gate_ticket: number;
  /** Events recorded and not yet durable. */
  undurable: number;
  io_in_flight: number;
  timers: Map<string, () => void>;
  replies: Map<ReplyToken, ReplyTo>;
  touched_at_ms: number;
  /** Counts restarts, so that an outcome of an earlier life is told apart. */
  life: number;
  history: RestartHistory;
  /** The back-off is over; it starts as soon as nothing of it waits for the journal. */
  restart_due: boolean;
}

/** A kind and its living actors. */
export interface Kind {
  name: string;
  behaviour: AnyBehaviour;
  policy: KindPolicy;
  cells: Map<string, Cell>;
  /** Where the search for an actor to passivate goes on. */
  room_cursor: Iterator<Cell> | null;
  /** Key → monotonic time until which it stays stopped. */
  stopped: Map<string, number>;
  stats: KindStats;
}

/** Writes that become durable together. */
export interface Batch {
  ticket: number;
  writes: JournalWrite[];
  /** Events of each actor in it. */
  events: Map<Cell, number>;
}

export const NO_BODIES: readonly Uint8Array[] = Object.freeze([]);
/** Of an actor without any, which most are all their life: a map of its own costs as much as a small state. */
export const NO_TIMERS: Cell['timers'] = new Map();
export const NO_REPLIES: Cell['replies'] = new Map();

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
