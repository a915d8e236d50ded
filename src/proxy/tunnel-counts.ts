/**
 * The proxy's counts, in memory shared with the main thread, so that they outlive a restart of the proxy thread. Main
 * thread and proxy thread.
 */

const NAMES = [
  'open_terminated',
  'open_blind',
  'terminated',
  'blind',
  'refused_request',
  'refused_credential',
  'refused_address',
  'refused_capacity',
  'refused_handshake',
  'refused_unreachable',
  'refused_heads',
  'refused_connections',
] as const;

type CountName = (typeof NAMES)[number];
type TunnelKind = 'terminated' | 'blind';
/**
 * Why a client got no tunnel, in this order: not a valid CONNECT, no valid key, a forbidden destination, no room for
 * another tunnel, a failed handshake, a destination that cannot be reached, too many connections without a tunnel, or too
 * many connections from the client's address.
 */
export type TunnelRefusal =
  | 'request'
  | 'credential'
  | 'address'
  | 'capacity'
  | 'handshake'
  | 'unreachable'
  | 'heads'
  | 'connections';

/** The form in the gateway's stats. */
interface ProxyCounts {
  /** Tunnels that are open now. */
  open: Record<TunnelKind, number>;
  /** Tunnels opened since the start. */
  tunnels: Record<TunnelKind, number>;
  refused: Record<TunnelRefusal, number>;
}

export class TunnelCounts {
  readonly memory: SharedArrayBuffer;
  readonly #counts: Int32Array;

  /** @param memory the memory that another thread shares; default: new memory */
  constructor(memory = new SharedArrayBuffer(NAMES.length * Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#counts = new Int32Array(memory);
  }

  /** Counts a tunnel of this kind that was opened. */
  begin(kind: TunnelKind): void {
    this.#add(kind, 1);
    this.#add(`open_${kind}`, 1);
  }

  /** Counts a tunnel that was closed. */
  end(kind: TunnelKind): void {
    this.#add(`open_${kind}`, -1);
  }

  /** Counts a client that got no tunnel. */
  refuse(why: TunnelRefusal): void {
    this.#add(`refused_${why}`, 1);
  }

  /** Sets the numbers of open tunnels to zero, because the thread that had opened them has ended. */
  forgetOpen(): void {
    for (const kind of ['terminated', 'blind'] as const)
      Atomics.store(this.#counts, NAMES.indexOf(`open_${kind}`), 0);
  }

  read(): ProxyCounts {
    const count = (name: CountName) => Atomics.load(this.#counts, NAMES.indexOf(name)) >>> 0;
    return {
      open: { terminated: count('open_terminated'), blind: count('open_blind') },
      tunnels: { terminated: count('terminated'), blind: count('blind') },
      refused: {
        request: count('refused_request'),
        credential: count('refused_credential'),
        address: count('refused_address'),
        capacity: count('refused_capacity'),
        handshake: count('refused_handshake'),
        unreachable: count('refused_unreachable'),
        heads: count('refused_heads'),
        connections: count('refused_connections'),
      },
    };
  }

  #add(name: CountName, change: number): void {
    Atomics.add(this.#counts, NAMES.indexOf(name), change);
  }
}
