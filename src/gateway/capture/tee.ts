/**
 * Copies bodies for capture as they pass, into memory that the writer also sees. It holds nothing that came from a
 * socket, and a request in one piece is forwarded out of its copy. Two bounds hold, one for each body and one for all open
 * exchanges together. Beyond the first the copy is cut and marked; beyond the second capture gives the largest open exchange up, so
 * that uploads which stand still do not keep all others out. Traffic notices neither. Server threads.
 */

import { CUT_BODY_BYTES } from '../../limits.ts';

/** Bytes that all open and queued exchanges of a server thread hold together. */
export interface ByteBudget {
  /** From here on a copy is a large one, of which the budget is told. */
  readonly large_bytes: number;
  /**
   * Takes bytes from the budget, for this exchange. The largest of the large ones has to make room.
   * @returns false when they are not there; nothing is taken then
   */
  reserve(bytes: number, tee: Tee): boolean;
  release(bytes: number): void;
  /** This open exchange holds much, and gives it up when others need room. */
  enlist(tee: Tee): void;
  /** It holds nothing any more, or is not open. */
  delist(tee: Tee): void;
}

/** Where the copies are; the writer's client has it (`actors/capture-writer/body-memory.ts`). */
export interface BodyMemory {
  /** @returns a cell for so many bytes, or the longest for their beginning */
  take(bytes: number): Uint8Array;
  /** `into.set(from, at)`, quickly. */
  copy(from: Uint8Array, into: Uint8Array, at: number): void;
  /** The same, where nobody on this thread looks at the copy. */
  copyAside(from: Uint8Array, into: Uint8Array, at: number): void;
  give(cell: Uint8Array): void;
}

/** A body of announced length gets a cell for all of it once so much of it is there: an announcement alone gets nothing. */
const ANNOUNCED_SHARE = 1 / 8;
/** Announced bodies that are longer do not lie in one piece. */
const WHOLE_BYTES_MAX = 1 << 20;
/** Shorter requests are not forwarded out of their cells: a second copy of them costs next to nothing. */
export const LENT_BYTES_MIN = 24 << 10;
/** What lies in a cell that turns out too short is moved, so that the whole is in one piece; not more of it than this. */
const MOVED_BYTES_MAX = 64 << 10;
/** Of a body of unknown length: pieces, until it is known to be a long one. */
const PIECE_BYTES = 64 << 10;
const LONG_BYTES = 512 << 10;

/** One side's body: how long it was, and as much of it as is kept. */
class BodyCopy {
  /** Filled to the end but for the last. */
  cells: Uint8Array[] = [];
  /** In the last cell. */
  #used = 0;
  /** On the wire. */
  bytes = 0;
  kept_bytes = 0;
  /** Its length, as announced; 0 when nobody has. */
  announced_bytes = 0;
  /** There is one cell, with room for all that was announced. */
  #isWhole = false;

  /** Takes a copy. */
  append(bytes: Uint8Array, memory: BodyMemory): void {
    let rest = bytes;
    for (;;) {
      const cell = this.cells.at(-1);
      const room = cell === undefined ? 0 : cell.length - this.#used;
      if (cell !== undefined && room >= rest.length) {
        memory.copyAside(rest, cell, this.#used);
        this.#used += rest.length;
        break;
      }
      if (this.#canBeWhole(bytes.length) && this.#beginWhole(memory)) continue;
      if (cell !== undefined && room > 0) {
        memory.copyAside(rest.subarray(0, room), cell, this.#used);
        rest = rest.subarray(room);
      }
      // A long body takes large cells, a short one small ones, and it is not known which this will be.
      const { kept_bytes } = this;
      const wanted = kept_bytes >= LONG_BYTES ? WHOLE_BYTES_MAX : Math.min(kept_bytes, PIECE_BYTES);
      this.cells.push(memory.take(Math.max(rest.length, wanted)));
      this.#used = 0;
    }
    this.kept_bytes += bytes.length;
  }

  /**
   * Takes a copy in a cell that all of the body stays in.
   * @returns the copy; null when there is no such cell, and nothing was taken
   */
  appendWhole(bytes: Uint8Array, memory: BodyMemory): Buffer | null {
    if (!this.#isWhole && !(this.#canBeWhole(bytes.length) && this.#beginWhole(memory))) return null;
    const cell = this.cells[0]!;
    if (cell.length - this.#used < bytes.length) return null;
    const copy = Buffer.from(cell.buffer, cell.byteOffset + this.#used, bytes.length);
    memory.copy(bytes, cell, this.#used);
    this.#used += bytes.length;
    this.kept_bytes += bytes.length;
    return copy;
  }

  /** @param more bytes that come now */
  #canBeWhole(more: number): boolean {
    const there = this.kept_bytes + more;
    const announced = this.announced_bytes;
    return announced >= there && announced <= WHOLE_BYTES_MAX && announced * ANNOUNCED_SHARE <= there;
  }

  /** Goes on in a cell for all of the body. @returns false when too much of it lies elsewhere */
  #beginWhole(memory: BodyMemory): boolean {
    const before = this.cells[0];
    if (this.cells.length > 1 || this.#used > MOVED_BYTES_MAX) return false;
    const cell = memory.take(this.announced_bytes);
    if (before !== undefined) {
      memory.copy(before.subarray(0, this.#used), cell, 0);
      memory.give(before);
    }
    this.cells = [cell];
    this.#isWhole = true;
    return true;
  }

  /** The kept bytes in buffers of their own. */
  copyOut(): Buffer[] {
    const last = this.cells.length - 1;
    return this.cells.map((cell, i) => Buffer.from(i === last ? cell.subarray(0, this.#used) : cell));
  }
}

export class Tee {
  readonly request = new BodyCopy();
  readonly response = new BodyCopy();
  truncated = false;
  /** The budget ran out: this exchange will not be captured. */
  lost = false;
  #isClosed = false;
  #isEnlisted = false;
  /** The cell that somebody else looks at, too, for as long as the exchange is open: it is not given back before. */
  #lent: Uint8Array | null = null;
  readonly #budget: ByteBudget;
  readonly #memory: BodyMemory;
  readonly #bodyBytesMax: number;

  /** @param bodyBytesMax most that is kept of each body */
  constructor(budget: ByteBudget, memory: BodyMemory, bodyBytesMax: number) {
    this.#budget = budget;
    this.#memory = memory;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /** Bytes that the two copies hold. */
  get kept_bytes(): number {
    return this.request.kept_bytes + this.response.kept_bytes;
  }

  /** Takes a copy of a chunk. */
  add(side: BodyCopy, chunk: Uint8Array): void {
    if (this.#isClosed) return;
    side.bytes += chunk.length;
    if (this.lost) return;
    const room = this.#mostOf(side) - side.kept_bytes;
    const kept = chunk.length <= room ? chunk : chunk.subarray(0, Math.max(room, 0));
    if (kept.length < chunk.length) this.truncated = true;
    if (kept.length === 0) return;
    if (!this.#budget.reserve(kept.length, this)) {
      this.giveUp();
      return;
    }
    side.append(kept, this.#memory);
    if (side.kept_bytes < this.#budget.large_bytes || this.#isEnlisted) return;
    this.#isEnlisted = true;
    this.#budget.enlist(this);
  }

  /** Nobody can read the whole of a body that is announced to be longer than what is kept, so little of it is. */
  #mostOf({ announced_bytes }: BodyCopy): number {
    const most = this.#bodyBytesMax;
    return announced_bytes > most ? Math.min(most, CUT_BODY_BYTES) : most;
  }

  /**
   * Takes a copy of a chunk of the request and lends it out: it stays as it is until `close`.
   * @returns the copy; null when this body is not copied in one piece, and nothing was done
   */
  lend(chunk: Uint8Array): Buffer | null {
    const { request } = this;
    const { announced_bytes } = request;
    if (this.#isClosed || this.lost) return null;
    if (announced_bytes > this.#bodyBytesMax) return null;
    if (!this.#budget.reserve(chunk.length, this)) {
      this.giveUp();
      return null;
    }
    const copy = request.appendWhole(chunk, this.#memory);
    if (copy === null) {
      this.#budget.release(chunk.length);
      return null;
    }
    request.bytes += chunk.length;
    this.#lent = request.cells[0]!;
    return copy;
  }

  /**
   * The exchange is over, nobody looks at what was lent any more, and its cells are somebody else's: whatever comes now must
   * not be written into them.
   */
  close(): void {
    this.#isClosed = true;
    this.#delist();
  }

  /** Forgets the copies and gives their bytes back. */
  release(): void {
    this.#budget.release(this.kept_bytes);
    for (const side of [this.request, this.response]) {
      for (const cell of side.cells) if (cell !== this.#lent) this.#memory.give(cell);
      side.cells = [];
      side.kept_bytes = 0;
    }
    if (this.#lent === null || !this.#isClosed) return;
    this.#memory.give(this.#lent);
    this.#lent = null;
  }

  /** This exchange will not be captured. */
  giveUp(): void {
    this.lost = true;
    this.#delist();
    this.release();
  }

  #delist(): void {
    if (!this.#isEnlisted) return;
    this.#isEnlisted = false;
    this.#budget.delist(this);
  }
}
