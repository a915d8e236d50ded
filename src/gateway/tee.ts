/**
 * The copy that capture takes of the bodies that pass. The bytes are not copied here: chunks are kept by reference
 * until the exchange ends. What may be kept is bounded for each body and for all open exchanges together; beyond the
 * first bound the copy is cut and marked, beyond the second the exchange is given up. Traffic notices neither.
 * Front threads.
 */

/** Bytes that all open and queued exchanges of a front hold together. */
export interface ByteBudget {
  /** Takes bytes from the budget. @returns false when they are not there; nothing is taken then */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

/** One side's body: how long it was, and as much of it as is kept. */
export class BodyCopy {
  chunks: Uint8Array[] = [];
  /** On the wire. */
  bytes = 0;
  kept_bytes = 0;
}

export class Tee {
  readonly request = new BodyCopy();
  readonly response = new BodyCopy();
  truncated = false;
  /** The budget ran out: this exchange will not be captured. */
  lost = false;
  readonly #budget: ByteBudget;
  readonly #bodyBytesMax: number;

  /** @param bodyBytesMax most that is kept of each body */
  constructor(budget: ByteBudget, bodyBytesMax: number) {
    this.#budget = budget;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /** Bytes that the two copies hold. */
  get kept_bytes(): number {
    return this.request.kept_bytes + this.response.kept_bytes;
  }

  /** Takes note of a chunk, which must not change afterwards. */
  add(side: BodyCopy, chunk: Uint8Array): void {
    side.bytes += chunk.length;
    if (this.lost) return;
    const room = this.#bodyBytesMax - side.kept_bytes;
    const kept = chunk.length <= room ? chunk : chunk.subarray(0, Math.max(room, 0));
    if (kept.length < chunk.length) this.truncated = true;
    if (kept.length === 0) return;
    if (!this.#budget.reserve(kept.length)) {
      this.#giveUp();
      return;
    }
    side.chunks.push(kept);
    side.kept_bytes += kept.length;
  }

  /** Forgets the copies and gives their bytes back. */
  release(): void {
    this.#budget.release(this.kept_bytes);
    for (const side of [this.request, this.response]) {
      side.chunks = [];
      side.kept_bytes = 0;
    }
  }

  #giveUp(): void {
    this.lost = true;
    this.release();
  }
}
