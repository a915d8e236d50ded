/**
 * Stores the digests of runs that a teaching round has computed, in a file beside its output. An interrupted round
 * continues with them, and a round of `loop` reads only new runs. A damaged cache is removed and filled again. One LMDB
 * file; command line.
 * Bound: DIGEST_CACHE_BYTES of compressed digests. Digests beyond that are not stored. `prune` removes digests that
 * were not used since the file was opened.
 */

import { createHash } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { Packr } from 'msgpackr';
import type { RowWrite } from '../runtime/protocol.ts';
import { compressZstd, decompressZstd } from '../std/zstd.ts';
import { checkFileHead } from './lmdb/file-head.ts';
import { LmdbTables } from './lmdb/tables.ts';

/** Maximum total size of the compressed digests that are kept between rounds. */
const DIGEST_CACHE_BYTES = 512 << 20;

/** Identifies a digest, and the state of the run from which it was computed. */
interface DigestKey {
  /** Identifies the run, and the kind of digest. */
  key: string;
  /** Changes if the run has continued or the capture database was created again. */
  mark: string;
}

interface DigestRow {
  mark: string;
  code: string;
  packed: Uint8Array;
}

const DIGESTS = 'digests';
const TOTALS = 'totals';
const TOTAL_KEY = ['bytes'];
/** Pending rows are written when they reach this size or this number. */
const BATCH_BYTES = 1_048_576;
const BATCH_ROWS = 1_000;
/** Maximum size of an unpacked digest. */
const UNPACKED_BYTES = 256 * 1_048_576;

const packr = new Packr({ useRecords: false, moreTypes: true, variableMapSize: true });

export class DigestCache {
  readonly #tables: LmdbTables;
  readonly #code: string;
  /**
   * Hashes of the keys that were used since the file was opened. Rows that have the same hash by chance are kept, too.
   */
  readonly #asked = new Set<number>();
  readonly #pending = new Map<string, RowWrite>();
  #pendingBytes = 0;
  #bytes: number;

  /**
   * Opens a cache.
   * @param path path of the file; created if missing, replaced if it cannot be opened
   * @param code identifies the code that computes digests; digests of other code are not used
   * @param dataKey encrypts the values; null: no encryption. A file with another key is replaced
   * @throws the system's error if the file cannot be created
   */
  static open(path: string, code: string, dataKey: Uint8Array | null = null): DigestCache {
    try {
      // Reading a truncated file would crash the process.
      if (existsSync(path)) checkFileHead(path);
      return new DigestCache(path, code, dataKey);
    } catch {
      rmSync(path, { force: true });
      rmSync(`${path}-lock`, { force: true });
      return new DigestCache(path, code, dataKey);
    }
  }

  private constructor(path: string, code: string, dataKey: Uint8Array | null) {
    this.#tables = new LmdbTables(path, 'process', dataKey);
    this.#code = code;
    this.#bytes = this.#tables.get<{ bytes: number }>(TOTALS, TOTAL_KEY)?.bytes ?? 0;
  }

  /** Total size of the stored digests. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Reads the digest for the key; undefined if none is stored for this state of the run, if it was computed by other
   * code, or if it is damaged.
   */
  get(key: DigestKey): unknown {
    const id = idOf(key.key);
    this.#asked.add(numberOf(id));
    const row = this.#tables.get<DigestRow>(DIGESTS, [id]);
    if (row === undefined || row.code !== this.#code || row.mark !== key.mark) return undefined;
    try {
      return packr.unpack(decompressZstd(row.packed, { maxOutputLength: UNPACKED_BYTES }));
    } catch {
      return undefined;
    }
  }

  /** Stores a digest, unless the cache is full. @param digest plain data and typed arrays */
  async put({ key, mark }: DigestKey, digest: unknown): Promise<void> {
    const id = idOf(key);
    this.#asked.add(numberOf(id));
    // Copied, because zlib returns the beginning of a large buffer, and most digests are small.
    const packed = new Uint8Array(compressZstd(packr.pack(digest)));
    if (this.#bytes + this.#pendingBytes + packed.byteLength > DIGEST_CACHE_BYTES) return;
    const value: DigestRow = { mark, code: this.#code, packed };
    this.#pending.set(id, { op: 'put', table: DIGESTS, row: [id], value });
    this.#pendingBytes += packed.byteLength;
    if (this.#pendingBytes >= BATCH_BYTES || this.#pending.size >= BATCH_ROWS) await this.flush();
  }

  /** Writes the pending rows. */
  async flush(): Promise<void> {
    if (this.#pending.size === 0) return;
    const writes = [...this.#pending];
    this.#pending.clear();
    this.#pendingBytes = 0;
    await this.#tables.transact((transaction) => {
      let grown = 0;
      for (const [id, write] of writes) {
        grown -= transaction.get<DigestRow>(DIGESTS, [id])?.packed.byteLength ?? 0;
        grown += write.op === 'put' ? (write.value as DigestRow).packed.byteLength : 0;
        transaction.write(write);
      }
      this.#count(transaction, grown);
    });
  }

  /**
   * Removes digests that were not used since the file was opened, because their runs were removed or are not taught any
   * more.
   */
  async prune(): Promise<void> {
    await this.flush();
    const gone: string[] = [];
    for (const { row } of this.#tables.range<DigestRow>(DIGESTS, { prefix: [] })) {
      const id = String(row[0]);
      if (!this.#asked.has(numberOf(id))) gone.push(id);
    }
    for (let at = 0; at < gone.length; at += 1_000) {
      await this.#tables.transact((transaction) => {
        let shrunk = 0;
        for (const id of gone.slice(at, at + 1_000)) {
          shrunk += transaction.get<DigestRow>(DIGESTS, [id])?.packed.byteLength ?? 0;
          transaction.write({ op: 'remove', table: DIGESTS, row: [id] });
        }
        this.#count(transaction, -shrunk);
      });
    }
  }

  /** Writes the pending rows and closes the file. */
  async close(): Promise<void> {
    await this.flush();
    await this.#tables.close();
  }

  #count(transaction: Parameters<Parameters<LmdbTables['transact']>[0]>[0], bytes: number): void {
    transaction.write({ op: 'add', table: TOTALS, row: TOTAL_KEY, counts: { bytes } });
    this.#bytes = transaction.get<{ bytes: number }>(TOTALS, TOTAL_KEY)?.bytes ?? this.#bytes + bytes;
  }
}

/** Returns a short row key. */
function idOf(key: string): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 27);
}

function numberOf(id: string): number {
  return Buffer.from(id.slice(0, 8), 'base64url').readUIntBE(0, 6);
}
