/**
 * Tests every order in which two boxes and their common store can act on one actor. The actions are requests,
 * take-overs, commits, their answers, and notices that another box has taken the actor. The simulation draws orders at
 * random; these tests try all.
 */
import { Packr } from 'msgpackr';
import { expect, it } from 'vitest';
import { ActorClient } from '../../src/runtime/actor-client.ts';
import { ActorHost } from '../../src/runtime/host.ts';
import {
  type CommitDone,
  type JournalStore,
  JournalUnavailableError,
  type JournalWrite,
  type StoredActor,
} from '../../src/runtime/journal.ts';
import { createLocalLink } from '../../src/runtime/local-link.ts';
import type { Behaviour } from '../../src/runtime/protocol.ts';
import type { Scheduler } from '../../src/runtime/scheduler.ts';
import { DEFAULT_KIND_POLICY } from '../../src/runtime/supervision.ts';
import { longFrom } from '../long-parts.ts';

const TO = { kind: 'adder', key: 'a' };
const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

type AdderProtocol = {
  add: { request: number; reply: number };
  read: { request: null; reply: number };
};

const adder: Behaviour<AdderProtocol, number, number> = {
  kind: TO.kind,
  initial: () => 0,
  handlers: {
    add: (_sum, amount, context) => context.reply(context.persist(amount)),
    read: (sum, _message, context) => context.reply(sum),
  },
  internal: {},
  persistence: {
    apply: (sum, amount) => sum + amount,
    snapshot: { version: 1, every_events: 2, encode: (sum) => sum, decode: (data) => data as number },
  },
};

/** Chooses a number from 0 to below `count`. */
type Choose = (count: number) => number;

/**
 * Calls `run` with every sequence of choices.
 * @returns their number
 */
async function explore(run: (choose: Choose) => Promise<void>): Promise<number> {
  let path: number[] = [];
  for (let runs = 1; ; runs++) {
    const counts: number[] = [];
    await run((count) => {
      const at = counts.push(count) - 1;
      path[at] ??= 0;
      return path[at];
    });
    path = path.slice(0, counts.length);
    while (path.length > 0 && path.at(-1)! + 1 >= counts[path.length - 1]!) path.pop();
    if (path.length === 0) return runs;
    path[path.length - 1]!++;
  }
}

/** The amounts that each box adds to the actor (0: a read), and the limits on what can happen. */
interface Plan {
  asks: readonly (readonly number[])[];
  /**
   * Maximum number of take-overs. After that, the owner keeps the actor until nothing else can happen, so that each
   * order ends.
   */
  takeovers: number;
  /** Maximum number of connections that break during a commit. */
  breaks: number;
  /** A fault that the test must notice: the store also stores the writes of a former owner. */
  accepts_former_owners?: boolean;
}

/** The store, and all requests and answers in transit. */
class OrderedStore {
  /** The actions that can happen next. */
  readonly pending: (() => void)[] = [];
  /** Boxes that wait for the actor. */
  readonly wanting: { journal: JournalStore; take: () => void }[] = [];
  /** All amounts that were stored, in order. */
  readonly amounts: number[] = [];
  takeovers = 0;
  losses = 0;
  readonly choose: Choose;
  readonly #plan: Plan;
  #broken = 0;
  #snapshot: StoredActor['snapshot'] = null;
  #events = new Map<number, Uint8Array>();
  #owner: { journal: JournalStore; term: number } | null = null;

  constructor(choose: Choose, plan: Plan) {
    this.choose = choose;
    this.#plan = plan;
  }

  /** Performs one of the possible actions. @returns false if no action is possible */
  step(): boolean {
    const isKept = this.takeovers >= this.#plan.takeovers && this.pending.length > 0;
    const takes = this.wanting.filter(({ journal }) => !isKept || this.#owner?.journal === journal);
    const count = this.pending.length + takes.length;
    if (count === 0) return false;
    const choice = count === 1 ? 0 : this.choose(count);
    if (choice < this.pending.length) this.pending.splice(choice, 1)[0]!();
    else {
      const chosen = takes[choice - this.pending.length]!;
      this.wanting.splice(this.wanting.indexOf(chosen), 1);
      chosen.take();
    }
    return true;
  }

  take(journal: JournalStore): { term: number; stored: StoredActor } {
    const former = this.#owner;
    const term = (former?.term ?? 0) + 1;
    this.#owner = { journal, term };
    if (former !== null && former.journal !== journal) {
      this.takeovers++;
      this.pending.push(() => former.journal.onLost?.([TO]));
    }
    const from = this.#snapshot?.seq ?? 0;
    const events = [...this.#events].filter(([seq]) => seq > from).map(([, event]) => event);
    return { term, stored: { snapshot: this.#snapshot, events } };
  }

  /** Whether the connection breaks before the commit, after it, or while it is still on its way. */
  chooseFate(): 'done' | 'never' | 'unanswered' | 'later' {
    if (this.#broken >= this.#plan.breaks) return 'done';
    const fate = (['done', 'never', 'unanswered', 'later'] as const)[this.choose(4)]!;
    if (fate !== 'done') this.#broken++;
    return fate;
  }

  /** @returns true if the term is over, so that nothing was stored */
  store(term: number, writes: readonly JournalWrite[]): boolean {
    if (this.#owner?.term !== term && !this.#plan.accepts_former_owners) {
      this.losses++;
      return true;
    }
    for (const write of writes) {
      if (write.type === 'snapshot') this.#snapshot = write;
      if (write.type !== 'event') continue;
      expect(write.seq, 'the number of the next event').toBe(this.amounts.length + 1);
      this.#events.set(write.seq, Uint8Array.from(write.event));
      this.amounts.push(packr.unpack(write.event) as number);
    }
    return false;
  }
}

class OrderedJournal implements JournalStore {
  onLost: JournalStore['onLost'];
  readonly #store: OrderedStore;
  #term = 0;
  #isCommitting = false;

  constructor(store: OrderedStore) {
    this.#store = store;
  }

  load(): Promise<StoredActor> {
    const { pending, wanting } = this.#store;
    expect(this.#isCommitting, 'a commit with writes of the actor').toBe(false);
    return new Promise((resolve) => {
      const take = (): void => {
        const { term, stored } = this.#store.take(this);
        pending.push(() => {
          this.#term = term;
          resolve(stored);
        });
      };
      wanting.push({ journal: this, take });
    });
  }

  commit(writes: readonly JournalWrite[], done: CommitDone): void {
    const { pending } = this.#store;
    const term = this.#term;
    this.#isCommitting = true;
    const answer = (...verdict: Parameters<CommitDone>): void => {
      pending.push(() => {
        this.#isCommitting = false;
        done(...verdict);
      });
    };
    pending.push(() => {
      const fate = this.#store.chooseFate();
      if (fate === 'done') {
        const isLost = this.#store.store(term, writes);
        return answer(null, isLost ? [TO] : []);
      }
      if (fate === 'unanswered') this.#store.store(term, writes);
      if (fate === 'later') pending.push(() => void this.#store.store(term, writes));
      answer(new JournalUnavailableError('the outcome is unknown'));
    });
  }

  async close(): Promise<void> {}
}

interface Asked {
  amount: number;
  code: string | null;
  value: unknown;
}

/** Opens a box with a client that sends its requests one after another, without waiting for answers. */
function openBox(store: OrderedStore, amounts: readonly number[]): { asked: Asked[]; runSoon(): void } {
  const soon: (() => void)[] = [];
  const scheduler: Scheduler = {
    wallMs: () => 0,
    monotonicMs: () => 0,
    soon: (task) => void soon.push(task),
    later: () => () => {},
  };
  const placement = { hosts: 1, pins: {} };
  const host = new ActorHost({
    index: 0,
    placement,
    kinds: [{ behaviour: adder, policy: DEFAULT_KIND_POLICY }],
    scheduler,
    journal: new OrderedJournal(store),
    performIo: () => {},
    performCompute: () => {},
    report: ({ during, error }) => expect.fail(`${during}: ${error}`),
  });
  const client = new ActorClient(placement, scheduler);
  const [near, far] = createLocalLink();
  host.attachClient(far, true);
  client.attach(0, near);
  const asked: Asked[] = [];
  const askNext = (at: number): void => {
    const amount = amounts[at];
    if (amount === undefined) return;
    store.pending.push(() => {
      const name = amount === 0 ? 'read' : 'add';
      client.request(TO, name, amount || null, {}, (error, value) =>
        asked.push({ amount, code: error?.code ?? null, value }),
      );
      askNext(at + 1);
    });
  };
  askNext(0);
  return {
    asked,
    runSoon: () => {
      for (let task = soon.shift(); task !== undefined; task = soon.shift()) task();
    },
  };
}

/**
 * Runs one order to its end. Checks that each acknowledged amount was stored once, and no refused amount was stored.
 */
async function runOrder(
  choose: Choose,
  plan: Plan,
): Promise<{ takeovers: number; losses: number; codes: (string | null)[] }> {
  const store = new OrderedStore(choose, plan);
  const boxes = plan.asks.map((amounts) => openBox(store, amounts));
  while (store.step()) {
    await Promise.resolve();
    for (const { runSoon } of boxes) runSoon();
  }
  const asked = boxes.flatMap((box) => box.asked);
  expect(asked).toHaveLength(plan.asks.flat().length);
  const sums = [0];
  for (const amount of store.amounts) sums.push(sums.at(-1)! + amount);
  for (const { amount, code, value } of asked) {
    const times = store.amounts.filter((stored) => stored === amount).length;
    if (code === 'storage_unavailable' && plan.breaks > 0) expect(times).toBeLessThan(2);
    else if (code === 'actor_moved') expect(times).toBe(0);
    else {
      expect(code).toBeNull();
      if (amount === 0) expect(sums).toContain(value);
      else expect(sums[store.amounts.indexOf(amount) + 1]).toBe(value);
    }
  }
  const { takeovers, losses } = store;
  return { takeovers, losses, codes: asked.map(({ code }) => code) };
}

const PLANS: readonly Plan[] = [
  { asks: [[1], [10]], takeovers: 1, breaks: 0 },
  { asks: [[1], [10]], takeovers: 2, breaks: 0 },
  { asks: [[1, 2], [10]], takeovers: 1, breaks: 0 },
  { asks: [[1, 0], [10]], takeovers: 1, breaks: 0 },
  { asks: [[1], [10]], takeovers: 1, breaks: 1 },
];

for (const [at, plan] of PLANS.entries()) {
  const { breaks } = plan;
  it(`two boxes keep one history in every order of ${JSON.stringify(plan)}`, longFrom(at, 1), async () => {
    const seen = new Set<string | null>();
    let [takeovers, losses] = [0, 0];
    const orders = await explore(async (choose) => {
      const outcome = await runOrder(choose, plan);
      takeovers += outcome.takeovers;
      losses += outcome.losses;
      for (const code of outcome.codes) seen.add(code);
    });
    expect(Math.min(orders, takeovers, losses)).toBeGreaterThan(100);
    expect(seen).toEqual(new Set([null, 'actor_moved', ...(breaks > 0 ? ['storage_unavailable'] : [])]));
  });
}

it('the search finds an order in which a store that accepts former owners breaks the history', async () => {
  const plan = { ...PLANS[0]!, accepts_former_owners: true };
  await expect(explore(async (choose) => void (await runOrder(choose, plan)))).rejects.toThrow(
    /the number of the next event/,
  );
});
