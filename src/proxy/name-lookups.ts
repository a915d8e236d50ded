/**
 * Looks up the names of blind tunnels through the system, one after the other. A lookup occupies a libuv thread until
 * the resolver answers or gives up. The process has few such threads, and only half of them may do lookups. Lookups of
 * names that clients choose must leave threads for the gateway's upstreams. Proxy thread.
 *
 * Concurrent requests for a name share one lookup. A request whose client has left is not looked up. The maximum number
 * of tunnels bounds the waiting requests.
 */
import { type LookupAddress, lookup } from 'node:dns';

/**
 * Maximum number of concurrent lookups for blind tunnels. libuv uses two of its four threads for lookups, and the
 * second is for the gateway.
 */
const PROXY_LOOKUPS_AT_ONCE = 1;

/** A function like `dns.lookup` with the option `all`. */
export type LookUp = (
  name: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

interface Asker {
  signal: AbortSignal;
  resolve: (found: LookupAddress[]) => void;
  reject: (error: Error) => void;
}

export class NameLookups {
  readonly #lookUp: LookUp;
  /** Waiting requests by name. The first name is looked up next. */
  readonly #waiting = new Map<string, Asker[]>();
  readonly #running = new Map<string, Asker[]>();

  /** @param lookUp default: the system's */
  constructor(lookUp: LookUp = lookup) {
    this.#lookUp = lookUp;
  }

  /**
   * Looks up a name.
   * @param signal aborted when the caller no longer wants the result, which may then never come
   * @throws the system's error
   */
  find(name: string, signal: AbortSignal): Promise<LookupAddress[]> {
    const { promise, resolve, reject } = Promise.withResolvers<LookupAddress[]>();
    const asker = { signal, resolve, reject };
    const askers = this.#running.get(name) ?? this.#waiting.get(name);
    if (askers === undefined) this.#waiting.set(name, [asker]);
    else askers.push(asker);
    this.#begin();
    return promise;
  }

  #begin(): void {
    for (const [name, askers] of this.#waiting) {
      if (this.#running.size >= PROXY_LOOKUPS_AT_ONCE) return;
      this.#waiting.delete(name);
      if (askers.every(({ signal }) => signal.aborted)) continue;
      this.#running.set(name, askers);
      this.#lookUp(name, { all: true }, (error, found) => {
        this.#running.delete(name);
        for (const { resolve, reject } of askers) {
          if (error === null) resolve(found);
          else reject(error);
        }
        this.#begin();
      });
    }
  }
}
