/**
 * Memory that its owner keeps only because using it again is faster than allocating it: free cells, buffers between two
 * writes, decompressed blocks. Owners announce themselves, and a thread that has become quiet asks them to give it back
 * (threads/quiet-watch.ts). Each thread has its own list. Any thread.
 */

interface SpareMemoryOwner {
  /**
   * Drops memory that holds nothing, or only what can be read again quickly. Called between two tasks of the thread.
   */
  releaseSpare(): void;
}

const owners = new Set<WeakRef<SpareMemoryOwner>>();
const collected = new FinalizationRegistry<WeakRef<SpareMemoryOwner>>((owner) => owners.delete(owner));

/** Adds an owner to the list of this thread. The list does not keep the owner alive. */
export function announceSpare(owner: SpareMemoryOwner): void {
  const reference = new WeakRef(owner);
  owners.add(reference);
  collected.register(owner, reference);
}

/** Asks all owners of this thread to give their spare memory back. */
export function releaseAllSpare(): void {
  for (const reference of owners) reference.deref()?.releaseSpare();
}
