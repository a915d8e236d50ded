/**
 * Observes the simulation: every handled message, every write that reached the disk, and everything that left an actor.
 * It reports a violation to the world if an observation contradicts a guarantee of the runtime.
 */
import { Packr } from 'msgpackr';
import type { HostReport } from '../../src/runtime/host-report.ts';
import type { JournalWrite } from '../../src/runtime/journal.ts';
import type { Frame } from '../../src/runtime/link.ts';
import type { KindPolicy } from '../../src/runtime/supervision.ts';
import { LEDGER } from './kinds.ts';
import type { World } from './world.ts';

const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

/** Errors after which a message was certainly not handled, or had no effect. */
const WITHOUT_EFFECT = new Set([
  'mailbox_full',
  'message_dropped',
  'too_many_asks',
  'too_many_actors',
  'link_full',
  'actor_stopped',
  'actor_failed',
  'actor_moved',
  'draining',
  'unknown_kind',
  'unknown_message',
]);

/**
 * What an actor's answers, tells, publications and io contain: an operation that must be durable before they are sent.
 */
interface Revealing {
  op?: string;
  /** The result of a read: the ledger, its number of operations, and the last operation. */
  key?: string;
  count?: number;
  last?: string | null;
}

/** The error of a store that cannot be reached. */
export const AWAY = 'the store is away';

/** A life of a host, identified by its name, and the host's box. */
export interface Thread {
  box: number;
  life: string;
}

interface ActorHistory {
  failures_ms: number[];
  /**
   * The failures that the host certainly counts. It may forget earlier failures when it learns that the actor is lost.
   */
  counted_ms: number[];
  /** The earliest time of the next start after a failure; null if the actor does not wait for a start. */
  restart_from_ms: number | null;
  stopped_until_ms: number;
}

export class Witness {
  readonly #world: World;
  readonly #policies: ReadonlyMap<string, KindPolicy>;
  /** Operation → the ledger on which it is durable. */
  readonly #durable = new Map<string, string>();
  /** Operations of each ledger in the order of the journal. */
  readonly #histories = new Map<string, string[]>();
  /** Operations that must never become durable. */
  readonly #impossible = new Set<string>();
  readonly #handled = new Set<string>();
  readonly #lastNumber = new Map<string, number>();
  readonly #nextNumber = new Map<string, number>();
  readonly #actors = new Map<string, ActorHistory>();
  /** The term and the number of operations with which a thread has read a ledger. */
  readonly #read = new Map<string, { term: number; count: number }>();
  /** The last term of a ledger that a box knows. */
  readonly #known = new Map<string, number>();
  readonly #acknowledged: number[] = [];
  acknowledged = 0;
  handled = 0;

  constructor(world: World, policies: ReadonlyMap<string, KindPolicy>) {
    this.#world = world;
    this.#policies = policies;
  }

  /** The operations that are durable on a ledger, oldest first. */
  historyOf(key: string): readonly string[] {
    return this.#histories.get(key) ?? [];
  }

  get ledgers(): string[] {
    return [...this.#histories.keys()];
  }

  /** Numbers the messages from one sender to one receiver. */
  numberNext(from: string, to: string): number {
    const pair = `${from}→${to}`;
    const number = (this.#nextNumber.get(pair) ?? 0) + 1;
    this.#nextNumber.set(pair, number);
    return number;
  }

  /** An actor handles a message: checks that it is new, and in order among the messages of its sender. */
  seeHandled(self: string, message: { id: string; from: string; n: number }): void {
    this.handled++;
    this.#world.note(`${self} handles ${message.id}`);
    if (this.#handled.has(message.id)) this.#world.violate(`${self} handles ${message.id} a second time`);
    this.#handled.add(message.id);
    const pair = `${message.from}→${self}`;
    const last = this.#lastNumber.get(pair) ?? 0;
    if (message.n <= last) this.#world.violate(`${self} handles ${pair} ${message.n} after ${last}`);
    this.#lastNumber.set(pair, message.n);
  }

  /** Writes have reached the disk: checks that each event is the next one of its ledger, new and not refused. */
  seeDurable(writes: readonly JournalWrite[]): void {
    for (const write of writes) {
      if (write.type !== 'event') continue;
      const { op } = packr.unpack(write.event) as { op: string };
      const history = this.#histories.get(write.key) ?? [];
      this.#histories.set(write.key, history);
      if (write.seq !== history.length + 1) {
        this.#world.violate(`${write.key} writes event ${write.seq} after ${history.length}`);
      }
      if (this.#durable.has(op)) this.#world.violate(`${op} is written a second time`);
      if (this.#impossible.has(op)) this.#world.violate(`${op} is durable although it was refused`);
      history.push(op);
      this.#durable.set(op, write.key);
    }
  }

  /** A handler failed deliberately. None of its effects may become visible. */
  seeFailing(op: string): void {
    this.#impossible.add(op);
  }

  /**
   * A store with owners gives a ledger to a thread, with all operations so far.
   * @returns a function to call when the thread has received them
   */
  seeTaken({ life }: Thread, key: string, term: number): () => void {
    const count = this.historyOf(key).length;
    return () => void this.#read.set(`${life}/${key}`, { term, count });
  }

  /** A box learns that a ledger has an owner with this term. From now on, it shows no state of an earlier term. */
  seeLost(box: number, key: string, term: number): void {
    const known = this.#known.get(`${box}/${key}`) ?? 0;
    this.#known.set(`${box}/${key}`, Math.max(known, term));
    this.#actorAt(box, LEDGER, key).counted_ms = [];
  }

  /** The store cannot be reached. The actor leaves memory, and that does not count as a failure. */
  seeUnavailable({ box }: Thread, kind: string, key: string): void {
    const actor = this.#actorAt(box, kind, key);
    forgetFailures(actor);
    actor.restart_from_ms = null;
  }

  /** Number of answered asks of one box. */
  acknowledgedIn(box: number): number {
    return this.#acknowledged[box] ?? 0;
  }

  /** A message leaves an actor, or has arrived from one: checks that everything that it reveals is durable. */
  seeRevealed(where: string, what: unknown): void {
    if (typeof what !== 'object' || what === null) return;
    const { op, key, count, last } = what as Revealing;
    if (op !== undefined && !this.#durable.has(op))
      this.#world.violate(`${where} reveals ${op} before it is durable`);
    if (key === undefined || count === undefined) return;
    const history = this.historyOf(key);
    if (count > history.length || (history[count - 1] ?? null) !== last) {
      this.#world.violate(`${where} reveals ${count} operations of ${key}, durable are ${history.length}`);
    }
  }

  /** A thread sends a frame: checks what the frame reveals. */
  seeSent(where: string, frame: Frame): void {
    if (frame.type === 'reply') this.seeRevealed(where, frame.value);
    else if (frame.type === 'publish') this.seeRevealed(where, frame.payload);
    else if (frame.type === 'tell') {
      const { cause } = frame.payload as { cause?: string };
      if (cause !== undefined) this.seeRevealed(where, { op: cause });
    }
  }

  /** A ledger handles a read: checks that its state is of the last term that its box knows, or of a later one. */
  seeRead({ box, life }: Thread, key: string): void {
    const { term = 0 } = this.#read.get(`${life}/${key}`) ?? {};
    const known = this.#known.get(`${box}/${key}`) ?? 0;
    if (term < known) this.#world.violate(`${key} is read in term ${term}, its box knows ${known}`);
  }

  /**
   * An asker gets the outcome of its message: an answer may reveal only durable operations, and a refused operation
   * must not be durable.
   */
  seeSettled(box: number, op: string, code: string | null, value: unknown): void {
    if (code === null) {
      this.acknowledged++;
      this.#acknowledged[box] = this.acknowledgedIn(box) + 1;
      this.seeRevealed(`the answer to ${op}`, value);
    } else if (WITHOUT_EFFECT.has(code)) {
      if (this.#durable.has(op)) this.#world.violate(`${op} was refused with ${code} and is durable`);
      this.#impossible.add(op);
    }
  }

  /**
   * An actor's state is loaded, and its first message is still to come: checks that the state has all operations, and
   * that a restart is not too early.
   */
  seeActivated({ box, life }: Thread, kind: string, key: string, ops: readonly string[] | null): void {
    const actor = this.#actorAt(box, kind, key);
    const { nowMs } = this.#world;
    this.#world.note(`${kind}/${key} starts`);
    if (nowMs < actor.stopped_until_ms) this.#world.violate(`${kind}/${key} starts while it is stopped`);
    if (actor.restart_from_ms === null) {
      // This is a new actor and not a restart, so its failures are counted from zero.
      forgetFailures(actor);
    } else if (nowMs < actor.restart_from_ms) {
      this.#world.violate(`${kind}/${key} starts again too soon`);
    }
    actor.restart_from_ms = null;
    if (ops === null) return;
    const history = this.historyOf(key);
    // Another box may have written after this box read the ledger.
    const { count = history.length } = this.#read.get(`${life}/${key}`) ?? {};
    const agrees = ops.length === count && ops.every((op, at) => op === history[at]);
    if (!agrees) this.#world.violate(`${kind}/${key} starts from ${ops.length} operations of ${count}`);
  }

  /** A host reports a failure: checks whether it may restart or stop the actor after so many failures. */
  seeReport(box: number, { kind, key, during, error, outcome }: HostReport): void {
    this.#world.note(`${kind}/${key} fails in ${during}: ${outcome}`);
    if (error.includes(AWAY)) this.#world.violate(`${kind}/${key} fails because ${AWAY}`);
    if (outcome === 'lost') return this.#world.violate(`${kind}/${key} lost ${during}`);
    const actor = this.#actorAt(box, kind, key);
    const { restart, stopped_for_ms } = this.#policies.get(kind)!;
    const { nowMs } = this.#world;
    if (during !== 'activate') {
      actor.failures_ms.push(nowMs);
      actor.counted_ms.push(nowMs);
    }
    const countRecent = (all: readonly number[]) => all.filter((at) => at > nowMs - restart.window_ms).length;
    if (outcome === 'restart') {
      const counted = countRecent(actor.counted_ms);
      if (counted > restart.max_restarts)
        this.#world.violate(`${kind}/${key} starts again after ${counted} failures`);
      actor.restart_from_ms =
        nowMs + Math.min(restart.backoff_max_ms, restart.backoff_first_ms * 2 ** (counted - 1));
    } else {
      const recent = countRecent(actor.failures_ms);
      if (during !== 'activate' && recent <= restart.max_restarts) {
        this.#world.violate(`${kind}/${key} is stopped after ${recent} failures`);
      }
      actor.stopped_until_ms = nowMs + stopped_for_ms;
      actor.restart_from_ms = null;
    }
  }

  /** A thread crashed: forgets the failures of the actors that it ran, because its restart does not count them. */
  forgetActors(box: number, isThere: (kind: string, key: string) => boolean): void {
    for (const address of [...this.#actors.keys()]) {
      const [of = '', kind = '', key = ''] = address.split('/');
      if (Number(of) === box && isThere(kind, key)) this.#actors.delete(address);
    }
  }

  #actorAt(box: number, kind: string, key: string): ActorHistory {
    const address = `${box}/${kind}/${key}`;
    let actor = this.#actors.get(address);
    if (actor === undefined) {
      actor = { failures_ms: [], counted_ms: [], restart_from_ms: null, stopped_until_ms: 0 };
      this.#actors.set(address, actor);
    }
    return actor;
  }
}

function forgetFailures(actor: ActorHistory): void {
  actor.failures_ms = [];
  actor.counted_ms = [];
}
