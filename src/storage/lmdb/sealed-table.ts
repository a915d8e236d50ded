/**
 * A table of an LMDB file whose values are sealed; its keys stand as they are. What LMDB has itself does not serve: its cipher
 * gives a page the same keystream each time it is written, in every file of the key, and notices no change. Any thread.
 *
 * A file says in the table `sealing` under which key it is, and what it is called: rows of one file do not open in another.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Database, RootDatabase } from 'lmdb';
import { type DataKey, DataKeyError, SealError, type Sealer } from '../../std/data-key.ts';
import { describePlan, planPath } from '../rekey-plan.ts';

type Key = Buffer | number;

/** What is done with a table, sealed or not. */
export type ValueTable<K extends Key> = Pick<
  Database<Buffer, K>,
  'get' | 'putSync' | 'removeSync' | 'resetReadTxn' | 'getKeys'
> & {
  getRange(options: Parameters<Database<Buffer, K>['getRange']>[0]): Iterable<{ key: K; value: Buffer }>;
};

/** Of one file. */
export class FileSealing {
  readonly key: DataKey;
  readonly sealer: Sealer;
  readonly #identity: Buffer;

  constructor(key: DataKey, identity: Buffer) {
    this.key = key;
    this.sealer = key.sealer('rows');
    this.#identity = identity;
  }

  /** What is bound to a value. */
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

  /** @param room bytes that are left free before them */
  seal(table: string, key: Key, plain: Uint8Array, room = 0): Buffer {
    return this.sealer.seal(plain, this.placeOf(table, key), room);
  }

  /** @throws SealError */
  open(table: string, key: Key, sealed: Uint8Array): Buffer {
    return this.sealer.open(sealed, this.placeOf(table, key));
  }
}

export class SealedTable<K extends Key> implements ValueTable<K> {
  readonly #table: Database<Buffer, K>;
  readonly #name: string;
  readonly #sealing: FileSealing;

  constructor(table: Database<Buffer, K>, name: string, sealing: FileSealing) {
    this.#table = table;
    this.#name = name;
    this.#sealing = sealing;
  }

  /** @throws SealError */
  get(key: K): Buffer | undefined {
    const sealed = this.#table.get(key);
    return sealed === undefined ? undefined : this.#sealing.open(this.#name, key, sealed);
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

  getKeys(
    options: Parameters<Database<Buffer, K>['getKeys']>[0],
  ): ReturnType<Database<Buffer, K>['getKeys']> {
    return this.#table.getKeys(options);
  }

  /** Without the values that do not open: one that is damaged is missing, and the others are there. */
  *getRange(options: Parameters<Database<Buffer, K>['getRange']>[0]): Iterable<{ key: K; value: Buffer }> {
    for (const { key, value } of this.#table.getRange(options)) {
      let plain: Buffer;
      try {
        plain = this.#sealing.open(this.#name, key, value);
      } catch (thrown) {
        if (thrown instanceof SealError) continue;
        throw thrown;
      }
      yield { key, value: plain };
    }
  }
}

/** The table that says under which key a file is. */
export const SEALING = 'sealing';
const IDENTITY_BYTES = 16;
const RECORD = Buffer.from('key');
const OPTIONS = { name: SEALING, encoding: 'binary', keyEncoding: 'binary', cache: false } as const;

/** Its own keys are not looked at. */
// biome-ignore lint/suspicious/noExplicitAny: files have keys of several kinds
type AnyRoot = RootDatabase<Buffer, any>;

/**
 * Whether the file goes with the key; a new one is marked with it.
 * @returns null for a file that is not sealed, where there is no key
 * @throws DataKeyError of one line when it does not
 */
export function checkSealing(root: AnyRoot, path: string, key: DataKey | null): FileSealing | null {
  // Asked first: another thread that makes the file marks it before it makes anything else.
  const isNew = key !== null && root.getKeysCount({ limit: 1 }) === 0;
  let record = readRecord(root);
  if (record === undefined && isNew) {
    const table = root.openDB<Buffer, Buffer>(OPTIONS);
    root.transactionSync(() => {
      // Another thread may have been quicker.
      if (table.get(RECORD) !== undefined) return;
      table.putSync(RECORD, Buffer.concat([Buffer.from(key.id, 'hex'), randomBytes(IDENTITY_BYTES)]));
    });
    record = table.get(RECORD);
  }
  if (record === undefined && key === null) return null;
  const id = record?.toString('hex', 0, record.length - IDENTITY_BYTES);
  if (record !== undefined && id === key?.id)
    return new FileSealing(key!, record.subarray(record.length - IDENTITY_BYTES));
  // Half of what is there may be under either key.
  const why = existsSync(planPath(dirname(path))) ? ` (${describePlan(dirname(path))})` : '';
  if (record === undefined) {
    throw new DataKeyError(
      `${path} is not encrypted, and DATA_KEY_FILE is set: understudy rekey encrypts what is there${why}`,
    );
  }
  if (key === null)
    throw new DataKeyError(`${path} is encrypted: DATA_KEY_FILE must name the file of its key (${id})${why}`);
  throw new DataKeyError(
    `${path} is encrypted under another key (${id}) than the one in DATA_KEY_FILE (${key.id})${why}`,
  );
}

function readRecord(root: AnyRoot): Buffer | undefined {
  try {
    // lmdb-js takes `create` here but does not declare it.
    const options = { ...OPTIONS, create: false } as unknown as typeof OPTIONS;
    const table: Database<Buffer, Buffer> | undefined = root.openDB<Buffer, Buffer>(options);
    return table?.get(RECORD);
  } catch (thrown) {
    if (/not ?found/i.test((thrown as Error).message)) return undefined;
    throw thrown;
  }
}
