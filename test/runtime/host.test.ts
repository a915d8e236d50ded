/**
 * A host without threads: bounds, failures and starts of actors that are hard to cause on real threads. The test
 * controls time, links and io.
 */
import { describe, expect, it } from 'vitest';
import { ActorClient } from '../../src/runtime/actor-client.ts';
import type { ErrorData } from '../../src/runtime/error.ts';
import { ActorHost, type KindDefinition } from '../../src/runtime/host.ts';
import type { HostReport } from '../../src/runtime/host-report.ts';
import {
  type CommitDone,
  type JournalStore,
  JournalUnavailableError,
  type JournalWrite,
  type StoredActor,
} from '../../src/runtime/journal.ts';
import type { Frame, Link, LinkStats } from '../../src/runtime/link.ts';
import type { AnyBehaviour, Behaviour, Outcome, ReplyToken } from '../../src/runtime/protocol.ts';
import type { Scheduler } from '../../src/runtime/scheduler.ts';
import { DEFAULT_KIND_POLICY, type KindPolicy } from '../../src/runtime/supervision.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { createDeferred } from '../../src/std/deferred.ts';

/** A scheduler whose time changes only when the test moves it. */
class Turns implements Scheduler {
  readonly #clock = createManualClock(1_000_000);
  #tasks: { at_ms: number; run: () => void }[] = [];

  wallMs = () => this.#clock.wallMs();
  monotonicMs = () => this.#clock.monotonicMs();
  soon = (run: () => void) => void this.later(0, run);

  later(delayMs: number, run: () => void): () => void {
    const task = { at_ms: this.monotonicMs() + Math.max(0, delayMs), run };
    this.#tasks.push(task);
    return () => {
      this.#tasks = this.#tasks.filter((other) => other !== task);
    };
  }

  /** Advances the time, and runs the due tasks in order. */
  advance(ms: number): void {
    const until = this.monotonicMs() + ms;
    for (;;) {
      const due = this.#tasks.filter((task) => task.at_ms <= until).sort((a, b) => a.at_ms - b.at_ms)[0];
      if (due === undefined) break;
      this.#tasks = this.#tasks.filter((task) => task !== due);
      this.#clock.advance(Math.max(0, due.at_ms - this.monotonicMs()));
      due.run();
    }
    this.#clock.advance(until - this.monotonicMs());
  }
}

/** A link without delay: a frame arrives before `send` returns. */
class DirectLink implements Link {
  onFrame: (frame: Frame) => void = () => {};
  onClose: () => void = () => {};
  peer!: DirectLink;
  #closed = false;

  static pair(): [DirectLink, DirectLink] {
    const [a, b] = [new DirectLink(), new DirectLink()];
    a.peer = b;
    b.peer = a;
    return [a, b];
  }

  send(frame: Frame): boolean {
    if (this.#closed) return false;
    if (frame.type === 'reply' && typeof frame.value === 'function') throw new TypeError('not plain data');
    this.peer.onFrame(frame);
    return true;
  }

  flush(): void {}

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onClose();
    this.peer.close();
  }

  stats(): LinkStats {
    return { bytes_sent: 0, batches_sent: 0, refused: 0, bytes_in_flight: 0 };
  }
}

/** A journal that completes a commit when the test says so. */
class HandJournal implements JournalStore {
  waiting: { writes: readonly JournalWrite[]; done: CommitDone }[] = [];
  stored: JournalWrite[] = [];
  /** The result of `load`; by default the committed state. */
  load: JournalStore['load'] = (kind, key) => this.read(kind, key);
  onLost: JournalStore['onLost'];
  letGo: NonNullable<JournalStore['letGo']> = () => {};

  read(kind: string, key: string): StoredActor {
    const mine = this.stored.filter((write) => write.kind === kind && write.key === key);
    const snapshot = mine.findLast((write) => write.type === 'snapshot') ?? null;
    const events = mine.flatMap((write) =>
      write.type === 'event' && write.seq > (snapshot?.seq ?? 0) ? [write.event] : [],
    );
    return { snapshot, events };
  }

  commit(writes: readonly JournalWrite[], done: CommitDone): void {
    this.waiting.push({ writes, done });
  }

  /** Completes the pending commit, but stores nothing of the actors with these keys. */
  finishWithout(...lost: string[]): void {
    const { writes, done } = this.waiting.shift()!;
    this.stored.push(...writes.filter(({ key }) => !lost.includes(key)));
    done(
      null,
      lost.map((key) => ({ kind: 'ledger', key })),
    );
  }

  /** Completes the pending commit. */
  finish(error: Error | null = null): void {
    const { writes, done } = this.waiting.shift()!;
    if (error === null) this.stored.push(...writes);
    done(error);
  }

  async close(): Promise<void> {}
}

interface Answer {
  error: ErrorData | null;
  value: unknown;
}

function setUp(behaviour: AnyBehaviour, policy: Partial<KindPolicy> = {}, others: KindDefinition[] = []) {
  const turns = new Turns();
  const journal = new HandJournal();
  const reports: HostReport[] = [];
  const io: { input: unknown; done: (error: unknown, value: unknown) => void }[] = [];
  const placement = { hosts: 1, pins: {} };
  const host = new ActorHost({
    index: 0,
    placement,
    kinds: [{ behaviour, policy: { ...DEFAULT_KIND_POLICY, ...policy } }, ...others],
    scheduler: turns,
    journal,
    performIo: (_adapter, _operation, input, done) => void io.push({ input, done }),
    performCompute: (_task, input, done) => void io.push({ input, done }),
    report: (report) => void reports.push(report),
  });
  const client = new ActorClient(placement, turns);
  const [a, b] = DirectLink.pair();
  host.attachClient(a);
  client.attach(0, b);
  const ask = (name: string, payload: unknown = null, key = 'a', bodies: Uint8Array[] = []): Answer[] => {
    const answers: Answer[] = [];
    const options = { deadline_ms: 60_000, bodies };
    client.request({ kind: behaviour.kind, key }, name, payload, options, (error, value) => {
      answers.push({ error, value });
    });
    return answers;
  };
  return { turns, journal, reports, io, host, client, ask, link: b };
}

function codeOf(answers: Answer[]): string | undefined {
  const [answer] = answers;
  return answer === undefined ? undefined : (answer.error?.code ?? 'ok');
}

type BoxProtocol = {
  fetch: { request: string; reply: string };
  note: { request: unknown; reply: number };
  hold: { request: null; reply: string };
  throw: { request: null; reply: never };
  silent: { request: null; reply: never };
  strange: { request: null; reply: unknown };
  count: { request: string[]; reply: null };
  timers: { request: number; reply: null };
};

interface BoxInternal {
  fetched: Outcome<string, { token: ReplyToken }>;
  rang: string;
}

const box: Behaviour<BoxProtocol, { notes: unknown[] }, never, BoxInternal> = {
  kind: 'box',
  initial: () => ({ notes: [] }),
  handlers: {
    fetch: (_state, what, context) =>
      context.io('shelf', 'fetch', what, 'fetched', { token: context.holdReply() }),
    note: (state, what, context) => context.reply(state.notes.push(what)),
    hold: (_state, _message, context) => void context.holdReply(),
    throw: () => {
      throw new Error('thrown on purpose');
    },
    silent: () => {},
    strange: (_state, _message, context) => context.reply(() => 'a function'),
    count(_state, names, context) {
      for (const name of names) context.count('seen', name, 2);
      context.reply(null);
    },
    timers(_state, count, context) {
      for (let i = 0; i < count; i++) context.setTimer(`t${i}`, 100, 'rang', `t${i}`);
      context.reply(null);
    },
  },
  internal: {
    fetched(_state, outcome, context) {
      if (outcome.ok) context.replyTo(outcome.carry.token, outcome.value);
      else context.refuseTo(outcome.carry.token, outcome.error);
    },
    rang: (state, name) => void state.notes.push(name),
  },
};

describe('io', () => {
  it('delays new messages at its bound, while outcomes are handled before them', () => {
    const { io, ask } = setUp(box, { max_io_in_flight: 2 });
    const [first, second, third, note] = [
      ask('fetch', 'x'),
      ask('fetch', 'y'),
      ask('fetch', 'z'),
      ask('note', 1),
    ];
    expect(io.map((each) => each.input)).toEqual(['x', 'y']);
    expect(codeOf(note)).toBeUndefined();
    io[1]!.done(null, 'Y');
    expect(second).toEqual([{ error: null, value: 'Y' }]);
    expect(io.map((each) => each.input)).toEqual(['x', 'y', 'z']);
    io[0]!.done(Object.assign(new Error('gone'), { code: 'missing', retryable: true }), undefined);
    expect(first).toMatchObject([{ error: { code: 'missing', retryable: true } }]);
    expect(note).toEqual([{ error: null, value: 1 }]);
    io[2]!.done(new Error('broken'), undefined);
    expect(third).toMatchObject([{ error: { code: 'io_failed', retryable: false } }]);
  });

  it('that ends after its actor failed has no effect', () => {
    const { io, ask, host, turns } = setUp(box);
    const fetching = ask('fetch', 'x');
    expect(codeOf(ask('throw'))).toBe('actor_failed');
    expect(codeOf(fetching)).toBe('actor_restarted');
    turns.advance(1_000);
    io[0]!.done(null, 'X');
    expect(fetching).toHaveLength(1);
    expect(host.deadLetters.counts()).toEqual({ stale_outcome: 1 });
    expect(codeOf(ask('note', 1))).toBe('ok');
  });
});

describe('an answer', () => {
  it('that is missing or that cannot be sent fails the ask, and the actor continues', () => {
    const { ask, reports } = setUp(box);
    expect(codeOf(ask('silent'))).toBe('no_reply');
    expect(codeOf(ask('strange'))).toBe('no_reply');
    expect(reports.map((report) => report.outcome)).toEqual(['lost']);
    expect(ask('note', 1)).toEqual([{ error: null, value: 1 }]);
  });

  it('that is held back counts against a bound', () => {
    const { ask } = setUp(box, { max_held_replies: 2 });
    const held = [ask('hold'), ask('hold')];
    expect(codeOf(ask('note', 1))).toBe('mailbox_full');
    ask('throw');
    // The bound applies to asks. The refused message was an ask.
    expect(held.map(codeOf)).toEqual([undefined, undefined]);
  });
});

describe('a mailbox', () => {
  it('is limited in bytes; an empty one takes a message of any size', () => {
    const { ask, io } = setUp(box, { max_io_in_flight: 1, mailbox_bytes: 1_000 });
    ask('fetch', 'x');
    const big = ask('note', 0, 'a', [new Uint8Array(5_000)]);
    const refused = ask('note', 1, 'a', [new Uint8Array(1)]);
    const empty = ask('note', 2);
    expect([big, refused, empty].map(codeOf)).toEqual([undefined, 'mailbox_full', 'mailbox_full']);
    io[0]!.done(null, 'X');
    expect(codeOf(big)).toBe('ok');
    expect(codeOf(ask('note', 3, 'a', [new Uint8Array(1)]))).toBe('ok');
  });
});

describe('a counter', () => {
  it('distinguishes a hundred names, and counts the rest together', () => {
    const { ask, host } = setUp(box);
    ask('count', ['__proto__', 'constructor', ...Array.from({ length: 200 }, (_, at) => `n${at}`), 'n0']);
    const { seen } = host.stats().kinds.box!.counts;
    expect(Object.keys(seen!)).toHaveLength(101);
    expect([seen!.n0, seen!.n97, seen!.n98, seen!.others]).toEqual([4, 2, undefined, 2 * 102]);
  });
});

describe('timers', () => {
  it('beyond the bound fail only their message', () => {
    const { ask, turns } = setUp(box, { max_timers: 3 });
    expect(codeOf(ask('timers', 4))).toBe('actor_failed');
    turns.advance(1_000);
    expect(codeOf(ask('timers', 3))).toBe('ok');
    // Timers that are set again replace the earlier ones.
    expect(codeOf(ask('timers', 3))).toBe('ok');
    turns.advance(1_000);
    expect(ask('note', 'x')).toEqual([{ error: null, value: 4 }]);
  });
});

describe('room for actors', () => {
  it('is made by passivating an idle actor, and refused when all are busy', () => {
    const { ask, host } = setUp(box, { max_live: 2, idle_after_ms: Number.POSITIVE_INFINITY });
    ask('note', 1, 'a');
    ask('note', 1, 'b');
    expect(codeOf(ask('hold', null, 'c'))).toBeUndefined();
    expect(host.stats().kinds.box).toMatchObject({ live: 2, passivations: 1 });
    expect(codeOf(ask('hold', null, 'd'))).toBeUndefined();
    expect(codeOf(ask('note', 1, 'e'))).toBe('too_many_actors');
    expect(host.stats().kinds.box).toMatchObject({ live: 2, passivations: 2 });
  });
});

type LedgerProtocol = {
  add: { request: number; reply: number };
  read: { request: null; reply: number };
  twice_then_throw: { request: number; reply: never };
  unstorable: { request: null; reply: number };
};

/** Version 2 of its snapshots is `{ sum }`, version 1 was the bare number. */
function makeLedger(version = 2): Behaviour<LedgerProtocol, { sum: number }, number> {
  return {
    kind: 'ledger',
    initial: () => ({ sum: 0 }),
    persistence: {
      apply(state, amount) {
        // The state is changed in place. If the handler throws after that, the change must not remain.
        state.sum += amount;
        return state;
      },
      snapshot: {
        version,
        every_events: 3,
        encode: (state) => (version === 1 ? state.sum : { sum: state.sum }),
        decode: (data, from) => (from === 1 ? { sum: data as number } : { ...(data as { sum: number }) }),
      },
    },
    handlers: {
      add(_state, amount, context) {
        context.reply(context.persist(amount).sum);
        context.count('added', amount > 9 ? 'much' : 'little');
      },
      read: (state, _message, context) => context.reply(state.sum),
      twice_then_throw(_state, amount, context) {
        context.persist(amount);
        context.persist(amount);
        throw new Error('after two events');
      },
      unstorable: (_state, _message, context) => context.reply(context.persist((2n ** 100n) as never).sum),
    },
    internal: {},
  };
}

describe('a persistent actor', () => {
  it('shares one commit with all others of its turn; later records go into the next commit', () => {
    const { ask, journal, turns } = setUp(makeLedger());
    const first = [ask('add', 1, 'a'), ask('add', 2, 'b')];
    turns.advance(0);
    const second = [ask('add', 3, 'a'), ask('add', 4, 'c')];
    turns.advance(0);
    expect(journal.waiting.map(({ writes }) => writes.length)).toEqual([2]);
    journal.finish();
    expect(first.map(([answer]) => answer?.value)).toEqual([1, 2]);
    expect(second.map(codeOf)).toEqual([undefined, undefined]);
    expect(journal.waiting.map(({ writes }) => writes.length)).toEqual([2]);
    journal.finish();
    expect(second.map(([answer]) => answer?.value)).toEqual([4, 4]);
  });

  it('keeps nothing of a message whose handler threw, neither in memory nor in the store', () => {
    const { ask, journal, turns } = setUp(makeLedger());
    const [added, failed] = [ask('add', 1), ask('twice_then_throw', 100)];
    turns.advance(0);
    journal.finish();
    expect([codeOf(added), codeOf(failed)]).toEqual(['ok', 'actor_failed']);
    const read = ask('read');
    expect(codeOf(read)).toBeUndefined();
    turns.advance(DEFAULT_KIND_POLICY.restart.backoff_first_ms);
    expect(read).toEqual([{ error: null, value: 1 }]);
    expect(journal.stored).toHaveLength(1);
  });

  it('does not record an event that cannot be stored', () => {
    const { ask, journal, turns } = setUp(makeLedger());
    expect(codeOf(ask('unstorable'))).toBe('actor_failed');
    turns.advance(1_000);
    expect(journal.waiting).toEqual([]);
    expect(codeOf(ask('read'))).toBe('ok');
  });

  it('waits at its bound until the journal catches up', () => {
    // Each message has two effects, an answer and a count. So two messages reach the bound.
    const { ask, journal, turns } = setUp(makeLedger(), { max_held_effects: 4 });
    const asks = Array.from({ length: 5 }, (_, i) => ask('add', i));
    turns.advance(0);
    expect(journal.waiting[0]!.writes).toHaveLength(2);
    for (let i = 0; i < 3; i++) {
      journal.finish();
      turns.advance(0);
    }
    expect(asks.map(([answer]) => answer?.value)).toEqual([0, 1, 3, 6, 10]);
  });

  it('withdraws everything that depends on a failed commit, and restarts from the stored state', () => {
    const { ask, journal, turns, reports, host } = setUp(makeLedger());
    ask('add', 1);
    turns.advance(0);
    journal.finish();
    const [lost, other] = [ask('add', 10), ask('add', 5, 'b')];
    turns.advance(0);
    const later = [ask('add', 20), ask('read'), ask('add', 6, 'c')];
    journal.finish(new Error('disk full'));
    expect([lost, other, later[0]!, later[1]!].map(codeOf)).toEqual(new Array(4).fill('storage_unavailable'));
    // The events that another actor recorded meanwhile are not affected.
    expect(journal.waiting.map(({ writes }) => writes.map(({ key }) => key))).toEqual([['c']]);
    journal.finish();
    expect(later[2]).toEqual([{ error: null, value: 6 }]);
    turns.advance(1_000);
    const again = ask('add', 2);
    turns.advance(0);
    journal.finish();
    expect(again).toEqual([{ error: null, value: 3 }]);
    expect(reports.map(({ key, during }) => `${key} ${during}`)).toEqual(['a commit', 'b commit']);
    // Only stored operations count: 1, 6 and 2 were stored.
    expect(host.stats().kinds.ledger!.counts).toEqual({ added: { little: 3 } });
  });

  it('is read from snapshots of every version up to its own', () => {
    const old = setUp(makeLedger(1));
    for (let i = 1; i <= 4; i++) old.ask('add', i);
    old.turns.advance(0);
    old.journal.finish();
    expect(old.journal.stored.map((write) => write.type)).toEqual([
      'event',
      'event',
      'event',
      'snapshot',
      'event',
    ]);
    const { ask, journal } = setUp(makeLedger(2));
    journal.stored = old.journal.stored;
    expect(ask('read')).toEqual([{ error: null, value: 10 }]);
  });

  it('whose snapshot is newer than the program does not start, and is tried again only later', () => {
    const { ask, journal, reports, turns } = setUp(makeLedger(1), { stopped_for_ms: 500 });
    let loads = 0;
    journal.load = () => {
      loads++;
      return { snapshot: { seq: 1, version: 2, state: new Uint8Array([0]) }, events: [] };
    };
    expect([ask('read'), ask('read')].map(codeOf)).toEqual(['actor_stopped', 'actor_stopped']);
    expect(loads).toBe(1);
    expect(reports).toMatchObject([{ during: 'activate', outcome: 'stop' }]);
    turns.advance(501);
    expect(codeOf(ask('read'))).toBe('actor_stopped');
    expect(loads).toBe(2);
  });

  it('cannot run in a thread without a journal', () => {
    const { turns } = setUp(box);
    expect(
      () =>
        new ActorHost({
          index: 0,
          placement: { hosts: 1, pins: {} },
          kinds: [{ behaviour: makeLedger(), policy: DEFAULT_KIND_POLICY }],
          scheduler: turns,
          journal: null,
          performIo: () => {},
          performCompute: () => {},
          report: () => {},
        }),
    ).toThrow(/journal/);
  });
});

/** A host with a store that answers later. Each load ends when the test says so. */
function setUpFar(policy: Partial<KindPolicy> = {}) {
  const parts = setUp(makeLedger(), policy);
  const { journal, turns } = parts;
  const loads: { key: string; end: (error?: Error) => Promise<void> }[] = [];
  journal.load = (kind, key) => {
    const deferred = createDeferred<StoredActor>();
    loads.push({
      key,
      end: async (error) => {
        if (error === undefined) deferred.resolve(journal.read(kind, key));
        else deferred.reject(error);
        await deferred.promise.catch(() => {});
        turns.advance(0);
      },
    });
    return deferred.promise;
  };
  /** Ends all running loads. */
  const load = async (): Promise<string[]> => {
    const running = loads.splice(0);
    for (const { end } of running) await end();
    return running.map(({ key }) => key);
  };
  /** Adds an amount, and makes the event durable. */
  const add = async (amount: number, key = 'a'): Promise<Answer[]> => {
    const answers = parts.ask('add', amount, key);
    await load();
    turns.advance(0);
    journal.finish();
    return answers;
  };
  return { ...parts, loads, load, add };
}

describe('an actor that a store reads later', () => {
  it('keeps its messages in order in its mailbox, within the bounds', async () => {
    const { ask, journal, turns, load, loads, host } = setUpFar({ mailbox_capacity: 3 });
    const asks = [1, 2, 3, 4].map((amount) => ask('add', amount));
    expect(asks.map(codeOf)).toEqual([undefined, undefined, undefined, 'mailbox_full']);
    expect(loads).toHaveLength(1);
    expect(host.stats().kinds.ledger).toMatchObject({ live: 1, mailbox_depth: 3, activations: 0 });
    expect(await load()).toEqual(['a']);
    turns.advance(0);
    journal.finish();
    expect(asks.slice(0, 3)).toMatchObject([[{ value: 1 }], [{ value: 3 }], [{ value: 6 }]]);
    expect(host.stats().kinds.ledger).toMatchObject({ live: 1, mailbox_depth: 0, activations: 1 });
  });

  it('does not hinder other actors, and counts against the maximum number of actors', async () => {
    const { ask, load, add } = setUpFar({ max_live: 2 });
    await add(1, 'a');
    const slow = ask('read', null, 'b');
    expect(ask('read', null, 'a')).toEqual([{ error: null, value: 1 }]);
    // Actor a is passivated to make room, because b is not idle.
    const third = ask('read', null, 'c');
    expect([codeOf(third), codeOf(ask('read', null, 'd'))]).toEqual([undefined, 'too_many_actors']);
    await load();
    expect([slow, third].map(codeOf)).toEqual(['ok', 'ok']);
  });

  it('does not handle a message whose deadline has passed', async () => {
    const { ask, client, turns, load, host } = setUpFar();
    const late: (string | undefined)[] = [];
    client.request({ kind: 'ledger', key: 'a' }, 'add', 5, { deadline_ms: 100 }, (error) => {
      late.push(error?.code);
    });
    turns.advance(200);
    expect(late).toEqual(['deadline_exceeded']);
    const read = ask('read');
    await load();
    expect(read).toEqual([{ error: null, value: 0 }]);
    expect(host.deadLetters.counts()).toEqual({ expired: 1 });
  });

  it('refuses its messages if the store cannot be reached, and is not stopped', async () => {
    const { ask, loads, load, reports, host } = setUpFar();
    for (let round = 0; round < 20; round++) {
      const asks = [ask('read'), ask('add', 1)];
      await loads.shift()!.end(new JournalUnavailableError('away'));
      expect(asks.map(codeOf)).toEqual(['storage_unavailable', 'storage_unavailable']);
      expect(asks[0]).toMatchObject([{ error: { retryable: true } }]);
    }
    expect(host.stats().kinds.ledger).toMatchObject({ live: 0, stopped: 0, mailbox_depth: 0 });
    expect([host.deadLetters.counts(), reports]).toEqual([{ storage_unavailable: 40 }, []]);
    const read = ask('read');
    await load();
    expect(codeOf(read)).toBe('ok');
  });

  it('refuses its messages if the store never answers, and a late answer changes nothing', async () => {
    const { ask, turns, loads, load, host } = setUpFar();
    const first = ask('read');
    turns.advance(15_000);
    expect(codeOf(first)).toBe('storage_unavailable');
    const second = ask('read');
    const [late, next] = loads.splice(0);
    await late!.end();
    expect(codeOf(second)).toBeUndefined();
    await next!.end();
    expect(codeOf(second)).toBe('ok');
    expect(host.stats().kinds.ledger).toMatchObject({ live: 1, activations: 1 });
    await load();
  });

  it('is stopped if its history is damaged', async () => {
    const { ask, loads, reports, host } = setUpFar();
    const asks = [ask('read'), ask('read')];
    await loads.shift()!.end(new Error('event 3 is missing'));
    expect(asks.map(codeOf)).toEqual(['actor_stopped', 'actor_stopped']);
    expect([codeOf(ask('read')), loads.length]).toEqual(['actor_stopped', 0]);
    expect(reports).toMatchObject([{ during: 'activate', outcome: 'stop' }]);
    expect(host.stats().kinds.ledger).toMatchObject({ live: 0, stopped: 1 });
  });

  it('restarts after a failure like any other', async () => {
    const { ask, turns, load, loads, add } = setUpFar();
    await add(3);
    expect(codeOf(ask('twice_then_throw', 100))).toBe('actor_failed');
    const read = ask('read');
    turns.advance(DEFAULT_KIND_POLICY.restart.backoff_first_ms);
    expect([codeOf(read), loads.length]).toEqual([undefined, 1]);
    await load();
    expect(read).toEqual([{ error: null, value: 3 }]);
  });

  it('is not read while a commit with its snapshot is undecided', async () => {
    const { ask, turns, journal, loads, load, add } = setUpFar({ idle_after_ms: 1_000 });
    const left: string[] = [];
    journal.letGo = (_kind, key) => void left.push(key);
    await add(1);
    turns.advance(5_000);
    expect(journal.waiting.map(({ writes }) => writes.map(({ type }) => type))).toEqual([['snapshot']]);
    const read = ask('read');
    expect([loads, left]).toEqual([[], []]);
    journal.finish();
    expect(await load()).toEqual(['a']);
    expect(read).toEqual([{ error: null, value: 1 }]);
    expect(left).toEqual(['a']);
    // No event was recorded since the last commit, so nothing is written.
    turns.advance(5_000);
    expect([journal.waiting, left]).toEqual([[], ['a', 'a']]);
  });

  it('delays the end of a drain until it is loaded', async () => {
    const { ask, host, turns, load } = setUpFar();
    const read = ask('read');
    let isDrained = false;
    const drained = host.drain().then(() => {
      isDrained = true;
    });
    turns.advance(1_000);
    await Promise.resolve();
    expect(isDrained).toBe(false);
    await load();
    expect(codeOf(read)).toBe('ok');
    await drained;
    expect(host.stats().kinds.ledger!.live).toBe(0);
  });

  it('stays where it is when the host has ended', async () => {
    const { ask, host, load } = setUpFar();
    const read = ask('read');
    host.close();
    await load();
    expect(codeOf(read)).toBe('host_down');
    expect(host.stats().kinds.ledger!.activations).toBe(0);
  });
});

describe('an actor with another owner', () => {
  it('tells askers that nothing was stored, and continues from the state that the other owner has stored', async () => {
    const { ask, journal, turns, load, add, reports, host } = setUpFar();
    await add(1);
    await add(1, 'b');
    const [lost, other] = [ask('add', 10), ask('add', 5, 'b')];
    turns.advance(0);
    const later = [ask('add', 20), ask('read'), ask('add', 6, 'c')];
    journal.stored.push({ type: 'event', kind: 'ledger', key: 'a', seq: 2, event: Buffer.from([7]) });
    await load();
    journal.finishWithout('a');
    expect([lost, later[0]!, later[1]!].map(codeOf)).toEqual(new Array(3).fill('actor_moved'));
    expect(lost).toMatchObject([{ error: { retryable: true } }]);
    expect(other).toEqual([{ error: null, value: 6 }]);
    // No message waits for the actor, so it left memory. The events that other actors recorded meanwhile are not
    // affected.
    expect(host.stats().kinds.ledger!.live).toBe(2);
    expect(journal.waiting.map(({ writes }) => writes.map(({ key }) => key))).toEqual([['c']]);
    journal.finish();
    expect(later[2]).toEqual([{ error: null, value: 6 }]);
    const read = ask('read');
    expect(await load()).toEqual(['a']);
    expect(read).toEqual([{ error: null, value: 8 }]);
    expect(reports).toEqual([]);
    expect(host.stats().kinds.ledger).toMatchObject({ errors: 0, restarts: 0, stopped: 0 });
    // Only stored operations count.
    expect(host.stats().kinds.ledger!.counts).toEqual({ added: { little: 4 } });
  });

  it('handles the messages that waited after it is loaded again', async () => {
    // Each message has two effects, an answer and a count. So a single message reaches the bound, and the others wait.
    const { ask, journal, turns, load, add } = setUpFar({ max_held_effects: 2 });
    await add(1);
    const asks = [2, 3, 4].map((amount) => ask('add', amount));
    turns.advance(0);
    journal.finishWithout('a');
    expect(asks.map(codeOf)).toEqual(['actor_moved', undefined, undefined]);
    await load();
    for (let at = 0; at < 2; at++) {
      turns.advance(0);
      journal.finish();
      turns.advance(0);
    }
    expect(asks.slice(1)).toMatchObject([[{ value: 4 }], [{ value: 8 }]]);
  });

  it('leaves memory at once when the store reports its loss, and is loaded for the next message', async () => {
    const { ask, journal, load, add, host } = setUpFar();
    await add(1);
    const lost = [{ kind: 'ledger', key: 'a' }];
    journal.onLost!([...lost, { kind: 'ledger', key: 'unknown' }, { kind: 'unknown', key: 'a' }]);
    expect(host.stats().kinds.ledger).toMatchObject({ live: 0, errors: 0 });
    journal.stored.push({ type: 'event', kind: 'ledger', key: 'a', seq: 2, event: Buffer.from([7]) });
    const read = ask('read');
    await load();
    expect(read).toEqual([{ error: null, value: 8 }]);
  });

  it('is loaded again if the store reports its loss during the load', async () => {
    const { ask, journal, loads } = setUpFar();
    const read = ask('read');
    const first = loads.shift()!;
    journal.onLost!([{ kind: 'ledger', key: 'a' }]);
    expect(loads).toEqual([]);
    await first.end();
    expect([codeOf(read), loads.length]).toEqual([undefined, 1]);
    journal.stored.push({ type: 'event', kind: 'ledger', key: 'a', seq: 1, event: Buffer.from([7]) });
    await loads.shift()!.end();
    expect(read).toEqual([{ error: null, value: 7 }]);
  });

  it.each([
    ['was stored', []],
    ['was not stored', ['a']],
  ])('handles no message until its commit is decided, which %s', async (_name, lost) => {
    const { ask, journal, turns, loads, load, add } = setUpFar();
    await add(1);
    const added = ask('add', 2);
    turns.advance(0);
    journal.onLost!([{ kind: 'ledger', key: 'a' }]);
    const read = ask('read');
    turns.advance(0);
    expect([codeOf(added), codeOf(read), loads.length]).toEqual([undefined, undefined, 0]);
    journal.finishWithout(...lost);
    expect(codeOf(added)).toBe(lost.length === 0 ? 'ok' : 'actor_moved');
    expect(await load()).toEqual(['a']);
    expect(read).toEqual([{ error: null, value: lost.length === 0 ? 3 : 1 }]);
  });

  it('writes no snapshot of its old state over the events of the new owner', async () => {
    const { ask, journal, turns, loads, load, add } = setUpFar();
    for (let amount = 1; amount <= 3; amount++) await add(amount);
    // After the third event a snapshot was due, and it is in the same commit. The fourth event is recorded with the
    // next commit.
    const added = ask('add', 4);
    turns.advance(0);
    journal.onLost!([{ kind: 'ledger', key: 'a' }]);
    const read = ask('read');
    expect(loads).toEqual([]);
    journal.finishWithout('a');
    await load();
    expect([codeOf(added), read]).toEqual(['actor_moved', [{ error: null, value: 6 }]]);
    expect(journal.waiting).toEqual([]);
  });

  it('is not counted as failed when the store cannot be reached', async () => {
    const { ask, journal, turns, load, add, reports, host } = setUpFar();
    await add(1);
    for (let round = 0; round < 20; round++) {
      const added = ask('add', 10);
      await load();
      turns.advance(0);
      journal.finish(new JournalUnavailableError('away'));
      expect(codeOf(added)).toBe('storage_unavailable');
    }
    const read = ask('read');
    await load();
    expect(read).toEqual([{ error: null, value: 1 }]);
    expect([reports, host.stats().kinds.ledger!.stopped]).toEqual([[], 0]);
  });
});

describe('supervision', () => {
  it('waits longer after each failure, stops at the limit, and restarts after the pause', () => {
    const restart = { max_restarts: 3, window_ms: 10_000, backoff_first_ms: 100, backoff_max_ms: 250 };
    const { ask, turns, reports, host } = setUp(box, { restart, stopped_for_ms: 1_000 });
    for (const pauseMs of [100, 200, 250]) {
      expect(codeOf(ask('throw'))).toBe('actor_failed');
      const waiting = ask('note', 1);
      turns.advance(pauseMs - 1);
      expect(codeOf(waiting)).toBeUndefined();
      turns.advance(1);
      expect(waiting).toEqual([{ error: null, value: 1 }]);
    }
    expect(codeOf(ask('throw'))).toBe('actor_failed');
    expect(reports.map(({ outcome }) => outcome)).toEqual(['restart', 'restart', 'restart', 'stop']);
    expect(codeOf(ask('note', 1))).toBe('actor_stopped');
    expect(host.stats().kinds.box).toMatchObject({ live: 0, stopped: 1, restarts: 3, errors: 4 });
    turns.advance(1_000);
    expect(ask('note', 1)).toEqual([{ error: null, value: 1 }]);
  });

  it('forgets failures outside the window', () => {
    const restart = { max_restarts: 1, window_ms: 1_000, backoff_first_ms: 10, backoff_max_ms: 10 };
    const { ask, turns, reports } = setUp(box, { restart });
    for (let i = 0; i < 5; i++) {
      ask('throw');
      turns.advance(1_001);
    }
    expect(reports.map(({ outcome }) => outcome)).toEqual(new Array(5).fill('restart'));
  });
});

describe('draining', () => {
  it('waits for io and the journal, takes no snapshots, and refuses new messages', async () => {
    const { ask, host, io, journal, turns } = setUp(makeLedger(), {}, [
      { behaviour: box, policy: DEFAULT_KIND_POLICY },
    ]);
    const added = ask('add', 1);
    host.tell({ kind: 'box', key: 'b' }, 'fetch', 'x');
    let isDrained = false;
    const drained = host.drain().then(() => {
      isDrained = true;
    });
    turns.advance(0);
    expect(codeOf(ask('add', 2))).toBe('draining');
    journal.finish();
    expect(codeOf(added)).toBe('ok');
    await Promise.resolve();
    expect(isDrained).toBe(false);
    io[0]!.done(null, 'X');
    turns.advance(0);
    // The drain takes no snapshot: the event is stored, so a snapshot would only delay the end.
    expect(journal.waiting).toEqual([]);
    await drained;
    expect(host.stats().kinds).toMatchObject({ ledger: { live: 0 }, box: { live: 0 } });
  });
});

describe('a client', () => {
  it('fails all pending requests to a thread when its link closes', () => {
    const { ask, client, link } = setUp(box);
    const downs: number[] = [];
    client.onHostDown((index) => void downs.push(index));
    const held = [ask('hold'), ask('hold', null, 'b')];
    link.close();
    expect(held.map(codeOf)).toEqual(['host_down', 'host_down']);
    expect([downs, client.isUp(0), codeOf(ask('note', 1))]).toEqual([[0], false, 'host_down']);
    expect(client.tell({ kind: 'box', key: 'a' }, 'note', 1)).toBe(false);
  });

  it('notifies listeners when a thread is up or down, until they unsubscribe', () => {
    const { client, link } = setUp(box);
    const heard: string[] = [];
    const ends = ['one', 'two'].flatMap((name) => [
      client.onHostUp((host) => void heard.push(`${name}: ${host} up`)),
      client.onHostDown((host) => void heard.push(`${name}: ${host} down`)),
    ]);
    link.close();
    client.attach(0, DirectLink.pair()[0]);
    expect(heard).toEqual(['one: 0 down', 'two: 0 down', 'one: 0 up', 'two: 0 up']);
    for (const end of ends.slice(0, 2)) end();
    client.attach(0, DirectLink.pair()[0]);
    expect(heard.slice(4)).toEqual(['two: 0 down', 'two: 0 up']);
  });

  it('gives up each ask at its deadline, in whatever order they were asked', () => {
    const { client, turns } = setUp(box);
    const gone: number[] = [];
    for (const deadline_ms of [300, 100, 200, 100]) {
      client.request({ kind: 'box', key: 'a' }, 'hold', null, { deadline_ms }, (error) => {
        if (error?.code === 'deadline_exceeded') gone.push(deadline_ms);
      });
    }
    turns.advance(99);
    expect(gone).toEqual([]);
    turns.advance(6);
    expect(gone).toEqual([100, 100]);
    turns.advance(100);
    expect(gone).toEqual([100, 100, 200]);
    turns.advance(100);
    expect(gone).toEqual([100, 100, 200, 300]);
    expect(client.stats()).toMatchObject({ asks_pending: 0 });
  });

  it('refuses asks beyond its limit of pending ones', () => {
    const { turns } = setUp(box);
    const client = new ActorClient({ hosts: 1, pins: {} }, turns, { max_pending_asks: 2 });
    client.attach(0, DirectLink.pair()[0]);
    const codes: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) {
      client.request({ kind: 'box', key: 'a' }, 'hold', null, {}, (error) => void codes.push(error?.code));
    }
    expect(codes).toEqual(['too_many_asks']);
  });

  it('receives publications as long as it subscribes', () => {
    const announcer: Behaviour<{ say: { request: unknown; reply: null } }, null> = {
      kind: 'announcer',
      initial: () => null,
      handlers: {
        say(_state, what, context) {
          context.publish('news', what);
          context.reply(null);
        },
      },
      internal: {},
    };
    const { ask, client } = setUp(announcer);
    const [first, second]: [unknown[], unknown[]] = [[], []];
    const leave = client.subscribe('news', (what) => void first.push(what));
    client.subscribe('other', () => expect.fail('another topic'));
    ask('say', 1);
    const leaveToo = client.subscribe('news', (what) => void second.push(what));
    ask('say', 2);
    leave();
    leave();
    ask('say', 3);
    leaveToo();
    ask('say', 4);
    expect([first, second]).toEqual([
      [1, 2],
      [2, 3],
    ]);
  });
});
