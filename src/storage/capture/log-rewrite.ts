/**
 * Carries out an order to write capture files again (rewrite-order.ts) while exchanges are stored: to give unused space
 * back, or to change the data key. The live file is sealed first if it needs the change. Then each sealed file that
 * needs the change is copied, and the copy replaces the file, so that files can be read at any time. An interrupted
 * order continues with the files that still need the change. Runs in the capture process, and on the command line while
 * no other process writes.
 *
 * During a change of the key, each attachment has two files, because its name depends on the key. The files of the old
 * key stay until `understudy rekey` has changed the other databases, too.
 */
import { createHash } from 'node:crypto';
import {
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { opendir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DataKey, SealError } from '../../std/data-key.ts';
import { refuseWithoutRoom } from '../../std/file-place.ts';
import { syncPath } from '../../std/synced-path.ts';
import { wipeCopiedPages } from '../lmdb/unused-bytes.ts';
import { nameAttachment, openAttachment, sealAttachment } from './attachments.ts';
import { type CaptureKeys, type KeyChange, readCaptureKeys, writeKeyChange } from './capture-keys.ts';
import { equalizeHeads, removeDatabase, rewriteCaptureFile } from './file-rewrite.ts';
import {
  attachmentsFolder,
  CaptureFileError,
  closeEnv,
  listSealed,
  makeReadOnly,
  measurePages,
  openCaptureEnv,
  type SealedFile,
} from './layout.ts';
import { acceptRewriteOrder, type RewriteKind, rewriteOrderFile } from './rewrite-order.ts';

/** Pause after each slice of work, during which the log can store exchanges. */
const PAUSE_MS = 15;
/** A file with less unused space is not written again. */
const UNUSED_BYTES_MIN = 64 << 10;
/** Minimum unused share of a file for a rewrite: `ordered` if an order asks for it, `erased` after an erasure. */
export const UNUSED_SHARE = { ordered: 1 / 8, erased: 1 / 2 } as const;

/** The methods of the log that a rewrite needs. */
interface RewritableLog {
  readonly path: string;
  readonly data_key: Uint8Array | null;
  /** The key of the live file; null: it is not encrypted. */
  readonly live_key_id: string | null;
  /** Measures the size of the live file, and of its unused pages. */
  measureLive(): { bytes: number; unused_bytes: number };
  /**
   * Runs work while nothing is stored.
   * @throws if the log is being closed
   */
  hold<Value>(work: () => Value | Promise<Value>): Promise<Value>;
  /** Seals the live file. @returns false: it is empty */
  seal(): Promise<boolean>;
  /** Within `hold`: replaces the live file, which is empty, by a new one. */
  replaceEmpty(): Promise<void>;
  /** Within `hold`: closes the sealed files that the log reads. */
  closeSealed(): Promise<void>;
  /** Restores all files whose blocks are in a bucket. @throws StoreError */
  restoreOffloaded(): Promise<void>;
  /** Removes the objects under the old key from a bucket. @throws StoreError */
  removeErasedObjects(): Promise<void>;
}

/** Carries out an order and removes it. @throws the storage's error; then the order stays, and can be repeated */
export async function rewriteOrdered(log: RewritableLog, kind: RewriteKind): Promise<void> {
  const change = acceptRewriteOrder(log.path, kind);
  if (change === null) await compactAll(log);
  else {
    // Blocks in a bucket are encrypted with the old key, so they are restored first.
    await log.restoreOffloaded();
    await new KeyRewrite(log, change).run();
    await log.removeErasedObjects();
  }
  rewriteOrderFile(log.path, kind).end();
}

async function compactAll(log: RewritableLog): Promise<void> {
  if (isWasteful(log.measureLive(), UNUSED_SHARE.ordered)) await log.seal();
  for (const file of listSealed(log.path)) {
    refuseUnsealed(file);
    await compactSealed(log, file.path, UNUSED_SHARE.ordered);
  }
}

/** Whether at least `share` of a file, and at least UNUSED_BYTES_MIN, is unused. */
function isWasteful(
  { bytes, unused_bytes }: { bytes: number; unused_bytes: number },
  share: number,
): boolean {
  return unused_bytes >= UNUSED_BYTES_MIN && unused_bytes >= share * bytes;
}

/**
 * Writes a sealed file again without its unused pages, if these are a large part of the file.
 * @param share the minimum unused share
 * @throws the storage's error; the file is then unchanged
 */
export async function compactSealed(
  log: Pick<RewritableLog, 'data_key' | 'hold' | 'closeSealed'>,
  path: string,
  share: number,
): Promise<void> {
  if (!existsSync(path)) return;
  const copy = `${path}.compact`;
  const env = openCaptureEnv(path, 'read', log.data_key);
  try {
    const pages = measurePages(env);
    if (!isWasteful(pages, share)) return;
    refuseWithoutRoom(copy, pages.bytes - pages.unused_bytes);
    removeDatabase(copy);
    await env.root.backup(copy, true);
  } finally {
    await closeEnv(env);
  }
  equalizeHeads(copy);
  await wipeCopiedPages(copy, () => pause(PAUSE_MS));
  syncPath(copy);
  makeReadOnly(copy);
  await putInPlace(log, copy, path);
}

async function putInPlace(
  log: Pick<RewritableLog, 'hold' | 'closeSealed'>,
  copy: string,
  path: string,
): Promise<void> {
  await log.hold(async () => {
    await log.closeSealed();
    // Expiry may have removed the file in the meantime.
    if (existsSync(path)) {
      renameSync(copy, path);
      rmSync(`${path}-lock`, { force: true });
    } else removeDatabase(copy);
    syncPath(dirname(path));
  });
}

function refuseUnsealed({ path, sealing }: SealedFile): void {
  if (sealing)
    throw new CaptureFileError(
      'unreadable',
      path,
      'not sealed yet: POST /__gw/rotate on the gateway, then try again',
    );
}

class KeyRewrite {
  readonly #log: RewritableLog;
  readonly #change: KeyChange;
  readonly #keys: CaptureKeys;
  readonly #old: DataKey;
  readonly #new: DataKey;

  constructor(log: RewritableLog, change: KeyChange) {
    this.#log = log;
    this.#change = change;
    writeKeyChange(log.path, change);
    this.#keys = readCaptureKeys(log.path, log.data_key);
    const [to, from] = this.#keys.all;
    if (to == null || from == null)
      throw new Error(`${log.path}: the file has another key than the one to replace`);
    this.#old = new DataKey(from);
    this.#new = new DataKey(to);
  }

  async run(): Promise<void> {
    const log = this.#log;
    if (log.live_key_id !== this.#change.to && !(await log.seal())) await log.hold(() => log.replaceEmpty());
    await this.#copyAttachments();
    for (const file of listSealed(log.path)) {
      refuseUnsealed(file);
      if (existsSync(file.path)) await this.#rewrite(file.path);
    }
  }

  async #rewrite(path: string): Promise<void> {
    const log = this.#log;
    const env = openCaptureEnv(path, 'read', log.data_key);
    const id = env.sealing?.key.id;
    await closeEnv(env);
    if (id === this.#change.to) return;
    refuseWithoutRoom(path, statSync(path).size);
    const copy = `${path}.rekey`;
    await rewriteCaptureFile({
      path,
      copy,
      from: log.data_key,
      to: this.#keys.newest,
      is_sealed: true,
      tell: () => this.#giveWay(),
    });
    await putInPlace(log, copy, path);
  }

  async #copyAttachments(): Promise<void> {
    const folder = attachmentsFolder(this.#log.path);
    if (!existsSync(folder)) return;
    for await (const { name } of await opendir(folder)) {
      if (!/^[0-9a-f]{64}$/.test(name)) continue;
      this.#copyAttachment(folder, name);
      await this.#giveWay();
    }
    syncPath(folder);
  }

  /**
   * Copies an attachment's file under the new key. Nothing is copied if the old key cannot open it, because it is
   * damaged or already has the new key.
   */
  #copyAttachment(folder: string, name: string): void {
    const path = join(folder, name);
    let plain: Buffer;
    let times: Stats;
    try {
      times = statSync(path);
      plain = openAttachment(name, readFileSync(path), this.#old);
    } catch (thrown) {
      // Expiry may have removed the attachment in the meantime.
      if (thrown instanceof SealError || (thrown as NodeJS.ErrnoException).code === 'ENOENT') return;
      throw thrown;
    }
    const newName = nameAttachment(createHash('sha256').update(plain).digest('hex'), this.#new);
    const newPath = join(folder, newName);
    if (existsSync(newPath)) return;
    const partial = `${newPath}.${process.pid}.part`;
    writeFileSync(partial, sealAttachment(newName, plain, this.#new), { mode: 0o600, flush: true });
    // The age of an attachment counts from its file's modification time.
    utimesSync(partial, times.atime, times.mtime);
    renameSync(partial, newPath);
  }

  async #giveWay(): Promise<void> {
    await pause(PAUSE_MS);
    await this.#log.hold(() => undefined);
  }
}
