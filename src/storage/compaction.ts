/**
 * Rewrites the databases of DATA_DIR without deleted content and unused pages. At its start, before a thread opens the
 * files, the service compacts the files that are marked as containing deleted content (lmdb/deletion-mark.ts), and the
 * files that are mostly unused; `understudy compact` compacts both files. Main thread.
 */
import { existsSync, statSync } from 'node:fs';
import { isThere, namePlace, refuseWithoutRoom } from '../std/file-place.ts';
import { type Compacted, compactStoreFile, hasDeletions, measureStoreFile } from './lmdb/store-file.ts';
import { databasePaths, refuseShared, tryStores } from './lmdb/stores.ts';
import { describePlan, planPath } from './plan-file.ts';
import { refuseHalfRestored } from './restore-marker.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** Compaction is not possible now. The message is one line for the operator. */
export class CompactionError extends Error {
  override readonly name = 'CompactionError';
}

/** A file with fewer unused bytes is not compacted for their sake. */
const UNUSED_BYTES_MIN = 32 << 20;

/** A marked file that was not compacted, and why. */
interface PutOff {
  path: string;
  why: string;
}

/**
 * Compacts the files that are marked as containing deleted content, and those that are mostly unused. Must run after
 * {@link tryStores}, while no thread or process has the files open. A file that cannot be compacted now works as before,
 * and keeps its mark.
 * @param maxBytes more bytes are left to `understudy compact`, because copying them would delay the start too long
 * @returns the compacted files, and marked files that were not compacted
 */
export async function compactAtStart(
  files: readonly string[],
  maxBytes: number,
): Promise<{ done: Compacted[]; put_off: PutOff[] }> {
  const done: Compacted[] = [];
  const put_off: PutOff[] = [];
  for (const path of files) {
    let isMarked = true;
    try {
      isMarked = await hasDeletions(path);
      if (!isMarked && !(await isMostlyUnused(path, maxBytes))) continue;
      if (isMarked && statSync(path).size > maxBytes)
        put_off.push({ path, why: `the file is larger than ${maxBytes} bytes` });
      else done.push(await compactWithRoom(path));
    } catch (thrown) {
      if (isMarked) put_off.push({ path, why: (thrown as Error).message });
    }
  }
  return { done, put_off };
}

/**
 * Whether most of a file is unused, so that a copy is worth its time. While many runs are written, pages that the last
 * checkpoint refers to cannot be reused, so runs.mdb grows to several times its content.
 */
async function isMostlyUnused(path: string, maxBytes: number): Promise<boolean> {
  const { bytes, unused_bytes } = await measureStoreFile(path);
  return unused_bytes >= UNUSED_BYTES_MIN && unused_bytes * 2 > bytes && bytes - unused_bytes <= maxBytes;
}

/**
 * Compacts both databases of a DATA_DIR and empties the redo logs.
 * @param progress called before each file is rewritten
 * @throws CompactionError if a process uses the folder, if a change of its data key is not finished, or if it has no
 *   databases; Error with a one-line message for a shared or half-restored folder; DataKeyError; a file system error.
 *   Each file is then either unchanged or compacted.
 */
export async function compactData(
  { data_dir, data_key }: { data_dir: string; data_key: Uint8Array | null },
  progress: (path: string) => void,
): Promise<Compacted[]> {
  const paths = databasePaths(data_dir, data_key);
  let claim: WriterClaim | null = null;
  try {
    // Checked before the claim, because a running box has the claim, and the message about shared rows is the more
    // useful one.
    refuseShared(data_dir);
    claim = await claimWriter(paths.main, { patience_ms: 0 });
    refuseHalfRestored(paths.main);
    if (existsSync(planPath(data_dir)))
      throw new CompactionError(`${describePlan(data_dir)}: start the service first`);
    if (!isThere(paths.main) && !isThere(paths.runs))
      throw new CompactionError(`${data_dir} holds no databases: set DATA_DIR to the folder of the service`);
    await tryStores(paths);
    const done: Compacted[] = [];
    for (const path of [paths.main, paths.runs]) {
      progress(path);
      done.push(await compactWithRoom(path));
    }
    return done;
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError)
      throw new CompactionError(
        `${thrown.holder} uses ${data_dir}: stop that process first (SIGTERM), and start it again afterwards`,
      );
    throw thrown;
  } finally {
    await claim?.release();
  }
}

async function compactWithRoom(path: string): Promise<Compacted> {
  refuseWithoutRoom(path, statSync(path).size);
  try {
    return await compactStoreFile(path);
  } catch (thrown) {
    throw namePlace(thrown, path);
  }
}
