/**
 * The connections of all ports together: sets their caps, tells how many there are and how many were refused, and logs once
 * when refusals begin. The addon counts (`native/sockets/connections.h`). Main thread.
 */
import { COUNTERS, socketEngine } from '../../native/socket-engine.ts';
import { CONNECTIONS_MAX, DESCRIPTORS_KEPT, PUBLIC_ADDRESS_CONNECTIONS } from '../limits.ts';

export interface ConnectionCaps {
  /** 0: none; null: what the descriptors of the process are enough for. */
  total: number | null;
  /** The same; null: a default that holds for public addresses alone. */
  by_address: number | null;
}

/** As the gateway's stats have it. */
export interface ConnectionCounts {
  open: number;
  /** 0: there is no cap. */
  max: number;
  max_per_address: number;
  /** Since the start: connections beyond the caps, and messages that two parsers could read in two ways. */
  refused: { total: number; per_address: number; framing: number };
  /** Requests that were ended since their bodies came too slowly. */
  slow_uploads: number;
  /** How often no descriptor was left for a connection that waited. */
  accept_pauses: number;
}

export interface WatchLog {
  warn(fields: object, message: string): void;
}

type Trouble = 'descriptors' | 'total' | 'address';

/** How often it is looked whether there is something to say, and for how long it is not said again. */
const LOOK_MS = 500;
const SILENCE_MS = 600_000;

export class ConnectionWatch {
  readonly #log: WatchLog;
  readonly #total: number;
  readonly #byAddress: number;
  /** That this process may have; 0 where nobody says. */
  readonly descriptors = socketEngine.readDescriptorLimit();
  readonly #counters = new Float64Array(COUNTERS.length);
  /** What was counted of each trouble when it was last looked at, and when it was last told. */
  readonly #noticed: Record<Trouble, number>;
  readonly #toldAt = new Map<Trouble, number>();
  readonly #timer: NodeJS.Timeout;

  /** Caps from now on. */
  constructor({ total, by_address }: ConnectionCaps, log: WatchLog) {
    this.#log = log;
    this.#total = total ?? deriveTotal(this.descriptors);
    this.#byAddress = by_address ?? PUBLIC_ADDRESS_CONNECTIONS;
    socketEngine.capConnections(this.#total, this.#byAddress, by_address === null ? 0 : 1);
    const { refused, accept_pauses } = this.counts();
    this.#noticed = { descriptors: accept_pauses, total: refused.total, address: refused.per_address };
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  counts(): ConnectionCounts {
    socketEngine.countConnections(this.#counters);
    const count = (name: (typeof COUNTERS)[number]): number => this.#counters[COUNTERS.indexOf(name)]!;
    return {
      open: count('open'),
      max: this.#total,
      max_per_address: this.#byAddress,
      refused: {
        total: count('refused_total'),
        per_address: count('refused_address'),
        framing: count('refused_framing'),
      },
      slow_uploads: count('slow_uploads'),
      accept_pauses: count('accept_pauses'),
    };
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#look();
  }

  #look(): void {
    const { open, refused, accept_pauses } = this.counts();
    this.#say('descriptors', accept_pauses, { descriptors: this.descriptors, open }, () => {
      const limit = this.descriptors === 0 ? '' : ` (ulimit -n is ${this.descriptors})`;
      return `no descriptor is left for a new connection${limit}: it waits until others close. Raise the limit, or lower MAX_CONNECTIONS`;
    });
    this.#say('total', refused.total, { open, max: this.#total }, () => {
      return `MAX_CONNECTIONS is reached: further connections get 503. Raise it with the descriptors that it needs (ulimit -n, two for each)`;
    });
    this.#say('address', refused.per_address, { open, max_per_address: this.#byAddress }, () => {
      return 'an address has as many connections as one may have (MAX_CONNECTIONS_PER_ADDRESS): its further ones get 503';
    });
  }

  /** One line when it begins, and none while it goes on. */
  #say(what: Trouble, count: number, fields: object, describe: () => string): void {
    if (count === this.#noticed[what]) return;
    this.#noticed[what] = count;
    const now = performance.now();
    const told = this.#toldAt.get(what);
    if (told === undefined || now - told > SILENCE_MS) this.#log.warn({ ...fields, count }, describe());
    this.#toldAt.set(what, now);
  }
}

/** A connection may need a second descriptor, to the upstream; files and threads need some, too. */
function deriveTotal(descriptors: number): number {
  if (descriptors === 0) return CONNECTIONS_MAX;
  return Math.min(
    CONNECTIONS_MAX,
    Math.max(Math.floor((descriptors - DESCRIPTORS_KEPT) / 2), DESCRIPTORS_KEPT / 8),
  );
}
