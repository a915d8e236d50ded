/**
 * Functions of the socket addon (`compile.mjs`), which Node lacks or performs slowly. If the addon is missing, sockets
 * behave as in Node, and data is sent only through Node's streams. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

interface SocketEngine {
  /**
   * Sends, in one system call, as many bytes as the system accepts at once. Call this only while the socket's stream
   * has no pending data.
   * @param descriptor file descriptor of a connected, open socket
   * @param head Latin-1 text of at most `SEND_HEAD_BYTES` characters
   * @param body is sent after the head
   * @returns number of bytes sent, of head and body together; if the socket has failed, the negative error number of
   *   the system, once
   * @throws {RangeError} for an invalid descriptor, or a head that is too long
   */
  sendNow(descriptor: number, head: string, body: Uint8Array): number;

  /**
   * From now on, the HTTP library uses the addon to accept, read and close connections on ports that are opened with
   * `openPort` (`sockets/connections.h`). The library may be loaded later. It does not get bytes that two parsers could
   * read differently. Instead it gets a request for `/MARKnn` or, within a chunked body, a chunk `MARKnn`. `MARK` is a
   * secret, and `nn` is the reason (`Refusal` in `sockets/framing.h`).
   * @returns the mark, the same for every call; '' if the system does not support this
   */
  watchConnections(): string;
  /**
   * From now on, the bytes of TLS connections are checked as well, after decryption (`sockets/plaintext.h`). Call this
   * after `watchConnections` and before the library creates its listeners.
   * @returns 1, or 0 if the library's decryption function is not found
   */
  watchSecureConnections(): number;
  /**
   * Declares that this thread listens on the port.
   * @param refusal complete response, in Latin-1, for a client whose connection exceeds a cap
   * @param kind the sum of the applicable values of `PORT_KINDS`
   */
  openPort(port: number, refusal: string, kind: number): void;
  closePort(port: number): void;
  /**
   * Limits the number of connections of all ports together, and of each client address (IPv6: each /64); 0: no limit.
   * @param isNearCapped 1: the second limit also applies to loopback and private networks
   */
  capConnections(total: number, byAddress: number, isNearCapped: number): void;
  /**
   * Resumes this thread's listeners that stopped accepting because no file descriptor was free. They also resume when a
   * connection of their thread closes.
   * @returns how many had stopped
   */
  resumeAccepting(): number;
  /**
   * Looks up the head of the request that the library is delivering (`sockets/heads.h`). Call this for each request
   * before anything else, so that a later request cannot get the head of an earlier one.
   * @returns the slot of a known head; `UNKNOWN_HEAD` if the head is unknown and may be remembered; `PASSED_HEAD` if
   *   the head is unknown and must not be remembered; `RAW_HEAD` if `rawHead` returns the head
   */
  takeHead(): number;
  /**
   * Returns the head for which `takeHead` has just returned `RAW_HEAD`. That head has header values with bytes above
   * 127, which the library would remove from the beginning and end of a value.
   * @returns the head with the request line, in Latin-1
   */
  rawHead(): string;
  /**
   * Remembers the head for which `takeHead` has just returned `UNKNOWN_HEAD`.
   * @param slot below `HEAD_SLOTS`; a head that is already in the slot is replaced
   * @param varying numbers of the header lines whose value may differ in the next request, in ascending order
   * @param lines number of header lines
   * @returns 1 if the head was stored; 0 if it was not stored, and the slot is empty
   */
  rememberHead(slot: number, varying: Uint32Array, lines: number): number;
  /** Counts a request that was ended because its body arrived too slowly. */
  countSlowUpload(): void;
  /** Writes the counters of the whole process to a list, in the order of `COUNTERS`. */
  countConnections(into: Float64Array): void;
  /** Reads the maximum number of file descriptors of this process; 0 if unknown. */
  readDescriptorLimit(): number;
}

export const PORT_KINDS = {
  /** The port uses TLS. */
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

/** The counters of `countConnections`. `open` is the present number; the others count since the start. */
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

/** The functions in use: the addon's if it could be loaded, otherwise the fallback's. */
export const socketEngine: SocketEngine = {
  ...(loadFunctions<SocketEngine>('sockets.node', Object.keys(socketFallback)) ?? socketFallback),
};
