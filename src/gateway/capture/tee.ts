/**
 * Copies bodies for capture as they pass, into memory that the writer shares. Only a short body that arrived in one
 * chunk is not copied: a view of it is kept until the exchange is submitted. A longer request body that is copied in
 * one piece is forwarded from its copy. Two bounds hold: one for each body, and one for all open and queued exchanges
 * together. A body above the first bound is truncated and marked. When the second bound is reached, capture gives up
 * the largest open exchange, so that stalled uploads do not block the capture of all others. If no open exchange is
 * large, capture gives up the exchange that needs the room. Neither bound affects traffic. Server threads.
 */

/**
 * Maximum number of bytes that are captured of a body whose announced length exceeds
 * GW_MAX_CAPTURE_BYTES. They are enough to recognize the body.
 */
export const CUT_BODY_BYTES = 16 << 20;

/** Bytes that all open and queued exchanges of a server thread hold together. */
export interface ByteBudget {
  /** Copies of at least this size are enlisted, and may be given up. */
  readonly large_bytes: number;
  /**
   * Reserves bytes for this exchange. While there is too little room, capture gives up the largest open exchange.
   * @returns false, without a reservation, when this exchange is the largest, or no large exchange is open
   */
  reserve(bytes: number, tee: Tee): boolean;
  release(bytes: number): void;
  /** Marks a large open exchange, which can be given up when others need room. */
  enlist(tee: Tee): void;
  /** Removes the mark of an exchange that no longer holds bytes, or is closed. */
  delist(tee: Tee): void;
}

/** Memory for the copies; the writer's client implements it (`actors/capture-writer/body-memory.ts`). */
export interface BodyMemory {
  /** Returns a cell of that size, or the longest available one for the beginning. */
  take(bytes: number): Uint8Array;
  /** Copies bytes like `into.set(from, at)`, but faster. */
  copy(from: Uint8Array, into: Uint8Array, at: number): void;
  /** Like `copy`, for a copy that this thread does not read. */
  copyAside(from: Uint8Array, into: Uint8Array, at: number): void;
  /** Takes back a cell. Memory that is not a cell is ignored. */
  give(cell: Uint8Array): void;
}

/**
 * A body of announced length gets a cell for all of it after this share has arrived: an announcement alone reserves
 * nothing.
 */
const ANNOUNCED_SHARE = 1 / 8;
/** Longer announced bodies are not kept in one piece. */
const WHOLE_BYTES_MAX = 1 << 20;
/**
 * Request bodies shorter than this are not forwarded from their cells, because copying them twice costs very little.
 */
export const LENT_BYTES_MIN = 24 << 10;
/**
 * If a cell is too short, at most this much of its content is moved to a longer cell, so that the body is in one piece.
 */
const MOVED_BYTES_MAX = 64 << 10;
/** Maximum cell size for a body of unknown length, until LONG_BYTES of it are kept. */
const PIECE_BYTES = 64 << 10;
const LONG_BYTES = 512 << 10;

/** One side's body: its length, and the part that is kept. */
class BodyCopy {
  /** Cells with the kept bytes, all full except the last. */
  cells: Uint8Array[] = [];
  /** Bytes used in the last cell. */
  #used = 0;
  /** Bytes on the wire. */
  bytes = 0;
  kept_bytes = 0;
  /** The announced length of the body; 0: none was announced. */
  announced_bytes = 0;
  /** Whether the copy is in one cell, with room for the announced length. */
  #isWhole = false;

  /** Copies bytes into the last cell, and into further cells as needed. */
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
      // The length of this body is unknown, so cells grow with the bytes that have arrived.
      const { kept_bytes } = this;
      const wanted = kept_bytes >= LONG_BYTES ? WHOLE_BYTES_MAX : Math.min(kept_bytes, PIECE_BYTES);
      this.cells.push(memory.take(Math.max(rest.length, wanted)));
      this.#used = 0;
    }
    this.kept_bytes += bytes.length;
  }

  /** Keeps a view of the bytes instead of a copy. */
  appendView(bytes: Uint8Array): void {
    this.cells.push(bytes);
    this.#used = bytes.length;
    this.kept_bytes += bytes.length;
  }

  /**
   * Copies bytes into a cell that will hold the whole body.
   * @returns the copy; null when there is no such cell, and nothing was copied
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

  /**
   * Checks whether the body may get a cell for its announced length: enough of it has arrived, and it is not too long.
   * @param more number of bytes that arrive now
   */
  #canBeWhole(more: number): boolean {
    const total = this.kept_bytes + more;
    const announced = this.announced_bytes;
    return announced >= total && announced <= WHOLE_BYTES_MAX && announced * ANNOUNCED_SHARE <= total;
  }

  /**
   * Moves the copy to a cell for the announced length.
   * @returns false, with nothing moved, when the kept bytes are in several cells or are too many to move
   */
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

  /** Copies the kept bytes into new buffers, one for each cell. */
  copyOut(): Buffer[] {
    const last = this.cells.length - 1;
    return this.cells.map((cell, i) => Buffer.from(i === last ? cell.subarray(0, this.#used) : cell));
  }
}

export class Tee {
  readonly request = new BodyCopy();
  readonly response = new BodyCopy();
  /** Orders exchanges by the arrival of their requests, across threads. */
  readonly arrival: number;
  truncated = false;
  /** The budget ran out: this exchange will not be captured. */
  lost = false;
  #isClosed = false;
  #isEnlisted = false;
  /**
   * A cell from which the upload also reads while the exchange is open. It is not released before the exchange ends.
   */
  #lent: Uint8Array | null = null;
  readonly #budget: ByteBudget;
  readonly #memory: BodyMemory;
  readonly #bodyBytesMax: number;

  /**
   * @param bodyBytesMax most bytes kept of each body
   * @param arrival the exchange's stamp ({@link ArrivalCounter})
   */
  constructor(budget: ByteBudget, memory: BodyMemory, bodyBytesMax: number, arrival = 0) {
    this.arrival = arrival;
    this.#budget = budget;
    this.#memory = memory;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /** Bytes that the two copies hold. */
  get kept_bytes(): number {
    return this.request.kept_bytes + this.response.kept_bytes;
  }

  /** Copies a chunk, as far as the bounds allow. Without room for it, gives this exchange up. */
  add(side: BodyCopy, chunk: Uint8Array): void {
    const kept = this.#reserve(side, chunk);
    if (kept === null) return;
    side.append(kept, this.#memory);
    this.#enlist(side);
  }

  /**
   * Keeps a chunk without copying it, because the batch copies a short body anyway. It must be the
   * last chunk of its side. The chunk must not change before the exchange is submitted.
   */
  keepView(side: BodyCopy, chunk: Uint8Array): void {
    const kept = this.#reserve(side, chunk);
    if (kept === null) return;
    side.appendView(kept);
    this.#enlist(side);
  }

  /**
   * Counts a chunk, and reserves memory for it. Gives this exchange up if there is no memory.
   * @returns the part of the chunk to keep; null: no part
   */
  #reserve(side: BodyCopy, chunk: Uint8Array): Uint8Array | null {
    if (this.#isClosed) return null;
    side.bytes += chunk.length;
    if (this.lost) return null;
    const room = this.#mostOf(side) - side.kept_bytes;
    const kept = chunk.length <= room ? chunk : chunk.subarray(0, Math.max(room, 0));
    if (kept.length < chunk.length) this.truncated = true;
    if (kept.length === 0) return null;
    if (this.#budget.reserve(kept.length, this)) return kept;
    this.giveUp();
    return null;
  }

  #enlist(side: BodyCopy): void {
    if (side.kept_bytes < this.#budget.large_bytes || this.#isEnlisted) return;
    this.#isEnlisted = true;
    this.#budget.enlist(this);
  }

  /**
   * Returns the maximum number of bytes that are kept of a body. If the announced length exceeds the bound,
   * only the beginning is kept.
   */
  #mostOf({ announced_bytes }: BodyCopy): number {
    const most = this.#bodyBytesMax;
    return announced_bytes > most ? Math.min(most, CUT_BODY_BYTES) : most;
  }

  /**
   * Copies a chunk of the request. The returned copy stays unchanged until `close`. @returns the copy; null when the
   * chunk was not copied: this body is not kept in one piece, the exchange is closed or given up, or there is no
   * memory. Without memory, the exchange is given up now.
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
   * Ends the exchange. The caller must no longer read lent memory. The cells change owners and must
   * not be written from now on.
   */
  close(): void {
    this.#isClosed = true;
    this.#delist();
  }

  /** Drops the copies and releases their bytes. A lent cell is kept until the exchange is closed. */
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

  /** Gives this exchange up: releases its copies, so that it will not be captured. */
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
