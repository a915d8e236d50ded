/**
 * The actors of the simulation. Ledgers persist every operation and use all features of actors. Mirrors exist only in
 * memory and have a small mailbox. Both report to the witness.
 */
import type { KindDefinition } from '../../src/runtime/host.ts';
import type { ActorAddress, Behaviour, Outcome, ReplyToken, Teller } from '../../src/runtime/protocol.ts';
import { DEFAULT_KIND_POLICY, type KindPolicy } from '../../src/runtime/supervision.ts';
import type { Thread, Witness } from './witness.ts';

export const LEDGER = 'ledger';
export const MIRROR = 'mirror';
export const TOPIC = 'operations';

/** Every message contains its own id, its sender, and its place among that sender's messages to this actor. */
interface Numbered {
  id: string;
  from: string;
  n: number;
}

/** A message from an actor also contains the operation that caused it. */
interface Caused extends Numbered {
  cause: string;
}

type LedgerProtocol = {
  add: { request: Numbered & { publish: boolean; mirror: string | null }; reply: { op: string } };
  /**
   * `add` sends `remark` to its own actor. The handler of `remark` sends a tell to the mirror, and persists nothing.
   */
  remark: { request: Caused & { mirror: string }; reply: null };
  /** Persists and starts io. When the io returns, it persists again and answers. */
  add_and_confirm: { request: Numbered; reply: { op: string } };
  /** Persists when the io that it has started returns. */
  add_later: { request: Numbered; reply: { op: string } };
  /** Persists, then starts io with the persisted value. */
  add_and_save: { request: Numbered; reply: { op: string } };
  /** Persists when a timer fires. */
  add_timed: { request: Numbered & { delay_ms: number }; reply: null };
  /** Persists, and makes other ledgers persist, one after the other. */
  pass: { request: Numbered & { route: string[] }; reply: { op: string } };
  passed: { request: Caused & { route: string[] }; reply: null };
  read: { request: Numbered; reply: { key: string; count: number; last: string | null } };
  fail: { request: Numbered & { mirror: string }; reply: { op: string } };
};

type Telling = Teller & { readonly self: ActorAddress };

interface Operation {
  op: string;
}

interface LedgerInternal {
  looked_up: Outcome<unknown, { op: string; token: ReplyToken }>;
  confirmed: Outcome<unknown, { op: string; token: ReplyToken }>;
  saved: Outcome;
  due: Operation;
}

interface LedgerState {
  ops: readonly string[];
}

type MirrorProtocol = {
  note: { request: Caused; reply: null };
  /** Answers later, from a timer. */
  ponder: { request: Numbered & { delay_ms: number }; reply: null };
  /** Answers when the io has returned. */
  look: { request: Numbered; reply: null };
  fail: { request: Numbered; reply: null };
};

interface MirrorInternal {
  pondered: ReplyToken;
  looked: Outcome<unknown, ReplyToken>;
}

export const LEDGER_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 12,
  idle_after_ms: 60,
  max_live: 4,
  max_io_in_flight: 3,
  max_held_effects: 10,
  max_held_replies: 5,
  max_timers: 4,
  restart: { max_restarts: 3, window_ms: 400, backoff_first_ms: 4, backoff_max_ms: 30 },
  stopped_for_ms: 90,
};

export const MIRROR_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 3,
  overflow: 'drop_oldest',
  idle_after_ms: 40,
  max_io_in_flight: 1,
  max_held_replies: 4,
  max_timers: 3,
  restart: { max_restarts: 2, window_ms: 300, backoff_first_ms: 3, backoff_max_ms: 20 },
  stopped_for_ms: 60,
};

/** Maximum number of effects of one message to a ledger. */
export const MOST_EFFECTS = 5;

/**
 * Creates the kinds that a thread of a simulation runs.
 * @param box of the thread
 * @param life name of this start of the thread. Messages that a crashed thread sent may arrive, on another link, after
 *   messages of the next start. So order is guaranteed only within one start.
 */
export function createKinds(witness: Witness, box: number, life: string): KindDefinition[] {
  const thread = { box, life };
  return [
    { behaviour: createLedger(witness, thread), policy: LEDGER_POLICY },
    { behaviour: createMirror(witness, thread), policy: MIRROR_POLICY },
  ];
}

function createLedger(
  witness: Witness,
  thread: Thread,
): Behaviour<LedgerProtocol, LedgerState, Operation, LedgerInternal> {
  const { life } = thread;
  return {
    kind: LEDGER,
    initial: () => ({ ops: [] }),
    handlers: {
      add(_state, message, context) {
        const { key } = context.self;
        witness.seeHandled(key, message);
        const op = message.id;
        context.persist({ op });
        if (message.publish) context.publish(TOPIC, { op });
        const { mirror } = message;
        if (mirror !== null) {
          const from = `${key} in ${life}`;
          const n = witness.numberNext(from, key);
          context.tell(context.self, 'remark', { id: `${op}-remark`, from, n, cause: op, mirror });
          noteOn(mirror, `${op}-note`, op, context);
        }
        context.reply({ op });
      },
      remark(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        noteOn(message.mirror, `${message.id}-note`, message.cause, context);
        context.reply(null);
      },
      add_and_confirm(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        const op = message.id;
        context.persist({ op });
        context.io('desk', 'look_up', {}, 'confirmed', { op, token: context.holdReply() });
      },
      add_later(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        context.io('desk', 'look_up', {}, 'looked_up', { op: message.id, token: context.holdReply() });
      },
      add_and_save(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        const op = message.id;
        context.persist({ op });
        context.io('desk', 'save', { op }, 'saved');
        context.reply({ op });
      },
      add_timed(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        context.setTimer(message.id, message.delay_ms, 'due', { op: message.id });
        context.reply(null);
      },
      pass(_state, message, context) {
        const { key } = context.self;
        witness.seeHandled(key, message);
        const op = message.id;
        context.persist({ op });
        passOn(key, op, message.route, context);
        context.reply({ op });
      },
      passed(_state, message, context) {
        const { key } = context.self;
        witness.seeHandled(key, message);
        witness.seeRevealed(`a tell to ${key}`, { op: message.cause });
        const op = message.id;
        context.persist({ op });
        passOn(key, op, message.route, context);
        context.reply(null);
      },
      read({ ops }, message, context) {
        const { key } = context.self;
        witness.seeHandled(key, message);
        witness.seeRead(thread, key);
        context.reply({ key, count: ops.length, last: ops.at(-1) ?? null });
      },
      fail(_state, message, context) {
        const { key } = context.self;
        witness.seeHandled(key, message);
        const op = message.id;
        witness.seeFailing(op);
        context.persist({ op });
        const from = `${key} failing`;
        context.tell({ kind: MIRROR, key: message.mirror }, 'note', {
          id: `${op}-note`,
          from,
          n: 1,
          cause: op,
        });
        context.reply({ op });
        throw new Error('told to fail');
      },
    },
    internal: {
      looked_up(_state, outcome, context) {
        const { op, token } = outcome.carry;
        if (!outcome.ok) return context.refuseTo(token, outcome.error);
        context.persist({ op });
        context.replyTo(token, { op });
      },
      confirmed(_state, outcome, context) {
        const { op, token } = outcome.carry;
        if (!outcome.ok) return context.refuseTo(token, outcome.error);
        context.persist({ op: `${op}-confirmed` });
        context.replyTo(token, { op: `${op}-confirmed` });
      },
      saved() {},
      due(_state, { op }, context) {
        context.persist({ op });
        context.publish(TOPIC, { op });
      },
    },
    activated(state, context) {
      witness.seeActivated(thread, LEDGER, context.self.key, state.ops);
    },
    persistence: {
      apply: ({ ops }, { op }) => ({ ops: [...ops, op] }),
      snapshot: {
        version: 2,
        every_events: 7,
        encode: (state) => state,
        decode: (data) => data as LedgerState,
      },
    },
  };

  function noteOn(mirror: string, id: string, cause: string, context: Telling): void {
    const from = `${context.self.key} in ${life}`;
    const n = witness.numberNext(from, mirror);
    context.tell({ kind: MIRROR, key: mirror }, 'note', { id, from, n, cause });
  }

  /** Sends two tells in a row, so that the witness can check their order. */
  function passOn(key: string, op: string, route: readonly string[], context: Telling): void {
    const [to, ...rest] = route;
    if (to === undefined) return;
    const from = `${key} in ${life}`;
    for (const [leg, further] of [rest, []].entries()) {
      context.tell({ kind: LEDGER, key: to }, 'passed', {
        id: `${op}.${leg}`,
        from,
        n: witness.numberNext(from, to),
        cause: op,
        route: further,
      });
    }
  }
}

function createMirror(
  witness: Witness,
  thread: Thread,
): Behaviour<MirrorProtocol, null, never, MirrorInternal> {
  return {
    kind: MIRROR,
    initial: () => null,
    handlers: {
      note(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        witness.seeRevealed(`a tell to ${context.self.key}`, { op: message.cause });
        context.reply(null);
      },
      ponder(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        context.setTimer(message.id, message.delay_ms, 'pondered', context.holdReply());
      },
      look(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        context.io('desk', 'look_up', {}, 'looked', context.holdReply());
      },
      fail(_state, message, context) {
        witness.seeHandled(context.self.key, message);
        throw new Error('told to fail');
      },
    },
    internal: {
      pondered(_state, token, context) {
        context.replyTo(token, null);
      },
      looked(_state, outcome, context) {
        if (outcome.ok) context.replyTo(outcome.carry, null);
        else context.refuseTo(outcome.carry, outcome.error);
      },
    },
    activated(_state, context) {
      witness.seeActivated(thread, MIRROR, context.self.key, null);
    },
  };
}
