/**
 * What was recently read from capture files: decompressed blocks, and bodies. Several readers share one bound, because
 * a process that follows a growing database reads from several files in turn (followed-files.ts). The least recently
 * used entry is dropped first. Any thread.
 */
import { LinkedMap } from '../../std/linked-map.ts';
import { announceSpare } from '../../std/spare-memory.ts';
import type { BodyPlace } from './stored-copy.ts';

/** Estimated overhead of an entry and of each of its buffers. Short bodies take less than their overhead. */
const ENTRY_BYTES = 256;
const BUFFER_BYTES = 200;
/** Ids of exchanges are below this. */
const IDS = 2 ** 32;

export interface UnpackedBlock {
  first_id: number;
  records: Buffer[];
}

/** Both stored bodies of an exchange, still with placeholders for attachments. */
export interface StoredBodies {
  request: Buffer;
  response: Buffer;
  request_place: BodyPlace;
}

interface Entry {
  key: number;
  value: UnpackedBlock | StoredBodies;
  bytes: number;
}

export class ReadCache {
  readonly #max: number;
  readonly #entries = new LinkedMap<number, Entry>();
  #bytes = 0;
  #spaces = 0;
  /**
   * The last block that was too large to be an entry. Its exchanges are read in order, and each would decompress it
   * again.
   */
  #large: Entry | null = null;

  /**
   * @param maxBytes bound of all entries; a block that takes more than half of it is only kept until the next such
   * block
   */
  constructor(maxBytes: number) {
    this.#max = maxBytes;
    announceSpare(this);
  }

  /** Reserves a range of IDS keys that no one else uses. @returns the first key */
  openSpace(): number {
    return this.#spaces++ * IDS;
  }

  get(key: number): Entry['value'] | undefined {
    return this.#entries.get(key)?.value ?? (this.#large?.key === key ? this.#large.value : undefined);
  }

  /**
   * Keeps a value. Bodies that take more than half of the bound are not kept.
   * @param bytes memory that the value takes
   */
  set(key: number, value: Entry['value'], bytes: number): void {
    if (bytes > this.#max / 2) {
      if ('records' in value) this.#large = { key, value, bytes };
      return;
    }
    this.#bytes += bytes - (this.#entries.peek(key)?.bytes ?? 0);
    this.#entries.set(key, { key, value, bytes });
    while (this.#bytes > this.#max) this.#delete(this.#entries.oldest!.key);
  }

  /** Drops all entries of a range that `openSpace` returned. */
  clearSpace(first: number): void {
    const isIn = (key: number): boolean => key >= first && key < first + IDS;
    for (const key of this.#entries.keys()) if (isIn(key)) this.#delete(key);
    if (this.#large !== null && isIn(this.#large.key)) this.#large = null;
  }

  releaseSpare(): void {
    this.#entries.clear();
    this.#bytes = 0;
    this.#large = null;
  }

  #delete(key: number): void {
    this.#bytes -= this.#entries.peek(key)!.bytes;
    this.#entries.delete(key);
  }
}

/** One file's part of a cache. */
export class CachedFile {
  readonly #cache: ReadCache;
  readonly #blocks: number;
  readonly #bodies: number;

  constructor(cache: ReadCache) {
    this.#cache = cache;
    this.#blocks = cache.openSpace();
    this.#bodies = cache.openSpace();
  }

  /** Returns a cached block; undefined if it is not cached. @param firstId id of the block's first exchange */
  block(firstId: number): UnpackedBlock | undefined {
    return this.#cache.get(this.#blocks + firstId) as UnpackedBlock | undefined;
  }

  keepBlock(block: UnpackedBlock, rawBytes: number): void {
    const bytes = rawBytes + ENTRY_BYTES + block.records.length * BUFFER_BYTES;
    this.#cache.set(this.#blocks + block.first_id, block, bytes);
  }

  bodies(id: number): StoredBodies | undefined {
    return this.#cache.get(this.#bodies + id) as StoredBodies | undefined;
  }

  keepBodies(id: number, bodies: StoredBodies): void {
    const { request, response } = bodies;
    const bytes = request.length + response.length + ENTRY_BYTES + 2 * BUFFER_BYTES;
    this.#cache.set(this.#bodies + id, bodies, bytes);
  }

  clear(): void {
    this.#cache.clearSpace(this.#blocks);
    this.#cache.clearSpace(this.#bodies);
  }
}
