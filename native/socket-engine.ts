/**
 * What JavaScript has no way, or a long one, to ask of sockets: the addon where it was compiled (`compile.mjs`); without it
 * they stay as the system has them, and are written to by the stream alone. Any thread.
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

  /**
   * Sends what the system takes at once, in one call of it. Only while nothing waits in the socket's stream.
   * @param descriptor of a connected socket that is open
   * @param head one byte a character, at most `SEND_HEAD_BYTES` of them
   * @param body what comes behind it
   * @returns bytes that were taken, of both; where the socket has failed the system's error number, negative: it tells once
   * @throws {RangeError} for what is no descriptor, and for too long a head
   */
  sendNow(descriptor: number, head: string, body: Uint8Array): number;
}

export const SEND_HEAD_BYTES = 16 << 10;

const socketTwin: SocketEngine = { limitReceiveBuffers: () => 0, sendNow: () => 0 };

/** What runs here. */
export const socketEngine: SocketEngine = {
  ...(loadFunctions<SocketEngine>('sockets.node', ['limitReceiveBuffers', 'sendNow']) ?? socketTwin),
};
