/**
 * Rewrites the capture files without unused space, or with another key. Gives an order (capture/rewrite-order.ts) to
 * the process that writes the captures, which continues to store new exchanges. If no such process runs, carries the
 * order out itself. Main thread of the command line.
 */
import { statSync } from 'node:fs';
import { DataKey } from '../std/data-key.ts';
import { isThere } from '../std/file-place.ts';
import { describeKeyChange, type KeyChange, readKeyChange } from './capture/capture-keys.ts';
import { hasOrder } from './capture/erase-order.ts';
import { closeEnv, listSealed, openCaptureEnv } from './capture/layout.ts';
import { CaptureLog } from './capture/log.ts';
import { giveRewriteOrder, type RewriteKind, rewriteOrderFile } from './capture/rewrite-order.ts';
import type { DecodeExchange } from './capture/stored-copy.ts';
import { awaitOrderEnd } from './order-end.ts';
import { settlePlan } from './rekey-plan.ts';
import { refuseHalfRestored } from './restore-marker.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** The files cannot be rewritten now. The message is one line for the user. */
export class RewriteError extends Error {
  override readonly name = 'RewriteError';
}

interface RewriteOptions {
  data_dir: string;
  capture_db: string;
  /** Secret; null: nothing is encrypted. */
  data_key: Uint8Array | null;
  decode: DecodeExchange;
  /** Maximum time that the writing process may take to accept the order. */
  accept_ms?: number;
}

/** Total size of all capture files. */
interface RewriteReport {
  before_bytes: number;
  after_bytes: number;
}

type RewriteProgress = (name: string, doneBytes: number, ofBytes: number) => void;

/**
 * Gives unused space of the capture files back.
 * @throws RewriteError; DataKeyError; CaptureFileError; a file system error
 */
export async function compactCaptures(
  options: RewriteOptions,
  progress: RewriteProgress,
): Promise<RewriteReport> {
  refuseMissing(options.capture_db);
  const before_bytes = measureFiles(options.capture_db);
  await carryOut(options, 'compact', null, progress);
  return { before_bytes, after_bytes: measureFiles(options.capture_db) };
}

/**
 * Encrypts the captures with another key. Until `rekeyData` has changed the other databases, the old key still opens
 * all data, and reading the captures needs `capture.mdb.keys`.
 * @throws RewriteError; DataKeyError; CaptureFileError; a file system error
 */
export async function rekeyCaptures(
  options: RewriteOptions & { to: Uint8Array | null },
  progress: RewriteProgress,
): Promise<RewriteReport> {
  const { capture_db, data_key: from, to } = options;
  refuseMissing(capture_db);
  if (from === null || to === null)
    throw new RewriteError(
      'while the service runs, a key can only be replaced by another key: to encrypt for the first time, or to decrypt, stop the service and leave out --captures',
    );
  const earlier = readKeyChange(capture_db);
  const [fromId, toId] = [new DataKey(from).id, new DataKey(to).id];
  if (earlier !== null && (earlier.to !== toId || earlier.from !== fromId))
    throw new RewriteError(
      `${capture_db} was changed from key ${earlier.from} to key ${earlier.to}, and the databases beside it were not: ` +
        `stop the service and run understudy rekey --to the file of ${earlier.to} first`,
    );
  if (hasOrder(capture_db))
    throw new RewriteError(`${capture_db}: an erasure is not finished; try again when the erasure is`);
  await refuseOtherKey(capture_db, from);
  const before_bytes = measureFiles(capture_db);
  await carryOut(options, 'rekey', describeKeyChange(from, to), progress);
  return { before_bytes, after_bytes: measureFiles(capture_db) };
}

/** Checks the key of the newest file. @throws DataKeyError if the file has another key */
async function refuseOtherKey(db: string, key: Uint8Array): Promise<void> {
  const path = isThere(db) ? db : listSealed(db).at(-1)!.path;
  await closeEnv(openCaptureEnv(path, 'read', key));
}

function refuseMissing(db: string): void {
  if (!isThere(db) && listSealed(db).length === 0) throw new RewriteError(`${db}: no such capture database`);
}

function measureFiles(db: string): number {
  return [db, ...listSealed(db).map(({ path }) => path)].reduce(
    (sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

async function carryOut(
  options: RewriteOptions,
  kind: RewriteKind,
  change: KeyChange | null,
  progress: RewriteProgress,
): Promise<void> {
  const { capture_db } = options;
  let claim: WriterClaim;
  try {
    claim = await claimWriter(capture_db, { patience_ms: 0 });
  } catch (thrown) {
    if (!(thrown instanceof WriterClaimedError)) throw thrown;
    refuseHalfRestored(capture_db);
    giveRewriteOrder(capture_db, kind, change);
    const { holder } = thrown;
    return await awaitOrderEnd({
      file: rewriteOrderFile(capture_db, kind),
      capture_db,
      holder,
      accept_ms: options.accept_ms,
      onLook: () => progress(`${capture_db}: ${holder} rewrites the files`, 0, 0),
      carryOut: () => carryOutAlone(options, kind),
      refuse: (words) => new RewriteError(words),
    });
  }
  try {
    refuseHalfRestored(capture_db);
    await settlePlan({ data_dir: options.data_dir, capture_db }, [capture_db]);
    giveRewriteOrder(capture_db, kind, change);
    progress(capture_db, 0, 0);
    await carryOutAlone(options, kind);
  } finally {
    await claim.release();
  }
}

/** Carries out the order in this process, because no other process writes. */
async function carryOutAlone(options: RewriteOptions, kind: RewriteKind): Promise<void> {
  const { capture_db: path, data_key, decode } = options;
  const log = await CaptureLog.open({ path, redact: true, decode, data_key, has_text_index: true });
  try {
    while (rewriteOrderFile(path, kind).exists()) await log.rewriteOrdered();
  } finally {
    await log.close();
  }
}
