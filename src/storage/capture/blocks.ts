/**
 * Reads exchanges from a capture file: finds the block, decompresses it with its dictionary, and builds the bodies from
 * their bases. Used by readers, and by the writer for the index. Synchronous. Recent results stay in a cache of limited
 * size. So if the exchanges of a run are read in order, each costs one step. To read a single exchange, its whole chain
 * of bases is read, from the exchange that has none (the keyframe). Any thread.
 */

import { leaveRest } from '../../std/own-memory.ts';
import { readOffloadedAttachment, readOffloadedBlock } from '../offload/offloaded-reads.ts';
import { restoreAttachments } from './attachments.ts';
import { openBlock } from './block-sealing.ts';
import {
  type DictionarySource,
  decodeBlock,
  decodeRecord,
  joinBlock,
  type RecordParts,
  readBlockCount,
  readBlockHead,
} from './codec.ts';
import { applyDelta } from './delta.ts';
import { attachmentsFolder, type CaptureEnv, CaptureFileError, rawFolder, readMetaNumber } from './layout.ts';
import { RawFileGone, readRawBlock } from './raw-files.ts';
import { CachedFile, ReadCache, type StoredBodies, type UnpackedBlock } from './read-cache.ts';
import { decodeMeta, type StoredMeta } from './record.ts';
import type { BodyPlace, DecodedBodies } from './stored-copy.ts';

export class BlockReader {
  readonly #env: CaptureEnv;
  readonly #path: string;
  readonly #folder: string;
  readonly #rawFolder: string;
  readonly #cached: CachedFile;

  /**
   * @param path the file's path, for messages and for its attachments
   * @param cache a cache that other readers share; or half of the maximum bytes in the reader's own cache, of
   *   decompressed blocks and bodies together
   */
  constructor(env: CaptureEnv, path: string, cache: ReadCache | number) {
    this.#env = env;
    this.#path = path;
    this.#folder = attachmentsFolder(path);
    this.#rawFolder = rawFolder(path);
    this.#cached = new CachedFile(typeof cache === 'number' ? new ReadCache(2 * cache) : cache);
  }

  /** Forgets what was read. */
  clear(): void {
    this.#cached.clear();
  }

  /** Reads the id of the first exchange that this file contains or will contain. */
  readFirstId(): number {
    return readMetaNumber(this.#env, 'first_id', 1);
  }

  /** Reads the id of the last exchange, or the first id minus one if the file is empty. @throws {CaptureFileError} */
  readLastId(): number {
    for (const { key, value } of this.#env.blocks.getRange({ reverse: true, limit: 1, snapshot: false })) {
      return this.#guard(key, () => key + readBlockCount(value) - 1);
    }
    return this.readFirstId() - 1;
  }

  /** Finds the number of the first free piece. */
  readNextPiece(): number {
    for (const key of this.#env.pieces.getKeys({ reverse: true, limit: 1, snapshot: false })) return key + 1;
    return 1;
  }

  /** Reads the metadata of an exchange; undefined if it is not in this file. @throws {CaptureFileError} */
  readMeta(id: number): StoredMeta | undefined {
    const record = this.readRecord(id);
    if (record === undefined) return undefined;
    return this.#guard(id, () => decodeMeta(id, decodeRecord(record).meta));
  }

  /**
   * Reads both bodies and restores their attachments; undefined if the exchange is not in this file.
   * @throws {CaptureFileError} also if an attachment is missing
   */
  readBodies(id: number, meta: StoredMeta): DecodedBodies | undefined {
    const bodies = this.readStored(id);
    if (bodies === undefined) return undefined;
    if (!meta.request_has_files && !meta.response_has_files) return bodies;
    const elsewhere = (name: string) => readOffloadedAttachment(this.#env, this.#path, name);
    const restore = (body: Buffer) =>
      restoreAttachments(body, this.#folder, this.#env.sealing?.key ?? null, elsewhere);
    return this.#guard(id, () => ({
      request: meta.request_has_files ? restore(bodies.request) : bodies.request,
      response: meta.response_has_files ? restore(bodies.response) : bodies.response,
      ...(meta.request_has_files ? {} : { request_place: bodies.request_place }),
    }));
  }

  #guard<T>(id: number, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof CaptureFileError) throw error;
      throw new CaptureFileError('damaged', this.#path, `exchange ${id}: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  /** Reads the encoded record of an exchange; undefined if it is not in this file. @throws {CaptureFileError} */
  readRecord(id: number): Buffer | undefined {
    const block = this.#readBlock(id);
    return block?.records[id - block.first_id];
  }

  #readBlock(id: number): UnpackedBlock | undefined {
    if (!Number.isInteger(id) || id < 1 || id > 0xffffffff) return undefined;
    try {
      return this.#findBlock(id);
    } catch (error) {
      if (!(error instanceof CaptureFileError && error.cause instanceof RawFileGone)) throw error;
      // The block was packed after this reader's read transaction began.
      this.#env.root.resetReadTxn();
      return this.#findBlock(id);
    }
  }

  #findBlock(id: number): UnpackedBlock | undefined {
    for (const { key, value } of this.#env.blocks.getRange({
      start: id,
      reverse: true,
      limit: 1,
      snapshot: false,
    })) {
      const known = this.#cached.block(key);
      if (known !== undefined) return id < key + known.records.length ? known : undefined;
      return this.#guard(key, () => {
        if (id >= key + readBlockCount(value)) return undefined;
        const head = readBlockHead(openBlock(this.#joinBlock(value), key, this.#env.sealing));
        let dictionary: DictionarySource | null = null;
        if (head.dictionary_distance > 0) {
          const base = key - head.dictionary_distance;
          const record = this.readRecord(base);
          const request = head.codec === 3 ? this.readStored(base)?.request : null;
          if (record === undefined || request === undefined)
            throw new RangeError('its dictionary is missing');
          dictionary = { record, request };
        }
        const block = { first_id: key, records: decodeBlock(head, dictionary) };
        this.#cached.keepBlock(block, head.raw_bytes);
        return block;
      });
    }
    return undefined;
  }

  #joinBlock(value: Buffer): Buffer {
    return joinBlock(
      value,
      (number) => this.#env.pieces.get(number),
      (place) => readRawBlock(this.#rawFolder, place),
      (place) => readOffloadedBlock(this.#env, this.#path, place),
    );
  }

  /**
   * Reads both stored bodies, with placeholders for attachments; undefined if the exchange is not in this file.
   * @throws {CaptureFileError}
   */
  readStored(id: number): StoredBodies | undefined {
    const known = this.#cached.bodies(id);
    if (known !== undefined) return known;
    // Follows the chain to the keyframe or to a cached body, then builds the bodies in the opposite order.
    const chain: { id: number; parts: RecordParts }[] = [];
    let at = id;
    let base: StoredBodies | undefined;
    for (;;) {
      const record = this.readRecord(at);
      if (record === undefined) {
        if (at === id) return undefined;
        throw new CaptureFileError('damaged', this.#path, `exchange ${id}: its base ${at} is missing`);
      }
      const parts = this.#guard(at, () => decodeRecord(record));
      chain.push({ id: at, parts });
      if (parts.base_distance === 0) break;
      at -= parts.base_distance;
      base = this.#cached.bodies(at);
      if (base !== undefined) break;
    }
    let bodies = base ?? { request: EMPTY, response: EMPTY, request_place: NOWHERE };
    for (let i = chain.length - 1; i >= 0; i--) {
      const link = chain[i]!;
      const under = bodies;
      bodies = this.#guard(link.id, () => ({
        request: makeBody(under.request, link.parts.request_ops, link.parts.request_literals),
        response: makeBody(under.response, link.parts.response_ops, link.parts.response_literals),
        request_place: placeBody(under.request_place, link.parts.request_ops),
      }));
    }
    const kept = leaveOthers(bodies);
    this.#cached.keepBodies(id, kept);
    return kept;
  }
}

const EMPTY = Buffer.alloc(0);
const NOWHERE: BodyPlace = Object.freeze({ self: {}, repeats: null, repeated_bytes: 0 });

/** Says how much of another body a body repeats. */
function placeBody(under: BodyPlace, ops: readonly number[]): BodyPlace {
  const [from, repeated_bytes = 0] = ops;
  if (from !== 0 || repeated_bytes === 0) return { self: {}, repeats: null, repeated_bytes: 0 };
  return { self: {}, repeats: under.self, repeated_bytes };
}

function makeBody(base: Buffer, ops: number[], literals: Buffer): Buffer {
  return ops.length === 0 ? literals : applyDelta(base, ops, literals);
}

/**
 * Copies bodies out of a larger buffer. Large bodies that fill most of a shared buffer stay there, because a copy would
 * cost more than it saves.
 */
function leaveOthers(bodies: StoredBodies): StoredBodies {
  const { request, response, request_place } = bodies;
  const isShared = request.buffer === response.buffer;
  if (isShared && 2 * (request.length + response.length) >= request.buffer.byteLength) return bodies;
  return { request: leaveRest(request), response: leaveRest(response), request_place };
}
