/**
 * The addresses that a blind tunnel may connect to. Link-local addresses are never allowed, because clouds publish a
 * machine's credentials there. The ports of this process on this machine's addresses are never allowed either. Proxy
 * thread.
 */
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { listRanges, reachOf } from '../std/address-ranges.ts';
import { NameLookups } from './name-lookups.ts';

/**
 * `all`: every address that this machine can reach; `public`: only public addresses, not this machine and its network;
 * `off`: no address.
 */
export type BlindReach = 'all' | 'public' | 'off';

/** The client asked for a forbidden destination. */
export class UnreachableError extends Error {
  readonly code = 'EUNREACHABLE';

  constructor() {
    super('the proxy does not allow this address');
    this.name = 'UnreachableError';
  }
}

export class ReachableAddresses {
  readonly #reach: Exclude<BlindReach, 'off'>;
  readonly #ownPorts: ReadonlySet<number>;
  readonly #lookups = new NameLookups();

  /** @param ownPorts ports on which this process listens */
  constructor(reach: Exclude<BlindReach, 'off'>, ownPorts: ReadonlySet<number>) {
    this.#reach = reach;
    this.#ownPorts = ownPorts;
  }

  /** Whether a blind tunnel may connect to the address at this port. */
  allows(address: string, port: number): boolean {
    const reach = reachOf(address);
    if (reach === null || reach === 'never') return false;
    if (this.#reach === 'public' && reach === 'private') return false;
    return !this.#ownPorts.has(port) || !isOwn(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }

  /**
   * Returns a function that looks up a name and removes forbidden addresses; it fails with an UnreachableError if no
   * address is left. The connection uses the checked addresses, so a change of the name's address cannot bypass the check.
   * @param signal aborted when the result is no longer wanted
   */
  lookupFor(port: number, signal: AbortSignal): LookupFunction {
    return (name, options, callback) => {
      this.#lookups.find(name, signal).then(
        (found) => {
          const allowed = found.filter(({ address }) => this.allows(address, port));
          const [first] = allowed;
          if (first === undefined) callback(new UnreachableError(), []);
          else if (options.all === true) callback(null, allowed);
          else callback(null, first.address, first.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, []),
      );
    };
  }
}

const LOOPBACK = listRanges(['127.0.0.0/8', '::1/128']);

function isOwn(address: string, family: 'ipv4' | 'ipv6'): boolean {
  if (LOOPBACK.check(address, family)) return true;
  const ownAddresses = new BlockList();
  for (const addresses of Object.values(networkInterfaces())) {
    for (const interfaceAddress of addresses ?? [])
      ownAddresses.addAddress(
        interfaceAddress.address.replace(/%.*$/, ''),
        interfaceAddress.family === 'IPv6' ? 'ipv6' : 'ipv4',
      );
  }
  return ownAddresses.check(address, family);
}
