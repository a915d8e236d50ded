/**
 * Memory for the blocks of one batch that are stored as they are, used again for the next batch: to get megabytes from
 * the system for every batch and to give them back costs more than to fill them. Runs on the capture writer's actor
 * thread.
 */

/** A usual batch's worth. What one batch needs beyond it is allocated for that batch alone. */
const ARENA_BYTES = 6 << 20;

export class BlockArena {
  #memory: Buffer | null = null;
  #used = 0;

  /** Memory that is the caller's until the next `reset`. */
  readonly take = (bytes: number): Buffer => {
    this.#memory ??= Buffer.allocUnsafeSlow(ARENA_BYTES);
    const end = this.#used + bytes;
    if (end > ARENA_BYTES) return Buffer.allocUnsafe(bytes);
    const part = this.#memory.subarray(this.#used, end);
    this.#used = end;
    return part;
  };

  /** All that was taken may be used anew. */
  reset(): void {
    this.#used = 0;
  }
}
