/**
 * Encodes the changes of a transaction before it begins, so that only errors of the database can occur in it. A redo
 * log stores the same bytes (redo-log.ts). Any thread.
 * A change in a log: [u8 operation][u8 length][database][u16 length][key][u32 length][value], big-endian. The value of
 * an `add` is msgpack; that of a `clear` is the key at which the range ends.
 */
import { Packr } from 'msgpackr';
import { markRemoval, markReplacement } from './deletion-mark.ts';
import type { Environment } from './environment.ts';

/** Plain msgpack. Records of msgpackr are off, because other threads and versions do not know their structures. */
export const packr = new Packr({ useRecords: false, moreTypes: false, variableMapSize: true });

export type Change =
  | { op: 'put'; database: string; key: Buffer; value: Buffer }
  | { op: 'remove'; database: string; key: Buffer }
  /** Adds to the counters in a row. */
  | { op: 'add'; database: string; key: Buffer; counts: Readonly<Record<string, number>> }
  /** Removes the keys from `key` up to, but not including, `end`. */
  | { op: 'clear'; database: string; key: Buffer; end: Buffer }
  /** Removes the first `limit` of these keys. Never stored in a log, only applied to the database. */
  | { op: 'trim'; database: string; key: Buffer; end: Buffer; limit: number };

/** The operations that a log can contain. The index of an operation is its number in the log. */
const OPERATIONS = ['put', 'remove', 'add', 'clear'] as const;
type LoggedOperation = (typeof OPERATIONS)[number];
const NOTHING = Buffer.alloc(0);

/**
 * Merges the `add` changes of each row, so that the row is read and written once. Changes before and after a put or a
 * removal of the row are not merged with each other.
 */
export function mergeCounts(changes: readonly Change[]): readonly Change[] {
  const counted = new Set<string>();
  let adds = 0;
  for (const { op, database } of changes) {
    if (op !== 'add') continue;
    counted.add(database);
    adds++;
  }
  if (adds < 2) return changes;
  /** For each row of a database: the sum to which the next counts are added; null after a put or a removal. */
  const sums = new Map<string, Record<string, number> | null>();
  const merged: Change[] = [];
  /**
   * The last row with an `add`. The next `add` is usually to the same row, and comparing bytes is faster than the
   * lookup.
   */
  let last: { database: string; key: Buffer; sum: Record<string, number> } | null = null;
  for (const change of changes) {
    const { database, key } = change;
    if (!counted.has(database)) {
      merged.push(change);
      continue;
    }
    if (change.op === 'add' && last !== null && last.database === database && last.key.equals(key)) {
      addCounts(last.sum, change.counts);
      continue;
    }
    const place = `${database}\0${key.toString('latin1')}`;
    last = null;
    if (change.op !== 'add') {
      sums.set(place, null);
      merged.push(change);
      continue;
    }
    let sum = sums.get(place);
    if (sum == null) {
      sum = { ...change.counts };
      sums.set(place, sum);
      merged.push({ op: 'add', database, key, counts: sum });
    } else addCounts(sum, change.counts);
    last = { database, key, sum };
  }
  return merged;
}

function addCounts(sum: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const name of Object.keys(counts)) sum[name] = (sum[name] ?? 0) + counts[name]!;
}

/** Applies a change. Call it inside a write transaction of the file. */
export function applyChange(environment: Environment, change: Change): void {
  const database = environment.named(change.database);
  switch (change.op) {
    case 'put':
      markReplacement(environment, change.database, change.key);
      database.putSync(change.key, change.value);
      return;
    case 'remove':
      if (database.removeSync(change.key)) markRemoval(environment, change.database);
      return;
    case 'add': {
      const stored = database.get(change.key);
      const counts = stored === undefined ? {} : (packr.unpack(stored) as Record<string, number>);
      addCounts(counts, change.counts);
      database.putSync(change.key, packr.pack(counts));
      return;
    }
    case 'clear':
      for (const key of [...database.getKeys({ start: change.key, end: change.end })])
        database.removeSync(key);
      return;
    case 'trim': {
      const { key: start, end, limit } = change;
      const keys = [...database.getKeys({ start, end, limit })];
      for (const key of keys) database.removeSync(key);
      if (keys.length > 0) markRemoval(environment, change.database);
      return;
    }
  }
}

/** Number of bytes of the longest change without database name, key and value. */
const CHANGE_HEAD_BYTES = 8;

/** Counts the bytes that {@link writeChange} writes for a put or a removal. */
export function changeBytes(change: Extract<Change, { op: 'put' | 'remove' }>): number {
  const value = change.op === 'put' ? change.value.length : 0;
  return CHANGE_HEAD_BYTES + nameBytes(change.database).length + change.key.length + value;
}

/**
 * Writes a change for a redo log. @returns where the next change begins; −1 if the change does not fit. A part of it
 * may then be written
 * @throws RangeError for a `trim`, which a log cannot contain
 */
export function writeChange(change: Change, into: Buffer, at: number): number {
  const { op, database, key } = change;
  if (op === 'trim') throw new RangeError('a trim in a redo log');
  const value =
    op === 'put'
      ? change.value
      : op === 'add'
        ? packr.pack(change.counts)
        : op === 'clear'
          ? change.end
          : NOTHING;
  const name = nameBytes(database);
  if (at + CHANGE_HEAD_BYTES + name.length + key.length + value.length > into.length) return -1;
  into[at] = OPERATIONS.indexOf(op satisfies LoggedOperation);
  into[at + 1] = name.length;
  into.set(name, at + 2);
  let next = into.writeUInt16BE(key.length, at + 2 + name.length);
  into.set(key, next);
  next = into.writeUInt32BE(value.length, next + key.length);
  into.set(value, next);
  return next + value.length;
}

/** Reads the changes of a record. Their buffers are views of the bytes. @throws RangeError for invalid bytes */
export function readChanges(bytes: Buffer): Change[] {
  const changes: Change[] = [];
  for (let at = 0; at < bytes.length; ) {
    const op = OPERATIONS[bytes[at]!];
    if (op === undefined) throw new RangeError('not a change');
    const nameEnd = at + 2 + bytes.readUInt8(at + 1);
    const database = bytes.toString('latin1', at + 2, nameEnd);
    const keyEnd = nameEnd + 2 + bytes.readUInt16BE(nameEnd);
    const key = bytes.subarray(nameEnd + 2, keyEnd);
    at = keyEnd + 4 + bytes.readUInt32BE(keyEnd);
    if (at > bytes.length) throw new RangeError('a change is cut off');
    const value = bytes.subarray(keyEnd + 4, at);
    if (op === 'put') changes.push({ op, database, key, value });
    else if (op === 'add') changes.push({ op, database, key, counts: packr.unpack(value) });
    else if (op === 'clear') changes.push({ op, database, key, end: value });
    else changes.push({ op, database, key });
  }
  return changes;
}

/** Cache: a file has few databases (environment.ts), and their names are ASCII. */
const names = new Map<string, Buffer>();

function nameBytes(database: string): Buffer {
  let bytes = names.get(database);
  if (bytes === undefined) {
    bytes = Buffer.from(database, 'latin1');
    if (bytes.length > 255) throw new RangeError(`a database called ${database}`);
    names.set(database, bytes);
  }
  return bytes;
}
