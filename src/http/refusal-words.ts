/** Words of refusals that both kinds of listeners give. Any thread. */

/** To a connection beyond the caps. */
export const TOO_MANY = 'Too many connections; try again later';
/** To a body that comes too slowly. */
export const TOO_SLOW = 'The request body came too slowly';
/** To a request that comes during the end of the service. */
export const SHUTTING_DOWN = 'The server is shutting down';
/** To a TLS client beyond the caps, before the handshake: a fatal alert, internal error (RFC 8446, 6.2). */
export const TOO_MANY_ALERT = '\x15\x03\x03\x00\x02\x02\x50';
