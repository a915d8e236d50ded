/**
 * A layer: those pages of a file that differ from the layers below it, in pieces of bounded size. Command line.
 * A piece is one zstd frame of [u32 count][count × u32 page, the highest bit for a page of zeros][the other pages],
 * little-endian.
 */
import { constants } from 'node:zlib';
import { compressZstd, decompressZstd } from '../../std/zstd.ts';

/** A piece is full when it has this many bytes of pages, before compression. The whole piece is in memory. */
const PIECE_BYTES = 8 << 20;
/** Maximum number of pages in a piece. Needed for pages of zeros, which take only four bytes each. */
const PIECE_PAGES = 1 << 16;
const ZERO_PAGE = 0x8000_0000;
/** The fastest level is enough: captures are already compressed, and the gaps in LMDB's pages compress easily. */
const OPTIONS = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** Collects the pages of a layer, and passes each full piece on. */
export class LayerWriter {
  readonly #emit: (piece: Buffer) => Promise<void>;
  #numbers: number[] = [];
  #contents: Buffer[] = [];
  #bytes = 0;

  constructor(emit: (piece: Buffer) => Promise<void>) {
    this.#emit = emit;
  }

  /** @param content a whole page, which is copied; null: zeros */
  async add(page: number, content: Uint8Array | null): Promise<void> {
    this.#numbers.push(content === null ? (page | ZERO_PAGE) >>> 0 : page);
    if (content !== null) {
      this.#contents.push(Buffer.from(content));
      this.#bytes += content.length;
    }
    if (this.#bytes >= PIECE_BYTES || this.#numbers.length >= PIECE_PAGES) await this.finish();
  }

  /** Emits the collected pages as a piece, if there are any. */
  async finish(): Promise<void> {
    if (this.#numbers.length === 0) return;
    const head = Buffer.alloc(4 + 4 * this.#numbers.length);
    head.writeUInt32LE(this.#numbers.length);
    for (const [at, number] of this.#numbers.entries()) head.writeUInt32LE(number, 4 + 4 * at);
    const piece = Buffer.concat([head, ...this.#contents]);
    this.#numbers = [];
    this.#contents = [];
    this.#bytes = 0;
    await this.#emit(compressZstd(piece, OPTIONS));
  }
}

/** A piece does not have the format of {@link LayerWriter}. */
export class DamagedPieceError extends Error {
  override readonly name = 'DamagedPieceError';
}

/**
 * Reads the pages of a piece.
 * @param each called with null for a page of zeros
 * @throws DamagedPieceError
 */
export function readPiece(
  piece: Buffer,
  pageBytes: number,
  each: (page: number, content: Buffer | null) => void,
): void {
  let bytes: Buffer;
  try {
    const most = 4 + 4 * PIECE_PAGES + PIECE_BYTES + pageBytes;
    bytes = decompressZstd(piece, { maxOutputLength: most });
  } catch (thrown) {
    throw new DamagedPieceError('a piece that cannot be unpacked', { cause: thrown });
  }
  const count = bytes.length < 4 ? 0 : bytes.readUInt32LE(0);
  let at = 4 + 4 * count;
  if (count === 0 || count > PIECE_PAGES || at > bytes.length)
    throw new DamagedPieceError('a piece without pages');
  for (let i = 0; i < count; i++) {
    const number = bytes.readUInt32LE(4 + 4 * i);
    if (number >= ZERO_PAGE) {
      each(number - ZERO_PAGE, null);
      continue;
    }
    if (at + pageBytes > bytes.length) throw new DamagedPieceError('a piece that is cut off');
    each(number, bytes.subarray(at, at + pageBytes));
    at += pageBytes;
  }
  if (at !== bytes.length) throw new DamagedPieceError('a piece with more than its pages');
}
