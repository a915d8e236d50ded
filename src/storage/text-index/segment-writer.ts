/**
 * Writes a segment of the full-text index: words in order, then runs. The file has another name until it is
 * complete. Capture process.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import type { DataKey } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import {
  BlockCodec,
  type BlockPlace,
  countShared,
  RUN_BLOCK,
  SEGMENT_MAGIC,
  SEGMENT_VERSION,
  type SegmentContents,
  TAIL_BYTES,
} from './segment-format.ts';
import { VarintBuffer } from './varint.ts';

/** A block of words is closed at this uncompressed size in bytes. */
const BLOCK_BYTES = 48 << 10;
const EMPTY = Buffer.alloc(0);

interface SegmentRange {
  first_id: number;
  last_id: number;
}

interface WriterOptions extends SegmentRange {
  /** Path of the segment. */
  path: string;
  key: DataKey | null;
  marks: readonly [string, string];
  /** Number of exchanges of which only the beginning is indexed. */
  cut: number;
  /** zstd's level. */
  level: number;
}

export class SegmentWriter {
  readonly #options: WriterOptions;
  readonly #codec: BlockCodec;
  readonly #nonce = randomBytes(6).toString('hex');
  readonly #file: number;
  readonly #heads = new VarintBuffer(BLOCK_BYTES);
  readonly #lists = new VarintBuffer(BLOCK_BYTES);
  readonly #list = new VarintBuffer();
  readonly #starts: string[] = [];
  readonly #blocks: BlockPlace[] = [];
  readonly #runBlocks: BlockPlace[] = [];
  #wordsInBlock = 0;
  #before: Buffer = EMPTY;
  #at = 0;
  #words = 0;
  #postings = 0;
  #runs: number[] = [];

  /** @throws a file system error */
  constructor(options: WriterOptions) {
    this.#options = options;
    this.#codec = new BlockCodec(options.key, options.level);
    this.#file = openSync(partPath(options.path), 'w', 0o600);
    this.#write(SEGMENT_MAGIC);
  }

  /** Bytes written so far. */
  get bytes(): number {
    return this.#at;
  }

  /** Adds the next word. @param ids ascending, without repetition */
  add(word: string, ids: readonly number[]): void {
    const bytes = Buffer.from(word);
    if (this.#wordsInBlock === 0) this.#starts.push(word);
    const list = this.#list;
    list.clear();
    let before = this.#options.first_id - 1;
    for (const id of ids) {
      list.add(id - before - 1);
      before = id;
    }
    const shared = countShared(this.#before, bytes);
    this.#heads.add(shared);
    this.#heads.add(bytes.length - shared);
    this.#heads.addBytes(bytes.subarray(shared));
    this.#heads.add(list.length);
    this.#lists.addBytes(list.bytes);
    this.#before = bytes;
    this.#wordsInBlock += 1;
    this.#words += 1;
    this.#postings += ids.length;
    if (this.#heads.length + this.#lists.length >= BLOCK_BYTES) this.#closeWords();
  }

  /**
   * Adds the run of the next exchange, in the order of ids. @param key `runKey` of the run's id; 0: no run
   */
  addRun(key: number): void {
    this.#runs.push(key);
    if (this.#runs.length === RUN_BLOCK) this.#closeRuns();
  }

  /** Completes the segment and renames it to its path. @throws a file system error */
  finish(isSynced = false): SegmentContents {
    this.#closeWords();
    if (this.#runs.length > 0) this.#closeRuns();
    const { first_id, last_id, marks, cut, path } = this.#options;
    const contents: SegmentContents = {
      first_id,
      last_id,
      nonce: this.#nonce,
      marks,
      words: this.#words,
      postings: this.#postings,
      cut,
      starts: this.#starts,
      blocks: this.#blocks,
      runs: this.#runBlocks,
    };
    const stored = this.#codec.close(Buffer.from(JSON.stringify(contents)), 'contents');
    const tail = Buffer.alloc(TAIL_BYTES);
    tail.writeUIntLE(this.#at, 0, 6);
    tail.writeUInt32LE(stored.length, 6);
    tail.writeUInt32LE(crc32(stored), 10);
    tail.writeUInt16LE(SEGMENT_VERSION, 14);
    this.#write(stored);
    this.#write(tail);
    if (isSynced) fsyncSync(this.#file);
    closeSync(this.#file);
    renameSync(partPath(path), path);
    return contents;
  }

  /** Discards the segment. */
  abandon(): void {
    closeSync(this.#file);
    rmSync(partPath(this.#options.path), { force: true });
  }

  #closeWords(): void {
    if (this.#wordsInBlock === 0) return;
    const count = new VarintBuffer(8);
    count.add(this.#wordsInBlock);
    const plain = Buffer.concat([count.bytes, this.#heads.bytes, this.#lists.bytes]);
    this.#blocks.push(this.#writeBlock(plain));
    this.#heads.clear();
    this.#lists.clear();
    this.#wordsInBlock = 0;
    this.#before = EMPTY;
  }

  /** Encodes the distinct runs, then the index of each exchange's run among them. */
  #closeRuns(): void {
    const places = new Map<number, number>([[0, 0]]);
    const keys = new VarintBuffer();
    const numbers = new VarintBuffer();
    for (const key of this.#runs) {
      let place = places.get(key);
      if (place === undefined) {
        place = places.size;
        places.set(key, place);
        keys.add(key);
      }
      numbers.add(place);
    }
    const head = new VarintBuffer(16);
    head.add(places.size - 1);
    head.add(this.#runs.length);
    this.#runBlocks.push(this.#writeBlock(Buffer.concat([head.bytes, keys.bytes, numbers.bytes])));
    this.#runs = [];
  }

  #writeBlock(plain: Buffer): BlockPlace {
    const stored = this.#codec.close(plain, `${this.#nonce}:${this.#at}`);
    const place: BlockPlace = [this.#at, stored.length, crc32(stored)];
    this.#write(stored);
    return place;
  }

  #write(bytes: Buffer): void {
    try {
      for (let done = 0; done < bytes.length; )
        done += writeSync(this.#file, bytes, done, bytes.length - done, this.#at + done);
      this.#at += bytes.length;
    } catch (thrown) {
      throw namePlace(thrown, this.#options.path);
    }
  }
}

function partPath(path: string): string {
  return `${path}.part`;
}
