/**
 * What the proxy has counted, in memory that the main thread sees, too: it outlives a restart of the proxy thread. Main thread and
 * proxy thread.
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
] as const;

type CountName = (typeof NAMES)[number];
export type TunnelKind = 'terminated' | 'blind';
/**
 * Why a client got no tunnel: no CONNECT, no key, an address that the proxy leads nobody to, too many tunnels, a handshake
 * that came to nothing, nobody at the address.
 */
export type TunnelRefusal = 'request' | 'credential' | 'address' | 'capacity' | 'handshake' | 'unreachable';

/** As the gateway's stats have it. */
export interface ProxyCounts {
  /** Tunnels that are open now. */
  open: Record<TunnelKind, number>;
  /** Tunnels that were opened since the start. */
  tunnels: Record<TunnelKind, number>;
  refused: Record<TunnelRefusal, number>;
}

export class TunnelCounts {
  readonly memory: SharedArrayBuffer;
  readonly #counts: Int32Array;

  /** @param memory of another thread's; left out: all is 0 */
  constructor(memory = new SharedArrayBuffer(NAMES.length * Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#counts = new Int32Array(memory);
  }

  /** A tunnel of this kind is open. */
  begin(kind: TunnelKind): void {
    this.#add(kind, 1);
    this.#add(`open_${kind}`, 1);
  }

  /** It is over. */
  end(kind: TunnelKind): void {
    this.#add(`open_${kind}`, -1);
  }

  refuse(why: TunnelRefusal): void {
    this.#add(`refused_${why}`, 1);
  }

  /** The thread that had tunnels open is gone. */
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
      },
    };
  }

  #add(name: CountName, change: number): void {
    Atomics.add(this.#counts, NAMES.indexOf(name), change);
  }
}
