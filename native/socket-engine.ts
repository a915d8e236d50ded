/**
 * What JavaScript can do with sockets only slowly or not at all: the addon where it was compiled (`compile.mjs`). Without it
 * sockets stay as the system has them, and only Node's stream writes to them. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

interface SocketEngine {
  /**
   * Sends what the system takes at once, in one call of it. Only while nothing waits in the socket's stream.
   * @param descriptor of a connected socket that is open
   * @param head one byte a character, at most `SEND_HEAD_BYTES` of them
   * @param body what comes behind it
   * @returns bytes that were taken, of both; where the socket has failed the system's error number, negative: it tells once
   * @throws {RangeError} for what is no descriptor, and for too long a head
   */
  sendNow(descriptor: number, head: string, body: Uint8Array): number;

  /**
   * From now on the HTTP library, once it is loaded, accepts, reads and closes through us, on the ports that are opened
   * here (`sockets/connections.h`). What two parsers could read in two ways does not reach it: it gets a request for
   * `/MARKnn` instead, or within a body in chunks a chunk `MARKnn`, `nn` being the reason (`sockets/framing.h`).
   * @returns the mark, the same at every call, which no client can know; '' where the system lacks it
   */
  watchConnections(): string;
  /**
   * The same of connections over TLS, whose bytes are read once they are decrypted (`sockets/plaintext.h`). Behind
   * `watchConnections`, and before the library makes what listens.
   * @returns 1, or 0 where the library does not show where it decrypts
   */
  watchSecureConnections(): number;
  /**
   * This thread listens on a port of ours.
   * @param refusal what a client reads whose connection is one too many: a whole answer, one byte a character
   * @param kind the sum of what holds of `PORT_KINDS`
   */
  openPort(port: number, refusal: string, kind: number): void;
  closePort(port: number): void;
  /**
   * Caps the connections of all ports together, and those of one address (IPv6: of its /64); 0: no cap.
   * @param isNearCapped 1: the second holds for loopback and private networks, too
   */
  capConnections(total: number, byAddress: number, isNearCapped: number): void;
  /**
   * Where no descriptor was left, this thread's listeners have stopped accepting; here they try again. They do, too, when
   * a connection of their thread's closes.
   * @returns how many had stopped
   */
  resumeAccepting(): number;
  /** A request was ended since its body came too slowly. */
  countSlowUpload(): void;
  /** Puts the counters of the whole process into a list, in the order of `COUNTERS`. */
  countConnections(into: Float64Array): void;
  /** Descriptors that this process may have; 0 if unknown. */
  readDescriptorLimit(): number;
}

export const PORT_KINDS = {
  /** Over TLS. */
  secure: 1,
  /**
   * A request that asks for WebSocket, and announces no body, comes with two more headers behind its own: the mark, and a length
   * of `SWITCHED_BYTES`. All that the client sends then is its body, and an answer of that length has no such header.
   */
  switches_protocols: 2,
} as const;

export const SWITCHED_BYTES = 999_999_999_999_999;

export const SEND_HEAD_BYTES = 16 << 10;

/** What `countConnections` counts: open ones now, the others since the start. */
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
  countSlowUpload: () => {},
  countConnections: () => {},
  readDescriptorLimit: () => 0,
};

/** What runs here. */
export const socketEngine: SocketEngine = {
  ...(loadFunctions<SocketEngine>('sockets.node', Object.keys(socketFallback)) ?? socketFallback),
};
