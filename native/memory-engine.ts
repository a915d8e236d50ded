/**
 * Functions of the memory addon (`compile.mjs`). They create memory that two processes share, which JavaScript cannot
 * do, and return free memory to the system. If the addon is missing or the system has no memfd (only Linux has it),
 * data goes between processes through a pipe. Any thread. The addon maps the shared memory over the pages of a
 * SharedArrayBuffer. So all threads of the process can use the memory through that buffer, and the garbage collector
 * neither counts nor moves it.
 */
import { loadFunctions } from './load-functions.ts';

interface MemoryEngine {
  /**
   * Creates an empty memory of fixed length. Pages that were never written take no RAM.
   * @param bytes length, a multiple of the page size
   * @returns a descriptor, which child processes inherit only if it is passed to them; on failure the negative error
   *   number of the system
   * @throws {RangeError} if `bytes` is not a multiple of the page size
   */
  makeMemory(bytes: number): number;

  /**
   * Maps a memory over a buffer's whole pages, from the first on. The buffer's content is lost.
   * @param into a view of a SharedArrayBuffer that no other code uses yet; must be one page longer than the memory
   * @param mayWrite 1: the process may write to the memory; 0: a write crashes the process
   * @returns the offset in `into` at which the memory begins; on failure the negative error number of the system
   */
  mapMemory(descriptor: number, into: Uint8Array, mayWrite: 0 | 1): number;

  /**
   * Replaces the mapped memory by empty private pages. Call this before the last reference to the buffer is dropped.
   * @returns 0, or a negative error number
   */
  unmapMemory(into: Uint8Array): number;

  /** Returns pages of a memory to the system; they then contain zeros. @returns 0, or a negative error number */
  emptyMemory(descriptor: number, from: number, bytes: number): number;

  /**
   * Returns to the system the free pages that the C library keeps for later allocations. Threads that allocate
   * meanwhile wait, usually for some milliseconds.
   * @param kept number of free bytes to keep at the end of the heap
   * @returns 1 if pages were returned; 0 if there were none, or if the C library is not glibc
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

/** The functions in use: the addon's if it could be loaded, otherwise functions that only report failure. */
export const memoryEngine: MemoryEngine = {
  ...(loadFunctions<MemoryEngine>('memory.node', [
    'makeMemory',
    'mapMemory',
    'unmapMemory',
    'emptyMemory',
    'trimMemory',
  ]) ?? memoryFallback),
};
