/**
 * The addresses that a blind tunnel may connect to. Link-local addresses are never allowed, because clouds hand out a
 * machine's own credentials there; nor are the service's own ports. Proxy thread.
 */
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { NameLookups } from './name-lookups.ts';

/** `all`: whatever this machine's user may reach; `public`: nothing on this machine and its network; `off`: nothing. */
export type BlindReach = 'all' | 'public' | 'off';

/** Unspecified, link-local and multicast, and the clouds' credential services: AWS over IPv6, Alibaba. */
const NEVER = listOf([
  ...['0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32', '100.100.100.200/32'],
  ...['::/128', 'fe80::/10', 'ff00::/8', 'fd00:ec2::254/128'],
  // The same through address translation (RFC 6052, 7915) and in tunnels (RFC 3056, 4291).
  ...['64:ff9b::a9fe:0/112', '64:ff9b::6464:64c8/128', '::ffff:0:0:0/96'],
  ...['2002:a9fe::/32', '2002:6464:64c8::/48', '::a9fe:0/112', '::6464:64c8/128'],
]);
/** This machine, and private networks (RFC 6890). */
const PRIVATE = listOf([
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '192.0.0.0/24'],
  ...['192.0.2.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '240.0.0.0/4'],
  ...['::/96', 'fc00::/7', 'fec0::/10', '64:ff9b::/96', '64:ff9b:1::/48', '2001:db8::/32', '2002::/16'],
  '2001::/32',
]);

function listOf(subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', bits = ''] = subnet.split('/');
    list.addSubnet(net, Number(bits), net.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}

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

  /** @param ownPorts that this process listens on */
  constructor(reach: Exclude<BlindReach, 'off'>, ownPorts: ReadonlySet<number>) {
    this.#reach = reach;
    this.#ownPorts = ownPorts;
  }

  allows(address: string, port: number): boolean {
    const version = isIP(address);
    if (version === 0) return false;
    const family = version === 6 ? 'ipv6' : 'ipv4';
    if (NEVER.check(address, family)) return false;
    if (this.#reach === 'public' && PRIVATE.check(address, family)) return false;
    return !this.#ownPorts.has(port) || !isOwn(address, family);
  }

  /**
   * Looks up a name and removes forbidden addresses. The connection uses the checked addresses, so a name whose address
   * changes in between gains nothing.
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

const LOOPBACK = listOf(['127.0.0.0/8', '::1/128']);

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
