/** The runtime on real threads with a real journal: its guarantees when threads die, overflow and stop. */

import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RateBucketClient } from '../../actors/rate-bucket/client.ts';
import type { ActorClient } from '../../src/runtime/actor-client.ts';
import { ActorThreads } from '../../src/runtime/actor-threads.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import { type ActorAddress, type Placement, placeAddress } from '../../src/runtime/protocol.ts';
import type { Overflow } from '../../src/runtime/supervision.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { SWITCH, type TestHostOptions } from '../fixtures/actor-host.ts';
import { BOX_CAPACITY, boxKind, LEDGER_KIND, LEDGER_RESTARTS, type Totals } from '../fixtures/actor-kinds.ts';
import type { ClientWork } from '../fixtures/client-worker.ts';
import { pause } from '../fixtures/patience.ts';

const PLACEMENT: Placement = { hosts: 2, pins: {} };
/** Far longer than any of these tests takes. An ask that fails earlier did not wait for its deadline. */
const FAR_DEADLINE = { deadline_ms: 600_000 };

let folder: string;
let control: Int32Array;
let threads: ActorThreads;
let client: ActorClient;
let downReasons: string[];
/** How often the client was linked with each thread. */
let linked: number[];

/** One set of threads for all tests except those that stop it, because starting threads takes time. */
beforeAll(open);

beforeEach(async () => {
  downReasons = [];
  await client.waitUp();
});

afterEach(() => {
  flip(SWITCH.commits_held, 0);
  flip(SWITCH.commits_failing, 0);
  flip(SWITCH.gate_shut, 0);
});

afterAll(close);

async function open(): Promise<void> {
  folder = mkdtempSync(join(tmpdir(), 'threads-'));
  const memory = new SharedArrayBuffer(16);
  control = new Int32Array(memory);
  await start(memory);
}

async function close(): Promise<void> {
  client.close();
  await threads.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function start(memory: SharedArrayBuffer): Promise<void> {
  const options: TestHostOptions = { journal_path: join(folder, 'main.mdb'), switch: memory };
  threads = new ActorThreads({
    entry: new URL('../fixtures/actor-host.ts', import.meta.url),
    placement: PLACEMENT,
    options,
    restart: { max_restarts: 100, window_ms: 60_000, backoff_first_ms: 5, backoff_max_ms: 20 },
    onThreadDown: (_index, reason) => void downReasons.push(reason),
  });
  client = await threads.openClient();
  linked = Array.from({ length: PLACEMENT.hosts }, () => 1);
  client.onHostUp((host) => void linked[host]!++);
}

function flip(place: number, value: number): void {
  Atomics.store(control, place, value);
  Atomics.notify(control, place);
}

function ledgerAt(key: string): ActorAddress {
  return { kind: LEDGER_KIND, key };
}

function askLedger(key: string, name: string, request: unknown, options = FAR_DEADLINE): Promise<Totals> {
  return client.ask(ledgerAt(key), name, request, options) as Promise<Totals>;
}

function add(key: string, amount = 1): Promise<Totals> {
  return askLedger(key, 'add', { amount });
}

let keysMade = 0;

/** The key of a ledger on the given thread that no test has used yet. */
function keyOn(host: number): string {
  for (;;) {
    const key = `ledger-${keysMade++}`;
    if (placeAddress(PLACEMENT, ledgerAt(key)) === host) return key;
  }
}

async function failure(ask: Promise<unknown>): Promise<RuntimeError> {
  return ask.then(
    (value) => {
      throw new Error(`answered with ${JSON.stringify(value)}`);
    },
    (thrown: unknown) => {
      if (thrown instanceof RuntimeError) return thrown;
      throw thrown;
    },
  );
}

/** Resolves when the condition holds; the test's own time limit is the only clock. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await pause();
}

/**
 * Ends a thread and waits for its restart. This thread may not yet have noticed the end, so being linked is not enough:
 * it must be linked again.
 */
async function revive(host: number, end: () => Promise<void>): Promise<void> {
  const before = linked[host]!;
  await end();
  await until(() => linked[host]! > before);
}

/** Waits until this many commits have begun in total. */
async function commitsBegun(atLeast: number): Promise<void> {
  await until(() => Atomics.load(control, SWITCH.commits_begun) >= atLeast);
}

async function kindStats(kind: string) {
  const stats = await threads.stats();
  const sums = { live: 0, stopped: 0, activations: 0, passivations: 0, restarts: 0, dead_letters: 0 };
  for (const host of stats) {
    for (const name of Object.keys(sums) as (keyof typeof sums)[])
      sums[name] += host?.kinds[kind]?.[name] ?? 0;
  }
  return sums;
}

async function countExpired(): Promise<number> {
  return (await threads.stats()).reduce((sum, host) => sum + (host?.dead_letters.expired ?? 0), 0);
}

describe('messages', () => {
  it('are answered, each ask with its answer', async () => {
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
    const answers = await Promise.all(keys.flatMap((key) => [add(key, 1), add(key, 10), add(key, 100)]));
    expect(answers.map((answer) => answer.total)).toEqual(keys.flatMap(() => [1, 11, 111]));
  });

  it('may be tells, which keep their order among asks', async () => {
    for (let i = 0; i < 50; i++) expect(client.tell(ledgerAt('told'), 'add', { amount: 1 })).toBe(true);
    expect(await askLedger('told', 'read', null)).toEqual({ total: 50, count: 50 });
  });

  it('are sent from actor to actor across threads', async () => {
    const [here, there] = [keyOn(0), keyOn(1)];
    await askLedger(here, 'forward', { amount: 7, to: there });
    await askLedger(there, 'forward', { amount: 5, to: here });
    await until(async () => (await askLedger(here, 'read', null)).total === 12);
    await until(async () => (await askLedger(there, 'read', null)).total === 12);
  });

  it('may contain bodies, which arrive unchanged', async () => {
    const bodies = [randomBytes(3), randomBytes(0), randomBytes(70_000), randomBytes(5 << 20)];
    const hashes = bodies.map((body) => createHash('sha256').update(body).digest('hex'));
    const box = { kind: boxKind('reject'), key: 'bodies' };
    const sentBefore = linkBytes();
    const ask = client.ask(box, 'weigh', null, { ...FAR_DEADLINE, bodies });
    for (const body of bodies) body.fill(0);
    // All bodies are views of one piece of transferred memory, so nothing was copied on arrival.
    expect(await ask).toEqual({ sha256: hashes, buffers: 1 });
    const size = bodies.reduce((sum, body) => sum + body.length, 0);
    expect(linkBytes() - sentBefore).toBeLessThan(size + 1_000);
  });

  it('may come from several clients at once, one of them in a worker', async () => {
    const keys = [keyOn(0), keyOn(0), keyOn(1), keyOn(1)];
    const port = threads.offerClient();
    const workerData: ClientWork = { port, placement: PLACEMENT, keys, rounds: 200 };
    const worker = new Worker(new URL('../fixtures/client-worker.ts', import.meta.url), {
      workerData,
      transferList: [port],
    });
    const posted = once(worker, 'message');
    const left = once(worker, 'exit');
    const mine = await Promise.all(Array.from({ length: 200 }, () => keys.map((key) => add(key))).flat());
    expect(mine).toHaveLength(800);
    const [workersResult] = await posted;
    expect(workersResult.answered).toBe(800);
    for (const key of keys) expect(await askLedger(key, 'read', null)).toEqual({ total: 400, count: 400 });
    await left;
  });

  it('that no actor knows are refused by name', async () => {
    const failing = client.ask({ kind: 'unheard-of', key: 'a' }, 'add', null, FAR_DEADLINE);
    expect((await failure(failing)).code).toBe('unknown_kind');
    expect((await failure(askLedger('a', 'subtract', null))).code).toBe('unknown_message');
    expect((await failure(askLedger('a', 'toString', null))).code).toBe('unknown_message');
    for (const key of ['', 'x'.repeat(513), '\ud800']) {
      expect((await failure(askLedger(key, 'read', null))).code).toBe('bad_address');
    }
  });
});

describe('deadlines', () => {
  it('end an ask without an answer', async () => {
    const box = { kind: boxKind('reject'), key: 'deadline' };
    const error = await failure(client.ask(box, 'never', null, { deadline_ms: 30 }));
    expect(error).toMatchObject({ code: 'deadline_exceeded', retryable: true });
    expect(client.stats().asks_pending).toBe(0);
  });

  it('send a late answer to the dead letters', async () => {
    const box = { kind: boxKind('reject'), key: 'late' };
    const count = () => client.deadLetters.counts().late_reply ?? 0;
    const before = count();
    // A message that reaches its thread after the deadline is not handled. The next attempt has a longer deadline.
    for (let deadline_ms = 20; count() === before; deadline_ms *= 2) {
      flip(SWITCH.gate_shut, 1);
      await failure(client.ask(box, 'hold', null, { deadline_ms }));
      flip(SWITCH.gate_shut, 0);
      // This ask is handled after the held message.
      await client.ask(box, 'seen', null, FAR_DEADLINE);
    }
    expect(count()).toBe(before + 1);
  });

  it('keep a message that waited too long from being handled', async () => {
    const box = { kind: boxKind('reject'), key: 'expired' };
    const before = await countExpired();
    flip(SWITCH.gate_shut, 1);
    const holding = client.ask(box, 'hold', null, FAR_DEADLINE);
    await failure(client.ask(box, 'note', { id: 1 }, { deadline_ms: 20 }));
    flip(SWITCH.gate_shut, 0);
    await holding;
    expect(await client.ask(box, 'seen', null, FAR_DEADLINE)).toEqual([]);
    expect(await countExpired()).toBe(before + 1);
  });
});

describe('a thread that dies', () => {
  it.each(['crash', 'terminate'] as const)(
    'by %s fails its asks at once, restarts, and knows what it acknowledged',
    async (how) => {
      const [key, other] = [keyOn(0), keyOn(1)];
      const restarts = threads.restarts;
      for (let i = 0; i < 25; i++) await add(key);
      flip(SWITCH.commits_held, 1);
      const begun = Atomics.load(control, SWITCH.commits_begun);
      const inFlight = Array.from({ length: 10 }, () => failure(add(key)));
      await commitsBegun(begun + 1);
      const survivor = add(other, 3);
      const revived = revive(0, () => threads[how](0));
      for (const error of await Promise.all(inFlight)) {
        expect(error).toMatchObject({ code: 'host_down', retryable: true });
      }
      flip(SWITCH.commits_held, 0);
      expect((await survivor).total).toBe(3);
      await revived;
      expect(downReasons).toHaveLength(1);
      // No refused message reached the journal, and every acknowledged one did.
      expect(await askLedger(key, 'read', null)).toEqual({ total: 25, count: 25 });
      expect((await add(key)).count).toBe(26);
      expect(threads.restarts).toEqual([restarts[0]! + 1, restarts[1]!]);
    },
  );

  it('again and again loses nothing that it acknowledged', { tags: 'long' }, async () => {
    const key = keyOn(0);
    let acknowledged = 0;
    for (let round = 0; round < 3; round++) {
      const asks = Array.from({ length: 40 }, () =>
        add(key).then(
          () => void acknowledged++,
          () => {},
        ),
      );
      await Promise.race(asks);
      await revive(0, () => threads.crash(0));
      await Promise.all(asks);
    }
    const { count } = await askLedger(key, 'read', null);
    expect(count).toBeGreaterThanOrEqual(acknowledged);
    expect(count).toBeLessThanOrEqual(120);
  });

  it('in an endless loop is ended from outside', async () => {
    const key = keyOn(1);
    await add(key, 4);
    const box = { kind: boxKind('reject'), key: 'a' };
    const host = placeAddress(PLACEMENT, box);
    const spinning = failure(client.ask(box, 'spin', null, FAR_DEADLINE));
    await new Promise((resolve) => setImmediate(resolve));
    const revived = revive(host, () => threads.terminate(host));
    expect((await spinning).code).toBe('host_down');
    await revived;
    expect((await askLedger(key, 'read', null)).total).toBe(4);
  });

  it('refuses asks while it is down and says so', async () => {
    const key = keyOn(0);
    let end = (): void => {};
    const down = new Promise<RuntimeError>((resolve) => {
      end = client.onHostDown(() => resolve(failure(add(key))));
    });
    await revive(0, () => threads.crash(0));
    expect(await down).toMatchObject({ code: 'host_down', retryable: true });
    end();
    expect((await add(key)).count).toBe(1);
  });

  it('is linked with the others again', async () => {
    const [here, there] = [keyOn(0), keyOn(1)];
    await revive(1, () => threads.crash(1));
    await until(async () => {
      await askLedger(here, 'forward', { amount: 1, to: there });
      return (await askLedger(there, 'read', null)).total > 0;
    });
  });
});

describe('a full mailbox', () => {
  const expected: Record<Overflow, { refused: number[]; code: string; seen: number[] }> = {
    reject: { refused: [4, 5, 6], code: 'mailbox_full', seen: [0, 1, 2, 3] },
    drop_newest: { refused: [4, 5, 6], code: 'message_dropped', seen: [0, 1, 2, 3] },
    drop_oldest: { refused: [0, 1, 2], code: 'message_dropped', seen: [3, 4, 5, 6] },
  };

  it.each(Object.keys(expected) as Overflow[])('does what %s says', async (overflow) => {
    const box = { kind: boxKind(overflow), key: 'full' };
    flip(SWITCH.gate_shut, 1);
    const holding = client.ask(box, 'hold', null, FAR_DEADLINE);
    const outcomes = Array.from({ length: BOX_CAPACITY + 3 }, (_, id) =>
      client.ask(box, 'note', { id }, FAR_DEADLINE).then(
        (value) => ({ id: value, code: null }),
        (error: RuntimeError) => ({ id, code: error.code }),
      ),
    );
    await client.fence();
    flip(SWITCH.gate_shut, 0);
    await holding;
    const settled = await Promise.all(outcomes);
    const { refused, code, seen } = expected[overflow];
    expect(settled.filter((each) => each.code !== null)).toEqual(refused.map((id) => ({ id, code })));
    expect(await client.ask(box, 'seen', null, FAR_DEADLINE)).toEqual(seen);
    expect((await kindStats(box.kind)).dead_letters).toBe(3);
  });
});

describe('persistent actors', () => {
  it('send no answer, tell or publication before the event behind it is durable', async () => {
    const [key, other] = [keyOn(0), keyOn(0)];
    const published: unknown[] = [];
    client.subscribe('totals', (payload) => published.push(payload));
    await add(other, 1);
    const begun = Atomics.load(control, SWITCH.commits_begun);
    flip(SWITCH.commits_held, 1);
    let answered = 0;
    const count = () => void answered++;
    const asks = [
      askLedger(key, 'announce', { amount: 1, topic: 'totals' }).then(count),
      askLedger(key, 'forward', { amount: 1, to: other }).then(count),
      // A read waits behind the writes that it would reveal.
      askLedger(key, 'read', null).then(count),
    ];
    await commitsBegun(begun + 1);
    // Another actor of the same thread, which waits for nothing, answers meanwhile, so time has passed for all.
    expect(await askLedger(other, 'read', null)).toEqual({ total: 1, count: 1 });
    await client.fence();
    expect({ answered, published: published.length }).toEqual({ answered: 0, published: 0 });
    flip(SWITCH.commits_held, 0);
    await Promise.all(asks);
    expect(published).toEqual([{ total: 1, count: 1 }]);
    await until(async () => (await askLedger(other, 'read', null)).total === 2);
  });

  it('return to the stored state when a commit fails, and tell the askers', async () => {
    const key = keyOn(0);
    await add(key, 5);
    flip(SWITCH.commits_failing, 1);
    expect(await failure(add(key, 100))).toMatchObject({ code: 'storage_unavailable', retryable: true });
    expect(await askLedger(key, 'read', null)).toEqual({ total: 5, count: 1 });
    expect((await add(key)).total).toBe(6);
  });

  it('are restored from their snapshot after passivation', async () => {
    for (let i = 0; i < 34; i++) await add('sleeper');
    await until(async () => (await kindStats(LEDGER_KIND)).live === 0);
    expect(await askLedger('sleeper', 'read', null)).toEqual({ total: 34, count: 34 });
    const { activations, passivations } = await kindStats(LEDGER_KIND);
    expect(activations).toBeGreaterThanOrEqual(2);
    expect(passivations).toBeGreaterThanOrEqual(1);
  });
});

describe('supervision', () => {
  it('restarts a failing actor from the stored state, stops it when it fails too often, and forgives later', async () => {
    let key = keyOn(0);
    /** The actor's error after too many failures. */
    const failTooOften = async (): Promise<RuntimeError | Totals> => {
      await add(key, 9);
      for (let i = 0; i < LEDGER_RESTARTS; i++) {
        expect(await failure(askLedger(key, 'fail', { amount: 100 }))).toMatchObject({
          code: 'actor_failed',
          retryable: false,
        });
        expect(await askLedger(key, 'read', null)).toEqual({ total: 9, count: 1 });
      }
      const failing = failure(askLedger(key, 'fail', { amount: 100 }));
      const next = askLedger(key, 'read', null).catch((thrown: RuntimeError) => thrown);
      expect(await failing).toMatchObject({ code: 'actor_failed' });
      return next;
    };
    let told = await failTooOften();
    // If the machine stalled at that moment, the failure was forgiven before it could be reported. Then another failure
    // follows.
    while (!(told instanceof RuntimeError)) {
      key = keyOn(0);
      told = await failTooOften();
    }
    expect(told).toMatchObject({ code: 'actor_stopped', retryable: true });
    // Other actors of the thread are not affected.
    expect((await add(keyOn(0))).count).toBe(1);
    let back: Totals | null = null;
    await until(async () => {
      back = await askLedger(key, 'read', null).catch(() => null);
      return back !== null;
    });
    expect(back).toEqual({ total: 9, count: 1 });
  });
});

describe('stopping', () => {
  // Leaves running threads for the next test.
  afterEach(async () => {
    await close();
    await open();
  });

  it('loses nothing that was accepted, also across threads', async () => {
    const [here, there] = [keyOn(0), keyOn(1)];
    const asks: Promise<unknown>[] = [];
    for (let i = 0; i < 100; i++) {
      asks.push(askLedger(here, 'forward', { amount: 1, to: there }));
      asks.push(askLedger(there, 'forward', { amount: 1, to: here }));
      client.tell(ledgerAt(`told-${i % 7}`), 'add', { amount: 1 });
    }
    await client.fence();
    await threads.stop();
    await Promise.all(asks);
    const journal = new LmdbJournal(join(folder, 'main.mdb'));
    const read = (key: string): Totals => {
      const { snapshot, events } = journal.load(LEDGER_KIND, key);
      const count = (snapshot?.seq ?? 0) + events.length;
      return { count, total: count };
    };
    expect(read(here).count).toBe(200);
    expect(read(there).count).toBe(200);
    let told = 0;
    for (let i = 0; i < 7; i++) told += read(`told-${i}`).count;
    expect(told).toBe(100);
    await journal.close();
  });

  it('refuses later messages', async () => {
    await add('a');
    await threads.stop();
    await until(() => !client.isUp(0) && !client.isUp(1));
    expect((await failure(add('a'))).code).toBe('host_down');
  });
});

describe('a failed start', () => {
  function startThreads(entry: string, options: unknown, more: { loading_ms?: number } = {}): ActorThreads {
    const url = new URL(`../fixtures/${entry}`, import.meta.url);
    return new ActorThreads({ entry: url, placement: PLACEMENT, options, ...more });
  }

  it('ends with the reason of the first failed thread, in one line, and can be stopped', async () => {
    const options: TestHostOptions = {
      // The start fails, because a path below a file cannot be a folder.
      journal_path: join(folder, 'main.mdb', 'journal.mdb'),
      switch: new SharedArrayBuffer(16),
    };
    const failing = startThreads('actor-host.ts', options);
    const thrown: Error = await failing.openClient().then(
      () => new Error('it started'),
      (error) => error,
    );
    expect(thrown.message).toMatch(/^the actor threads cannot start: .*mkdir.*main\.mdb'$/);
    expect(thrown).toMatchObject({ code: 'ETHREADS' });
    await failing.stop();
  });

  it('ends when it is stopped, although a thread never starts', async () => {
    const waiting = startThreads('waiting-host.ts', null, { loading_ms: 50 });
    const opened = waiting.openClient().catch((error: Error) => error.message);
    await waiting.stop();
    expect(await opened).toBe('the actor threads cannot start: they are being stopped');
  });
});

describe('a stop during the start', () => {
  it('lets the threads finish their start and then end, at different points of their loading', {
    tags: 'long',
  }, async () => {
    for (let round = 0; round < 3; round++) {
      const url = new URL('../fixtures/actor-host.ts', import.meta.url);
      const journal_path = join(folder, `stopped-${round}.mdb`);
      const options: TestHostOptions = { journal_path, switch: new SharedArrayBuffer(16) };
      const starting = new ActorThreads({ entry: url, placement: PLACEMENT, options, loading_ms: 600_000 });
      // The stop comes at different times, from the beginning until many modules are loaded.
      for (let turn = 0; turn < round * 500; turn++) await new Promise((resolve) => setImmediate(resolve));
      await starting.stop();
      // At least one thread had begun to open the journal.
      expect(existsSync(journal_path)).toBe(true);
    }
  });
});

describe('a process with its own kinds', () => {
  it('limits rates on its threads, without a database', async () => {
    const own = new ActorThreads({
      entry: new URL('../../src/threads/actor-thread-entry.ts', import.meta.url),
      placement: { hosts: 2, pins: {} },
      options: {
        log_level: 'silent',
        capture: { db: join(folder, 'capture.mdb'), redact: true, max_decoded_bytes: 1 << 20 },
        databases: null,
      },
    });
    const ownClient = await own.openClient();
    // The client's own deadline suits a caller with a pending request; the test needs a longer one.
    const client = new RateBucketClient({
      ask: (to, name, request) => ownClient.ask(to, name, request, FAR_DEADLINE),
      tell: (to, name, request) => ownClient.tell(to, name, request),
    });
    const limit = { rate_per_s: 1e-3, burst: 3 };
    const replies = await Promise.all(
      ['a', 'b'].flatMap((key) => Array.from({ length: 4 }, () => client.take(key, limit))),
    );
    expect(replies.map((reply) => reply.allowed)).toEqual([true, true, true, false, true, true, true, false]);
    expect(replies[3]!.retry_after_ms).toBeGreaterThan(900_000);
    await expect(client.take('a', { rate_per_s: -1, burst: 1 })).rejects.toMatchObject({
      code: 'unavailable',
    });
    ownClient.close();
    await own.stop();
    // The catalogue has no persistent actor, so nothing is opened.
    expect(existsSync(join(folder, 'own.mdb'))).toBe(false);
    expect(existsSync(join(folder, 'capture.mdb'))).toBe(false);
  });
});

function linkBytes(): number {
  return client.stats().links.reduce((sum, link) => sum + (link?.bytes_sent ?? 0), 0);
}
