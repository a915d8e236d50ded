/**
 * Writes all stored data anew: under another key, under a first key, or under none. It writes beside what
 * is there, and then puts all of it in place at once (rekey-plan.ts), so it needs the same room again. Main thread of the command line.
 *
 * What does not open under the old key was damaged before. Captured blocks are copied as they are, so that ids stay and
 * a reader reports the damage as before. Rows and attachments are left out. Both are counted.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { type DataKey, openDataKey, SealError } from '../std/data-key.ts';
import { isThere, namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { nameAttachment, openAttachment, sealAttachment } from './capture/attachments.ts';
import { closeBlock, openBlock } from './capture/block-sealing.ts';
import { cutBlock, isInPieces, joinBlock, readRawPlace } from './capture/codec.ts';
import type { DecodeExchange } from './capture/exchange-index.ts';
import { attachmentsFolder, type CaptureEnv, listSealed, rawFolder } from './capture/layout.ts';
import { CaptureLog } from './capture/log.ts';
import { listRunIndexFiles } from './capture/run-index.ts';
import { removeDatabase, rewriteCaptureFile, syncFile } from './capture-rewrite.ts';
import { checkFileHead, checkRoom } from './lmdb/file-head.ts';
import { checkSealing, SEALING, SealedTable, type ValueTable } from './lmdb/sealed-table.ts';
import { databasePaths, findRedoLogs, tryStores } from './lmdb/stores.ts';
import { finishPlan, type RekeyPlan, settlePlan, writePlan } from './rekey-plan.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** The key cannot be changed now. One line for the person. */
export class RekeyError extends Error {
  override readonly name = 'RekeyError';
}

export interface RekeyOptions {
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
  /** Values and files that did not open under the old key. */
  damaged: number;
  /** An earlier change that was cut short was finished, to this same key: nothing else was to be done. */
  was_finished: boolean;
}

/** Told of each file as it is begun and gone through, and before each step of putting them in place. */
export type RekeyProgress = (name: string, doneBytes: number, ofBytes: number) => void;

/** Written in one transaction. */
const BATCH_ROWS = 1_000;
const BATCH_BYTES = 4 << 20;
const MAX_NAMED = 128;
const BINARY = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const;
const PART = '.rekey';

/**
 * @throws RekeyError when a process serves from the place or there is nothing; DataKeyError when what is there does not go
 * with the old key; Error of the file system. Then everything is as it was.
 */
export async function rekeyData(options: RekeyOptions, progress: RekeyProgress): Promise<RekeyReport> {
  const { data_dir, capture_db, to } = options;
  const main = databasePaths(data_dir).main;
  const claims: WriterClaim[] = [];
  try {
    for (const path of [main, capture_db]) claims.push(await claimWriter(path, { patience_ms: 0 }));
    const toId = openDataKey(to)?.id ?? null;
    const settled = await settlePlan(data_dir, [main, capture_db], () => progress('rekey.json', 0, 0));
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
        // Made again from the captures.
        ...listRunIndexFiles(capture_db),
        join(data_dir, 'pattern-graphs'),
      ],
    };
    this.#of = all.reduce((sum, path) => sum + statSync(path).size, 0) + measureFolder(files);
    this.#tell('rekey.json', 0);
    writePlan(data_dir, plan);
    try {
      const seen = new Map(stores.map((path) => [path, -1]));
      for (const path of stores) seen.set(path, await this.#copyStore(path));
      for (const path of captures) await this.#copyCapture(path, path !== capture_db);
      if (hasFiles) this.#copyAttachments(files);
      // A command that takes no claim may have written a row meanwhile.
      for (const path of stores)
        while (checkFileHead(path) !== seen.get(path)) seen.set(path, await this.#copyStore(path));
      this.#tell('rekey.json', 0);
      writePlan(data_dir, { ...plan, state: 'written' });
    } catch (thrown) {
      await settlePlan(data_dir, claims);
      throw thrown;
    }
    finishPlan(data_dir, plan, () => this.#tell('rekey.json', 0));
    return { files: plan.moves.length, bytes: this.#of, damaged: this.#damaged, was_finished: false };
  }

  /** What was promised is in the databases then, what waited is packed, and a rotation that was cut short is finished. */
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

  /** @returns the transaction that was copied */
  async #copyStore(path: string): Promise<number> {
    const copy = `${path}${PART}`;
    removeDatabase(copy);
    checkRoom(copy);
    const options = { noSubdir: true, maxDbs: MAX_NAMED, overlappingSync: false, ...BINARY };
    const source = open<Buffer, Buffer>({ ...options, path, readOnly: true });
    try {
      const transaction = checkFileHead(path);
      const target = open<Buffer, Buffer>({ ...options, path: copy, noSync: true });
      try {
        const opening = checkSealing(source, path, this.#from);
        const sealing = checkSealing(target, copy, this.#to);
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
      syncFile(copy);
      rmSync(`${copy}-lock`, { force: true });
      return transaction;
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

  /** The whole block under the new key; as it is where it cannot be read. */
  #convertBlock(source: CaptureEnv, target: CaptureEnv, key: number, value: Buffer): Buffer {
    try {
      if (readRawPlace(value) !== null) throw new RangeError('what it stood in could not be read');
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
    syncFile(copy);
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

/** Rows on their way into a table. */
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

  /** @returns whether it should be written now */
  add(key: K, value: Buffer): boolean {
    this.#rows.push({ key, value });
    this.#bytes += value.length;
    return this.isFull;
  }

  /** @returns bytes that were written */
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
  throw new RangeError('what it stood in could not be read');
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
