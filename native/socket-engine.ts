/**
 * Socket functions that JavaScript lacks or performs slowly: the addon if it was compiled (`compile.mjs`). Without
 * it, sockets behave as in Node, and only Node's stream writes to them. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

interface SocketEngine {
  /**
   * Sends, in one system call, what the system accepts at once. Call it only while the socket's stream has no pending
   * data.
   * @param descriptor of a connected, open socket
   * @param head one byte per character, at most `SEND_HEAD_BYTES` of them
   * @param body follows the head
   * @returns number of bytes sent, of head and body together; if the socket has failed, the system's error number,
   *   negative, once
   * @throws {RangeError} for an invalid descriptor, or a head that is too long
   */
  sendNow(descriptor: number, head: string, body: Uint8Array): number;

  /**
   * From now on, the HTTP library uses the addon to accept, read and close connections on ports that are opened with
   * `openPort` (`sockets/connections.h`). The library may be loaded later. It never sees bytes that two parsers could
   * read differently. Instead it sees a request for `/MARKnn`, or, within a chunked body, a chunk `MARKnn`, where `nn`
   * is the reason (`sockets/framing.h`).
   * @returns the mark, the same for every call, which no client can know; '' if the system does not support it
   */
  watchConnections(): string;
  /**
   * Does the same for TLS connections, whose bytes are checked after decryption (`sockets/plaintext.h`). Call it after
   * `watchConnections`, and before the library creates its listeners.
   * @returns 1, or 0 if the library's decryption function is not found
   */
  watchSecureConnections(): number;
  /**
   * Declares that this thread listens on the port.
   * @param refusal the answer for a client whose connection exceeds a cap: a complete answer, one byte per character
   * @param kind the sum of the applicable values of `PORT_KINDS`
   */
  openPort(port: number, refusal: string, kind: number): void;
  closePort(port: number): void;
  /**
   * Limits the connections of all ports together, and those of one address (IPv6: of its /64); 0: no limit.
   * @param isNearCapped 1: the second limit also applies to loopback and private networks
   */
  capConnections(total: number, byAddress: number, isNearCapped: number): void;
  /**
   * Resumes this thread's listeners that stopped accepting because no descriptor was free. They also resume when a
   * connection of their thread closes.
   * @returns how many had stopped
   */
  resumeAccepting(): number;
  /**
   * Finds out whether the head of the request that the library is delivering is known (`sockets/heads.h`). Call it
   * first of all for each request, so that a later request cannot get the head of an earlier one.
   * @returns its slot; `UNKNOWN_HEAD` if it may be remembered; `PASSED_HEAD` if it may not; `RAW_HEAD` if `rawHead` has
   *   it
   */
  takeHead(): number;
  /**
   * The head for which `takeHead` has just returned `RAW_HEAD`: it has values with bytes above 127, which the library
   * removes at the beginning and end of a value.
   * @returns one byte per character, with the request line
   */
  rawHead(): string;
  /**
   * Remembers the head for which `takeHead` has just returned `UNKNOWN_HEAD`, in place of the slot's former one.
   * @param slot below `HEAD_SLOTS`
   * @param varying numbers of the header lines that may have another value next time, in ascending order
   * @param lines how many header lines there are
   * @returns 1, or 0: the slot is now empty
   */
  rememberHead(slot: number, varying: Uint32Array, lines: number): number;
  /** Counts a request that was ended because its body arrived too slowly. */
  countSlowUpload(): void;
  /** Writes the counters of the whole process to a list, in the order of `COUNTERS`. */
  countConnections(into: Float64Array): void;
  /** Most descriptors of this process; 0 if unknown. */
  readDescriptorLimit(): number;
}

export const PORT_KINDS = {
  /** Over TLS. */
  secure: 1,
  /**
   * A request that asks for WebSocket and announces no body gets two additional headers: the mark, and a length of
   * `SWITCHED_BYTES`. Everything that the client sends after the head then counts as its body. The additional length
   * header is removed from the answer.
   */
  switches_protocols: 2,
} as const;

export const UNKNOWN_HEAD = -1;
export const PASSED_HEAD = -2;
export const RAW_HEAD = -3;
export const HEAD_SLOTS = 256;

export const SWITCHED_BYTES = 999_999_999_999_999;

export const SEND_HEAD_BYTES = 16 << 10;

/** The counters of `countConnections`: open connections now, the others since the start. */
export const COUNTERS = [
  'open',
  'refused_total',
  'refused_address',
  'refused_framing',
  'accept_pauses',
  'slow_uploads',
] as const;

const socketFallback: SocketEngine = {
  sendNow: () => 0,
  watchConnections: () => '',
  watchSecureConnections: () => 0,
  openPort: () => {},
  closePort: () => {},
  capConnections: () => {},
  resumeAccepting: () => 0,
  takeHead: () => PASSED_HEAD,
  rawHead: () => '',
  rememberHead: () => 0,
  countSlowUpload: () => {},
  countConnections: () => {},
  readDescriptorLimit: () => 0,
};

/** What runs here. */
export const socketEngine: SocketEngine = {
  ...(loadFunctions<SocketEngine>('sockets.node', Object.keys(socketFallback)) ?? socketFallback),
};
