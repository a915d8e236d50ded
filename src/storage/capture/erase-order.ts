/**
 * The order to erase exchanges (order-file.ts). `understudy erase` gives the order, and the process that writes the
 * database carries it out (log-erasure.ts). Command line, capture process.
 *
 *   capture.mdb.erase-order   given; the command may withdraw it
 *   capture.mdb.erasing       accepted; it is carried out
 *
 * With a data key, the file is encrypted.
 */
import { z } from 'zod';
import { openDataKey } from '../../std/data-key.ts';
import { OrderFile } from './order-file.ts';

const orderSchema = z.object({
  format: z.literal('understudy_erase_v1'),
  /** Ids to erase: first and last of each range, ascending. */
  ranges: z.array(z.tuple([z.int().positive(), z.int().positive()])),
  /** Turns that stay although they continue an erased turn. */
  followers: z.array(z.int().positive()),
  /** The runs of the erased exchanges. */
  run_ids: z.array(z.string()),
  /** Whether one of the runs in `run_ids` also has exchanges that stay. */
  is_partial: z.boolean(),
  /** SHA-256 of attachments that only erased exchanges had, among the exchanges up to `last_id`. */
  attachments: z.array(z.string().regex(/^[0-9a-f]{64}$/)),
  /**
   * Some of the exchanges to erase, at least one of each file, with their times. If an exchange of a file has another
   * time, the file belongs to another database, and nothing is erased from it.
   */
  marks: z.array(z.object({ id: z.int().positive(), started_at: z.string() })),
  /** The last exchange that was examined. */
  last_id: z.int().nonnegative(),
});

export type EraseOrder = z.output<typeof orderSchema>;

const PURPOSE = 'erase order';

export function eraseOrderFile(db: string): OrderFile {
  return new OrderFile(db, { given: '.erase-order', accepted: '.erasing' });
}

/** Whether an order exists, given or accepted. */
export function hasOrder(db: string): boolean {
  return eraseOrderFile(db).exists();
}

/**
 * Gives an order. It is on the disk when this returns.
 * @returns false if another order exists
 * @throws a file system error
 */
export function giveOrder(db: string, order: EraseOrder, dataKey: Uint8Array | null): boolean {
  const plain = Buffer.from(JSON.stringify(order));
  const bytes = openDataKey(dataKey)?.sealer(PURPOSE).seal(plain, Buffer.from(PURPOSE)) ?? plain;
  return eraseOrderFile(db).give(bytes);
}

/**
 * Accepts the given order, or returns the one that was accepted earlier.
 * @returns null if there is no order
 * @throws Error if it cannot be read
 */
export function acceptOrder(db: string, dataKey: Uint8Array | null): EraseOrder | null {
  const file = eraseOrderFile(db);
  const bytes = file.accept();
  if (bytes === null) return null;
  try {
    const plain = openDataKey(dataKey)?.sealer(PURPOSE).open(bytes, Buffer.from(PURPOSE)) ?? bytes;
    return orderSchema.parse(JSON.parse(plain.toString()));
  } catch (cause) {
    throw new Error(
      `${file.accepted} cannot be read: erase again what the file named, then remove the file`,
      { cause },
    );
  }
}

/** Returns the ids as ranges. @param ids ascending */
export function toRanges(ids: Iterable<number>): [number, number][] {
  const ranges: [number, number][] = [];
  for (const id of ids) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === id - 1) last[1] = id;
    else ranges.push([id, id]);
  }
  return ranges;
}

/** Lists the ids of an order. */
export function listIds({ ranges }: Pick<EraseOrder, 'ranges'>): Set<number> {
  const ids = new Set<number>();
  for (const [first, last] of ranges) for (let id = first; id <= last; id++) ids.add(id);
  return ids;
}
