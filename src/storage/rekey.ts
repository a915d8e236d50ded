/**
 * Rewrites all stored data with another key, with a first key, or without a key. New files are written beside the old
 * ones and then replace them together (rekey-plan.ts), so a change needs as much free space as the data. Main thread of
 * the command line.
 *
 * Captures may already have the new key (ordered-rewrite.ts changes it while the gateway runs). Those files are not
 * rewritten, so the service need only be stopped for the other data.
 *
 * Data that the old key cannot decrypt is damaged. Damaged captured blocks are copied unchanged, so that ids stay the
 * same and readers report the damage as before. Damaged rows and attachments are omitted. Both are counted.
 */
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { countOf } from '../std/count-of.ts';
import { type DataKey, openDataKey, SealError } from '../std/data-key.ts';
import { isThere, namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { nameAttachment, openAttachment, sealAttachment } from './capture/attachments.ts';
import { keysPath, readCaptureKeys, readKeyChange } from './capture/capture-keys.ts';
import { hasOrder } from './capture/erase-order.ts';
import { removeDatabase, rewriteCaptureFile } from './capture/file-rewrite.ts';
import { attachmentsFolder, closeEnv, listSealed, openCaptureEnv, rawFolder } from './capture/layout.ts';
import { CaptureLog } from './capture/log.ts';
import { listRekeyOrderFiles } from './capture/rewrite-order.ts';
import { listRunIndexFiles } from './capture/run-index.ts';
import type { DecodeExchange } from './capture/stored-copy.ts';
import { checkRoom } from './lmdb/file-head.ts';
import { waitForWriter } from './lmdb/file-replacement.ts';
import { markChecksums, openCodec, SEALING, SealedTable } from './lmdb/sealed-table.ts';
import { databasePaths, findRedoLogs, refuseShared, tryStores } from './lmdb/stores.ts';
import { noteReplaced } from './offload/offload-note.ts';
import { OffloadedFiles } from './offload/offloaded-file.ts';
import { finishPlan, type RekeyPlan, settlePlan, writePlan } from './rekey-plan.ts';
import { refuseHalfRestored } from './restore-marker.ts';
import { RowBatch } from './row-batch.ts';
import { textIndexFolder } from './text-index/segment-files.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** The key cannot be changed now. The message is one line for the user. */
export class RekeyError extends Error {
  override readonly name = 'RekeyError';
}

interface RekeyOptions {
  data_dir: string;
  capture_db: string;
  /** Secrets; null: nothing is encrypted. */
  from: Uint8Array | null;
  to: Uint8Array | null;
  decode: DecodeExchange;
}

export interface RekeyReport {
  files: number;
  bytes: number;
  /** Number of values and files that the old key could not decrypt. */
  damaged: number;
  /** Whether an interrupted change to this same key was finished; in that case, no further work was necessary. */
  was_finished: boolean;
}

/** Called for each file at the start and while it is processed, and before each step that moves files into place. */
type RekeyProgress = (name: string, doneBytes: number, ofBytes: number) => void;

/** Maximum number of blocks that are packed at once. */
const PACKED_AT_ONCE = 1_000;
const MAX_NAMED = 128;
const BINARY = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const;
const PART = '.rekey';

/**
 * Rewrites all data with another key, or finishes an interrupted change to the same key.
 * @throws RekeyError when the key cannot be changed now, for example because a process serves from the folder or the
 *   folder is empty; Error with a one-line message for a shared or half-restored folder; DataKeyError when the data
 *   does not match the old key; a file system error. Nothing has changed then, unless the new files were already
 *   complete: in that case the next start or command moves them into place.
 */
export async function rekeyData(options: RekeyOptions, progress: RekeyProgress): Promise<RekeyReport> {
  const { data_dir, capture_db, to } = options;
  const main = databasePaths(data_dir).main;
  const claims: WriterClaim[] = [];
  try {
    refuseShared(data_dir);
    for (const path of [main, capture_db]) claims.push(await claimWriter(path, { patience_ms: 0 }));
    for (const path of [main, capture_db]) refuseHalfRestored(path);
    if (hasOrder(capture_db))
      throw new RekeyError(
        `${capture_db}: an erasure is not finished: first start the service, or run understudy erase`,
      );
    const toId = openDataKey(to)?.id ?? null;
    refuseOtherChange(capture_db, toId);
    const settled = await settlePlan({ data_dir, capture_db }, [main, capture_db], () =>
      progress('rekey.json', 0, 0),
    );
    if (settled?.done === 'finished' && settled.key_id === toId)
      return { files: 0, bytes: 0, damaged: 0, was_finished: true };
    return await new Rekeying(options, progress).run([main, capture_db], toId);
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError)
      throw new RekeyError(
        `${thrown.holder} uses the databases: stop that process first (SIGTERM), and start the service afterwards with the new key. While the service runs, only captures can get a new key (--captures)`,
      );
    throw thrown;
  } finally {
    for (const claim of claims) await claim.release();
  }
}

/** Checks the key of the captures. @throws RekeyError if the captures were changed to a key other than `toId` */
function refuseOtherChange(captureDb: string, toId: string | null): void {
  const change = readKeyChange(captureDb);
  if (change === null || change.to === toId) return;
  throw new RekeyError(
    `${captureDb} was changed to key ${change.to} while the service ran: first change the rest to that key`,
  );
}

class Rekeying {
  readonly #options: RekeyOptions;
  readonly #progress: RekeyProgress;
  readonly #from: DataKey | null;
  readonly #to: DataKey | null;
  #done = 0;
  #of = 0;
  #damaged = 0;

  constructor(options: RekeyOptions, progress: RekeyProgress) {
    this.#options = options;
    this.#progress = progress;
    this.#from = openDataKey(options.from);
    this.#to = openDataKey(options.to);
  }

  async run(claims: string[], keyId: string | null): Promise<RekeyReport> {
    await this.#settleStores();
    const { data_dir, capture_db } = this.#options;
    const paths = databasePaths(data_dir);
    const stores = [paths.main, paths.runs].filter(isThere);
    const allCaptures = [...listSealed(capture_db).map(({ path }) => path), ...[capture_db].filter(isThere)];
    const captures: string[] = [];
    for (const path of allCaptures) if (!(await this.#isUnderNewKey(path))) captures.push(path);
    const files = attachmentsFolder(capture_db);
    const hasFiles = isThere(files);
    if (stores.length + allCaptures.length === 0)
      throw new RekeyError(`${data_dir} holds nothing to encrypt: set DATA_DIR to the folder of the service`);
    const move = (path: string) => ({ from: `${path}${PART}`, to: path });
    const all = [...stores, ...captures];
    const plan: RekeyPlan = {
      format: 'understudy_rekey_v1',
      state: 'writing',
      key_id: keyId,
      claims,
      moves: [...all, ...(hasFiles ? [files] : [])].map(move),
      removals: [
        ...findRedoLogs(paths),
        ...all.map((path) => `${path}-lock`),
        rawFolder(capture_db),
        // The run index and the full-text index are rebuilt from the captures.
        ...listRunIndexFiles(capture_db),
        textIndexFolder(capture_db),
        join(data_dir, 'pattern-graphs'),
        keysPath(capture_db),
        ...listRekeyOrderFiles(capture_db),
      ],
    };
    const offloaded = new OffloadedFiles(this.#options.from);
    const absent = captures.filter((path) => path !== capture_db && offloaded.isOffloaded(path)).length;
    if (absent > 0)
      throw new RekeyError(
        `the bodies of ${countOf(absent, 'capture file')} are in a bucket, where they keep their key: start the service with ` +
          'CAPTURE_LOCAL_KEEP=all until /__gw/stats says offloaded_files 0, then run the command again',
      );
    this.#of = all.reduce((sum, path) => sum + statSync(path).size, 0) + measureFolder(files);
    this.#tell('rekey.json', 0);
    writePlan({ data_dir, capture_db }, plan);
    try {
      for (const path of stores) await waitForWriter(path);
      for (const path of stores) await this.#copyStore(path);
      for (const path of captures) await this.#copyCapture(path, path !== capture_db);
      if (hasFiles) this.#copyAttachments(files);
      const replaced = new Set(captures);
      const sealed = listSealed(capture_db).filter(({ path }) => replaced.has(path));
      noteReplaced(capture_db, (firstId) => sealed.some(({ first_id }) => first_id === firstId));
      this.#tell('rekey.json', 0);
      writePlan({ data_dir, capture_db }, { ...plan, state: 'written' });
    } catch (thrown) {
      await settlePlan({ data_dir, capture_db }, claims);
      throw thrown;
    }
    finishPlan({ data_dir, capture_db }, plan, () => this.#tell('rekey.json', 0));
    return { files: plan.moves.length, bytes: this.#of, damaged: this.#damaged, was_finished: false };
  }

  /**
   * Moves acknowledged records from the redo logs into the databases, packs waiting blocks and finishes an interrupted
   * rotation.
   */
  async #settleStores(): Promise<void> {
    const { data_dir, capture_db, from, decode } = this.#options;
    const paths = databasePaths(data_dir, from);
    if (isThere(paths.main) || isThere(paths.runs)) await tryStores(paths);
    if (!isThere(capture_db) && listSealed(capture_db).length === 0) return;
    const log = await CaptureLog.open({ path: capture_db, redact: true, decode, data_key: from });
    try {
      this.#tell('raw files', 0);
      while ((await log.packSome(PACKED_AT_ONCE)) > 0) this.#tell('raw files', 0);
      await log.settleSealing();
    } finally {
      await log.close();
    }
    // The plan removes the raw files, which an unfinished file still needs.
    const unfinished = listSealed(capture_db).find(({ sealing }) => sealing);
    if (unfinished !== undefined)
      throw new RekeyError(
        `${unfinished.path} could not be sealed: run the service until this file is gone, then run the command again`,
      );
  }

  #tell(name: string, bytes: number): void {
    this.#done = Math.min(this.#done + bytes, this.#of);
    this.#progress(name, this.#done, this.#of);
  }

  async #copyStore(path: string): Promise<void> {
    const copy = `${path}${PART}`;
    removeDatabase(copy);
    checkRoom(copy);
    const options = { noSubdir: true, maxDbs: MAX_NAMED, overlappingSync: false, ...BINARY };
    const source = open<Buffer, Buffer>({ ...options, path, readOnly: true });
    try {
      const target = open<Buffer, Buffer>({ ...options, path: copy, noSync: true });
      try {
        const opening = openCodec(source, path, this.#from);
        if (this.#to === null) markChecksums(target);
        const sealing = openCodec(target, copy, this.#to);
        for (const name of listTables(source)) {
          const from = source.openDB<Buffer, Buffer>({ name, ...BINARY });
          const table = target.openDB<Buffer, Buffer>({ name, ...BINARY });
          const to = sealing === null ? table : new SealedTable(table, name, sealing);
          const batch = new RowBatch<Buffer>(target, to);
          for (const { key, value } of from.getRange({})) {
            const plain = this.#open(() => (opening === null ? value : opening.open(name, key, value)));
            if (plain !== null && batch.add(key, plain)) this.#tell(path, batch.write());
          }
          this.#tell(path, batch.write());
        }
      } finally {
        await target.close();
      }
      syncPath(copy);
      rmSync(`${copy}-lock`, { force: true });
    } catch (thrown) {
      throw namePlace(thrown, copy);
    } finally {
      await source.close();
    }
  }

  async #copyCapture(path: string, isSealed: boolean): Promise<void> {
    const { to } = this.#options;
    this.#damaged += await rewriteCaptureFile({
      path,
      copy: `${path}${PART}`,
      from: this.#options.from,
      to,
      is_sealed: isSealed,
      tell: (bytes) => this.#tell(path, bytes),
    });
  }

  /** Whether a capture file has the new key already. */
  async #isUnderNewKey(path: string): Promise<boolean> {
    if (this.#to === null) return false;
    const env = openCaptureEnv(path, 'read', this.#options.from);
    const id = env.sealing?.key.id;
    await closeEnv(env);
    return id === this.#to.id;
  }

  #copyAttachments(folder: string): void {
    const copy = `${folder}${PART}`;
    rmSync(copy, { recursive: true, force: true });
    makeFolder(copy, 0o700);
    const isHalfDone = readCaptureKeys(this.#options.capture_db, this.#options.from).all.length > 1;
    for (const name of readdirSync(folder)) {
      if (!/^[0-9a-f]{64}$/.test(name)) continue;
      const stored = readFileSync(join(folder, name));
      this.#tell(folder, stored.length);
      if (isHalfDone && isUnder(this.#to!, name, stored)) {
        copyFileSync(join(folder, name), join(copy, name));
        syncPath(join(copy, name));
        continue;
      }
      const plain = this.#open(() =>
        this.#from === null ? stored : openAttachment(name, stored, this.#from),
      );
      if (plain === null) continue;
      const sha256 = createHash('sha256').update(plain).digest('hex');
      const newName = nameAttachment(sha256, this.#to);
      if (existsSync(join(copy, newName))) continue;
      const content = this.#to === null ? plain : sealAttachment(newName, plain, this.#to);
      writeFileSync(join(copy, newName), content, { mode: 0o600, flush: true });
    }
    syncPath(copy);
  }

  #open(read: () => Buffer): Buffer | null {
    try {
      return read();
    } catch (thrown) {
      if (!(thrown instanceof SealError)) throw thrown;
      this.#damaged++;
      return null;
    }
  }
}

/** Whether the attachment has that key already. */
function isUnder(key: DataKey, name: string, stored: Buffer): boolean {
  try {
    openAttachment(name, stored, key);
    return true;
  } catch (thrown) {
    if (thrown instanceof SealError) return false;
    throw thrown;
  }
}

function listTables(root: RootDatabase<Buffer, Buffer>): string[] {
  return [...root.getKeys({})]
    .map((key) => key.toString().replace(/\0$/, ''))
    .filter((name) => name !== SEALING);
}

function measureFolder(path: string): number {
  if (!existsSync(path)) return 0;
  return readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
}
