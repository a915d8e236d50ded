/**
 * Types of actor kinds: addresses, protocols, behaviours, and the effects that a handler records. Pure types, and the
 * function that places an address on a thread. Any thread.
 */

import { Claims, type ClaimTable } from './claims.ts';

/** The recipient of a message: plain data, so it can be stored and sent. See `isValidKey`. */
export interface ActorAddress {
  kind: string;
  key: string;
}

/**
 * Maximum length of a key. In UTF-8, together with the kind and a number, it must fit into LMDB's keys of 1,978 bytes.
 */
export const MAX_KEY_LENGTH = 512;

/**
 * Whether a key may be used. It may not be empty, longer than MAX_KEY_LENGTH, or invalid Unicode: half a
 * surrogate pair changes when it is encoded.
 */
export function isValidKey(key: string): boolean {
  return key.length > 0 && key.length <= MAX_KEY_LENGTH && key.isWellFormed();
}

/** A message of a protocol: its payload, and its answer. `reply` is `undefined` if the message has no answer. */
interface MessageShape {
  request: unknown;
  reply: unknown;
}

/** A protocol maps message names to shapes: `type P = { take: { request: { cost: number }; reply: boolean } }`. */
type Protocol<P> = { [N in keyof P]: MessageShape };

/**
 * Identifies an ask whose answer a handler keeps for later. The token is valid until the ask is answered, or the actor
 * restarts, stops or moves to another process.
 */
export type ReplyToken = number;

/** An actor's refusal; becomes a RuntimeError in the asking thread. */
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

/** The key of a row in its table. Parts are compared in order; numbers sort before texts. */
export type RowKey = readonly (string | number)[];

/**
 * A row for other readers, written in the same transaction as the event that it describes. `add` adds to named
 * counters, which begin at 0. Each addition is made exactly once, because the event is stored exactly once.
 */
export type RowWrite =
  | { op: 'put'; table: string; row: RowKey; value: unknown }
  | { op: 'remove'; table: string; row: RowKey }
  | { op: 'add'; table: string; row: RowKey; counts: Readonly<Record<string, number>> }
  /** Removes the first `limit` rows whose keys begin with `row`. */
  | { op: 'trim'; table: string; row: RowKey; limit: number }
  /**
   * Removes the rows from `row` up to, but not including, `end`. Another row of the transaction has their content, so
   * no content is deleted.
   */
  | { op: 'clear'; table: string; row: RowKey; end: RowKey };

/**
 * All actions that a handler can request from the runtime, as data. After the handler has returned, its events are
 * added to the next commit, and its timers are set or cancelled. The other effects are performed in order, when all
 * events that the actor has recorded up to then are stored.
 */
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

/** Sends a message to an actor without an answer. Implemented by clients and by every handler's context. */
export interface Teller {
  /**
   * Sends the message.
   * @returns false if the message was refused at once (it is then a dead letter)
   */
  tell(to: ActorAddress, name: string, payload: unknown, bodies?: readonly Uint8Array[]): boolean;
}

/**
 * A handler's access to the outside. Actions are only recorded; they are performed after the handler has returned,
 * and not at all if it throws.
 */
export interface Context<State, Event, Internal, Reply> extends Teller {
  readonly self: ActorAddress;
  /** Wall-clock time at which the handling of this message began, milliseconds since the epoch. */
  readonly now_ms: number;
  /** `now_ms` on the process's monotonic clock, for durations in memory; meaningless when stored. */
  readonly monotonic_ms: number;
  /** The raw bodies of the message: views of memory in which other messages may be, too. */
  readonly bodies: readonly Uint8Array[];
  /** True when an asker waits for the answer to this message. */
  readonly asked: boolean;
  /** Records an event, applies it, and returns the state after it. Persistent kinds only. */
  persist(event: Event): State;
  /**
   * Writes rows in the transaction of the last recorded event, in addition to those of `project`.
   * @throws TypeError if this message has not recorded an event
   */
  write(rows: readonly RowWrite[]): void;
  /**
   * Answers this message. Has no effect if the message was sent with `tell`.
   * @throws TypeError if the message was answered before, or its answer is kept for later
   */
  reply(value: Reply): void;
  /** Answers this message with an error, otherwise like `reply`. */
  refuse(error: Refusal): void;
  /**
   * Keeps the answer for later; give the token to `replyTo` or `refuseTo` in a later message. Without an asker, an
   * answer to the token is dropped.
   * @throws TypeError if the message was answered before
   */
  holdReply(): ReplyToken;
  /** Answers the ask of the token. If the token is not valid any more, the answer becomes a dead letter. */
  replyTo(token: ReplyToken, value: unknown): void;
  /** Answers the ask of the token with an error, otherwise like `replyTo`. */
  refuseTo(token: ReplyToken, error: Refusal): void;
  /** Sends to all subscribers of the topic. */
  publish(topic: string, payload: unknown): void;
  /**
   * Adds to a counter of this kind on this thread, for monitoring ({@link KindStats}). Counters end with the thread,
   * and replay does not change them.
   * @param of label from a small fixed set, never a name that a caller chose; '': no label
   * @param by ≥ 0; default 1
   */
  count(counter: string, of?: string, by?: number): void;
  /**
   * Delivers the internal message `name` after `delay_ms`, unless the actor restarts, stops or moves to another process
   * before. Setting a timer again replaces it.
   */
  setTimer<N extends keyof Internal & string>(
    timer: string,
    delay_ms: number,
    name: N,
    payload: Internal[N],
  ): void;
  cancelTimer(timer: string): void;
  /**
   * Calls an adapter of this thread. The Outcome arrives as the internal message `name`, unless the actor restarts,
   * stops or moves to another process before.
   */
  io<N extends keyof Internal & string>(
    adapter: string,
    operation: string,
    input: unknown,
    name: N,
    ...carry: CarryOf<Internal[N]>
  ): void;
  /** Runs a task on the stateless pool, otherwise like `io`. */
  compute<N extends keyof Internal & string>(
    task: string,
    input: unknown,
    name: N,
    ...carry: CarryOf<Internal[N]>
  ): void;
}

/**
 * Data that is passed from `io` or `compute` to its Outcome: required exactly if the internal message declares it.
 */
type CarryOf<Message> = Message extends { carry: infer Carry }
  ? undefined extends Carry
    ? [carry?: Carry]
    : [carry: Carry]
  : [never];

/** Handles one message. Synchronous and deterministic: clock, randomness and IO only through the context. */
type Handler<State, Message, Event, Internal, Reply> = (
  state: State,
  message: Message,
  context: Context<State, Event, Internal, Reply>,
) => void;

/**
 * How the state of a persistent kind is stored as a snapshot. `version` increases with each new format of `encode`.
 */
interface SnapshotRule<State> {
  version: number;
  /**
   * A snapshot is taken after this many events, and when an idle actor is passivated. None is taken at the end of the
   * host.
   */
  every_events: number;
  /** Whether a snapshot is due after an event that leads to this state. Pure. */
  isDue?(state: State): boolean;
  /** Returns the state as plain data. */
  encode(state: State): unknown;
  /** Makes the state from data of any version up to `version`. */
  decode(data: unknown, version: number): State;
}

/** Makes a kind persistent: every change of its state is an event. */
interface Persistence<State, Event> {
  /**
   * Returns the state after the event. Pure; used live and in replay; must accept every event that was ever
   * written.
   */
  apply(state: State, event: Event): State;
  /**
   * The rows for other readers that are written with the event. Pure; called once, when the event is recorded, never in
   * replay.
   * @param state state after the event
   * @param key key of the actor
   */
  project?(state: State, event: Event, key: string): readonly RowWrite[];
  /**
   * True for an event that ends the actor's history. Its rows are written, and the same transaction removes
   * everything stored of the actor, including the event itself. The state after it must be the initial state, because
   * the actor then counts as new.
   */
  ends?(event: Event): boolean;
  /** The event as plain data, if its stored format differs. */
  encodeEvent?(event: Event): unknown;
  /** The event from the stored data of any version. Required with `encodeEvent`. */
  decodeEvent?(stored: unknown): Event;
  snapshot: SnapshotRule<State>;
}

/**
 * A kind of actor. `Messages` is its protocol, `Internal` the messages that it sends itself (timers, outcomes),
 * `Event` what it persists. A kind without `persistence` exists in memory only: its handlers may change the state in
 * place, and the state is lost after passivation or restart.
 */
export interface Behaviour<Messages extends Protocol<Messages>, State, Event = never, Internal = object> {
  readonly kind: string;
  /** Makes the state of an actor without history. */
  initial(key: string): State;
  /** One handler for each message of the protocol. */
  readonly handlers: {
    [N in keyof Messages]: Handler<State, Messages[N]['request'], Event, Internal, Messages[N]['reply']>;
  };
  /** One handler for each message the actor sends itself. */
  readonly internal: { [N in keyof Internal]: Handler<State, Internal[N], Event, Internal, never> };
  readonly persistence?: Persistence<State, Event>;
  /** Runs after the state is loaded and before the first message, for example to set timers again. */
  activated?(state: State, context: Context<State, Event, Internal, never>): void;
}

/** A behaviour of any kind, for code of the runtime that does not need its types. */
// biome-ignore lint/suspicious/noExplicitAny: the runtime moves messages of every kind; types are checked at the ends
export type AnyBehaviour = Behaviour<any, any, any, any>;

/** The thread of each address. Plain data and shared memory. */
export interface Placement {
  /** Number of actor threads, ≥ 1. */
  hosts: number;
  /**
   * Kinds whose actors all run on one actor thread, with the number of that thread (taken modulo `hosts`).
   * Not used for a kind of `servers`.
   */
  pins: Readonly<Record<string, number>>;
  /** Hosts on server threads, numbered after the actor threads, and the kinds that run only there. */
  servers?: { hosts: number; kinds: readonly string[] };
  /**
   * Kinds of which each actor runs on the host whose thread first sends it a message. Without this, the
   * actors would be spread over the same hosts by their hashes.
   */
  moving?: ClaimTable;
}

/** Counts the hosts on actor threads and server threads. */
export function countHosts({ hosts, servers }: Placement): number {
  return hosts + (servers?.hosts ?? 0);
}

/**
 * Finds the host of an address. A kind with a pin has its pinned host, unless its actors run on server
 * threads. An actor of a moving kind has the host that claimed it, if there is one. Otherwise the hash
 * decides.
 * @returns 0 … countHosts(placement) − 1; at the same moment the same in every thread of a process
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
 * Returns the hosts on which an address may run, and its hash: FNV-1a (www.isthe.com/chongo/tech/comp/fnv)
 * over kind and key, mixed once more, because FNV's low bits alone spread short keys badly. The hash is 0 if
 * the address may run on only one host and no kind moves.
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
