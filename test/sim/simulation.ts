/**
 * The simulation: the runtime's real hosts and clients, on links, journals and clocks of a simulated world in which
 * threads die, disks fail and messages take time. The same seed gives the same run. Several boxes can share one store,
 * and take actors from each other.
 *
 * It always checks these rules. Nothing is revealed before it is durable, nothing acknowledged is lost, and nothing
 * refused has happened. No message is handled twice, and messages from one sender are handled in order. Every ask is
 * settled once, in time, and at once if its thread dies. Restarts keep their pauses and limits, bounds hold, and
 * nothing is left over at the end.
 */
import { describeError } from '../../src/runtime/error.ts';
import { ActorHost } from '../../src/runtime/host.ts';
import { placeAddress } from '../../src/runtime/protocol.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';
import { Box, type Layout, POLICIES, type Tally } from './box.ts';
import { type JournalFault, type JournalTrouble, SimJournal, type SimStore } from './journal.ts';
import { LEDGER } from './kinds.ts';
import type { LinkFault } from './links.ts';
import { SharedJournal, SharedStore, type StoreFault } from './shared-store.ts';
import { Witness } from './witness.ts';
import { World } from './world.ts';

export interface SimulationOptions {
  seed: number;
  /** Number of actions of clients and faults; default 600. */
  steps?: number;
  /** Faults of the layers below the runtime, to test that they are noticed. */
  journal_fault?: JournalFault;
  link_fault?: LinkFault;
  /**
   * Whether an actor runs on the host that is first asked for it, and can move. All hosts then share one disk.
   * Default: with every other seed.
   */
  moving?: boolean;
  /** Number of threads of each kind. Default: it varies with the seed. */
  layout?: Layout;
  /** Number of processes that share one store, which gives each actor one owner; default 1: no such store. */
  boxes?: number;
  /**
   * Number of ledgers. The fewer there are, the more often several boxes use the same one. Default: it varies with the
   * seed.
   */
  ledgers?: number;
  store_fault?: StoreFault;
  /** Another implementation of the host, to test that its faults are noticed. */
  Host?: typeof ActorHost;
}

interface SimulationResult {
  seed: number;
  /** Lines of the trace, and their SHA-256. */
  lines: number;
  hash: string;
  asked: number;
  acknowledged: number;
  handled: number;
  durable: number;
  crashes: number;
  /** How often an actor was found on another host than before. */
  moves: number;
  /** How often a box took an actor from another. */
  takeovers: number;
  /** How often the store refused the writes of a former owner. */
  losses: number;
  /** Answered asks of each box. */
  acknowledged_by: number[];
  simulated_ms: number;
}

const LAYOUTS: readonly Layout[] = [
  { actors: 3, servers: 0 },
  { actors: 1, servers: 5 },
  { actors: 3, servers: 2 },
  { actors: 2, servers: 3 },
  { actors: 1, servers: 1 },
];
const LEDGERS = 7;
/** Number of ledgers if actors move. They do not all fit into memory, so ledgers are loaded and released. */
const MOVING_LEDGERS = 30;
/**
 * Numbers of ledgers for several boxes. With 2 ledgers, all boxes nearly always use the same ones; with 30 they rarely
 * do.
 */
const BOX_LEDGERS = [2, 7, 30];
/** Everything that was started ends within this time. */
const END_LIMIT_MS = 20_000;
const DRAIN_ROUNDS = 16;

/**
 * Runs one simulation to its end.
 * @throws {import('./world.ts').SimulationFailure} if a guarantee was violated
 */
export function simulate(options: SimulationOptions): Promise<SimulationResult> {
  return new Simulation(options).run();
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #world: World;
  readonly #witness: Witness;
  readonly #boxes: Box[];
  /** The store that several boxes share; null: each host has a disk, or all hosts of the box share one. */
  readonly #store: SharedStore | null;
  /** The disk of each host, if there is one box. */
  readonly #disks: readonly MemoryDisk[];
  readonly #trouble: JournalTrouble = { commit_failure: 0, load_failure: 0 };
  readonly #tally: Tally = {
    messages: 0,
    clients: 0,
    asked: 0,
    unsettled: 0,
    crashes: 0,
    lives: 0,
    moves: 0,
  };

  constructor(options: SimulationOptions) {
    this.#options = options;
    const { seed, boxes = 1, Host = ActorHost, link_fault = 'none' } = options;
    this.#world = new World(seed);
    this.#witness = new Witness(this.#world, POLICIES);
    this.#store =
      boxes > 1 ? new SharedStore(this.#world, this.#witness, options.store_fault ?? 'none') : null;
    const moving = options.moving ?? seed % 2 === 0;
    const layout = options.layout ?? LAYOUTS[Math.floor(seed / 2) % LAYOUTS.length]!;
    const alone = moving ? MOVING_LEDGERS : LEDGERS;
    const ledgers = options.ledgers ?? (boxes > 1 ? BOX_LEDGERS[seed % BOX_LEDGERS.length]! : alone);
    this.#boxes = Array.from(
      { length: boxes },
      (_, at) =>
        new Box({
          at,
          world: this.#world,
          witness: this.#witness,
          tally: this.#tally,
          layout,
          moving,
          ledgers,
          link_fault,
          Host,
          openJournal: (host, life) => this.#openJournal(at, host, life),
        }),
    );
    const disk: MemoryDisk = new Map();
    this.#disks = this.#boxes[0]!.hosts.map(() => (moving ? disk : new Map()));
    // In some simulations, some commits or loads fail.
    if (this.#world.prng.chance(0.4)) this.#trouble.commit_failure = this.#world.between(0, 0.15);
    if (this.#world.prng.chance(0.3)) this.#trouble.load_failure = this.#world.between(0, 0.1);
  }

  #openJournal(box: number, host: number, life: string): SimStore {
    if (this.#store !== null) return new SharedJournal(this.#store, { box, life }, this.#trouble);
    const fault = this.#options.journal_fault ?? 'none';
    return new SimJournal(this.#world, this.#witness, this.#disks[host]!, this.#trouble, fault);
  }

  async run(): Promise<SimulationResult> {
    for (const box of this.#boxes) box.start();
    let left = this.#options.steps ?? 600;
    const crashChance = this.#world.prng.chance(0.7) ? this.#world.between(0, 0.02) : 0;
    const act = (): void => {
      if (left <= 0) return;
      left--;
      const at = this.#boxes.length === 1 ? 0 : this.#world.prng.below(this.#boxes.length);
      this.#boxes[at]!.act(crashChance);
      this.#world.after(this.#world.prng.chance(0.6) ? 0 : this.#world.between(0, 4), act);
    };
    this.#world.after(0, act);
    while (left > 0) await this.#step();
    await this.#end();
    return {
      seed: this.#options.seed,
      ...this.#world.finishTrace(),
      asked: this.#tally.asked,
      acknowledged: this.#witness.acknowledged,
      handled: this.#witness.handled,
      durable: this.#witness.ledgers.reduce((sum, key) => sum + this.#witness.historyOf(key).length, 0),
      crashes: this.#tally.crashes,
      moves: this.#tally.moves,
      takeovers: this.#store?.takeovers ?? 0,
      losses: this.#store?.losses ?? 0,
      acknowledged_by: this.#boxes.map((_, at) => this.#witness.acknowledgedIn(at)),
      simulated_ms: this.#world.nowMs,
    };
  }

  /** Runs one task. A host that waits for a promise continues before the next task. */
  async #step(): Promise<void> {
    if (!this.#world.step()) this.#world.violate('no task is left');
    if (this.#store !== null) await Promise.resolve();
    for (const box of this.#boxes) box.checkBounds();
    this.#world.checkPromises();
  }

  // ---- the end ----

  /** Ends the simulation without further faults. Accepted work must finish, and acknowledged work must be stored. */
  async #end(): Promise<void> {
    this.#world.note('the end begins');
    this.#trouble.commit_failure = 0;
    this.#trouble.load_failure = 0;
    const limitMs = this.#world.nowMs + END_LIMIT_MS;
    while (this.#tally.unsettled > 0 || this.#boxes.some(({ hosts }) => hosts.includes(null))) {
      if (this.#world.nowMs > limitMs) {
        this.#world.violate(`${this.#tally.unsettled} asks are never settled`);
      }
      await this.#step();
    }
    const lives = this.#boxes.flatMap(({ hosts }) => hosts.filter((life) => life !== null));
    let handled = -1;
    for (let round = 0, isDry = false; !isDry; round++) {
      if (round === DRAIN_ROUNDS) this.#world.violate('the hosts do not become idle');
      let sum = 0;
      let waiting = lives.length;
      for (const { host } of lives) {
        void host.drain().then((count) => {
          sum += count;
          waiting--;
        });
      }
      while (waiting > 0) {
        if (this.#world.nowMs > limitMs) this.#world.violate('the drain does not end');
        await this.#step();
        await Promise.resolve();
      }
      isDry = sum === handled;
      handled = sum;
    }
    for (const { host, index } of lives) {
      const { kinds, held_effects, io_in_flight } = host.stats();
      const depth = Object.values(kinds).reduce((total, kind) => total + kind.mailbox_depth, 0);
      if (depth + held_effects + io_in_flight > 0)
        this.#world.violate(`host ${index} is drained and not empty`);
    }
    for (const key of this.#witness.ledgers) this.#checkStored(key);
    this.#world.checkPromises();
  }

  /** Checks that the disk has the history that the witness saw. */
  #checkStored(key: string): void {
    const index = placeAddress(this.#boxes[0]!.placement, { kind: LEDGER, key });
    const disk = this.#store?.disk ?? this.#disks[index]!;
    try {
      const { snapshot, events } = new MemoryJournal(disk).load(LEDGER, key);
      const count = (snapshot?.seq ?? 0) + events.length;
      const expected = this.#witness.historyOf(key).length;
      if (count !== expected) {
        this.#world.violate(`${key} has ${count} operations on the disk, ${expected} were written`);
      }
    } catch (thrown) {
      this.#world.violate(`${key} cannot be read at the end: ${describeError(thrown)}`);
    }
  }
}
