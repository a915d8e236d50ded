/** The reason phrases of HTTP's status codes, as Node has them. Server threads. */

/**
 * Read with `getBuiltinModule`: an import of `node:http` would evaluate everything that the module exports,
 * including Node's WebSocket and undici, and would cost each starting thread 35 ms.
 */
export const { STATUS_CODES } = process.getBuiltinModule('node:http');
