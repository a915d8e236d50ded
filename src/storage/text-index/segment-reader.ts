/**
 * Reads a segment of the full-text index. Its file stays open, so that it can still be read after it was removed.
 * Capture process, capture reader, command line; synchronous.
 *
 * Memory: the positions of its blocks. Unpacked blocks are in a cache that readers share (`BlockCache`).
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import type { DataKey } from '../../std/data-key.ts';
import { RecentMap } from '../../std/recent-map.ts';
import {
  BlockCodec,
  type BlockPlace,
  RUN_BLOCK,
  SEGMENT_MAGIC,
  SEGMENT_VERSION,
  type SegmentContents,
  SegmentDamage,
  TAIL_BYTES,
} from './segment-format.ts';
import { VarintReader } from './varint.ts';

/** Maximum bytes of unpacked blocks that are cached. A block of more than a quarter of this size is not cached. */
const CACHE_BYTES = 16 << 20;
const CONTENTS_MAX = 64 << 20;

/** A cache of unpacked blocks that evicts the least recently used ones. */
export class BlockCache {
  readonly #blocks = new RecentMap<string, Buffer>(CACHE_BYTES);

  get(name: string, read: () => Buffer): Buffer {
    const known = this.#blocks.get(name);
    const block = known ?? read();
    if (block.length <= CACHE_BYTES / 4) this.#blocks.set(name, block, block.length + 128);
    return block;
  }
}

/** A word and its exchanges, ascending. */
export interface WordList {
  word: string;
  ids: number[];
}

export class SegmentReader {
  readonly path: string;
  readonly contents: SegmentContents;
  /** Size of the file. */
  readonly bytes: number;
  readonly inode: number;
  readonly #file: number;
  readonly #codec: BlockCodec;
  readonly #cache: BlockCache;

  /** Opens a segment and reads its contents. @throws SegmentDamage; a file system error */
  static open(path: string, key: DataKey | null, cache: BlockCache): SegmentReader {
    const file = openSync(path, 'r');
    try {
      return new SegmentReader(path, file, key, cache);
    } catch (thrown) {
      closeSync(file);
      throw thrown;
    }
  }

  private constructor(path: string, file: number, key: DataKey | null, cache: BlockCache) {
    this.path = path;
    this.#file = file;
    this.#cache = cache;
    this.#codec = new BlockCodec(key);
    const { size, ino } = fstatSync(file);
    this.bytes = size;
    this.inode = ino;
    const tail = this.#readAt(this.bytes - TAIL_BYTES, TAIL_BYTES);
    const magic = this.#readAt(0, SEGMENT_MAGIC.length);
    if (!magic.equals(SEGMENT_MAGIC) || tail.readUInt16LE(14) !== SEGMENT_VERSION)
      throw new SegmentDamage(`${path}: not a segment of this version`);
    const length = tail.readUInt32LE(6);
    if (length > CONTENTS_MAX) throw new SegmentDamage(`${path}: its contents are too large`);
    const stored = this.#readAt(tail.readUIntLE(0, 6), length);
    try {
      const plain = this.#codec.open(stored, tail.readUInt32LE(10), 'contents');
      this.contents = JSON.parse(plain.toString()) as SegmentContents;
    } catch (cause) {
      throw new SegmentDamage(`${path}: its contents cannot be read`, { cause });
    }
  }

  /** Finds the exchanges with a word, ascending. @throws SegmentDamage */
  find(word: string): number[] {
    const at = this.#findBlock(word);
    if (at < 0) return [];
    const block = this.#readBlock(this.contents.blocks[at]);
    const place = this.#guard(() => findHead(block, Buffer.from(word)));
    return place === null ? [] : this.#readList({ word, block, ...place });
  }

  /**
   * Finds the exchanges with a word that begins with `prefix`, ascending.
   * @param most maximum number of words that may begin with it
   * @returns null if more words begin with it
   * @throws SegmentDamage
   */
  findPrefix(prefix: string, most: number): number[] | null {
    const all = new Set<number>();
    let words = 0;
    for (let at = Math.max(0, this.#findBlock(prefix)); at < this.contents.blocks.length; at++) {
      for (const found of this.#scan(at)) {
        if (found.word < prefix) continue;
        if (!found.word.startsWith(prefix)) return sortIds(all);
        if (++words > most) return null;
        for (const id of this.#readList(found)) all.add(id);
      }
    }
    return sortIds(all);
  }

  /** Yields all words in order. @throws SegmentDamage */
  *words(): Generator<WordList> {
    for (let at = 0; at < this.contents.blocks.length; at++)
      for (const found of this.#scan(at)) yield { word: found.word, ids: this.#readList(found) };
  }

  /**
   * Reads the keys of the runs of all exchanges in the block that contains an exchange. `first_id` is the first
   * exchange of the block.
   * @throws SegmentDamage
   */
  runsFrom(id: number): { first_id: number; keys: readonly number[] } {
    const at = Math.floor((id - this.contents.first_id) / RUN_BLOCK);
    const reader = new VarintReader(this.#readBlock(this.contents.runs[at]));
    return this.#guard(() => {
      const keys = [0];
      let left = reader.next();
      const count = reader.next();
      while (left-- > 0) keys.push(reader.next());
      const runs: number[] = [];
      while (runs.length < count) runs.push(keys[reader.next()] ?? 0);
      return { first_id: this.contents.first_id + at * RUN_BLOCK, keys: runs };
    });
  }

  /** Checks the checksum of every block, one at each step. @throws SegmentDamage */
  *check(): Generator<void> {
    for (const [offset, length, crc] of [...this.contents.blocks, ...this.contents.runs]) {
      if (crc32(this.#readAt(offset, length)) !== crc)
        throw new SegmentDamage(`${this.path}: a checksum differs`);
      yield;
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  /** Finds the index of the only block that may contain a word; −1 if no block may. */
  #findBlock(word: string): number {
    const { starts } = this.contents;
    let low = 0;
    let high = starts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (starts[middle]! <= word) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Returns the words of a block, with the positions of their lists. */
  #scan(at: number): FoundWord[] {
    const block = this.#readBlock(this.contents.blocks[at]);
    return this.#guard(() => readHeads(block));
  }

  #readList({ block, at, end }: FoundWord): number[] {
    return this.#guard(() => {
      const reader = new VarintReader(block, at);
      const ids: number[] = [];
      let id = this.contents.first_id - 1;
      while (reader.at < end) {
        // The number usually has a single byte.
        const byte = block[reader.at]!;
        if (byte < 128) {
          id += byte + 1;
          reader.at += 1;
        } else id += reader.next() + 1;
        ids.push(id);
      }
      return ids;
    });
  }

  #readBlock(place: BlockPlace | undefined): Buffer {
    if (place === undefined) throw new SegmentDamage(`${this.path}: a block is missing`);
    const [offset, length, crc] = place;
    const name = `${this.contents.nonce}:${offset}`;
    return this.#cache.get(name, () => this.#codec.open(this.#readAt(offset, length), crc, name));
  }

  #readAt(offset: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length);
    if (offset < 0 || readSync(this.#file, bytes, 0, length, offset) < length)
      throw new SegmentDamage(`${this.path}: it is cut off`);
    return bytes;
  }

  #guard<Value>(read: () => Value): Value {
    try {
      return read();
    } catch (cause) {
      throw new SegmentDamage(`${this.path}: a block is damaged`, { cause });
    }
  }
}

/**
 * Finds the position of a word's list in a block; null if the block lacks the word. Compares bytes, without making
 * strings of other words.
 */
function findHead(block: Buffer, wanted: Buffer): { at: number; end: number } | null {
  const reader = new VarintReader(block);
  const count = reader.next();
  /** Length of the common beginning of the previous and the wanted word, in bytes. */
  let alike = 0;
  let at = 0;
  let found = -1;
  let length = 0;
  for (let i = 0; i < count; i++) {
    const shared = reader.next();
    const more = reader.next();
    if (shared <= alike) {
      alike = shared;
      let from = reader.at;
      const end = reader.at + more;
      while (from < end && alike < wanted.length && block[from] === wanted[alike]) {
        from++;
        alike++;
      }
      if (from === end && alike === wanted.length) found = at;
    }
    reader.at += more;
    const bytes = reader.next();
    if (found === at && length === 0) length = bytes;
    at += bytes;
  }
  return found < 0 ? null : { at: reader.at + found, end: reader.at + found + length };
}

interface FoundWord {
  word: string;
  block: Buffer;
  at: number;
  end: number;
}

function readHeads(block: Buffer): FoundWord[] {
  const reader = new VarintReader(block);
  const count = reader.next();
  const found: FoundWord[] = [];
  const word = Buffer.alloc(1_024);
  let at = 0;
  for (let i = 0; i < count; i++) {
    const shared = reader.next();
    const more = reader.next();
    block.copy(word, shared, reader.at, reader.at + more);
    reader.at += more;
    const length = reader.next();
    found.push({ word: word.toString('utf8', 0, shared + more), block, at, end: at + length });
    at += length;
  }
  for (const each of found) {
    each.at += reader.at;
    each.end += reader.at;
  }
  return found;
}

function sortIds(ids: Iterable<number>): number[] {
  return Array.from(new Float64Array(ids).sort());
}
