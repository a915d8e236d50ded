/**
 * Memory that two processes see, which JavaScript cannot make: the addon where it was compiled (`compile.mjs`); without it, or
 * on a system without Linux's memfd, bytes go from one process to another through a pipe. Any thread.
 *
 * It replaces the pages of a SharedArrayBuffer by those of the memory, in place. So each thread of the process sees it without
 * a mapping per thread, the collector neither counts nor moves it, and all other code sees an ordinary buffer.
 */
import { loadFunctions } from './load-functions.ts';

interface MemoryEngine {
  /**
   * Makes a memory, empty and of this length for ever. Pages that were never written take no room.
   * @param bytes whole pages
   * @returns a descriptor, which no process that is started inherits unless it is handed on; where there is no such memory to be
   * had the system's error number, negative
   * @throws {RangeError} for anything but whole pages
   */
  makeMemory(bytes: number): number;

  /**
   * Puts a memory in the place of a buffer's whole pages, from the first on; what was there is gone.
   * @param into of a SharedArrayBuffer that only the caller knows yet; the memory fits if it is one page longer
   * @param mayWrite 0: writing to it ends the process
   * @returns where in `into` the memory begins; where that failed the system's error number, negative
   */
  mapMemory(descriptor: number, into: Uint8Array, mayWrite: 0 | 1): number;

  /** Gives a buffer empty private pages again; call it before the buffer is dropped. @returns 0, or an error number, negative */
  unmapMemory(into: Uint8Array): number;

  /** Gives pages of a memory back to the system; they are empty then. @returns 0, or an error number, negative */
  emptyMemory(descriptor: number, from: number, bytes: number): number;
}

/** What anybody may be told of a system without such memory; ENOSYS of most of them. */
const NOT_THERE = -38;

const memoryFallback: MemoryEngine = {
  makeMemory: () => NOT_THERE,
  mapMemory: () => NOT_THERE,
  unmapMemory: () => 0,
  emptyMemory: () => NOT_THERE,
};

/** What runs here. */
export const memoryEngine: MemoryEngine = {
  ...(loadFunctions<MemoryEngine>('memory.node', ['makeMemory', 'mapMemory', 'unmapMemory', 'emptyMemory']) ??
    memoryFallback),
};
