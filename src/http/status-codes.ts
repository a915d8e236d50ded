/** The reason phrases of HTTP's status codes, as Node has them. Server threads. */

/**
 * Not imported: `node:http` as a module evaluates everything that it exports, including Node's WebSocket and undici. That costs
 * each starting thread 35 ms.
 */
export const { STATUS_CODES } = process.getBuiltinModule('node:http');
