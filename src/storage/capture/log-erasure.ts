/**
 * Carries out an order to erase exchanges (erase-order.ts) while exchanges are stored. Erases them from the live file,
 * the sealed files and the full-text index, and removes their attachments. Steps that must not run during a write hold
 * up the log, most of them for a few milliseconds at a time. Each step can be repeated; the order is removed after the
 * last one. Runs in the capture process, and on the command line while no other process writes.
 *
 * The live file, and sealed files with exchanges to erase or with turns of such exchanges, are searched and changed.
 * They are changed in place: exchanges that were stored against erased ones are stored again, and unused bytes are
 * overwritten. A sealed file that is then half or more unused is written again, which gives the space back.
 */
import { chmodSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { syncPath } from '../../std/synced-path.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { wipeUnusedBytes } from '../lmdb/unused-bytes.ts';
import type { TextIndex } from '../text-index/text-index.ts';
import { BlockReader } from './blocks.ts';
import { listAttachmentNames, readCaptureKeys } from './capture-keys.ts';
import { acceptOrder, type EraseOrder, eraseOrderFile, listIds } from './erase-order.ts';
import { FileErasure } from './file-erasure.ts';
import {
  attachmentsFolder,
  type CaptureEnv,
  CaptureFileError,
  closeEnv,
  listSealed,
  makeReadOnly,
  openCaptureEnv,
  type SealedFile,
} from './layout.ts';
import type { LiveFile } from './live-file.ts';
import { compactSealed, UNUSED_SHARE } from './log-rewrite.ts';
import { removeRunIndex } from './run-index.ts';

/** Longest slice of work on the full-text index. Each slice holds up the log. */
const SLICE_MS = 10;
/** Pause after each slice of work on the full-text index, and after each transaction that erases exchanges. */
const PAUSE_MS = 15;
/** Maximum memory for blocks and bodies that are read from a sealed file. */
const CACHE_BYTES = 4 << 20;

/** The methods of the log that an erasure needs. */
interface ErasableLog {
  readonly path: string;
  readonly data_key: Uint8Array | null;
  readonly live: LiveFile;
  readonly text: TextIndex | null;
  /**
   * Runs work while nothing is stored. The live file is open then.
   * @throws if the log is being closed
   */
  hold<Value>(work: () => Value | Promise<Value>): Promise<Value>;
  /** Within `hold`: makes everything stored survive a power failure. */
  flush(): Promise<void>;
  /** Packs and indexes everything up to an exchange. */
  settle(lastId: number): Promise<void>;
  /** Within `hold`: forgets exchanges as bases, because they were erased or stored again. */
  forgetBases(ids: ReadonlySet<number>): void;
  /** Within `hold`: forgets which attachments exist, because some may have been removed. */
  forgetAttachments(): void;
  /** Within `hold`: closes the sealed files that the log reads. */
  closeSealed(): Promise<void>;
  /** Within `hold`: opens the live file again. */
  reopenLive(): Promise<void>;
  /** Restores those files with blocks in a bucket that `isMeant` selects. @throws StoreError */
  restoreOffloaded(isMeant: (file: SealedFile) => Promise<boolean>): Promise<void>;
  /** Removes the content of the files that `restoreOffloaded` has selected from the bucket. @throws StoreError */
  removeErasedObjects(): Promise<void>;
}

export class LogErasure {
  readonly #log: ErasableLog;
  readonly #order: EraseOrder;
  readonly #ids: ReadonlySet<number>;
  readonly #runs: ReadonlySet<string>;
  /** The last exchange that the command examined. Later exchanges may continue erased ones. */
  readonly #lastId: number;

  /**
   * Accepts the order, or continues the accepted one. @returns null if there is no order
   * @throws Error if the order cannot be read
   */
  static accept(log: ErasableLog): LogErasure | null {
    const order = acceptOrder(log.path, log.data_key);
    return order === null ? null : new LogErasure(log, order);
  }

  private constructor(log: ErasableLog, order: EraseOrder) {
    this.#log = log;
    this.#order = order;
    this.#runs = new Set(order.run_ids);
    this.#lastId = Math.min(order.last_id, log.live.next_id - 1);
    const ranges = order.ranges.map(([first, last]): [number, number] => [
      first,
      Math.min(last, this.#lastId),
    ]);
    this.#ids = listIds({ ranges });
  }

  /**
   * Carries out the order and removes it.
   * @throws CaptureFileError, EarlierReaderError, the storage's error; then the order stays, and can be repeated
   */
  async run(): Promise<void> {
    const { path } = this.#log;
    await this.#log.settle(this.#lastId);
    await this.#log.restoreOffloaded((file) => this.#isMeant(file));
    await this.#eraseLive();
    for (const file of listSealed(path)) await this.#eraseSealed(file);
    await this.#eraseTexts();
    await this.#log.removeErasedObjects();
    await this.#log.hold(async () => {
      this.#removeAttachments();
      // A reader that has the run index open notices the new count, and rebuilds the index.
      this.#log.live.countErasure();
      removeRunIndex(path);
      await this.#log.flush();
      eraseOrderFile(path).end();
    });
  }

  async #eraseLive(): Promise<void> {
    const log = this.#log;
    const { live } = log;
    const erasure = await log.hold(() => {
      live.index.store();
      const begun = live.openErasure(this.#ids, this.#order.marks);
      begun.eraseTurns();
      begun.eraseMoves(this.#runs);
      begun.eraseNewest();
      begun.eraseEarly();
      live.index.forgetTurns();
      live.index.forgetEarly();
      log.forgetBases(begun.listChanged());
      return begun;
    });
    for (const _ of erasure.findDependents()) await pause(0);
    for (let isMore = erasure.hasAny; isMore; await pause(PAUSE_MS))
      isMore = await log.hold(() => {
        // Finds exchanges that were stored against the exchanges to erase since the search above.
        for (const _ of erasure.findDependents());
        log.forgetBases(erasure.listChanged());
        return live.eraseSome(erasure);
      });
    await log.hold(async () => {
      live.index.store();
      erasure.unlink(this.#listFollowers());
      erasure.settle();
      await log.flush();
      await log.reopenLive();
    });
    await wipeUnusedBytes(live.path, (work) =>
      log.hold(async () => {
        await log.flush();
        return work();
      }),
    );
  }

  /** Lists the turns that continue an erased turn, including those that were indexed after the order was given. */
  #listFollowers(): number[] {
    const { index, next_id } = this.#log.live;
    const followers = [...this.#order.followers];
    for (let id = Math.max(this.#lastId + 1, index.first_id); id < next_id; id++) {
      const follows = index.readSummary(id)?.follows;
      if (follows !== undefined && this.#ids.has(follows)) followers.push(id);
    }
    return followers;
  }

  async #eraseSealed(file: SealedFile): Promise<void> {
    const { path, last_id, sealing } = file;
    const log = this.#log;
    if (last_id < this.#first) return;
    if (sealing)
      throw new CaptureFileError(
        'unreadable',
        path,
        'not sealed yet: POST /__gw/rotate on the gateway, then erase again',
      );
    if (!existsSync(path)) return;
    if (!(await this.#isMeant(file))) return;
    chmodSync(path, 0o600);
    const env = await log.hold(() => openCaptureEnv(path, 'write', log.data_key));
    try {
      await this.#eraseEnv(env, path);
    } finally {
      await closeEnv(env);
    }
    // LMDB's buffers contain erased content until the environment is closed, so it was closed above and is opened
    // again.
    const again = await log.hold(() => openCaptureEnv(path, 'write', log.data_key));
    try {
      await wipeUnusedBytes(path, (work) => log.hold(work));
    } finally {
      await closeEnv(again);
    }
    syncPath(path);
    removeCheckpoint(path);
    makeReadOnly(path);
    await compactSealed(log, path, UNUSED_SHARE.erased);
  }

  /** Whether a sealed file has something to erase. */
  #isMeant({ path, first_id, last_id }: SealedFile): Promise<boolean> {
    const log = this.#log;
    return log.hold(async () => {
      if (last_id < this.#first) return false;
      await log.closeSealed();
      return this.#hasAny(first_id, last_id) || (await holdsTurns(path, log.data_key, this.#ids));
    });
  }

  async #eraseEnv(env: CaptureEnv, path: string): Promise<void> {
    const erasure = new FileErasure(env, path, this.#ids, this.#order.marks);
    erasure.eraseTurns();
    erasure.eraseMoves(this.#runs);
    erasure.eraseNewest();
    erasure.eraseEarly();
    for (const _ of erasure.findDependents()) await this.#log.hold(() => undefined);
    let next: number | null = new BlockReader(env, path, CACHE_BYTES).readNextPiece();
    while (next !== null) {
      next = erasure.eraseSome(next);
      await this.#log.hold(() => undefined);
    }
    erasure.unlink(this.#order.followers);
    erasure.settle();
    await env.checkpoints!.write();
  }

  get #first(): number {
    return this.#order.ranges[0]?.[0] ?? Number.POSITIVE_INFINITY;
  }

  #hasAny(first: number, last: number): boolean {
    return this.#order.ranges.some(([from, to]) => from <= last && to >= first);
  }

  async #eraseTexts(): Promise<void> {
    const { text } = this.#log;
    if (text === null) return;
    const work = await this.#log.hold(() => text.erase(this.#ids, this.#runs, this.#order.is_partial));
    try {
      for (let isDone = false; !isDone; await pause(PAUSE_MS))
        isDone = await this.#log.hold(() => {
          const until = performance.now() + SLICE_MS;
          while (performance.now() < until) if (work.next().done === true) return true;
          return false;
        });
    } finally {
      work.return();
    }
  }

  /** Removes the attachments of the order, except those that a later exchange has. */
  #removeAttachments(): void {
    const { path, data_key, live } = this.#log;
    const gone = new Set(this.#order.attachments);
    for (let id = Math.max(this.#lastId + 1, live.index.first_id); id < live.next_id && gone.size > 0; id++)
      for (const sha256 of readOr(() => live.listAttachments(id, gone), [])) gone.delete(sha256);
    if (gone.size === 0) return;
    const keys = readCaptureKeys(path, data_key);
    const folder = attachmentsFolder(path);
    for (const sha256 of gone)
      for (const name of listAttachmentNames(sha256, keys)) rmSync(join(folder, name), { force: true });
    if (existsSync(folder)) syncPath(folder);
    this.#log.forgetAttachments();
  }
}

/** Whether a file has turns of erased exchanges, its own or those of earlier files, in its table `tails`. */
export async function holdsTurns(
  path: string,
  dataKey: Uint8Array | null,
  ids: ReadonlySet<number>,
): Promise<boolean> {
  const env = openCaptureEnv(path, 'read', dataKey);
  try {
    for (const key of env.tails.getKeys({ snapshot: false })) if (ids.has(key)) return true;
    return false;
  } finally {
    await env.root.close();
  }
}

function readOr<Value>(read: () => Value, otherwise: Value): Value {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof CaptureFileError) return otherwise;
    throw thrown;
  }
}
