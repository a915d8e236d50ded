/**
 * Memory that two processes share, which JavaScript cannot create, and memory that the C library can return to the
 * system: the addon if it was compiled (`compile.mjs`). Without it, or on a system without Linux's memfd, data goes
 * between processes through a pipe. Any thread.
 * The addon replaces the pages of a SharedArrayBuffer by those of the memory, in place. So all threads of the process
 * see the memory without their own mappings, the garbage collector neither counts nor moves it, and all other code
 * sees an ordinary buffer.
 */
import { loadFunctions } from './load-functions.ts';

interface MemoryEngine {
  /**
   * Creates an empty memory of fixed length. Pages that were never written take no RAM.
   * @param bytes whole pages
   * @returns a descriptor, which child processes inherit only if it is passed to them; on failure the system's error
   *   number, negative
   * @throws {RangeError} for anything but whole pages
   */
  makeMemory(bytes: number): number;

  /**
   * Maps a memory over a buffer's whole pages, from the first on. The buffer's content is lost.
   * @param into of a SharedArrayBuffer that only the caller knows yet; must be one page longer than the memory
   * @param mayWrite 0: writing to it ends the process
   * @returns the offset in `into` at which the memory begins; on failure the system's error number, negative
   */
  mapMemory(descriptor: number, into: Uint8Array, mayWrite: 0 | 1): number;

  /**
   * Gives a buffer empty private pages again. Call it before the buffer is dropped. @returns 0, or an error number,
   * negative
   */
  unmapMemory(into: Uint8Array): number;

  /** Returns pages of a memory to the system; they are then empty. @returns 0, or an error number, negative */
  emptyMemory(descriptor: number, from: number, bytes: number): number;

  /**
   * Returns to the system the pages that the C library keeps for later allocations. Other threads that allocate wait
   * for it, some milliseconds.
   * @param kept bytes that stay at the end of the heap
   * @returns 1 if pages were returned; 0 if there were none, or with another C library than
   * glibc
   */
  trimMemory(kept: number): number;
}

/** The result on a system without such memory: ENOSYS on most systems. */
const NOT_THERE = -38;

const memoryFallback: MemoryEngine = {
  makeMemory: () => NOT_THERE,
  mapMemory: () => NOT_THERE,
  unmapMemory: () => 0,
  emptyMemory: () => NOT_THERE,
  trimMemory: () => 0,
};

/** The functions in use: the addon's if it could be loaded, otherwise ones that only report failure. */
export const memoryEngine: MemoryEngine = {
  ...(loadFunctions<MemoryEngine>('memory.node', [
    'makeMemory',
    'mapMemory',
    'unmapMemory',
    'emptyMemory',
    'trimMemory',
  ]) ?? memoryFallback),
};
