/**
 * Names of blind tunnels, looked up by the system one after the other. A lookup keeps a thread of libuv's busy until the resolver has
 * answered or given up, and the process has few of them, half of which may be with lookups: names that clients choose must leave the
 * gateway some for its upstreams. Proxy thread.
 *
 * Who asks for a name that is asked for already shares the answer. Who has gone away is not looked up. The tunnels bound how many wait.
 */
import { type LookupAddress, lookup } from 'node:dns';
import { PROXY_LOOKUPS_AT_ONCE } from '../limits.ts';

/** As `dns.lookup` with `all`. */
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
  /** By name; the first is the next. */
  readonly #waiting = new Map<string, Asker[]>();
  readonly #running = new Map<string, Asker[]>();

  /** @param lookUp the system's when left out */
  constructor(lookUp: LookUp = lookup) {
    this.#lookUp = lookUp;
  }

  /** @throws what the system says; nothing settles when `signal` is aborted before the lookup begins */
  find(name: string, signal: AbortSignal): Promise<LookupAddress[]> {
    const { promise, resolve, reject } = Promise.withResolvers<LookupAddress[]>();
    const asker = { signal, resolve, reject };
    const others = this.#running.get(name) ?? this.#waiting.get(name);
    if (others === undefined) this.#waiting.set(name, [asker]);
    else others.push(asker);
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
