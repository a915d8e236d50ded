/**
 * A box of the simulation: a process whose hosts and clients exchange messages only with each other. Its clients send
 * requests to its actors, and its threads crash at random times.
 */
import { ActorClient } from '../../src/runtime/actor-client.ts';
import { allocateClaims } from '../../src/runtime/claims.ts';
import type { ActorHost } from '../../src/runtime/host.ts';
import type { Frame } from '../../src/runtime/link.ts';
import { createLocalLink } from '../../src/runtime/local-link.ts';
import { type ActorAddress, countHosts, type Placement, placeAddress } from '../../src/runtime/protocol.ts';
import type { KindPolicy } from '../../src/runtime/supervision.ts';
import type { SimStore } from './journal.ts';
import { createKinds, LEDGER, LEDGER_POLICY, MIRROR, MIRROR_POLICY, MOST_EFFECTS, TOPIC } from './kinds.ts';
import { type LinkFault, SimLink } from './links.ts';
import type { Witness } from './witness.ts';
import type { World } from './world.ts';

/**
 * Number of hosts on actor threads and on server threads. If there are hosts on server threads, they run ledgers and
 * no mirrors.
 */
export interface Layout {
  actors: number;
  servers: number;
}

/** Counters of all boxes of a simulation together. */
export interface Tally {
  messages: number;
  clients: number;
  asked: number;
  unsettled: number;
  crashes: number;
  lives: number;
  moves: number;
}

interface BoxParts {
  at: number;
  world: World;
  witness: Witness;
  tally: Tally;
  layout: Layout;
  moving: boolean;
  /** Number of ledgers that it sends messages to. */
  ledgers: number;
  link_fault: LinkFault;
  Host: typeof ActorHost;
  /** Opens the journal for one life of a host: the time from a start to a crash or an end. */
  openJournal(host: number, life: string): SimStore;
}

const CLIENTS = 3;
/** Number of ledgers if actors move. They do not all fit into memory, so ledgers are loaded and released. */
const MOVING_LEDGERS = 30;
const MIRRORS = 4;
const MAX_PENDING_ASKS = 40;
const LINK_FRAMES = 48;
/** Maximum interval in which the client checks deadlines. */
const SWEEP_MS = 5;
/** Interval in which empty slots are released, so that actors move during a run. */
const RELEASE_EVERY_MS = 2;
export const POLICIES: ReadonlyMap<string, KindPolicy> = new Map([
  [LEDGER, LEDGER_POLICY],
  [MIRROR, MIRROR_POLICY],
]);
const MOST_HELD =
  MOVING_LEDGERS * (LEDGER_POLICY.max_held_effects + MOST_EFFECTS * LEDGER_POLICY.max_io_in_flight);
const MOST_IO = MOVING_LEDGERS * LEDGER_POLICY.max_io_in_flight + MIRRORS * MIRROR_POLICY.max_io_in_flight;

/** One life of a thread. After its crash `alive` is false, and its tasks do nothing. */
interface Pulse {
  alive: boolean;
}

interface HostLife {
  index: number;
  pulse: Pulse;
  host: ActorHost;
  journal: SimStore;
  /** The host's ends of its links. */
  links: { sever(): void }[];
}

interface ClientLife {
  name: string;
  /** The client's number. If actors move, it is the number of the host on the same thread. */
  at: number;
  pulse: Pulse;
  client: ActorClient;
  /** The asks that are not settled, each with the host that it was sent to. */
  pending: Map<string, number>;
}

/** Places actors as the product does: movable actors run on server threads, if there are any. */
function placeKinds({ actors, servers }: Layout, isMoving: boolean): Placement {
  const placement = {
    hosts: actors,
    pins: {},
    ...(servers === 0 ? {} : { servers: { hosts: servers, kinds: [LEDGER] } }),
  };
  const kinds = servers === 0 ? [LEDGER, MIRROR] : [LEDGER];
  return isMoving ? { ...placement, moving: allocateClaims(kinds) } : placement;
}

export class Box {
  readonly placement: Placement;
  readonly #parts: BoxParts;
  readonly #world: World;
  readonly #witness: Witness;
  readonly #tally: Tally;
  readonly #ledgers: number;
  readonly #hosts: (HostLife | null)[];
  readonly #clients: ClientLife[] = [];
  /** Where each actor was when a message was last sent to it. */
  readonly #places = new Map<string, number>();

  constructor(parts: BoxParts) {
    this.#parts = parts;
    this.#world = parts.world;
    this.#witness = parts.witness;
    this.#tally = parts.tally;
    this.#ledgers = parts.ledgers;
    this.placement = placeKinds(parts.layout, parts.moving);
    this.#hosts = new Array(countHosts(this.placement)).fill(null);
  }

  start(): void {
    for (const index of this.#hosts.keys()) this.#startHost(index);
    for (let at = 0; at < CLIENTS; at++) this.#openClient(at);
  }

  /** Null for a host that is down. */
  get hosts(): readonly ({ index: number; host: ActorHost } | null)[] {
    return this.#hosts;
  }

  // ---- actions of the clients, and faults ----

  /** Performs one random action of a client, or causes one fault. */
  act(crashChance: number): void {
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
    const id = `${life.name}#${++this.#tally.messages}`;
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
    this.#tally.asked++;
    this.#tally.unsettled++;
    life.client.request(to, name, message, { deadline_ms }, (error, value) => {
      if (isSettled) this.#world.violate(`${id} is settled twice`);
      isSettled = true;
      this.#tally.unsettled--;
      life.pending.delete(id);
      this.#world.note(`${id} ${error?.code ?? 'answered'}`);
      if (this.#world.nowMs > dueMs + 1e-6) this.#world.violate(`${id} is settled after its deadline`);
      this.#witness.seeSettled(this.#parts.at, id, error?.code ?? null, value);
    });
    // The place is read after the message was sent, because the message may claim its actor's slot.
    const place = placeAddress(this.placement, to);
    if (!isSettled) life.pending.set(id, place);
    if ((this.#places.get(to.key) ?? place) !== place) this.#tally.moves++;
    this.#places.set(to.key, place);
  }

  #chooseForLedger(): [string, object] {
    const { prng } = this.#world;
    const mirror = `M${prng.below(MIRRORS)}`;
    switch (prng.below(13)) {
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
        return ['add_and_confirm', {}];
      case 11:
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
    const name = this.#nameHost(index);
    const pulse: Pulse = { alive: true };
    const { at, Host } = this.#parts;
    const lifeName = `life ${++this.#tally.lives}`;
    const journal = this.#parts.openJournal(index, lifeName);
    const host = new Host({
      index,
      placement: this.placement,
      kinds: createKinds(this.#witness, at, lifeName),
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
      report: (report) => this.#witness.seeReport(at, report),
    });
    const life: HostLife = { index, pulse, host, journal, links: [] };
    this.#world.note(`${name} starts`);
    for (const client of this.#clients) this.#linkClient(life, client);
    for (const other of this.#hosts) {
      if (other === null) continue;
      const [end, otherEnd] = this.#createLink(
        `${name} to ${other.index}`,
        `${this.#nameHost(other.index)} to ${index}`,
      );
      life.links.push(end);
      other.links.push(otherEnd);
      life.host.attachPeer(other.index, end);
      other.host.attachPeer(index, otherEnd);
    }
    this.#hosts[index] = life;
  }

  /** The name of a host. Names of the first box do not contain the box. */
  #nameHost(index: number): string {
    const { at } = this.#parts;
    return at === 0 ? `host ${index}` : `box ${at} host ${index}`;
  }

  #crash(index: number): void {
    const life = this.#hosts[index];
    if (life == null) return;
    this.#tally.crashes++;
    this.#world.note(`${this.#nameHost(index)} dies`);
    life.pulse.alive = false;
    life.journal.crash();
    for (const link of life.links) link.sever();
    this.#hosts[index] = null;
    this.#witness.forgetActors(
      this.#parts.at,
      (kind, key) => placeAddress(this.placement, { kind, key }) === index,
    );
    this.#world.after(this.#world.between(1, 120), () => this.#startHost(index));
  }

  #openClient(at: number): void {
    const name = `client${this.#tally.clients++}`;
    const pulse: Pulse = { alive: true };
    const scheduler = this.#world.createScheduler(() => pulse.alive);
    const client = new ActorClient(
      this.placement,
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

  /** The number of the host on the client's own thread; −1 if there is no such host. */
  #ownHost(at: number): number {
    const { moving, servers, hosts } = this.placement;
    if (moving === undefined) return -1;
    const own = servers === undefined ? at : hosts + at;
    return own < this.#hosts.length ? own : -1;
  }

  #linkClient(host: HostLife, { name, at, client }: ClientLife): void {
    if (this.#ownHost(at) === host.index) return this.#linkWithin(host, name, client);
    const [inner, outer] = this.#createLink(
      `${this.#nameHost(host.index)} to ${name}`,
      `${name} to ${host.index}`,
    );
    host.links.push(inner);
    host.host.attachClient(inner);
    client.attach(host.index, outer);
  }

  /** Links a host with the client on the same thread. The link is closed when the host crashes. */
  #linkWithin(host: HostLife, name: string, client: ActorClient): void {
    const [inner, outer] = createLocalLink();
    const send = inner.send.bind(inner);
    inner.send = (frame) => {
      this.#witness.seeSent(`${this.#nameHost(host.index)} to ${name}`, frame);
      return send(frame);
    };
    host.links.push({ sever: () => inner.close() });
    host.host.attachClient(inner, true);
    client.attach(host.index, outer);
  }

  /** Creates a link. The witness records every frame that hosts send. */
  #createLink(end: string, otherEnd: string): [SimLink, SimLink] {
    const describe = (name: string) => ({
      name,
      max_in_flight: LINK_FRAMES,
      fault: this.#parts.link_fault,
      watch: (frame: Frame) => {
        if (!name.startsWith('client')) this.#witness.seeSent(name, frame);
      },
    });
    return SimLink.createPair(this.#world, describe(end), describe(otherEnd));
  }

  // ---- bounds ----

  checkBounds(): void {
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
}
