/**
 * Tables of an LMDB file whose values are encrypted, or have checksums if there is no data key. Row keys are plain.
 * LMDB's own encryption is not sufficient: it encrypts each version of a page with the same keystream, in every file
 * with the same data key, and detects no changes. Any thread.
 * The table `sealing` of a file identifies the data key and the file, so that values of one file cannot be decrypted in
 * another. In a file without a data key, the table says that the values have checksums, because LMDB does not detect
 * changed bits. Files of earlier versions may have neither.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Database, RootDatabase } from 'lmdb';
import { type DataKey, DataKeyError, SealError, type Sealer } from '../../std/data-key.ts';
import { describePlan, planPath } from '../plan-file.ts';

type Key = Buffer | number;

/** The table methods that this project uses, for encrypted and plain tables. */
export type ValueTable<K extends Key> = Pick<
  Database<Buffer, K>,
  'get' | 'putSync' | 'removeSync' | 'resetReadTxn' | 'getKeys' | 'getStats'
> & {
  getRange(options: Parameters<Database<Buffer, K>['getRange']>[0]): Iterable<{ key: K; value: Buffer }>;
};

/** Encodes the values of a file before they are stored, and decodes them. */
export interface ValueCodec {
  seal(table: string, key: Key, plain: Uint8Array): Buffer;
  /** Decodes a value. @throws SealError if it is damaged, or was stored under another key or in another table */
  open(table: string, key: Key, stored: Uint8Array): Buffer;
}

const CHECKSUM_BYTES = 4;

/**
 * Appends the CRC-32 of the table's name, the key and the value. So changed bits are detected, and values that were
 * moved to another row.
 */
class FileChecksums implements ValueCodec {
  seal(table: string, key: Key, plain: Uint8Array): Buffer {
    const stored = Buffer.allocUnsafe(plain.length + CHECKSUM_BYTES);
    stored.set(plain);
    stored.writeUInt32LE(checksumOf(table, key, plain), plain.length);
    return stored;
  }

  open(table: string, key: Key, stored: Uint8Array): Buffer {
    const bytes = Buffer.from(stored.buffer, stored.byteOffset, stored.length);
    const end = bytes.length - CHECKSUM_BYTES;
    if (end < 0) throw new SealError('a value is cut off');
    const plain = bytes.subarray(0, end);
    if (bytes.readUInt32LE(end) !== checksumOf(table, key, plain))
      throw new SealError('a value is damaged: its checksum differs');
    return plain;
  }
}

function checksumOf(table: string, key: Key, value: Uint8Array): number {
  const place = typeof key === 'number' ? Buffer.from(`${table}/${key}`) : key;
  return crc32(value, crc32(place, crc32(table)));
}

/** Encrypts and decrypts the values of one file. */
export class FileSealing implements ValueCodec {
  readonly key: DataKey;
  readonly sealer: Sealer;
  readonly #identity: Buffer;

  constructor(key: DataKey, identity: Buffer) {
    this.key = key;
    this.sealer = key.sealer('rows');
    this.#identity = identity;
  }

  /** Returns the associated data that binds a value to its place. */
  placeOf(table: string, key: Key): Buffer {
    const name = Buffer.byteLength(table, 'latin1');
    const isNumber = typeof key === 'number';
    const place = Buffer.allocUnsafe(this.#identity.length + 1 + name + (isNumber ? 8 : key.length));
    let at = this.#identity.copy(place);
    at = place.writeUInt8(name, at);
    at += place.write(table, at, 'latin1');
    if (isNumber) place.writeDoubleBE(key, at);
    else key.copy(place, at);
    return place;
  }

  /**
   * Encrypts a value for its row.
   * @param room number of bytes that are left free before the encrypted value
   */
  seal(table: string, key: Key, plain: Uint8Array, room = 0): Buffer {
    return this.sealer.seal(plain, this.placeOf(table, key), room);
  }

  /** Decrypts a value. @throws SealError if it is damaged, or was stored under another key or in another table */
  open(table: string, key: Key, sealed: Uint8Array): Buffer {
    return this.sealer.open(sealed, this.placeOf(table, key));
  }
}

export class SealedTable<K extends Key> implements ValueTable<K> {
  readonly #table: Database<Buffer, K>;
  readonly #name: string;
  readonly #sealing: ValueCodec;
  readonly #path: string;

  /**
   * @param path of the file, for reports of damage
   */
  constructor(table: Database<Buffer, K>, name: string, sealing: ValueCodec, path = '') {
    this.#path = path;
    this.#table = table;
    this.#name = name;
    this.#sealing = sealing;
  }

  /** Reads a value and decodes it. @returns undefined if the key has no value @throws SealError */
  get(key: K): Buffer | undefined {
    const sealed = this.#table.get(key);
    if (sealed === undefined) return undefined;
    try {
      return this.#sealing.open(this.#name, key, sealed);
    } catch (thrown) {
      tellOfDamage(this.#path, this.#name);
      throw thrown;
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: the library's own overloads
  putSync(key: K, value: Buffer, options?: any): any {
    return this.#table.putSync(key, this.#sealing.seal(this.#name, key, value), options);
  }

  removeSync(key: K): boolean {
    return this.#table.removeSync(key);
  }

  resetReadTxn(): void {
    this.#table.resetReadTxn();
  }

  getStats(): object {
    return this.#table.getStats();
  }

  getKeys(
    options: Parameters<Database<Buffer, K>['getKeys']>[0],
  ): ReturnType<Database<Buffer, K>['getKeys']> {
    return this.#table.getKeys(options);
  }

  /** Skips values that cannot be decoded, and reports them. */
  *getRange(options: Parameters<Database<Buffer, K>['getRange']>[0]): Iterable<{ key: K; value: Buffer }> {
    for (const { key, value } of this.#table.getRange(options)) {
      let plain: Buffer;
      try {
        plain = this.#sealing.open(this.#name, key, value);
      } catch (thrown) {
        if (!(thrown instanceof SealError)) throw thrown;
        tellOfDamage(this.#path, this.#name);
        continue;
      }
      yield { key, value: plain };
    }
  }
}

/** Called with the file and the table of each value that cannot be decoded. */
let tellOfDamage: (path: string, table: string) => void = () => {};

/** Reports damage outside the tables of LMDB to the listener of {@link onDamagedValue}. */
export function reportDamage(path: string, part: string): void {
  tellOfDamage(path, part);
}

/** Sets the listener for damaged values of this thread. */
export function onDamagedValue(tell: (path: string, table: string) => void): void {
  tellOfDamage = tell;
}

/** The table that identifies the key of a file. */
export const SEALING = 'sealing';
const IDENTITY_BYTES = 16;
const RECORD = Buffer.from('key');
/** In the table `sealing` of a file whose values have checksums. */
const CHECKS = Buffer.from('checksums');
const OPTIONS = { name: SEALING, encoding: 'binary', keyEncoding: 'binary', cache: false } as const;

/** The key type does not matter here. */
// biome-ignore lint/suspicious/noExplicitAny: files have keys of several kinds
type AnyRoot = RootDatabase<Buffer, any>;

/**
 * Checks whether the file matches the key. Records the key in an empty file.
 * @returns the codec of an encrypted file; null if the file is not encrypted and there is no key
 * @throws DataKeyError with a one-line message if they do not match
 */
export function checkSealing(root: AnyRoot, path: string, key: DataKey | null): FileSealing | null {
  // Checked before the record is read, because a thread that creates the file writes the record before other rows.
  const isNew = key !== null && root.getKeysCount({ limit: 1 }) === 0;
  let record = findTable(root)?.get(RECORD);
  if (record === undefined && isNew) {
    const table = root.openDB<Buffer, Buffer>(OPTIONS);
    root.transactionSync(() => {
      // Another thread may have written the record in the meantime.
      if (table.get(RECORD) !== undefined) return;
      table.putSync(RECORD, Buffer.concat([Buffer.from(key.id, 'hex'), randomBytes(IDENTITY_BYTES)]));
    });
    record = table.get(RECORD);
  }
  if (record === undefined && key === null) return null;
  const id = record?.toString('hex', 0, record.length - IDENTITY_BYTES);
  if (record !== undefined && id === key?.id)
    return new FileSealing(key!, record.subarray(record.length - IDENTITY_BYTES));
  // During a change of the key, each file may have either key.
  const why = existsSync(planPath(dirname(path))) ? ` (${describePlan(dirname(path))})` : '';
  if (record === undefined) {
    throw new DataKeyError(
      `${path} is not encrypted, and DATA_KEY_FILE is set: understudy rekey encrypts its content${why}`,
    );
  }
  if (key === null)
    throw new DataKeyError(`${path} is encrypted: DATA_KEY_FILE must name the file of its key (${id})${why}`);
  throw new DataKeyError(
    `${path} is encrypted under another key (${id}) than the one in DATA_KEY_FILE (${key.id})${why}`,
  );
}

/** Reads the id of the data key that encrypts a file; null if the file is not encrypted. */
export function readKeyId(root: AnyRoot): string | null {
  const record = findTable(root)?.get(RECORD);
  return record === undefined ? null : record.toString('hex', 0, record.length - IDENTITY_BYTES);
}

/**
 * Chooses the codec of a file: values are encrypted if there is a key, and otherwise have checksums if the file says
 * so.
 * @returns null for a file of an earlier version, which has neither
 * @throws DataKeyError with a one-line message if file and key do not match
 */
export function openCodec(root: AnyRoot, path: string, key: DataKey | null): ValueCodec | null {
  const sealing = checkSealing(root, path, key);
  if (sealing !== null) return sealing;
  return findTable(root)?.get(CHECKS) === undefined ? null : new FileChecksums();
}

/**
 * Gives an empty file the identity of another file, so that values encrypted for the other file can be decrypted in the
 * new one, too. Does nothing if the other file is not encrypted.
 */
export function copySealing(from: AnyRoot, to: AnyRoot): void {
  const record = findTable(from)?.get(RECORD);
  if (record !== undefined) to.openDB<Buffer, Buffer>(OPTIONS).putSync(RECORD, record);
}

/** Records in an empty, unencrypted file that its values have checksums. */
export function markChecksums(root: AnyRoot): void {
  root.openDB<Buffer, Buffer>(OPTIONS).putSync(CHECKS, Buffer.from([1]));
}

function findTable(root: AnyRoot): Database<Buffer, Buffer> | undefined {
  try {
    // lmdb-js accepts `create` here but does not declare it.
    const options = { ...OPTIONS, create: false } as unknown as typeof OPTIONS;
    return root.openDB<Buffer, Buffer>(options);
  } catch (thrown) {
    if (/not ?found/i.test((thrown as Error).message)) return undefined;
    throw thrown;
  }
}
