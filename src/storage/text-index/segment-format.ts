/**
 * The bytes of a segment of the full-text index: an immutable file for the exchanges of one range of ids.
 *
 *   magic     8 bytes
 *   blocks    words and their exchanges, in the order of the words; zstd, sealed under the data key if there is one
 *   blocks    the run of each exchange, RUN_BLOCK exchanges each
 *   contents  where the blocks are (`SegmentContents`), as JSON; zstd, sealed
 *   tail      16 bytes: place of the contents (6), length (4), CRC-32 (4), version (2)
 *
 * A word's list contains the distance of its first exchange from the segment's first exchange, and then, for each
 * further exchange, its distance from the previous exchange minus one. Every block has a checksum. Capture process,
 * capture reader, command line.
 */
import { constants, crc32 } from 'node:zlib';
import type { DataKey, Sealer } from '../../std/data-key.ts';
import { compressZstd, decompressZstd } from '../../std/zstd.ts';

export const SEGMENT_MAGIC = Buffer.from('UNDTEXT1', 'latin1');
export const TAIL_BYTES = 16;
export const SEGMENT_VERSION = 1;
/** Number of exchanges per block of runs. */
export const RUN_BLOCK = 4_096;
/** Maximum bytes of an unpacked block. */
const BLOCK_MAX = 1 << 28;

/** The content of a segment is damaged. The segment must be removed and rebuilt. */
export class SegmentDamage extends Error {
  override readonly name = 'SegmentDamage';
}

/** Position of a block, and its checksum. */
export type BlockPlace = readonly [offset: number, length: number, crc: number];

/** The description that a segment contains. */
export interface SegmentContents {
  /** The range of exchanges that it covers, with or without words. */
  first_id: number;
  last_id: number;
  /** Distinguishes it from another segment of the same range. */
  nonce: string;
  /** Identifies its source: marks of its first and its last exchange. */
  marks: readonly [string, string];
  /** Number of different words. */
  words: number;
  /** Number of words, each counted once for every exchange that contains it. */
  postings: number;
  /** Number of exchanges of which only the beginning is indexed. */
  cut: number;
  /** First word of each block of words. */
  starts: readonly string[];
  /** The blocks of words. */
  blocks: readonly BlockPlace[];
  /** The blocks of runs. */
  runs: readonly BlockPlace[];
}

/** Compresses and encrypts blocks of one segment. */
export class BlockCodec {
  readonly #sealer: Sealer | null;
  readonly #level: number;

  constructor(key: DataKey | null, level = 3) {
    this.#sealer = key?.sealer('text index') ?? null;
    this.#level = level;
  }

  close(plain: Buffer, place: string): Buffer {
    const packed = compressZstd(plain, { params: { [constants.ZSTD_c_compressionLevel]: this.#level } });
    return this.#sealer === null ? packed : this.#sealer.seal(packed, Buffer.from(place));
  }

  /** Decrypts and decompresses a block. @throws SegmentDamage */
  open(stored: Buffer, crc: number, place: string): Buffer {
    if (crc32(stored) !== crc) throw new SegmentDamage(`${place}: a checksum differs`);
    try {
      const packed = this.#sealer === null ? stored : this.#sealer.open(stored, Buffer.from(place));
      return decompressZstd(packed, { maxOutputLength: BLOCK_MAX });
    } catch (cause) {
      throw new SegmentDamage(`${place}: a block cannot be read`, { cause });
    }
  }
}

/** Counts the bytes of the common beginning of two words. */
export function countShared(before: Buffer, word: Buffer): number {
  const most = Math.min(before.length, word.length);
  let shared = 0;
  while (shared < most && before[shared] === word[shared]) shared++;
  return shared;
}
