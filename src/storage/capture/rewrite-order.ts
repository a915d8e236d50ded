/**
 * Gives and accepts orders to write capture files again while exchanges are stored (order-file.ts). The process that
 * writes the database carries them out (log-rewrite.ts). Any thread.
 *
 *   capture.mdb.compact-order   give unused space back: given; the command may withdraw it
 *   capture.mdb.compacting      accepted
 *   capture.mdb.rekey-order     write everything under another key: given
 *   capture.mdb.rekeying        accepted
 */
import { type KeyChange, keyChangeSchema } from './capture-keys.ts';
import { OrderFile } from './order-file.ts';

const SUFFIXES = {
  compact: { given: '.compact-order', accepted: '.compacting' },
  rekey: { given: '.rekey-order', accepted: '.rekeying' },
} as const;

export type RewriteKind = keyof typeof SUFFIXES;

export function rewriteOrderFile(db: string, kind: RewriteKind): OrderFile {
  return new OrderFile(db, SUFFIXES[kind]);
}

/** Finds the kind of the order that exists, given or accepted; null without an order. */
export function findRewriteOrder(db: string): RewriteKind | null {
  return (['compact', 'rekey'] as const).find((kind) => rewriteOrderFile(db, kind).exists()) ?? null;
}

/** Lists the paths of the files of an order to change the key. */
export function listRekeyOrderFiles(db: string): string[] {
  const { given, accepted, failed } = rewriteOrderFile(db, 'rekey');
  return [given, accepted, failed];
}

/**
 * Gives an order. It is on the disk when this returns.
 * @param change the change of the key, for `rekey`; null for `compact`
 * @returns false if such an order exists
 * @throws a file system error
 */
export function giveRewriteOrder(db: string, kind: RewriteKind, change: KeyChange | null = null): boolean {
  return rewriteOrderFile(db, kind).give(JSON.stringify(change));
}

/**
 * Accepts the given order, or continues the accepted one. The order must exist.
 * @returns the change of the key; null for `compact`
 * @throws Error if the order cannot be read
 */
export function acceptRewriteOrder(db: string, kind: RewriteKind): KeyChange | null {
  const file = rewriteOrderFile(db, kind);
  const bytes = file.accept();
  if (kind === 'compact') return null;
  try {
    return keyChangeSchema.parse(JSON.parse(String(bytes)));
  } catch (cause) {
    throw new Error(`${file.accepted} cannot be read: remove the file, and run the command again`, { cause });
  }
}
