/**
 * The connections of all ports together: sets their limits, reports how many are open and how many were refused, and
 * logs once when refusals begin. The addon counts (`native/sockets/connections.h`). Main thread.
 */
import { COUNTERS, socketEngine } from '../../native/socket-engine.ts';
import { PUBLIC_ADDRESS_CONNECTIONS } from '../limits.ts';
import { plainConnections } from './plain-connections.ts';
import { loadedServer } from './server.ts';

/** Maximum number of connections if the operator sets no limit. */
const CONNECTIONS_MAX = 100_000;
/** Number of descriptors that are reserved for uses other than connections and their upstreams. */
const DESCRIPTORS_KEPT = 256;

interface ConnectionCaps {
  /** 0: no limit; null: derived from the process's descriptors. */
  total: number | null;
  /** 0: no limit; null: the default, which applies only to public addresses. */
  by_address: number | null;
}

/**
 * The component that checks the framing of requests. `native`: the addon, before the parser reads
 * the bytes. `js`: only the rules for the headers that the parser returns, if the addon was not
 * compiled or does not support the system. `node`: the parser of node:http.
 */
export type FramingGuard = 'native' | 'js' | 'node';

/** Finds the component that checks the framing on this machine. @param isSecure whether one of the ports uses TLS */
export function findFramingGuard(isSecure: boolean): FramingGuard {
  if (loadedServer() === 'node') return 'node';
  const isWatched = socketEngine.watchConnections() !== '';
  return isWatched && (!isSecure || socketEngine.watchSecureConnections() === 1) ? 'native' : 'js';
}

/** The counts of connections, in the form of the gateway's stats. */
export interface ConnectionCounts {
  open: number;
  /** The caps, in total and for each address; 0: there is no cap. */
  max: number;
  max_per_address: number;
  /** Counts since the start: connections beyond the caps, and messages that two parsers could read differently. */
  refused: { total: number; per_address: number; framing: number };
  /** Requests that were ended because their bodies came too slowly. */
  slow_uploads: number;
  /** How often a listener paused because no descriptor was free for a new connection. */
  accept_pauses: number;
}

interface WatchLog {
  warn(fields: object, message: string): void;
}

type Trouble = 'descriptors' | 'total' | 'address';

/** Interval of the checks for refusals, and the time without refusals of a kind after which such refusals are logged again. */
const LOOK_MS = 500;
const SILENCE_MS = 600_000;

export class ConnectionWatch {
  readonly #log: WatchLog;
  readonly #total: number;
  readonly #byAddress: number;
  /** Descriptors that this process may have; 0 if unknown. */
  readonly descriptors = socketEngine.readDescriptorLimit();
  readonly #counters = new Float64Array(COUNTERS.length);
  /** The number of refusals of each kind, at the last check and at the last log line. */
  readonly #noticed: Record<Trouble, number>;
  readonly #toldAt = new Map<Trouble, number>();
  readonly #timer: NodeJS.Timeout;

  /** Sets the caps, and begins to check for refusals. */
  constructor({ total, by_address }: ConnectionCaps, log: WatchLog) {
    this.#log = log;
    this.#total = total ?? deriveTotal(this.descriptors);
    this.#byAddress = by_address ?? PUBLIC_ADDRESS_CONNECTIONS;
    socketEngine.capConnections(this.#total, this.#byAddress, by_address === null ? 0 : 1);
    plainConnections.cap(this.#total, this.#byAddress, by_address !== null);
    const { refused, accept_pauses } = this.counts();
    this.#noticed = { descriptors: accept_pauses, total: refused.total, address: refused.per_address };
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  counts(): ConnectionCounts {
    socketEngine.countConnections(this.#counters);
    const plain: Partial<Record<string, number>> = plainConnections.counts;
    const count = (name: (typeof COUNTERS)[number]): number =>
      this.#counters[COUNTERS.indexOf(name)]! + (plain[name] ?? 0);
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
      return `no descriptor is left for a new connection${limit}: new connections wait until others close. Raise the limit (ulimit -n), or lower MAX_CONNECTIONS`;
    });
    this.#say('total', refused.total, { open, max: this.#total }, () => {
      return `MAX_CONNECTIONS is reached: further connections get 503. Raise MAX_CONNECTIONS and the limit of descriptors (ulimit -n, two for each connection)`;
    });
    this.#say('address', refused.per_address, { open, max_per_address: this.#byAddress }, () => {
      return 'an address has reached MAX_CONNECTIONS_PER_ADDRESS: its further connections get 503. Raise the limit if many clients share the address';
    });
  }

  /** Logs one line when refusals of a kind begin, and no further line while they continue. */
  #say(what: Trouble, count: number, fields: object, describe: () => string): void {
    if (count === this.#noticed[what]) return;
    this.#noticed[what] = count;
    const now = performance.now();
    const told = this.#toldAt.get(what);
    if (told === undefined || now - told > SILENCE_MS) this.#log.warn({ ...fields, count }, describe());
    this.#toldAt.set(what, now);
  }
}

/**
 * Derives the maximum number of connections from the number of descriptors. Each connection may need a second descriptor
 * for the upstream. Files and threads need some, too.
 */
function deriveTotal(descriptors: number): number {
  if (descriptors === 0) return CONNECTIONS_MAX;
  return Math.min(
    CONNECTIONS_MAX,
    Math.max(Math.floor((descriptors - DESCRIPTORS_KEPT) / 2), DESCRIPTORS_KEPT / 8),
  );
}
