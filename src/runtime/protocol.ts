/**
 * What an actor kind is: addresses, protocols, behaviours, and the effects that a handler records. Pure types, and the
 * one function that places an address on a thread. Any thread.
 */

import { Claims, type ClaimTable } from './claims.ts';

/** Who a message is for: plain data, so it can be stored and sent. See `isValidKey`. */
export interface ActorAddress {
  kind: string;
  key: string;
}

/** Longest key; as UTF-8 it must fit LMDB's 1,978-byte keys together with the kind and a number. */
export const MAX_KEY_LENGTH = 512;

/** False for keys that are empty, too long, or not Unicode (half a surrogate pair changes when it is encoded). */
export function isValidKey(key: string): boolean {
  return key.length > 0 && key.length <= MAX_KEY_LENGTH && key.isWellFormed();
}

/** One message name of a protocol: what is sent and what comes back (`undefined` when nothing does). */
interface MessageShape {
  request: unknown;
  reply: unknown;
}

/** A protocol maps message names to shapes: `type P = { take: { request: { cost: number }; reply: boolean } }`. */
type Protocol<P> = { [N in keyof P]: MessageShape };

/** Stands for the answer to an ask that a handler keeps for later. Valid until answered or until the actor restarts. */
export type ReplyToken = number;

/** What an actor refuses with; becomes a RuntimeError in the asking thread. */
export interface Refusal {
  code: string;
  message: string;
  retryable: boolean;
  detail?: unknown;
}

/** The outcome of `io` and `compute`, delivered to the same actor as one of its internal messages. */
export type Outcome<Value = unknown, Carry = undefined> =
  | { ok: true; value: Value; carry: Carry }
  | { ok: false; error: Refusal; carry: Carry };

/** Where a row stands in its table: parts compare in order, numbers before texts. */
export type RowKey = readonly (string | number)[];

/**
 * One row that others read, written in the very transaction of the event that it tells of. `add` adds to named
 * counters, which begin at 0: exactly once, since the event is stored exactly once.
 */
export type RowWrite =
  | { op: 'put'; table: string; row: RowKey; value: unknown }
  | { op: 'remove'; table: string; row: RowKey }
  | { op: 'add'; table: string; row: RowKey; counts: Readonly<Record<string, number>> }
  /** Removes the first `limit` rows whose keys begin with `row`. */
  | { op: 'trim'; table: string; row: RowKey; limit: number };

/** Everything a handler can ask the runtime to do, as data. Performed in order, after the handler has returned. */
export type Effect =
  | { type: 'persist'; event: unknown; rows: readonly RowWrite[] }
  | { type: 'reply'; token: ReplyToken; value: unknown }
  | { type: 'refuse'; token: ReplyToken; error: Refusal }
  | { type: 'tell'; to: ActorAddress; name: string; payload: unknown; bodies: readonly Uint8Array[] }
  | { type: 'publish'; topic: string; payload: unknown }
  | { type: 'count'; counter: string; of: string; by: number }
  | { type: 'set_timer'; timer: string; delay_ms: number; name: string; payload: unknown }
  | { type: 'cancel_timer'; timer: string }
  | { type: 'io'; adapter: string; operation: string; input: unknown; name: string; carry: unknown }
  | { type: 'compute'; task: string; input: unknown; name: string; carry: unknown };

/** Sends a message to an actor and forgets it. Implemented by clients and by every handler's context. */
export interface Teller {
  /** @returns false when the message was refused on the spot (it is then among the dead letters) */
  tell(to: ActorAddress, name: string, payload: unknown, bodies?: readonly Uint8Array[]): boolean;
}

/**
 * What a handler sees of the world. Everything that changes something is only recorded; nothing happens before the
 * handler has returned, and nothing at all when it throws.
 */
export interface Context<State, Event, Internal, Reply> extends Teller {
  readonly self: ActorAddress;
  /** Wall-clock time at which the handling of this message began, milliseconds since the epoch. */
  readonly now_ms: number;
  /** The same moment on the process's monotonic clock: for durations in memory; means nothing once it is stored. */
  readonly monotonic_ms: number;
  /** The raw bodies that came with the message: views of a buffer that is this actor's alone. */
  readonly bodies: readonly Uint8Array[];
  /** True when an asker waits for the answer to this message. */
  readonly asked: boolean;
  /** Records an event, applies it, and returns the state after it. Persistent kinds only. */
  persist(event: Event): State;
  /**
   * Writes rows in the very transaction of the event that was recorded last, beside those of `project`.
   * @throws TypeError when none was recorded in this message
   */
  write(rows: readonly RowWrite[]): void;
  /** Answers this message. Without effect when it was told, not asked. */
  reply(value: Reply): void;
  /** Answers this message with an error. */
  refuse(error: Refusal): void;
  /** Keeps the answer for later; give the token to `replyTo` or `refuseTo` in a later message. */
  holdReply(): ReplyToken;
  replyTo(token: ReplyToken, value: unknown): void;
  refuseTo(token: ReplyToken, error: Refusal): void;
  /** Sends to everyone who subscribed to the topic. */
  publish(topic: string, payload: unknown): void;
  /**
   * Adds to a counter of this kind in this thread, for those who watch the process ({@link KindStats}): gone with the thread,
   * and never in replay.
   * @param of which of the things that the counter tells apart, of a small fixed set; '' for one that tells nothing apart.
   *   Never a name that a caller chose
   * @param by ≥ 0; default 1
   */
  count(counter: string, of?: string, by?: number): void;
  /** Delivers the internal message `name` after `delay_ms`; setting a timer again replaces it. */
  setTimer<N extends keyof Internal & string>(
    timer: string,
    delay_ms: number,
    name: N,
    payload: Internal[N],
  ): void;
  cancelTimer(timer: string): void;
  /** Asks an adapter of this thread; its Outcome comes back as the internal message `name`. */
  io<N extends keyof Internal & string>(
    adapter: string,
    operation: string,
    input: unknown,
    name: N,
    ...carry: CarryOf<Internal[N]>
  ): void;
  /** Runs a task on the stateless pool; its Outcome comes back as the internal message `name`. */
  compute<N extends keyof Internal & string>(
    task: string,
    input: unknown,
    name: N,
    ...carry: CarryOf<Internal[N]>
  ): void;
}

/** What travels from `io` or `compute` to its Outcome: required exactly when the internal message declares it. */
type CarryOf<Message> = Message extends { carry: infer Carry }
  ? undefined extends Carry
    ? [carry?: Carry]
    : [carry: Carry]
  : [never];

/** Handles one message. Synchronous and deterministic: no clock, no randomness, no IO but through the context. */
type Handler<State, Message, Event, Internal, Reply> = (
  state: State,
  message: Message,
  context: Context<State, Event, Internal, Reply>,
) => void;

/** How the state of a persistent kind is snapshotted. `version` counts the shapes that `encode` has had. */
interface SnapshotRule<State> {
  version: number;
  /** A snapshot is taken after this many events, and when an idle actor is passivated; not at the end of the host. */
  every_events: number;
  /** A snapshot is also taken after each event that leads to such a state. Pure. */
  isDue?(state: State): boolean;
  /** The state as plain data. */
  encode(state: State): unknown;
  /** The state out of data that any version up to `version` wrote. */
  decode(data: unknown, version: number): State;
}

/** Makes a kind persistent: every change of its state is an event. */
interface Persistence<State, Event> {
  /** The state after the event. Pure; live and in replay alike; understands every event that was ever written. */
  apply(state: State, event: Event): State;
  /**
   * What others should find in tables once the event is durable. Pure; called once, when the event is recorded, never
   * in replay.
   * @param state after the event
   * @param key of the actor
   */
  project?(state: State, event: Event, key: string): readonly RowWrite[];
  /**
   * True for an event that ends the actor's history: its rows are written, and in the same transaction everything that is
   * stored of the actor goes, the event itself too. The state after it must be the initial one: the actor is then as one
   * that never was.
   */
  ends?(event: Event): boolean;
  /** The event as plain data, where it is stored in another shape. */
  encodeEvent?(event: Event): unknown;
  /** The event out of what any version stored. Required with `encodeEvent`. */
  decodeEvent?(stored: unknown): Event;
  snapshot: SnapshotRule<State>;
}

/**
 * A kind of actor. `Messages` is its protocol, `Internal` the messages it sends itself (timers, outcomes), `Event`
 * what it persists. A kind without `persistence` lives in memory: its handlers may change the state in place, and the
 * state is gone after passivation or restart.
 */
export interface Behaviour<Messages extends Protocol<Messages>, State, Event = never, Internal = object> {
  readonly kind: string;
  /** The state of an actor without history. */
  initial(key: string): State;
  /** One handler for each message of the protocol. */
  readonly handlers: {
    [N in keyof Messages]: Handler<State, Messages[N]['request'], Event, Internal, Messages[N]['reply']>;
  };
  /** One handler for each message the actor sends itself. */
  readonly internal: { [N in keyof Internal]: Handler<State, Internal[N], Event, Internal, never> };
  readonly persistence?: Persistence<State, Event>;
  /** Runs after the state is there and before the first message: the place to set timers again. */
  activated?(state: State, context: Context<State, Event, Internal, never>): void;
}

/** A behaviour whose types the runtime no longer needs. */
// biome-ignore lint/suspicious/noExplicitAny: the runtime moves messages of every kind; types are checked at the ends
export type AnyBehaviour = Behaviour<any, any, any, any>;

/** On which thread each address lives. Plain data and shared memory. */
export interface Placement {
  /** Number of actor threads, ≥ 1. */
  hosts: number;
  /** Kinds all of whose actors live on one given thread (taken modulo `hosts`). */
  pins: Readonly<Record<string, number>>;
  /** Hosts on server threads, numbered behind the actor threads, and the kinds that live there and nowhere else. */
  servers?: { hosts: number; kinds: readonly string[] };
  /** Kinds whose actors live where they are first asked for, among the hosts that they would be spread over. */
  moving?: ClaimTable;
}

/** All hosts, on actor threads and on server threads. */
export function countHosts({ hosts, servers }: Placement): number {
  return hosts + (servers?.hosts ?? 0);
}

/**
 * The thread of an address: its kind's pin, its owner for a kind that moves and has one, else by its hash.
 * @returns 0 … countHosts(placement) − 1; the same in every thread of a process
 */
export function placeAddress(placement: Placement, to: ActorAddress): number {
  const { moving, servers, pins, hosts: actorHosts } = placement;
  const pin = pins[to.kind];
  if (pin !== undefined && !servers?.kinds.includes(to.kind)) return pin % actorHosts;
  const { first, hash, hosts } = spreadAddress(placement, to);
  if (moving?.kinds.includes(to.kind)) {
    const claims = new Claims(moving);
    const owner = claims.ownerOf(claims.slotOf(hash));
    if (owner !== null) return first + owner;
  }
  return first + (hash % hosts);
}

/**
 * The hosts that an address may live on, and its hash: FNV-1a (www.isthe.com/chongo/tech/comp/fnv) over kind and key, mixed
 * once more because FNV's low bits alone spread short keys badly.
 */
export function spreadAddress(
  { hosts, servers, moving }: Placement,
  to: ActorAddress,
): { first: number; hosts: number; hash: number } {
  const isOnServers = servers?.kinds.includes(to.kind) ?? false;
  const among = isOnServers ? servers!.hosts : hosts;
  const first = isOnServers ? hosts : 0;
  if (among === 1 && moving === undefined) return { first, hosts: 1, hash: 0 };
  let hash = hashText(0x811c9dc5, to.kind);
  hash = hashText(Math.imul(hash ^ 0xff, 0x01000193), to.key);
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  return { first, hosts: among, hash: (hash ^ (hash >>> 15)) >>> 0 };
}

function hashText(start: number, text: string): number {
  let hash = start;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}
