/**
 * Determines whether an IP address is public, private, or never to be connected to (clouds' credential services, for
 * example). Callers check the addresses that a client names. Any thread.
 */
import { BlockList, isIP } from 'node:net';

/**
 * Unspecified, link-local, multicast and broadcast, and those credential services of clouds that are at none of these:
 * AWS over IPv6, Alibaba.
 */
const NEVER = listRanges([
  ...['0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32', '100.100.100.200/32'],
  ...['::/128', 'fe80::/10', 'ff00::/8', 'fd00:ec2::254/128'],
  // The same ranges through address translation (RFC 6052, 7915) and in tunnels (RFC 3056, 4291).
  ...['64:ff9b::a9fe:0/112', '64:ff9b::6464:64c8/128', '::ffff:0:0:0/96'],
  ...['2002:a9fe::/32', '2002:6464:64c8::/48', '::a9fe:0/112', '::6464:64c8/128'],
]);
/** This machine, private networks, and ranges for documentation, translation, tunnels and other uses (RFC 6890). */
const PRIVATE = listRanges([
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '192.0.0.0/24'],
  ...['192.0.2.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '240.0.0.0/4'],
  ...['::/96', 'fc00::/7', 'fec0::/10', '64:ff9b::/96', '64:ff9b:1::/48', '2001:db8::/32', '2002::/16'],
  '2001::/32',
]);

/** Makes a list of subnets that can be asked for an address. @param subnets in CIDR notation */
export function listRanges(subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', bits = ''] = subnet.split('/');
    list.addSubnet(net, Number(bits), net.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}

/**
 * `never` (must not be connected to): unspecified, link-local, multicast, broadcast, or a cloud's credential service;
 * `private`: this machine, a private network, or another range that is not public (PRIVATE).
 */
type AddressReach = 'public' | 'private' | 'never';

/** Says what an IP address reaches; null for any other text. */
export function reachOf(address: string): AddressReach | null {
  const version = isIP(address);
  if (version === 0) return null;
  const family = version === 6 ? 'ipv6' : 'ipv4';
  if (NEVER.check(address, family)) return 'never';
  return PRIVATE.check(address, family) ? 'private' : 'public';
}
