/**
 * Memory that is shared with the capture process. Exchanges are sent as places in it, so no byte of a body goes through a pipe.
 * A process has one such memory of a fixed length, and each server thread has a part of it. Its pages take no room until
 * they are written to.
 * `makeMappedMemory` on the main thread, `MemoryPart` on server threads, `viewMappedMemory` in the capture process.
 */
import { closeSync } from 'node:fs';
import { memoryEngine } from '../../native/memory-engine.ts';

/** Size of a slab, the memory in which a server thread hands exchanges to the capture writer. It holds several batches. */
export const CAPTURE_SLAB_BYTES = 4 << 20;
/**
 * Size of the memory that the capture process maps too: twice GW_MAX_QUEUE_BYTES and the spare bytes for each server thread, up
 * to the maximum. Below the minimum it is not made. What finds no room in it goes to that process through a pipe.
 */
const CAPTURE_MAPPED_SPARE_BYTES = 64 << 20;
const CAPTURE_MAPPED_BYTES_MAX = 2 ** 32;
const CAPTURE_MAPPED_BYTES_MIN = 32 << 20;

/** The most that a page has anywhere: a buffer must be so much longer than the memory that takes the place of its pages. */
const PAGE_BYTES_MAX = 64 << 10;

/** As it is handed to other threads of the process: plain data. */
export interface MappedMemory {
  descriptor: number;
  /** Somewhere in it the memory begins. */
  buffer: SharedArrayBuffer;
  from: number;
  bytes: number;
}

/** What a process that inherits the descriptor has to know. */
export interface MappedMemoryPlace {
  bytes: number;
}

/**
 * Makes the memory; smaller where the machine has not as much, for it counts what might be used.
 * @param queueBytes GW_MAX_QUEUE_BYTES: what the bodies in it come to at most
 * @param server threads that share it
 * @returns null where the system has no such memory: bodies then go through a pipe
 */
export function makeMappedMemory(queueBytes: number, servers: number): MappedMemory | null {
  // A body lies in a cell that is up to twice as long, or longer.
  const wanted = Math.min(2 * queueBytes + servers * CAPTURE_MAPPED_SPARE_BYTES, CAPTURE_MAPPED_BYTES_MAX);
  for (let bytes = floorTo(wanted, CAPTURE_SLAB_BYTES); bytes >= CAPTURE_MAPPED_BYTES_MIN; ) {
    const made = tryMake(bytes);
    if (made !== null) return made;
    bytes = floorTo(bytes / 2, CAPTURE_SLAB_BYTES);
  }
  return null;
}

function tryMake(bytes: number): MappedMemory | null {
  const descriptor = memoryEngine.makeMemory(bytes);
  if (descriptor < 0) return null;
  const mapped = mapInto(descriptor, bytes, 1);
  if (mapped === null) closeSync(descriptor);
  return mapped === null ? null : { descriptor, ...mapped, bytes };
}

function mapInto(
  descriptor: number,
  bytes: number,
  mayWrite: 0 | 1,
): { buffer: SharedArrayBuffer; from: number } | null {
  try {
    const buffer = new SharedArrayBuffer(bytes + PAGE_BYTES_MAX);
    const from = memoryEngine.mapMemory(descriptor, new Uint8Array(buffer), mayWrite);
    return from < 0 ? null : { buffer, from };
  } catch {
    // So much is not there.
    return null;
  }
}

/** Unmaps the memory. This process may not use it afterwards; a late reader sees empty pages. */
export function closeMappedMemory({ descriptor, buffer }: MappedMemory): void {
  memoryEngine.unmapMemory(new Uint8Array(buffer));
  closeSync(descriptor);
}

/**
 * The memory as a process sees it that has inherited the descriptor. To write to it would end that process: what is forwarded
 * lies in it.
 * @throws Error where it cannot be mapped
 */
export function viewMappedMemory(descriptor: number, { bytes }: MappedMemoryPlace): Uint8Array {
  const mapped = mapInto(descriptor, bytes, 0);
  if (mapped === null) throw new Error('the memory of captured bodies cannot be mapped');
  return new Uint8Array(mapped.buffer, mapped.from, bytes);
}

/** A server thread's part. Bodies and batches are cut from runs of it. */
export class MemoryPart {
  readonly #mapped: MappedMemory;
  readonly #end: number;
  #next: number;
  /** Runs that were given back, by their length. */
  readonly #free = new Map<number, number[]>();

  constructor(mapped: MappedMemory, server: number, servers: number) {
    this.#mapped = mapped;
    const share = floorTo(mapped.bytes / servers, CAPTURE_SLAB_BYTES);
    this.#next = server * share;
    this.#end = this.#next + share;
  }

  /** @returns a run of so many bytes, whole pages; null when the part is used up */
  take(bytes: number): Uint8Array | null {
    const at = this.#free.get(bytes)?.pop() ?? this.#cut(bytes);
    return at === null ? null : new Uint8Array(this.#mapped.buffer, this.#mapped.from + at, bytes);
  }

  #cut(bytes: number): number | null {
    if (this.#next + bytes > this.#end) return null;
    const at = this.#next;
    this.#next += bytes;
    return at;
  }

  /** Gives a run back, and its pages to the system. No process may read it afterwards. */
  give(run: Uint8Array): void {
    const at = run.byteOffset - this.#mapped.from;
    memoryEngine.emptyMemory(this.#mapped.descriptor, at, run.length);
    const free = this.#free.get(run.length);
    if (free === undefined) this.#free.set(run.length, [at]);
    else free.push(at);
  }

  /** @returns where in the memory it lies; −1 for what does not */
  find(bytes: Uint8Array): number {
    return bytes.buffer === this.#mapped.buffer ? bytes.byteOffset - this.#mapped.from : -1;
  }
}

function floorTo(bytes: number, unit: number): number {
  return Math.floor(bytes / unit) * unit;
}
