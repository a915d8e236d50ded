/**
 * The addresses that messages of alerts may go to. This machine and private networks are forbidden unless the operator
 * lists them (ALERT_PRIVATE_TARGETS). Link-local addresses and clouds' credential services are always forbidden. Server
 * threads.
 */
import { type LookupAddress, lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { listRanges, reachOf } from '../std/address-ranges.ts';

/** Like `dns.lookup` with `all`. */
type LookUp = (
  name: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

/** Thrown when a message's destination is a forbidden address. */
export class TargetError extends Error {
  override readonly name = 'TargetError';

  constructor() {
    super(
      'its address is on this machine or in a private network, and ALERT_PRIVATE_TARGETS does not list it',
    );
  }
}

export class AlertTargets {
  readonly #allowed: ReturnType<typeof listRanges>;
  readonly #lookUp: LookUp;

  /**
   * @param allowed private networks that may be reached, in CIDR notation
   * @param lookUp looks up names; by default with the system's resolver
   */
  constructor(allowed: readonly string[], lookUp: LookUp = lookup) {
    this.#allowed = listRanges(allowed);
    this.#lookUp = lookUp;
  }

  /** Checks the host of a URL. @throws TargetError for a forbidden address; a name is checked by `lookup` */
  check(hostname: string): void {
    const address = hostname.replace(/^\[(.*)\]$/, '$1');
    if (isIP(address) !== 0 && !this.#allows(address)) throw new TargetError();
  }

  /**
   * Looks up a name and leaves out forbidden addresses; fails with a TargetError if no address is left. The connection
   * uses the addresses that were checked here, so the check cannot be evaded by changing the name's address in between.
   */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#lookUp(name, { all: true }, (error, found) => {
      const allowed = error === null ? found.filter(({ address }) => this.#allows(address)) : [];
      const [first] = allowed;
      if (error !== null) callback(error, []);
      else if (first === undefined) callback(new TargetError(), []);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };

  #allows(address: string): boolean {
    const reach = reachOf(address);
    if (reach === 'public') return true;
    return reach === 'private' && this.#allowed.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
}
