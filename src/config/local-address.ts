/** Addresses of this machine. Any thread. */

/** The address for a connection to a listener of this machine. A listener on every address is reached over loopback. */
export function toLocalUrl(url: string): string {
  return url.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]');
}

/**
 * Whether only this machine can reach the address: the whole of 127/8, also as ::ffff:127.…, ::1 and the name localhost
 * (RFC 6761, 6.3).
 */
export function isLoopback(host: string): boolean {
  return /^(127(\.\d{1,3}){3}|::1|0:0:0:0:0:0:0:1|::ffff:127(\.\d{1,3}){3}|localhost\.?)$/i.test(host);
}
