/**
 * Error texts that both kinds of listeners use. Any thread.
 */

/** Answer to a connection beyond the limits. */
export const TOO_MANY = 'Too many connections; try again later';
/** Answer to a body that arrives too slowly. */
export const TOO_SLOW = 'The request body came too slowly';
/** Answer to a request that arrives while the service stops. */
export const SHUTTING_DOWN = 'The server is shutting down';
/**
 * Answer to a TLS client beyond the limits, before the handshake: a fatal alert, internal error (RFC 8446,
 * 6.2).
 */
export const TOO_MANY_ALERT = '\x15\x03\x03\x00\x02\x02\x50';
