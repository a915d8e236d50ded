/**
 * A Link over a MessagePort. Frames are encoded one after another into a slab, and bodies are copied in once. The
 * slab is sent to the other thread at the end of the tick, or when it is full: a small batch as a copy, a larger one by
 * transferring the slab's memory. The receiver reads bodies as views of the memory that it received. Any thread.
 *
 * A slab: [u32 bytes used], then frames: [u32 head bytes][u32 bodies][u32 length of each body][head][bodies]. A head is
 * the frame as a msgpack array, its type first.
 *
 * If all bodies of a frame are in shared memory, they are not copied: the memory is sent with the slab, and the frame
 * holds the location of each body. [u32 head bytes][u32 bodies, with bit 31 set][u32 memory index, u32 offset, u32
 * length of each body][head]. The sender must not change such bodies until it has the answer, and must bound them
 * itself: they do not count as bytes in flight.
 *
 * Tells without bodies are not urgent, because no caller waits for them. They are sent with the next frame of another
 * kind, or alone after a short delay, because each batch wakes the other thread, which costs more than reading a few
 * frames.
 *
 * Message ports have no back-pressure. So for each direction, shared memory has a counter of the bytes that the
 * receiver has read. The sender refuses frames while too many bytes are in flight.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Packr } from 'msgpackr';
import { assert } from '../std/assert.ts';
import { RingQueue } from '../std/ring-queue.ts';
import { type Frame, type Link, type LinkStats, packPayload } from './link.ts';

/** One end of a link while it is sent to its thread: `port` must be in the transfer list. */
export interface LinkEnd {
  port: MessagePort;
  /** Bytes read so far by the receiver of each direction, modulo 2^32. */
  taken: SharedArrayBuffer;
  /** Which of the two ends this is. */
  side: 0 | 1;
  max_in_flight_bytes: number;
}

/** Default bound on the bytes in flight in one direction. */
const DEFAULT_MAX_IN_FLIGHT_BYTES = 256 * 1024 * 1024;

const SLAB_BYTES = 64 * 1024;
/**
 * A batch of at most this size is copied and the slab is kept, because transferring the slab costs more than copying few
 * bytes.
 */
const COPY_BELOW_BYTES = 8 * 1024;
/** Maximum delay of a tell that waits for other frames. */
const TELL_DELAY_MS = 2;
/** After this time, a tick reads no further slab, because the thread may also serve sockets. */
const TURN_BUDGET_MS = 4;
/**
 * Upper limit of that bound. The bytes in flight are the difference of two 32-bit counters, read as a signed number; a
 * larger difference would look negative.
 */
const IN_FLIGHT_CEILING_BYTES = 2 ** 31 - 1;

const TYPES = [
  'ask',
  'tell',
  'reply',
  'error',
  'subscribe',
  'unsubscribe',
  'publish',
  'fence',
  'fenced',
] as const;
const TYPE_NUMBER = Object.fromEntries(TYPES.map((type, i) => [type, i])) as Record<Frame['type'], number>;
const NO_BODIES: readonly Uint8Array[] = Object.freeze([]);
/** Flag in a frame's number of bodies: the bodies are in shared memory. */
const SHARED_BODIES = 2 ** 31;
const SHARED_PLACE_BYTES = 12;

/** A slab whose frames have bodies in shared memory. */
interface SharingSlab {
  slab: ArrayBuffer;
  shared: SharedArrayBuffer[];
}

/**
 * Makes the two ends of a link.
 * @param maxInFlightBytes bound for each direction, in bytes
 */
export function createLinkEnds(maxInFlightBytes = DEFAULT_MAX_IN_FLIGHT_BYTES): [LinkEnd, LinkEnd] {
  assert(
    maxInFlightBytes > 0 && maxInFlightBytes <= IN_FLIGHT_CEILING_BYTES,
    `${maxInFlightBytes} bytes in flight`,
  );
  const { port1, port2 } = new MessageChannel();
  const taken = new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
  return [
    { port: port1, taken, side: 0, max_in_flight_bytes: maxInFlightBytes },
    { port: port2, taken, side: 1, max_in_flight_bytes: maxInFlightBytes },
  ];
}

/** A thread's end of a link. Starts receiving at once; set `onFrame` in the same tick. */
export class MessagePortLink implements Link {
  onFrame: (frame: Frame) => void = () => {};
  onClose: () => void = () => {};

  readonly #port: MessagePort;
  readonly #taken: Int32Array;
  readonly #mySide: number;
  readonly #maxInFlight: number;
  readonly #packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

  #slab: Buffer | null = null;
  #used = 0;
  /** Shared memory to send with the slab. */
  #shared: SharedArrayBuffer[] = [];
  #flushQueued = false;
  /** Sends delayed tells. */
  #tellTimer: NodeJS.Timeout | null = null;
  /** Whether the batch contains any frame other than tells without bodies. */
  #isUrgent = false;
  #closed = false;
  /** Bytes of the frames that `send` accepted, modulo 2^32, to compare with the other side's counter. */
  #sent = 0;

  /** Slabs that arrived while the tick's budget was used up; bounded by the sender's limit on bytes in flight. */
  #backlog: RingQueue<ArrayBuffer | SharingSlab> = new RingQueue(2 ** 30);
  #draining = false;
  #turnEndsAt = 0;

  #bytesSent = 0;
  #batchesSent = 0;
  #refused = 0;

  constructor(end: LinkEnd) {
    this.#port = end.port;
    this.#taken = new Int32Array(end.taken);
    this.#mySide = end.side;
    this.#maxInFlight = end.max_in_flight_bytes;
    this.#port.on('message', (slab: ArrayBuffer | SharingSlab) => this.#receive(slab));
    this.#port.on('close', () => this.#closeOnce());
  }

  send(frame: Frame): boolean {
    if (this.#closed) return false;
    const bodies = frame.type === 'ask' || frame.type === 'tell' ? frame.bodies : NO_BODIES;
    const head = this.#packr.pack(encodeHead(frame));
    const isShared = bodies.length > 0 && bodies.every((body) => body.buffer instanceof SharedArrayBuffer);
    let size = 8 + head.length + (isShared ? SHARED_PLACE_BYTES : 4) * bodies.length;
    if (!isShared) for (const body of bodies) size += body.length;
    const inFlight = this.#inFlight();
    // A frame larger than the bound may pass if nothing else is in flight.
    if (inFlight > 0 && inFlight + size > this.#maxInFlight) {
      this.#refused++;
      return false;
    }
    this.#write(head, bodies, isShared, size);
    this.#sent = (this.#sent + size) | 0;
    this.#bytesSent += size;
    if (this.#used >= SLAB_BYTES) this.#sendBatch();
    else if (frame.type === 'tell' && bodies.length === 0)
      this.#tellTimer ??= setTimeout(this.#sendTells, TELL_DELAY_MS);
    else {
      this.#isUrgent = true;
      if (this.#flushQueued) return true;
      this.#flushQueued = true;
      setImmediate(this.#flushLater);
    }
    return true;
  }

  flush(): void {
    if (this.#isUrgent) this.#sendBatch();
  }

  readonly #flushLater = (): void => {
    this.#flushQueued = false;
    this.flush();
  };

  readonly #sendTells = (): void => {
    this.#tellTimer = null;
    this.#sendBatch();
  };

  #sendBatch(): void {
    this.#isUrgent = false;
    const slab = this.#slab;
    const used = this.#used;
    if (slab === null || used === 0 || this.#closed) return;
    slab.writeUInt32LE(used, 0);
    this.#batchesSent++;
    this.#used = 0;
    if (used <= COPY_BELOW_BYTES && slab.length === SLAB_BYTES) {
      // The port copies the bytes again. For so few bytes, that is cheaper than detaching and transferring the slab.
      this.#post((slab.buffer as ArrayBuffer).slice(0, used), false);
      return;
    }
    this.#slab = null;
    this.#post(slab.buffer as ArrayBuffer, true);
  }

  #post(slab: ArrayBuffer, isTransferred: boolean): void {
    const transfers = isTransferred ? [slab] : [];
    if (this.#shared.length === 0) {
      this.#port.postMessage(slab, transfers);
      return;
    }
    const shared = this.#shared;
    this.#shared = [];
    this.#port.postMessage({ slab, shared } satisfies SharingSlab, transfers);
  }

  close(): void {
    if (this.#closed) return;
    this.#sendBatch();
    this.#port.close();
    this.#closeOnce();
  }

  stats(): LinkStats {
    return {
      bytes_sent: this.#bytesSent,
      batches_sent: this.#batchesSent,
      refused: this.#refused,
      bytes_in_flight: this.#closed ? 0 : this.#inFlight(),
    };
  }

  #inFlight(): number {
    return (this.#sent - Atomics.load(this.#taken, 1 - this.#mySide)) | 0;
  }

  #write(head: Uint8Array, bodies: readonly Uint8Array[], isShared: boolean, size: number): void {
    if (this.#slab !== null && this.#used > 0 && this.#used + size > this.#slab.length) {
      this.#sendBatch();
      // The unused rest of the slab was transferred too, unless the batch was small enough to be copied.
    }
    if (this.#slab === null || 4 + size > this.#slab.length) {
      // The slab is not from the shared pool, because it is transferred. It is not zeroed, because it is overwritten.
      this.#slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, 4 + size));
      this.#used = 0;
    }
    const slab = this.#slab;
    let at = this.#used === 0 ? 4 : this.#used;
    at = slab.writeUInt32LE(head.length, at);
    at = slab.writeUInt32LE(isShared ? bodies.length + SHARED_BODIES : bodies.length, at);
    if (isShared) {
      for (const body of bodies) {
        at = slab.writeUInt32LE(this.#shared.length, at);
        at = slab.writeUInt32LE(body.byteOffset, at);
        at = slab.writeUInt32LE(body.length, at);
        this.#shared.push(body.buffer as SharedArrayBuffer);
      }
      slab.set(head, at);
      this.#used = at + head.length;
      return;
    }
    for (const body of bodies) at = slab.writeUInt32LE(body.length, at);
    slab.set(head, at);
    at += head.length;
    for (const body of bodies) {
      slab.set(body, at);
      at += body.length;
    }
    this.#used = at;
  }

  #receive(slab: ArrayBuffer | SharingSlab): void {
    if (this.#closed) return;
    if (this.#backlog.size > 0 || this.#draining) {
      this.#backlog.push(slab);
      return;
    }
    // The first slab of a tick starts the tick's budget; the immediate that ends the tick resets it.
    if (this.#turnEndsAt === 0) {
      this.#turnEndsAt = performance.now() + TURN_BUDGET_MS;
      setImmediate(() => this.#nextTick());
    } else if (performance.now() > this.#turnEndsAt) {
      this.#backlog.push(slab);
      return;
    }
    this.#deliver(slab);
  }

  #nextTick(): void {
    this.#turnEndsAt = 0;
    if (this.#backlog.size === 0 || this.#closed) return;
    this.#turnEndsAt = performance.now() + TURN_BUDGET_MS;
    setImmediate(() => this.#nextTick());
    this.#draining = true;
    try {
      do this.#deliver(this.#backlog.shift()!);
      while (this.#backlog.size > 0 && !this.#closed && performance.now() < this.#turnEndsAt);
    } finally {
      this.#draining = false;
    }
  }

  #deliver(message: ArrayBuffer | SharingSlab): void {
    const buffer = message instanceof ArrayBuffer ? message : message.slab;
    const shared = message instanceof ArrayBuffer ? [] : message.shared;
    const slab = Buffer.from(buffer);
    const used = slab.readUInt32LE(0);
    let at = 4;
    while (at < used && !this.#closed) {
      const start = at;
      const headBytes = slab.readUInt32LE(at);
      const counted = slab.readUInt32LE(at + 4);
      let bodies = NO_BODIES;
      let headAt = at + 8;
      let end: number;
      if (counted >= SHARED_BODIES) {
        const views: Uint8Array[] = [];
        for (let i = SHARED_BODIES; i < counted; i++) {
          const memory = shared[slab.readUInt32LE(headAt)]!;
          views.push(new Uint8Array(memory, slab.readUInt32LE(headAt + 4), slab.readUInt32LE(headAt + 8)));
          headAt += SHARED_PLACE_BYTES;
        }
        bodies = views;
        end = headAt + headBytes;
      } else {
        headAt += 4 * counted;
        end = headAt + headBytes;
        if (counted > 0) {
          const views: Uint8Array[] = [];
          for (let i = 0; i < counted; i++) {
            const length = slab.readUInt32LE(at + 8 + 4 * i);
            views.push(new Uint8Array(buffer, end, length));
            end += length;
          }
          bodies = views;
        }
      }
      const head = this.#packr.unpack(slab, { start: headAt, end: headAt + headBytes }) as unknown[];
      at = end;
      Atomics.add(this.#taken, this.#mySide, end - start);
      this.onFrame(decodeHead(head, bodies));
    }
  }

  #closeOnce(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#slab = null;
    if (this.#tellTimer !== null) clearTimeout(this.#tellTimer);
    this.#backlog.clear();
    this.onClose();
  }
}

/** Writes the frame as an array, without its bodies. Unlike an object, an array needs no field names. */
function encodeHead(frame: Frame): unknown[] {
  const type = TYPE_NUMBER[frame.type];
  switch (frame.type) {
    case 'ask':
      return [
        type,
        frame.to.kind,
        frame.to.key,
        frame.name,
        packPayload(frame.payload),
        frame.id,
        frame.deadline_ms,
      ];
    case 'tell':
      return [type, frame.to.kind, frame.to.key, frame.name, packPayload(frame.payload)];
    case 'reply':
      return [type, frame.id, frame.value];
    case 'error':
      return [type, frame.id, frame.error];
    case 'subscribe':
    case 'unsubscribe':
      return [type, frame.topic];
    case 'publish':
      return [type, frame.topic, frame.payload];
    case 'fence':
    case 'fenced':
      return [type, frame.id];
  }
}

/**
 * Reads a frame that `encodeHead` has written. Both ends are the same program, so the layout is not
 * validated.
 */
function decodeHead(head: unknown[], bodies: readonly Uint8Array[]): Frame {
  const type = TYPES[head[0] as number];
  switch (type) {
    case 'ask':
      return {
        type,
        to: { kind: head[1] as string, key: head[2] as string },
        name: head[3] as string,
        payload: head[4],
        id: head[5] as number,
        deadline_ms: head[6] as number,
        bodies,
      };
    case 'tell':
      return {
        type,
        to: { kind: head[1] as string, key: head[2] as string },
        name: head[3] as string,
        payload: head[4],
        bodies,
      };
    case 'reply':
      return { type, id: head[1] as number, value: head[2] };
    case 'error':
      return { type, id: head[1] as number, error: head[2] as Extract<Frame, { type: 'error' }>['error'] };
    case 'subscribe':
    case 'unsubscribe':
      return { type, topic: head[1] as string };
    case 'publish':
      return { type, topic: head[1] as string, payload: head[2] };
    case 'fence':
    case 'fenced':
      return { type, id: head[1] as number };
    default:
      throw new TypeError(`unknown frame type ${String(head[0])}`);
  }
}
