/**
 * The order to erase exchanges, in a file beside the capture database. `understudy erase` writes it, and the process that
 * writes the database carries it out (log-erasure.ts). The order stays until everything is erased, so a process that
 * is killed finishes it at its next start. Command line, capture process.
 *
 *   capture.mdb.erase-order   given; the command may withdraw it
 *   capture.mdb.erasing       accepted; it is carried out
 *
 * With a data key, the file is encrypted.
 */
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { openDataKey } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { syncFolder } from '../../std/folder.ts';

const orderSchema = z.object({
  format: z.literal('understudy_erase_v1'),
  /** Ids to erase: first and last of each range, ascending. */
  ranges: z.array(z.tuple([z.int().positive(), z.int().positive()])),
  /** Turns that stay although they continue an erased turn. */
  followers: z.array(z.int().positive()),
  /** The runs of the erased exchanges. */
  run_ids: z.array(z.string()),
  /** Whether one of these runs keeps exchanges. */
  is_partial: z.boolean(),
  /** SHA-256 of attachments that only erased exchanges had, among the exchanges up to `last_id`. */
  attachments: z.array(z.string().regex(/^[0-9a-f]{64}$/)),
  /**
   * Some exchanges to erase, at least one of each file, with their times. A file in which they differ belongs to another
   * database, and nothing is erased from it.
   */
  marks: z.array(z.object({ id: z.int().positive(), started_at: z.string() })),
  /** The last exchange that was examined. */
  last_id: z.int().nonnegative(),
});

export type EraseOrder = z.output<typeof orderSchema>;

const PURPOSE = 'erase order';

/** Path of an order that was given. */
export function givenOrderPath(db: string): string {
  return `${db}.erase-order`;
}

/** Path of an order that is being carried out. */
export function acceptedOrderPath(db: string): string {
  return `${db}.erasing`;
}

/** Path of the reason why an accepted order could not be carried out yet. */
function failurePath(db: string): string {
  return `${db}.erasing-failed`;
}

/** Notes why the order could not be carried out now. @throws Error of the file system */
export function noteFailure(db: string, words: string): void {
  writeFileSync(failurePath(db), words, { mode: 0o600 });
}

/** Why the order could not be carried out yet; null: no attempt has failed. */
export function readFailure(db: string): string | null {
  try {
    return readFileSync(failurePath(db), 'utf8');
  } catch {
    return null;
  }
}

/** Whether an order exists, given or accepted. */
export function hasOrder(db: string): boolean {
  return existsSync(givenOrderPath(db)) || existsSync(acceptedOrderPath(db));
}

/**
 * Gives an order. It is on the disk when this returns.
 * @returns false if another order exists
 * @throws Error of the file system
 */
export function giveOrder(db: string, order: EraseOrder, dataKey: Uint8Array | null): boolean {
  const path = givenOrderPath(db);
  const draft = `${path}.${process.pid}`;
  const plain = Buffer.from(JSON.stringify(order));
  const bytes = openDataKey(dataKey)?.sealer(PURPOSE).seal(plain, Buffer.from(PURPOSE)) ?? plain;
  try {
    writeFileSync(draft, bytes, { mode: 0o600, flush: true });
    if (existsSync(acceptedOrderPath(db))) return false;
    linkSync(draft, path);
    syncFolder(dirname(db));
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw namePlace(thrown, path);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Withdraws an order. @returns false if it was accepted */
export function withdrawOrder(db: string): boolean {
  try {
    rmSync(givenOrderPath(db));
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw thrown;
  }
}

/**
 * Accepts the order, or continues an accepted one.
 * @returns null without an order
 * @throws Error if it cannot be read
 */
export function acceptOrder(db: string, dataKey: Uint8Array | null): EraseOrder | null {
  const path = acceptedOrderPath(db);
  rmSync(failurePath(db), { force: true });
  if (!existsSync(path)) {
    if (!existsSync(givenOrderPath(db))) return null;
    renameSync(givenOrderPath(db), path);
    syncFolder(dirname(db));
  }
  const bytes = readFileSync(path);
  try {
    const plain = openDataKey(dataKey)?.sealer(PURPOSE).open(bytes, Buffer.from(PURPOSE)) ?? bytes;
    return orderSchema.parse(JSON.parse(plain.toString()));
  } catch (cause) {
    throw new Error(`${path} cannot be read: erase again what it named, then remove it`, { cause });
  }
}

/** Ends the order, because everything is erased. */
export function endOrder(db: string): void {
  rmSync(failurePath(db), { force: true });
  rmSync(acceptedOrderPath(db), { force: true });
  syncFolder(dirname(db));
}

/** The ids as ranges. @param ids ascending */
export function toRanges(ids: Iterable<number>): [number, number][] {
  const ranges: [number, number][] = [];
  for (const id of ids) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === id - 1) last[1] = id;
    else ranges.push([id, id]);
  }
  return ranges;
}

/** The ids of an order. */
export function listIds({ ranges }: Pick<EraseOrder, 'ranges'>): Set<number> {
  const ids = new Set<number>();
  for (const [first, last] of ranges) for (let id = first; id <= last; id++) ids.add(id);
  return ids;
}
