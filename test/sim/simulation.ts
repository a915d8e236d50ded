/**
 * The simulation: the runtime's real hosts and clients, on links, journals and clocks of a simulated world in which
 * threads die, disks fail and messages take time. The same seed gives the same run.
 *
 * It always checks these rules. Nothing is revealed before it is durable, nothing acknowledged is lost, and nothing
 * refused has happened. No message is handled twice, and messages from one sender are handled in order. Every ask is
 * settled once, in time, and at once if its thread dies. Restarts keep their pauses and limits, bounds hold, and
 * nothing is left over at the end.
 */
import { ActorClient } from '../../src/runtime/actor-client.ts';
import { allocateClaims } from '../../src/runtime/claims.ts';
import { ActorHost } from '../../src/runtime/host.ts';
import type { Frame } from '../../src/runtime/link.ts';
import { createLocalLink } from '../../src/runtime/local-link.ts';
import { type ActorAddress, countHosts, type Placement, placeAddress } from '../../src/runtime/protocol.ts';
import type { KindPolicy } from '../../src/runtime/supervision.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';
import { type JournalFault, type JournalTrouble, SimJournal } from './journal.ts';
import { createKinds, LEDGER, LEDGER_POLICY, MIRROR, MIRROR_POLICY, MOST_EFFECTS, TOPIC } from './kinds.ts';
import { type LinkFault, SimLink } from './links.ts';
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
   * Whether actors live on the host that is first asked for them, and move; they share one disk. Default: with every
   * other seed.
   */
  moving?: boolean;
  /** Number of threads of each kind. Default: it varies with the seed. */
  layout?: Layout;
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
  simulated_ms: number;
}

/**
 * Number of hosts on actor threads and on server threads. If there are hosts on server threads, ledgers live on them
 * and mirrors do not.
 */
interface Layout {
  actors: number;
  servers: number;
}

const LAYOUTS: readonly Layout[] = [
  { actors: 3, servers: 0 },
  { actors: 1, servers: 5 },
  { actors: 3, servers: 2 },
  { actors: 2, servers: 3 },
  { actors: 1, servers: 1 },
];
const CLIENTS = 3;
const LEDGERS = 7;
/** For moving actors: more than fit into memory, so that they are loaded and released. */
const MOVING_LEDGERS = 30;
const MIRRORS = 4;
const MAX_PENDING_ASKS = 40;
const LINK_FRAMES = 48;
/** Maximum interval in which the client checks deadlines. */
const SWEEP_MS = 5;
/** Longer than anything that was started can take. */
const END_LIMIT_MS = 20_000;
const DRAIN_ROUNDS = 16;
/** Interval in which empty slots are released, so that actors move during a run. */
const RELEASE_EVERY_MS = 2;
const POLICIES: ReadonlyMap<string, KindPolicy> = new Map([
  [LEDGER, LEDGER_POLICY],
  [MIRROR, MIRROR_POLICY],
]);
const MOST_HELD =
  MOVING_LEDGERS * (LEDGER_POLICY.max_held_effects + MOST_EFFECTS * LEDGER_POLICY.max_io_in_flight);
const MOST_IO = MOVING_LEDGERS * LEDGER_POLICY.max_io_in_flight + MIRRORS * MIRROR_POLICY.max_io_in_flight;

/** The current start of the thread; code of earlier starts does nothing any more. */
interface Pulse {
  alive: boolean;
}

interface HostLife {
  index: number;
  pulse: Pulse;
  host: ActorHost;
  journal: SimJournal;
  /** This side of its links. */
  links: { sever(): void }[];
}

interface ClientLife {
  name: string;
  /** Its number; if actors move, that of the host on its own thread. */
  at: number;
  pulse: Pulse;
  client: ActorClient;
  /** Asks that are not settled: their host. */
  pending: Map<string, number>;
}

/** As in the product: movable actors live on server threads, if there are any. */
function placeKinds({ actors, servers }: Layout, isMoving: boolean): Placement {
  const placement = {
    hosts: actors,
    pins: {},
    ...(servers === 0 ? {} : { servers: { hosts: servers, kinds: [LEDGER] } }),
  };
  const kinds = servers === 0 ? [LEDGER, MIRROR] : [LEDGER];
  return isMoving ? { ...placement, moving: allocateClaims(kinds) } : placement;
}

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
  readonly #placement: Placement;
  readonly #ledgers: number;
  /** By host. */
  readonly #disks: MemoryDisk[];
  readonly #trouble: JournalTrouble = { commit_failure: 0, load_failure: 0 };
  readonly #hosts: (HostLife | null)[];
  readonly #clients: ClientLife[] = [];
  #messages = 0;
  #clientNames = 0;
  #asked = 0;
  #unsettled = 0;
  #crashes = 0;
  #lives = 0;
  #moves = 0;
  /** Where each actor was when a message was last sent to it. */
  readonly #places = new Map<string, number>();

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#world = new World(options.seed);
    this.#witness = new Witness(this.#world, POLICIES);
    const isMoving = options.moving ?? options.seed % 2 === 0;
    const layout = options.layout ?? LAYOUTS[Math.floor(options.seed / 2) % LAYOUTS.length]!;
    this.#placement = placeKinds(layout, isMoving);
    const hosts = countHosts(this.#placement);
    this.#hosts = new Array(hosts).fill(null);
    this.#ledgers = isMoving ? MOVING_LEDGERS : LEDGERS;
    const disk: MemoryDisk = new Map();
    this.#disks = Array.from({ length: hosts }, () => (isMoving ? disk : new Map()));
    // Some runs have a failing disk, most do not.
    if (this.#world.prng.chance(0.4)) this.#trouble.commit_failure = this.#world.between(0, 0.15);
    if (this.#world.prng.chance(0.3)) this.#trouble.load_failure = this.#world.between(0, 0.1);
  }

  async run(): Promise<SimulationResult> {
    for (const index of this.#hosts.keys()) this.#startHost(index);
    for (let at = 0; at < CLIENTS; at++) this.#openClient(at);
    let left = this.#options.steps ?? 600;
    const crashChance = this.#world.prng.chance(0.7) ? this.#world.between(0, 0.02) : 0;
    const act = (): void => {
      if (left <= 0) return;
      left--;
      this.#act(crashChance);
      this.#world.after(this.#world.prng.chance(0.6) ? 0 : this.#world.between(0, 4), act);
    };
    this.#world.after(0, act);
    while (left > 0) this.#step();
    await this.#end();
    return {
      seed: this.#options.seed,
      ...this.#world.finishTrace(),
      asked: this.#asked,
      acknowledged: this.#witness.acknowledged,
      handled: this.#witness.handled,
      durable: this.#witness.ledgers.reduce((sum, key) => sum + this.#witness.historyOf(key).length, 0),
      crashes: this.#crashes,
      moves: this.#moves,
      simulated_ms: this.#world.nowMs,
    };
  }

  #step(): void {
    if (!this.#world.step()) this.#world.violate('nothing is left to happen');
    this.#checkBounds();
    this.#world.checkPromises();
  }

  // ---- actions of the clients, and faults ----

  #act(crashChance: number): void {
    const { prng } = this.#world;
    if (prng.chance(crashChance)) return this.#crash(prng.below(this.#hosts.length));
    if (prng.chance(0.005)) return this.#reopenClient(prng.below(CLIENTS));
    if (prng.chance(0.01)) {
      this.#world.wallOffsetMs += this.#world.between(-5_000, 5_000);
      return;
    }
    const life = this.#clients[prng.below(CLIENTS)]!;
    const burst = prng.chance(0.05) ? 1 + prng.below(20) : 1;
    const to: ActorAddress = prng.chance(0.75)
      ? { kind: LEDGER, key: `L${prng.below(this.#ledgers)}` }
      : { kind: MIRROR, key: `M${prng.below(MIRRORS)}` };
    for (let i = 0; i < burst; i++) this.#sendSomething(life, to);
  }

  #sendSomething(life: ClientLife, to: ActorAddress): void {
    const { prng } = this.#world;
    const id = `${life.name}#${++this.#messages}`;
    const [name, payload] = to.kind === LEDGER ? this.#chooseForLedger() : this.#chooseForMirror();
    const message = { ...payload, id, from: life.name, n: this.#witness.numberNext(life.name, to.key) };
    if (prng.chance(0.15)) {
      life.client.tell(to, name, message);
      return;
    }
    const deadline_ms = prng.chance(0.2) ? this.#world.between(1, 20) : this.#world.between(20, 800);
    const dueMs = this.#world.nowMs + deadline_ms + SWEEP_MS;
    let isSettled = false;
    life.pending.set(id, -1);
    this.#asked++;
    this.#unsettled++;
    life.client.request(to, name, message, { deadline_ms }, (error, value) => {
      if (isSettled) this.#world.violate(`${id} is settled twice`);
      isSettled = true;
      this.#unsettled--;
      life.pending.delete(id);
      this.#world.note(`${id} ${error?.code ?? 'answered'}`);
      if (this.#world.nowMs > dueMs + 1e-6) this.#world.violate(`${id} is settled after its deadline`);
      this.#witness.seeSettled(id, error?.code ?? null, value);
    });
    // The message itself may have claimed its actor's slot.
    const place = placeAddress(this.#placement, to);
    if (!isSettled) life.pending.set(id, place);
    if ((this.#places.get(to.key) ?? place) !== place) this.#moves++;
    this.#places.set(to.key, place);
  }

  #chooseForLedger(): [string, object] {
    const { prng } = this.#world;
    const mirror = `M${prng.below(MIRRORS)}`;
    switch (prng.below(12)) {
      case 0:
      case 1:
      case 2:
        return ['add', { publish: prng.chance(0.4), mirror: prng.chance(0.5) ? mirror : null }];
      case 3:
        return ['add_later', {}];
      case 4:
      case 5:
        return ['add_and_save', {}];
      case 6:
        return ['add_timed', { delay_ms: this.#world.between(0, 60) }];
      case 7:
      case 8:
      case 9:
        return [
          'pass',
          { route: Array.from({ length: prng.below(4) }, () => `L${prng.below(this.#ledgers)}`) },
        ];
      case 10:
        return prng.chance(0.25) ? ['fail', { mirror }] : ['read', {}];
      default:
        return ['read', {}];
    }
  }

  #chooseForMirror(): [string, object] {
    const { prng } = this.#world;
    switch (prng.below(8)) {
      case 0:
        return prng.chance(0.4) ? ['fail', {}] : ['look', {}];
      case 1:
      case 2:
      case 3:
        return ['look', {}];
      default:
        return ['ponder', { delay_ms: this.#world.between(0, 30) }];
    }
  }

  // ---- threads ----

  #startHost(index: number): void {
    const name = `host ${index}`;
    const pulse: Pulse = { alive: true };
    const fault = this.#options.journal_fault ?? 'none';
    const journal = new SimJournal(this.#world, this.#witness, this.#disks[index]!, this.#trouble, fault);
    const host = new (this.#options.Host ?? ActorHost)({
      index,
      placement: this.#placement,
      kinds: createKinds(this.#witness, `life ${++this.#lives}`),
      release_every_ms: RELEASE_EVERY_MS,
      scheduler: this.#world.createScheduler(() => pulse.alive),
      journal,
      performIo: (_port, _operation, input, done) => {
        const { prng } = this.#world;
        this.#witness.seeRevealed(`io of ${name}`, input);
        const error = prng.chance(0.1) ? new Error('the desk is closed') : null;
        this.#world.after(prng.chance(0.1) ? this.#world.between(5, 80) : this.#world.between(0.1, 5), () => {
          if (pulse.alive) done(error, null);
        });
      },
      performCompute: (_task, _input, done) => {
        this.#world.after(1, () => {
          if (pulse.alive) done(null, null);
        });
      },
      report: (report) => this.#witness.seeReport(report),
    });
    const life: HostLife = { index, pulse, host, journal, links: [] };
    this.#world.note(`${name} starts`);
    for (const client of this.#clients) this.#linkClient(life, client);
    for (const other of this.#hosts) {
      if (other === null) continue;
      const [end, otherEnd] = this.#createLink(
        `${name} to ${other.index}`,
        `host ${other.index} to ${index}`,
      );
      life.links.push(end);
      other.links.push(otherEnd);
      life.host.attachPeer(other.index, end);
      other.host.attachPeer(index, otherEnd);
    }
    this.#hosts[index] = life;
  }

  #crash(index: number): void {
    const life = this.#hosts[index];
    if (life == null) return;
    this.#crashes++;
    this.#world.note(`host ${index} dies`);
    life.pulse.alive = false;
    life.journal.crash();
    for (const link of life.links) link.sever();
    this.#hosts[index] = null;
    this.#witness.forgetActors((kind, key) => placeAddress(this.#placement, { kind, key }) === index);
    this.#world.after(this.#world.between(1, 120), () => this.#startHost(index));
  }

  #openClient(at: number): void {
    const name = `client${this.#clientNames++}`;
    const pulse: Pulse = { alive: true };
    const scheduler = this.#world.createScheduler(() => pulse.alive);
    const client = new ActorClient(
      this.#placement,
      scheduler,
      { max_pending_asks: MAX_PENDING_ASKS },
      this.#ownHost(at),
    );
    const life: ClientLife = { name, at, pulse, client, pending: new Map() };
    client.onHostDown((host) => {
      for (const [id, asked] of life.pending) {
        if (asked === host) this.#world.violate(`${id} still waits for host ${host}, which is down`);
      }
    });
    client.subscribe(TOPIC, (payload) => this.#witness.seeRevealed(`a publication to ${name}`, payload));
    this.#clients[at] = life;
    for (const host of this.#hosts) if (host !== null) this.#linkClient(host, life);
  }

  #reopenClient(at: number): void {
    const { name, pulse, client, pending } = this.#clients[at]!;
    this.#world.note(`${name} closes`);
    client.close();
    pulse.alive = false;
    if (pending.size > 0) this.#world.violate(`${name} closed with ${pending.size} asks waiting`);
    this.#openClient(at);
  }

  /** The host on the client's own thread; −1: none. */
  #ownHost(at: number): number {
    const { moving, servers, hosts } = this.#placement;
    if (moving === undefined) return -1;
    const own = servers === undefined ? at : hosts + at;
    return own < this.#hosts.length ? own : -1;
  }

  #linkClient(host: HostLife, { name, at, client }: ClientLife): void {
    if (this.#ownHost(at) === host.index) return this.#linkWithin(host, name, client);
    const [inner, outer] = this.#createLink(`host ${host.index} to ${name}`, `${name} to ${host.index}`);
    host.links.push(inner);
    host.host.attachClient(inner);
    client.attach(host.index, outer);
  }

  /** A host and the client of the same thread: the link of one dies with that of the other. */
  #linkWithin(host: HostLife, name: string, client: ActorClient): void {
    const [inner, outer] = createLocalLink();
    const send = inner.send.bind(inner);
    inner.send = (frame) => {
      this.#witness.seeSent(`host ${host.index} to ${name}`, frame);
      return send(frame);
    };
    host.links.push({ sever: () => inner.close() });
    host.host.attachClient(inner, true);
    client.attach(host.index, outer);
  }

  /** The witness sees everything that hosts send. */
  #createLink(end: string, otherEnd: string): [SimLink, SimLink] {
    const describe = (name: string) => ({
      name,
      max_in_flight: LINK_FRAMES,
      fault: this.#options.link_fault ?? 'none',
      watch: (frame: Frame) => {
        if (name.startsWith('host')) this.#witness.seeSent(name, frame);
      },
    });
    return SimLink.createPair(this.#world, describe(end), describe(otherEnd));
  }

  // ---- bounds ----

  #checkBounds(): void {
    for (const { client, name } of this.#clients) {
      if (client.stats().asks_pending > MAX_PENDING_ASKS) this.#world.violate(`${name} has too many asks`);
    }
    for (const life of this.#hosts) {
      if (life === null) continue;
      const { kinds, held_effects, io_in_flight } = life.host.stats();
      for (const [kind, { live, mailbox_depth }] of Object.entries(kinds)) {
        const { max_live, mailbox_capacity } = POLICIES.get(kind)!;
        if (live > max_live) this.#world.violate(`${live} actors of ${kind}`);
        if (mailbox_depth > live * mailbox_capacity) {
          this.#world.violate(`${mailbox_depth} messages wait for ${live} ${kind}`);
        }
      }
      if (held_effects > MOST_HELD) this.#world.violate(`${held_effects} effects are held`);
      if (io_in_flight > MOST_IO) this.#world.violate(`${io_in_flight} io in flight`);
    }
  }

  // ---- the end ----

  /** No further faults: accepted work must finish, and acknowledged work must be stored. */
  async #end(): Promise<void> {
    this.#world.note('the end begins');
    this.#trouble.commit_failure = 0;
    this.#trouble.load_failure = 0;
    const limitMs = this.#world.nowMs + END_LIMIT_MS;
    while (this.#unsettled > 0 || this.#hosts.includes(null)) {
      if (this.#world.nowMs > limitMs) this.#world.violate(`${this.#unsettled} asks are never settled`);
      this.#step();
    }
    const lives = this.#hosts.filter((life) => life !== null);
    let handled = -1;
    for (let round = 0, isDry = false; !isDry; round++) {
      if (round === DRAIN_ROUNDS) this.#world.violate('the hosts do not run dry');
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
        this.#step();
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

  /** A reader of the disk finds the history that the witness saw. */
  #checkStored(key: string): void {
    const index = placeAddress(this.#placement, { kind: LEDGER, key });
    const { snapshot, events } = new MemoryJournal(this.#disks[index]!).load(LEDGER, key);
    const count = (snapshot?.seq ?? 0) + events.length;
    const expected = this.#witness.historyOf(key).length;
    if (count !== expected) {
      this.#world.violate(`${key} has ${count} operations on the disk, ${expected} were written`);
    }
  }
}
