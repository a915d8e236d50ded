/**
 * Rewrites all stored data with another key, with a first key, or without a key. New files are written beside the old
 * ones and then replace them together (rekey-plan.ts), so a change needs as much free space as the data. Main thread of
 * the command line.
 *
 * Data that the old key does not open was already damaged. Damaged captured blocks are copied unchanged, so that ids
 * stay the same and readers report the damage as before. Damaged rows and attachments are omitted. Both are counted.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { type DataKey, openDataKey, SealError } from '../std/data-key.ts';
import { isThere, namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { nameAttachment, openAttachment, sealAttachment } from './capture/attachments.ts';
import { closeBlock, openBlock } from './capture/block-sealing.ts';
import { cutBlock, isInPieces, joinBlock, readRawPlace } from './capture/codec.ts';
import { hasOrder } from './capture/erase-order.ts';
import { attachmentsFolder, type CaptureEnv, listSealed, rawFolder } from './capture/layout.ts';
import { CaptureLog } from './capture/log.ts';
import { listRunIndexFiles } from './capture/run-index.ts';
import type { DecodeExchange } from './capture/stored-copy.ts';
import { removeDatabase, rewriteCaptureFile } from './capture-rewrite.ts';
import { checkRoom } from './lmdb/file-head.ts';
import { waitForWriter } from './lmdb/file-replacement.ts';
import { markChecksums, openCodec, SEALING, SealedTable, type ValueTable } from './lmdb/sealed-table.ts';
import { databasePaths, findRedoLogs, tryStores } from './lmdb/stores.ts';
import { finishPlan, type RekeyPlan, settlePlan, writePlan } from './rekey-plan.ts';
import { refuseHalfRestored } from './restore-marker.ts';
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
  /** Number of values and files that the old key did not open. */
  damaged: number;
  /** Whether an interrupted change to this same key was finished; then nothing else was necessary. */
  was_finished: boolean;
}

/** Called for each file at the start and while it is processed, and before each step that moves files into place. */
type RekeyProgress = (name: string, doneBytes: number, ofBytes: number) => void;

/** Limits of one transaction. */
const BATCH_ROWS = 1_000;
const BATCH_BYTES = 4 << 20;
const MAX_NAMED = 128;
const BINARY = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const;
const PART = '.rekey';

/**
 * @throws RekeyError when a process serves from the folder or the folder is empty; DataKeyError when the data does not
 *   match the old key; Error of the file system. Nothing has changed then.
 */
export async function rekeyData(options: RekeyOptions, progress: RekeyProgress): Promise<RekeyReport> {
  const { data_dir, capture_db, to } = options;
  const main = databasePaths(data_dir).main;
  const claims: WriterClaim[] = [];
  try {
    for (const path of [main, capture_db]) claims.push(await claimWriter(path, { patience_ms: 0 }));
    for (const path of [main, capture_db]) refuseHalfRestored(path);
    if (hasOrder(capture_db))
      throw new RekeyError(
        `${capture_db}: an erasure is not finished: start the service or understudy erase first`,
      );
    const toId = openDataKey(to)?.id ?? null;
    const settled = await settlePlan({ data_dir, capture_db }, [main, capture_db], () =>
      progress('rekey.json', 0, 0),
    );
    if (settled?.done === 'finished' && settled.key_id === toId)
      return { files: 0, bytes: 0, damaged: 0, was_finished: true };
    return await new Rekeying(options, progress).run([main, capture_db], toId);
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError)
      throw new RekeyError(
        `${thrown.holder} serves from there: stop it first (SIGTERM), and start it with the new key`,
      );
    throw thrown;
  } finally {
    for (const claim of claims) await claim.release();
  }
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
    const captures = [...listSealed(capture_db).map(({ path }) => path), ...[capture_db].filter(isThere)];
    const files = attachmentsFolder(capture_db);
    const hasFiles = isThere(files);
    if (stores.length + captures.length === 0) throw new RekeyError(`${data_dir} holds nothing to encrypt`);
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
      ],
    };
    this.#of = all.reduce((sum, path) => sum + statSync(path).size, 0) + measureFolder(files);
    this.#tell('rekey.json', 0);
    writePlan({ data_dir, capture_db }, plan);
    try {
      for (const path of stores) await waitForWriter(path);
      for (const path of stores) await this.#copyStore(path);
      for (const path of captures) await this.#copyCapture(path, path !== capture_db);
      if (hasFiles) this.#copyAttachments(files);
      this.#tell('rekey.json', 0);
      writePlan({ data_dir, capture_db }, { ...plan, state: 'written' });
    } catch (thrown) {
      await settlePlan({ data_dir, capture_db }, claims);
      throw thrown;
    }
    finishPlan({ data_dir, capture_db }, plan, () => this.#tell('rekey.json', 0));
    return { files: plan.moves.length, bytes: this.#of, damaged: this.#damaged, was_finished: false };
  }

  /** Moves promised records into the databases, packs waiting blocks and finishes an interrupted rotation. */
  async #settleStores(): Promise<void> {
    const { data_dir, capture_db, from, decode } = this.#options;
    const paths = databasePaths(data_dir, from);
    if (isThere(paths.main) || isThere(paths.runs)) await tryStores(paths);
    if (!isThere(capture_db) && listSealed(capture_db).length === 0) return;
    const log = await CaptureLog.open({ path: capture_db, redact: true, decode, data_key: from });
    try {
      this.#tell('raw files', 0);
      while ((await log.packSome(BATCH_ROWS)) > 0) this.#tell('raw files', 0);
    } finally {
      await log.close();
    }
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
          const batch = new Batch<Buffer>(target, to);
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
    const copy = `${path}${PART}`;
    const { from, to } = this.#options;
    await rewriteCaptureFile({ path, copy, from, to, is_sealed: isSealed }, (source, target) => {
      const meta = [...source.meta.getRange({})];
      target.root.transactionSync(() => {
        for (const { key, value } of meta) target.meta.putSync(key, value);
      });
      this.#copyBlocks(source, target, path);
      for (const table of ['facts', 'tails'] as const) {
        const batch = new Batch<number>(target.root, target[table]);
        for (const { key, value } of source[table].getRange({}))
          if (batch.add(key, value)) this.#tell(path, batch.write());
        this.#tell(path, batch.write());
      }
    });
  }

  #copyBlocks(source: CaptureEnv, target: CaptureEnv, path: string): void {
    const blocks = new Batch<number>(target.root, target.blocks);
    const pieces = new Batch<number>(target.root, target.pieces);
    let nextPiece = 1;
    for (const { key, value } of source.blocks.getRange({})) {
      const block = this.#convertBlock(source, target, key, value);
      const cut = isInPieces(block) ? { value: block, pieces: [] } : cutBlock(block, nextPiece);
      for (const piece of cut.pieces) pieces.add(nextPiece++, piece);
      if (blocks.add(key, cut.value) || pieces.isFull) this.#tell(path, pieces.write() + blocks.write());
    }
    this.#tell(path, pieces.write() + blocks.write());
  }

  /** The whole block under the new key; unchanged if it cannot be read. */
  #convertBlock(source: CaptureEnv, target: CaptureEnv, key: number, value: Buffer): Buffer {
    try {
      if (readRawPlace(value) !== null) throw new RangeError('a piece of the block could not be read');
      const whole = joinBlock(value, (number) => source.pieces.get(number), failToRead);
      return closeBlock(openBlock(whole, key, source.sealing), key, target.sealing);
    } catch (thrown) {
      if (!(thrown instanceof SealError || thrown instanceof RangeError)) throw thrown;
      this.#damaged++;
      return value;
    }
  }

  #copyAttachments(folder: string): void {
    const copy = `${folder}${PART}`;
    rmSync(copy, { recursive: true, force: true });
    makeFolder(copy, 0o700);
    for (const name of readdirSync(folder)) {
      if (!/^[0-9a-f]{64}$/.test(name)) continue;
      const stored = readFileSync(join(folder, name));
      this.#tell(folder, stored.length);
      const plain = this.#open(() =>
        this.#from === null ? stored : openAttachment(name, stored, this.#from),
      );
      if (plain === null) continue;
      const sha256 = createHash('sha256').update(plain).digest('hex');
      const newName = nameAttachment(sha256, this.#to);
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

/** Rows waiting to be written to a table. */
class Batch<K extends Buffer | number> {
  // biome-ignore lint/suspicious/noExplicitAny: files have keys of several kinds
  readonly #root: RootDatabase<Buffer, any>;
  readonly #table: ValueTable<K> | Database<Buffer, K>;
  #rows: { key: K; value: Buffer }[] = [];
  #bytes = 0;

  // biome-ignore lint/suspicious/noExplicitAny: as above
  constructor(root: RootDatabase<Buffer, any>, table: ValueTable<K> | Database<Buffer, K>) {
    this.#root = root;
    this.#table = table;
  }

  get isFull(): boolean {
    return this.#rows.length >= BATCH_ROWS || this.#bytes >= BATCH_BYTES;
  }

  /** @returns whether the rows should be written now */
  add(key: K, value: Buffer): boolean {
    this.#rows.push({ key, value });
    this.#bytes += value.length;
    return this.isFull;
  }

  /** @returns number of bytes written */
  write(): number {
    const bytes = this.#bytes;
    if (this.#rows.length === 0) return 0;
    this.#root.transactionSync(() => {
      for (const { key, value } of this.#rows) this.#table.putSync(key, value);
    });
    this.#rows = [];
    this.#bytes = 0;
    return bytes;
  }
}

function failToRead(): never {
  throw new RangeError('a piece of the block could not be read');
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
