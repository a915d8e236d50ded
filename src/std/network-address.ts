/**
 * Networks of clients' addresses, for limits by address. Any thread.
 */
import { isIPv4 } from 'node:net';

const MAPPED_IPV4 = /^::ffff:(?=\d+\.)/i;

/**
 * Names the network of an address: an IPv4 address itself, or the first half of an IPv6 address, because one host may
 * own all of that half's addresses.
 */
export function networkOf(address: string): string {
  const mapped = address.replace(MAPPED_IPV4, '');
  if (isIPv4(mapped)) return mapped;
  const [head = '', tail] = address.split('%', 1)[0]!.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: zeros }, () => '0'), ...after].slice(0, 4).join(':');
}

/** Whether the address is loopback or private, as defined in `native/sockets/connections.h`. */
export function isNear(address: string): boolean {
  const mapped = address.replace(MAPPED_IPV4, '');
  if (!isIPv4(mapped)) return /^(?:::1$|f[cd]|fe[89ab])/i.test(address);
  const [a = 0, b = 0] = mapped.split('.').map(Number);
  if (a === 127 || a === 10 || (a === 192 && b === 168) || (a === 169 && b === 254)) return true;
  return (a === 172 && b >= 16 && b < 32) || (a === 100 && b >= 64 && b < 128);
}
