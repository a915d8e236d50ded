/**
 * Options of sockets that nothing in JavaScript reaches: the addon where it was compiled (`compile.mjs`); without it they
 * stay as the system has them. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

export interface SocketEngine {
  /**
   * Limits how much the system keeps of what has arrived and was not read yet (SO_RCVBUF), for those sockets of a port whose
   * buffer has grown beyond that: it grows with its reader's pace, to megabytes.
   * @param port of this process's end
   * @param bytes the system takes about twice as much
   * @returns sockets that were limited
   * @throws {RangeError} for what is no port or no number of bytes
   */
  limitReceiveBuffers(port: number, bytes: number): number;
}

const socketTwin: SocketEngine = { limitReceiveBuffers: () => 0 };

/** What runs here. */
export const socketEngine: SocketEngine =
  loadFunctions<SocketEngine>('sockets.node', ['limitReceiveBuffers']) ?? socketTwin;
