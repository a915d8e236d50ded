/**
 * Memory that is shared with the capture process. Exchanges are sent as locations in it, so that bodies need not be
 * copied through a pipe. A process has one such memory of fixed length, and each server thread has a part of it. Its
 * pages take no RAM until they are written. `makeMappedMemory` on the main thread, `MemoryPart` on server threads,
 * `viewMappedMemory` in the capture process.
 */
import { closeSync } from 'node:fs';
import { memoryEngine } from '../../native/memory-engine.ts';

/** Size of a slab, the memory into which a server thread writes exchanges for the capture writer. */
export const CAPTURE_SLAB_BYTES = 4 << 20;
/**
 * Length of the memory that this process and the capture process map: twice GW_MAX_QUEUE_BYTES, plus these spare bytes
 * for each server thread, up to the maximum. If less than the minimum is available, there is no such memory. Data that
 * does not fit is sent to the capture process through a pipe.
 */
const CAPTURE_MAPPED_SPARE_BYTES = 64 << 20;
const CAPTURE_MAPPED_BYTES_MAX = 2 ** 32;
const CAPTURE_MAPPED_BYTES_MIN = 32 << 20;

/**
 * Largest page size of any system. The buffer is longer than the memory by this much, because the memory replaces
 * whole pages of the buffer.
 */
const PAGE_BYTES_MAX = 64 << 10;

/** The memory in the form in which other threads of the process receive it: plain data. */
export interface MappedMemory {
  descriptor: number;
  /** The buffer that contains the memory; it begins at a page within the buffer. */
  buffer: SharedArrayBuffer;
  from: number;
  bytes: number;
}

/** What a process that inherits the descriptor needs to map the memory. */
export interface MappedMemoryPlace {
  bytes: number;
}

/**
 * Creates the memory. The system counts the whole memory as used. If the machine has too little, tries half the size
 * again and again, down to the minimum.
 * @param queueBytes GW_MAX_QUEUE_BYTES: maximum bytes of bodies in the memory
 * @param servers number of server threads that share it
 * @returns null if the system does not support such memory or has too little; bodies are then sent through a pipe
 */
export function makeMappedMemory(queueBytes: number, servers: number): MappedMemory | null {
  // Twice the bytes, because a body's cell may be twice as long as the body.
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
    // The machine does not have that much memory.
    return null;
  }
}

/** Unmaps the memory. This process must not use it afterwards; a late read returns zeros. */
export function closeMappedMemory({ descriptor, buffer }: MappedMemory): void {
  memoryEngine.unmapMemory(new Uint8Array(buffer));
  closeSync(descriptor);
}

/**
 * Maps the memory in a process that has inherited the descriptor. The mapping is read-only, because the service
 * forwards traffic from this memory. A write would crash the process.
 * @throws Error if it cannot be mapped
 */
export function viewMappedMemory(descriptor: number, { bytes }: MappedMemoryPlace): Uint8Array {
  const mapped = mapInto(descriptor, bytes, 0);
  if (mapped === null) throw new Error('the memory of captured bodies cannot be mapped');
  return new Uint8Array(mapped.buffer, mapped.from, bytes);
}

/**
 * Share of a part that is kept for slabs, at most CAPTURE_MAPPED_SPARE_BYTES: without slabs in the memory, batches would
 * be sent through the pipe.
 */
const SLABS_SHARE = 1 / 4;

/** A server thread's part. Runs of cells are cut from its beginning, slabs from its end. */
export class MemoryPart {
  readonly #mapped: MappedMemory;
  /** Where cells end at the latest. */
  readonly #cellsEnd: number;
  /** The range that is not cut yet. */
  #next: number;
  #end: number;
  /** Free ranges, by their length. */
  readonly #free = new Map<number, number[]>();

  constructor(mapped: MappedMemory, server: number, servers: number) {
    this.#mapped = mapped;
    const share = floorTo(mapped.bytes / servers, CAPTURE_SLAB_BYTES);
    this.#next = server * share;
    this.#end = this.#next + share;
    const spare = Math.min(CAPTURE_MAPPED_SPARE_BYTES, share * SLABS_SHARE);
    this.#cellsEnd = this.#end - floorTo(spare, CAPTURE_SLAB_BYTES);
  }

  /**
   * Takes a range.
   * @param bytes CAPTURE_SLAB_BYTES for a slab; another multiple of the page size for cells
   * @returns null if the part, or what cells may use of it, is used up
   */
  take(bytes: number): Uint8Array | null {
    const at = this.#free.get(bytes)?.pop() ?? this.#cut(bytes);
    return at === null ? null : new Uint8Array(this.#mapped.buffer, this.#mapped.from + at, bytes);
  }

  #cut(bytes: number): number | null {
    const isSlab = bytes === CAPTURE_SLAB_BYTES;
    const end = isSlab ? this.#end : Math.min(this.#end, this.#cellsEnd);
    if (this.#next + bytes > end) return null;
    if (isSlab) {
      this.#end -= bytes;
      return this.#end;
    }
    const at = this.#next;
    this.#next += bytes;
    return at;
  }

  /** Returns a range, and its pages to the system. No process may read it afterwards. */
  give(run: Uint8Array): void {
    const at = run.byteOffset - this.#mapped.from;
    memoryEngine.emptyMemory(this.#mapped.descriptor, at, run.length);
    const free = this.#free.get(run.length);
    if (free === undefined) this.#free.set(run.length, [at]);
    else free.push(at);
  }

  /** Returns the offset of these bytes in the mapped memory; −1 if they are in other memory. */
  find(bytes: Uint8Array): number {
    return bytes.buffer === this.#mapped.buffer ? bytes.byteOffset - this.#mapped.from : -1;
  }
}

function floorTo(bytes: number, unit: number): number {
  return Math.floor(bytes / unit) * unit;
}
