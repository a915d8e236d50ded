/**
 * What JavaScript has no way, or a long one, to ask of sockets: the addon where it was compiled (`compile.mjs`); without it
 * they stay as the system has them, and are written to by the stream alone. Any thread.
 */
import { loadFunctions } from './load-functions.ts';

export interface SocketEngine {
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
   * @returns the mark, the same at every call, which nobody else can know; '' where this cannot be had
   */
  watchConnections(): string;
  /**
   * This thread listens on a port of ours.
   * @param refusal what a client reads whose connection is one too many: a whole answer, one byte a character
   */
  openPort(port: number, refusal: string): void;
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
  /** Descriptors that this process may have; 0 where nobody says. */
  readDescriptorLimit(): number;
}

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
