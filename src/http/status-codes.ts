/** The reason phrases of HTTP's status codes, as Node has them. Server threads. */

/**
 * Not imported: as a module, `node:http` evaluates all that it exports, Node's own WebSocket and undici among it, which is
 * 35 ms of every thread that starts.
 */
export const { STATUS_CODES } = process.getBuiltinModule('node:http');
