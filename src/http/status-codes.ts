/** The reason phrases of HTTP's status codes, as Node has them. Server threads. */

/**
 * `getBuiltinModule`, because an import of `node:http` evaluates everything that the module exports, including Node's
 * WebSocket and undici. That costs each starting thread 35 ms.
 */
export const { STATUS_CODES } = process.getBuiltinModule('node:http');
