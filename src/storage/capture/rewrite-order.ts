/**
 * Orders to write capture files again while exchanges are stored, each in a file beside the capture database. A command
 * gives the order, and the process that writes the database carries it out (log-rewrite.ts). An accepted order stays
 * until it is done, so a process that is killed continues it at its next start. Any thread.
 *
 *   capture.mdb.compact-order   give unused space back: given; the command may withdraw it
 *   capture.mdb.compacting      accepted
 *   capture.mdb.rekey-order     write everything under another key: given
 *   capture.mdb.rekeying        accepted
 */
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { namePlace } from '../../std/file-place.ts';
import { syncFolder } from '../../std/folder.ts';
import { type KeyChange, keyChangeSchema } from './capture-keys.ts';

const REWRITE_KINDS = ['compact', 'rekey'] as const;
export type RewriteKind = (typeof REWRITE_KINDS)[number];

const SUFFIXES = {
  compact: { given: '.compact-order', accepted: '.compacting' },
  rekey: { given: '.rekey-order', accepted: '.rekeying' },
} as const;

const givenPath = (db: string, kind: RewriteKind) => db + SUFFIXES[kind].given;
const acceptedPath = (db: string, kind: RewriteKind) => db + SUFFIXES[kind].accepted;
/** The reason why an accepted order could not be carried out yet. */
const failurePath = (db: string, kind: RewriteKind) => `${acceptedPath(db, kind)}-failed`;

/** The order that exists, given or accepted; null: none. */
export function findRewriteOrder(db: string): RewriteKind | null {
  return REWRITE_KINDS.find((kind) => hasRewriteOrder(db, kind)) ?? null;
}

/** Whether such an order exists, given or accepted. */
export function hasRewriteOrder(db: string, kind: RewriteKind): boolean {
  return isGiven(db, kind) || existsSync(acceptedPath(db, kind));
}

/** The files of an order to change the key. */
export function listRekeyOrderFiles(db: string): string[] {
  return [givenPath(db, 'rekey'), acceptedPath(db, 'rekey'), failurePath(db, 'rekey')];
}

/** The order was given, and is not accepted yet. */
export function isGiven(db: string, kind: RewriteKind): boolean {
  return existsSync(givenPath(db, kind));
}

/**
 * Gives an order. It is on the disk when this returns.
 * @param change for `rekey`
 * @returns false if such an order exists
 * @throws Error of the file system
 */
export function giveRewriteOrder(db: string, kind: RewriteKind, change: KeyChange | null = null): boolean {
  const path = givenPath(db, kind);
  const draft = `${path}.${process.pid}`;
  try {
    writeFileSync(draft, JSON.stringify(change), { mode: 0o600, flush: true });
    if (existsSync(acceptedPath(db, kind))) return false;
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
export function withdrawRewriteOrder(db: string, kind: RewriteKind): boolean {
  try {
    rmSync(givenPath(db, kind));
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw thrown;
  }
}

/**
 * Accepts the order, or continues an accepted one.
 * @returns the change of the key; null for `compact`
 * @throws Error if the order cannot be read
 */
export function acceptRewriteOrder(db: string, kind: RewriteKind): KeyChange | null {
  const path = acceptedPath(db, kind);
  rmSync(failurePath(db, kind), { force: true });
  if (!existsSync(path)) {
    renameSync(givenPath(db, kind), path);
    syncFolder(dirname(db));
  }
  try {
    const read: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return kind === 'compact' ? null : keyChangeSchema.parse(read);
  } catch (cause) {
    throw new Error(`${path} cannot be read: remove it, and give the command again`, { cause });
  }
}

/** Ends the order, because it was carried out. */
export function endRewriteOrder(db: string, kind: RewriteKind): void {
  rmSync(failurePath(db, kind), { force: true });
  rmSync(acceptedPath(db, kind), { force: true });
  syncFolder(dirname(db));
}

/** Notes why the order could not be carried out now. @throws Error of the file system */
export function noteRewriteFailure(db: string, kind: RewriteKind, words: string): void {
  writeFileSync(failurePath(db, kind), words, { mode: 0o600 });
}

/** Why the accepted order could not be carried out yet; null: no attempt has failed. */
export function readRewriteFailure(db: string, kind: RewriteKind): string | null {
  try {
    return readFileSync(failurePath(db, kind), 'utf8');
  } catch {
    return null;
  }
}
