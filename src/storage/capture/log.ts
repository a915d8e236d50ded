/**
 * Writes the capture database: one writer, in the capture process. Exchanges arrive in batches and get the next ids.
 * When `append` resolves, the kernel has the exchanges of the batch, so they survive the end of the process. `flush`
 * makes them survive a power failure.
 *
 * Calls run one after the other, in call order. Appends continue while a file is sealed, erased from or rewritten, and
 * during work with the bucket. An append that throws has no effect: it uses no ids, and the same batch can be appended
 * again. After a failure the file is reopened before the next attempt, because LMDB refuses to continue after some
 * errors.
 *
 * The log decides the order of work. `BatchEncoder` turns a batch into blocks, `LiveFile` is the live database,
 * `PackingQueue` lists the blocks that wait to be packed, and `SealedFiles` manages the sealed files.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { findPlaceCause, type SetApart } from '../../domain/capture-cause.ts';
import { type CapturedExchange, WITHHELD_CAUSES, type WithheldCause } from '../../domain/exchange.ts';
import type { LocalKeep } from '../../domain/local-keep.ts';
import { namePlace } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import type { OpenSnapshot } from '../lmdb/snapshots.ts';
import { Offload, type OffloadState, type OffloadStep } from '../offload/offload.ts';
import { TextIndex, type TextIndexState } from '../text-index/text-index.ts';
import { AppendLoad } from './append-load.ts';
import { AttachmentStore } from './attachments.ts';
import { BatchEncoder, type EncodedBatch } from './batch-encoder.ts';
import { hasOrder } from './erase-order.ts';
import { ExchangeEncoder } from './exchange-encoder.ts';
import { removeDatabase } from './file-rewrite.ts';
import { IndexBacklog } from './index-backlog.ts';
import { attachmentsFolder, ensureCaptureFile, rawFolder, type SealedFile } from './layout.ts';
import { type CarriedTurn, LiveFile } from './live-file.ts';
import { LoadMeter } from './load-meter.ts';
import { LogErasure } from './log-erasure.ts';
import { rewriteOrdered } from './log-rewrite.ts';
import { PackingQueue } from './packing-queue.ts';
import {
  choosePackingShare,
  chooseTidyShare,
  comesPackingFirst,
  LEAST_SHARE,
  measureIndexNeed,
  measurePackingNeed,
  type TidyBacklog,
  type TidyPass,
} from './packing-share.ts';
import { Preparer } from './preparation.ts';
import { RawFiles } from './raw-files.ts';
import { findRewriteOrder, type RewriteKind } from './rewrite-order.ts';
import { type Seal, sealHere } from './seal-work.ts';
import { type MovedFile, SealedFiles } from './sealed-files.ts';
import { describeSetApart } from './set-apart.ts';
import type { DecodeExchange } from './stored-copy.ts';
import { CaptureTextSources, markExchange } from './text-sources.ts';

/** After this many attempts of a batch that fails although the storage works, each exchange is stored separately. */
const BATCH_TRIES = 2;
/**
 * If this share of the gateway's queue is in use, or this many appends wait while the next one is stored, the log is
 * behind. It then reads no facts for the index while it stores, and packs before it does other postponed work. The time
 * that an append takes is no measure of this, because on a busy machine the log's thread also waits for a core.
 */
const BEHIND = { queue_fill: 0.3, appends: 2 } as const;
const NEARLY_FULL = 0.6;
/** Delay from a write to the background fsync. */
const SYNC_DELAY_MS = 1_000;
/** Maximum number of exchanges that a pass indexes before it writes. */
const INDEX_BATCH = 256;
/** Maximum time for which a flush indexes before it syncs. */
const FLUSH_INDEX_MS = 200;
/**
 * Maximum time for which a flush writes the full-text index. Writing the waiting texts takes less time, unless the
 * machine is busy.
 */
const FLUSH_TEXT_MS = 1_000;
/**
 * Before a rotation, exchanges are indexed in slices until at most this many are missing from the index, or until the
 * time is up.
 */
const ROTATE_BACKLOG = 500;
/** A longer backlog is not indexed before a rotation, because it would not become short enough in ROTATE_INDEX_MS. */
const ROTATE_BACKLOG_MAX = 30_000;
const ROTATE_SLICE_MS = 20;
const ROTATE_INDEX_MS = 30_000;
/** The largest share of one core for postponed work while a file is sealed. Sealing takes part of a core, too. */
const SHARE_BESIDE_SEALING = 0.25;
/** Maximum time for which an erasure packs or indexes before other calls run. */
const ERASE_SLICE_MS = 20;
/**
 * By estimate, packing makes raw blocks this many times smaller. Blocks of agents' traffic become 5 to 7 times smaller.
 */
const PACKING_RATIO = 4;
/**
 * Maximum time for which a rotation indexes while new exchanges wait. Exchanges that the index then still lacks are
 * indexed when the sealed file is compacted.
 */
const SEAL_INDEX_MS = 2_000;

/** Points where a test can make a write fail. */
type FaultPoint = 'attachment' | 'commit' | 'encode' | 'erase' | 'index' | 'seal' | 'sync' | OffloadStep;

export interface CaptureLogOptions {
  /** The live file, `DATA_DIR/capture.mdb`. The file and its folder are created if missing. */
  path: string;
  /**
   * SVC_REDACT: true masks key shapes in the stored copy; false leaves bodies as received, except for credentials of
   * the request in its response.
   */
  redact: boolean;
  /** Maximum length of a body after its content-encoding was removed; default: 64 MiB. */
  max_decoded_bytes?: number;
  /** Key that encrypts the stored data; null or omitted: no encryption. Secret. */
  data_key?: Uint8Array | null;
  /** Credentials that the gateway adds to requests: masked in what is stored. Secret. */
  operator_secrets?: readonly string[];
  /** Headers that name runs, in lower case; default: the headers recorded in the file. */
  run_headers?: readonly string[];
  /** DATA_DIR, whose secret keeps masked run labels distinct; default: the folder of `path`. */
  data_dir?: string;
  /** Decodes exchanges for the index while they are stored; if omitted, only `indexSome` and `tidySome` index. */
  decode?: DecodeExchange;
  /** Seals a file elsewhere; if omitted, the file is sealed on this thread. */
  seal?: Seal;
  /**
   * The bucket to which sealed files are moved. Omitted or null: no further files are moved; blocks that an earlier
   * process moved stay in the bucket until they expire or are erased.
   */
  bucket?: { place: string; keep: LocalKeep } | null;
  /** Whether to keep a full-text index beside the database; needs `decode`. */
  has_text_index?: boolean;
  /** Exchanges per second from which blocks are stored raw; default PRESSED_RATE. Tests set it. */
  pressed_rate?: number;
  /** Minimum first id of a new file; default 1. */
  first_id?: number;
  /**
   * Tests pass a function that throws, so that the write at that point fails. At `encode` the function gets the
   * exchange. At `sync`, the sync waits for the promise that the function returns.
   */
  fault?: (point: FaultPoint, exchange?: CapturedExchange) => void | Promise<void>;
}

interface AppendResult {
  /** Range of stored ids; if nothing was stored, last_id is first_id - 1. */
  first_id: number;
  last_id: number;
  /** Exchanges whose content cannot be stored; omitted if the batch has no such exchange. */
  set_apart?: SetApart[];
  /** Set when storage failed in the middle: the last `exchanges` exchanges of the batch must be appended again. */
  left?: { exchanges: number; failure: Error };
}

interface CaptureLogStats {
  path: string;
  /** Size of the live file and of the raw files. */
  bytes: number;
  /** Number of bytes in unused pages of the live file. */
  unused_bytes: number;
  /** Estimated size of the live file when the blocks that wait beside it are packed. */
  packed_bytes: number;
  /** Number of sealed files. */
  sealed: number;
  last_id: number;
  indexed_id: number;
  /** Postponed work, and its share of one core. */
  packing: PackingState;
  /** Bodies that were not stored because their content could not be inspected, by cause, since the log was opened. */
  withheld: Record<WithheldCause, number>;
  /** Progress of the full-text index; null if the log keeps no such index. */
  text: TextIndexState | null;
  /** Progress of moving files to the bucket; null if no file is or was in a bucket. */
  bucket: OffloadState | null;
}

/** Work that was postponed while exchanges arrived. */
interface PackingState extends TidyBacklog {
  /** Share of one core that the postponed work may use while exchanges arrive. */
  share: number;
}

export class CaptureLog {
  readonly #options: CaptureLogOptions;
  #files: AttachmentStore;
  readonly #rawFiles: RawFiles;
  readonly #sealed: SealedFiles;
  readonly #live: LiveFile;
  readonly #load: LoadMeter;
  readonly #encoder: ExchangeEncoder;
  readonly #batches: BatchEncoder;
  readonly #queue = new PackingQueue();
  readonly #indexBacklog = new IndexBacklog();
  readonly #text: TextIndex | null;
  readonly #textSources: CaptureTextSources | null;
  readonly #offload: Offload | null;
  readonly #withheld = Object.fromEntries(WITHHELD_CAUSES.map((cause) => [cause, 0])) as Record<
    WithheldCause,
    number
  >;
  readonly #appends: AppendLoad;
  /** Share of the gateway's queue that was in use when it sent the last batch. */
  #queueFill = 0;
  /** Number of passes over postponed work (`tidySome`) so far. */
  #passes = 0;
  #closed = false;
  #syncTimer: NodeJS.Timeout | null = null;
  /** The background sync in progress, which never rejects; null: none. */
  #syncing: Promise<void> | null = null;
  /**
   * A failed fsync, after which the file is no longer durable. The kernel drops pages that it could not write, and the
   * next fsync succeeds without them. So the failure stays recorded until the file has been rewritten, which sealing
   * does.
   */
  #syncFailure: Error | null = null;
  /**
   * Resolves after the rotations, erasures and rewrites that were started, which run one after the other; null while
   * none runs.
   */
  #fileWork: Promise<void> | null = null;
  /** Interrupts erasures and other long work when the log is closed. */
  readonly #ending = new AbortController();
  /** Resolves after the last queued call. */
  #tail: Promise<unknown> = Promise.resolve();

  /**
   * Opens the log, and starts to finish an interrupted rotation.
   * @throws {import('./layout.ts').CaptureFileError} when the file exists but cannot be used
   */
  static async open(options: CaptureLogOptions): Promise<CaptureLog> {
    const { path, data_key, first_id } = options;
    makeFolder(dirname(path));
    const release = (file: number): void => log.#rawFiles.release(file);
    const appends = new AppendLoad();
    const rest = (tookMs: number) => appends.rest(tookMs);
    const sealed = new SealedFiles({
      path,
      data_key: data_key ?? null,
      release,
      rest,
      completes_index: options.decode !== undefined,
      seal: options.seal ?? sealHere(options.decode ?? null, rest),
    });
    await ensureCaptureFile(path, Math.max(sealed.last_id + 1, first_id ?? 1), [], data_key);
    const log = new CaptureLog(options, sealed, appends);
    sealed.resume();
    return log;
  }

  private constructor(options: CaptureLogOptions, sealed: SealedFiles, appends: AppendLoad) {
    const { path, redact, fault } = options;
    const dataKey = options.data_key ?? null;
    this.#options = options;
    this.#sealed = sealed;
    this.#appends = appends;
    this.#offload = Offload.open({
      path,
      data_key: dataKey,
      place: options.bucket?.place ?? null,
      keep: options.bucket?.keep ?? { age_ms: Number.POSITIVE_INFINITY },
      fault,
    });
    this.#live = new LiveFile(
      path,
      dataKey,
      sealed.last_id,
      options.run_headers ?? null,
      options.decode ?? null,
      ({ summary, entry, listTexts }) => {
        const { id, run_id } = summary;
        this.#text?.take({ id, run_id, mark: markExchange(summary), entry }, listTexts);
      },
      () => sealed.is_sealing,
    );
    this.#files = new AttachmentStore(attachmentsFolder(path), this.#live.sealing?.key ?? null);
    const { decode, has_text_index = false } = options;
    this.#textSources =
      has_text_index && decode !== undefined
        ? new CaptureTextSources(path, dataKey, decode, () => this.#live)
        : null;
    this.#text = this.#textSources === null ? null : new TextIndex(path, dataKey, this.#textSources);
    this.#indexBacklog.note(this.#live.next_id - 1);
    for (const block of this.#live.listWaiting()) this.#queue.add(block);
    const waiting = [...this.#queue.files, ...sealed.listWaitingFiles()];
    this.#rawFiles = new RawFiles(rawFolder(path), waiting);
    this.#load = new LoadMeter(options.pressed_rate);
    const preparer = new Preparer(redact, options.max_decoded_bytes ?? 64 << 20, {
      operator_secrets: options.operator_secrets ?? [],
      data_dir: options.data_dir ?? dirname(path),
      run_headers: options.run_headers ?? [],
    });
    this.#encoder = new ExchangeEncoder(preparer, (sha256, content) => {
      fault?.('attachment');
      this.#files.save(sha256, content);
    });
    this.#batches = new BatchEncoder(preparer, this.#encoder, this.#rawFiles, (exchange) => {
      fault?.('encode', exchange);
    });
  }

  /** Runs a call after all earlier calls. */
  #enqueue<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(call);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  /** Opens the live file again if that is necessary. @throws when the log is closed, or the file cannot be opened */
  async #makeReady(): Promise<void> {
    if (this.#closed) throw new Error('the capture log is closed');
    if (!this.#live.isGivenUp && this.#live.isGone) await this.#forgetFile();
    if (this.#live.isGivenUp) await this.#reopenLive(this.#sealed.last_id);
  }

  /** Opens the live file again. @throws the storage's error; the file stays given up until a call succeeds */
  async #reopenLive(lastSealedId: number, turns: CarriedTurn[] = []): Promise<void> {
    await this.#syncing;
    const key = this.#live.sealing?.key ?? null;
    await this.#live.reopen(lastSealedId, turns);
    const now = this.#live.sealing?.key ?? null;
    // The names of attachments depend on the file's key.
    if (now?.id !== key?.id) this.#files = new AttachmentStore(attachmentsFolder(this.#options.path), now);
  }

  /**
   * Stores a batch in the given order. After it resolves, the log no longer reads the bodies, so shared memory can be
   * reused. An exchange that cannot be stored because of its content is set apart, and the others are stored. If
   * storage fails after a part of the batch was stored, the result says so in `left`.
   * @param queueFill share of the gateway's queue that was in use when it sent the batch, 0 to 1
   * @throws the storage's error (disk full, …); then nothing of the batch is stored and no id is used
   */
  append(batch: readonly CapturedExchange[], queueFill = 0): Promise<AppendResult> {
    const beginStoring = this.#appends.begin();
    return this.#enqueue(() => {
      beginStoring();
      this.#queueFill = queueFill;
      return this.#append(batch);
    });
  }

  async #append(batch: readonly CapturedExchange[]): Promise<AppendResult> {
    for (let tries = 1; tries <= BATCH_TRIES; tries++) {
      await this.#makeReady();
      try {
        return await this.#appendBatch(batch);
      } catch (error) {
        if (findPlaceCause(error) !== null) throw error;
      }
    }
    return this.#appendEach(batch);
  }

  /**
   * Stores each exchange of a batch separately. An exchange that fails although the storage works is set apart. If the
   * storage fails, the exchanges that are left are not tried.
   */
  async #appendEach(batch: readonly CapturedExchange[]): Promise<AppendResult> {
    const setApart: SetApart[] = [];
    let firstId = 0;
    const finish = (taken: number): AppendResult => ({
      first_id: firstId,
      last_id: firstId + taken - setApart.length - 1,
      set_apart: setApart,
    });
    for (const [at, exchange] of batch.entries()) {
      let isReady = false;
      try {
        await this.#makeReady();
        isReady = true;
        if (at === 0) firstId = this.#live.next_id;
        setApart.push(...((await this.#appendBatch([exchange])).set_apart ?? []));
      } catch (error) {
        if (isReady && findPlaceCause(error) === null) {
          setApart.push(describeSetApart(exchange, error));
          continue;
        }
        if (at === 0) throw error;
        return { ...finish(at), left: { exchanges: batch.length - at, failure: error as Error } };
      }
    }
    return finish(batch.length);
  }

  async #appendBatch(batch: readonly CapturedExchange[]): Promise<AppendResult> {
    const firstId = this.#live.next_id;
    try {
      const bodyBytes = countBodyBytes(batch);
      const isTooMuch = this.#load.note(batch.length, bodyBytes);
      this.#appends.is_behind =
        this.#queueFill >= BEHIND.queue_fill || this.#appends.waiting >= BEHIND.appends;
      const readsLater = this.#appends.is_behind || this.#live.index.isFull;
      const pace = {
        is_pressed: isTooMuch && !this.#queue.isFull,
        facts_reader: readsLater ? null : this.#live.index.facts_reader,
      };
      const encoded = await this.#batches.encode(batch, bodyBytes, pace, this.#live);
      if (encoded.blocks.length > 0) this.#commit(encoded);
      for (const cause of encoded.withheld) this.#withheld[cause]++;
      const ids = { first_id: firstId, last_id: encoded.next_id - 1 };
      return encoded.set_apart.length === 0 ? ids : { ...ids, set_apart: encoded.set_apart };
    } catch (error) {
      // Later exchanges must not refer to exchanges that were not stored.
      this.#encoder.forget();
      this.#live.giveUp();
      this.#text?.forget();
      await this.#rawFiles.abandon();
      throw namePlace(error, this.#options.path);
    }
  }

  #commit(encoded: EncodedBatch): void {
    this.#options.fault?.('commit');
    this.#live.append(encoded);
    this.#indexBacklog.note(encoded.next_id - 1);
    this.#rawFiles.commit();
    for (const { key, waits_in, bytes } of encoded.blocks) {
      if (waits_in !== null) this.#queue.add({ key, file: waits_in, bytes });
    }
    this.#scheduleSync();
  }

  /**
   * Syncs everything appended so far. Before that, indexes exchanges within a time limit. Afterwards, writes the
   * waiting texts into the full-text index within another limit.
   * @throws the storage's error, or that of an earlier failed sync of the file
   */
  flush(): Promise<void> {
    return this.#enqueue(async () => {
      const { decode } = this.#options;
      if (decode !== undefined) await this.#indexSome(decode, FLUSH_INDEX_MS);
      await this.#flush();
      this.#flushText();
    });
  }

  async #flush(): Promise<void> {
    await this.#makeReady();
    if (this.#syncTimer !== null) clearTimeout(this.#syncTimer);
    this.#syncTimer = null;
    await this.#syncing;
    this.#storeIndex(true);
    await this.#sync();
    if (this.#syncFailure !== null) throw this.#syncFailure;
  }

  /**
   * Syncs everything appended so far, and releases the raw files of blocks packed so far. Appends may run meanwhile. The
   * files to which the database refers are synced before the database.
   * @throws the storage's error
   */
  async #sync(): Promise<void> {
    const packed = this.#queue.packed;
    const files = this.#files;
    let attachmentError: unknown = null;
    try {
      await this.#options.fault?.('sync');
      await this.#live.sync(async () => {
        await files.sync().catch((error: unknown) => {
          attachmentError = error;
          throw error;
        });
        await this.#rawFiles.sync();
      });
    } catch (error) {
      // The store writes attachments again before the next sync.
      if (error === attachmentError) throw error;
      const why = `a sync failed (${(error as Error).message}): the data may be missing on the disk until the file is rotated`;
      this.#syncFailure = new Error(why, { cause: error });
      throw error;
    }
    if (this.#syncFailure !== null) return;
    for (const file of this.#queue.takeReleased(packed)) this.#rawFiles.release(file);
  }

  #scheduleSync(): void {
    if (this.#syncTimer !== null) return;
    this.#syncTimer = setTimeout(() => {
      this.#syncTimer = null;
      this.#enqueue(() => this.#beginSync()).catch(ignore);
    }, SYNC_DELAY_MS);
    this.#syncTimer.unref();
  }

  /**
   * Starts a sync for which later calls do not wait, because a sync takes up to some hundred milliseconds on a busy
   * machine. The next flush reports its failure.
   */
  async #beginSync(): Promise<void> {
    if (this.#closed) return;
    if (this.#syncing !== null) {
      this.#scheduleSync();
      return;
    }
    await this.#makeReady();
    this.#storeIndex(true);
    this.#syncing = this.#sync()
      .catch(ignore)
      .finally(() => {
        this.#syncing = null;
      });
  }

  /**
   * Packs blocks that were stored raw under load: at least one, and further ones for about `budget_ms`. Packs none
   * after a failed sync of the file, because the raw files are then the only safe copy.
   * @returns the number of packed blocks; 0 if none can be packed
   * @throws the storage's error; the blocks stay unchanged
   */
  packSome(budget_ms: number): Promise<number> {
    return this.#enqueue(() => this.#packSome(budget_ms));
  }

  async #packSome(budgetMs: number): Promise<number> {
    await this.#makeReady();
    if (this.#syncFailure !== null) return 0;
    const done = this.#queue.packSome((key) => this.#live.pack(key), budgetMs);
    if (done > 0) this.#scheduleSync();
    return done;
  }

  /**
   * Runs one pass of postponed work. The pass begins with packing or indexing: in most passes with the more urgent of
   * the two, and with packing while the log is behind. If there is nothing to pack, the pass indexes, and vice versa.
   * The full-text index gets the rest of the time.
   * @throws the storage's error in packing or indexing; a later pass repeats the work
   */
  tidySome(decode: DecodeExchange, budget_ms: number): Promise<TidyPass> {
    return this.#enqueue(async () => {
      const start = performance.now();
      const backlog = this.#backlog();
      const packingNeed = measurePackingNeed(backlog, this.#live.bytes);
      const isFirstPacking =
        this.#appends.is_behind || comesPackingFirst(this.#passes++, packingNeed, measureIndexNeed(backlog));
      let done = isFirstPacking ? await this.#packSome(budget_ms) : await this.#indexSome(decode, budget_ms);
      if (done === 0) {
        done = isFirstPacking ? await this.#indexSome(decode, budget_ms) : await this.#packSome(budget_ms);
      }
      done += this.#tidyText(budget_ms - (performance.now() - start), done === 0);
      const took_ms = performance.now() - start;
      return { done, took_ms, share: this.#chooseShare(this.#backlog()) };
    });
  }

  /** Chooses the share of one core for passes over postponed work. */
  #chooseShare(backlog: TidyBacklog): number {
    if (this.#appends.is_behind)
      return this.#queueFill >= NEARLY_FULL ? LEAST_SHARE : choosePackingShare(backlog, this.#live.bytes);
    const share = chooseTidyShare(backlog, this.#live.bytes);
    return this.#sealed.is_sealing ? Math.min(share, SHARE_BESIDE_SEALING) : share;
  }

  /**
   * Continues the full-text index.
   * @param isIdle whether no other work waits
   * @returns the number of steps; 0 if nothing was left to do, or if it failed
   */
  #tidyText(budgetMs: number, isIdle: boolean): number {
    if (this.#text === null) return 0;
    try {
      return this.#text.tidySome(budgetMs, isIdle);
    } catch {
      // The cause may be a full disk. The exchanges stay missing from the full-text index until a later pass reads them
      // again.
      return 0;
    }
  }

  #backlog(): TidyBacklog {
    const { index, next_id } = this.#live;
    const sealed = this.#sealed.index_behind;
    const unindexed = next_id - 1 - index.stored + (sealed?.exchanges ?? 0);
    const from = sealed?.indexed_id ?? index.stored;
    const { exchanges, seconds } = this.#indexBacklog.measure(from, unindexed);
    const unsearched = this.#text?.behind ?? 0;
    return { ...this.#queue.backlog, unindexed: exchanges, unindexed_s: seconds, unsearched };
  }

  /**
   * Indexes exchanges in id order, for at most about `budget_ms` at a time.
   * @returns the number of indexed exchanges; 0 when all are indexed
   * @throws the storage's error; the results are kept and written with the next call
   */
  indexSome(decode: DecodeExchange, budget_ms: number): Promise<number> {
    return this.#enqueue(() => this.#indexSome(decode, budget_ms));
  }

  async #indexSome(decode: DecodeExchange, budgetMs: number): Promise<number> {
    await this.#makeReady();
    const start = performance.now();
    const { index, next_id } = this.#live;
    let done = 0;
    while (index.pending < INDEX_BATCH && index.indexed < next_id - 1) {
      if (!index.indexNext(decode)) break;
      done++;
      if (performance.now() - start >= budgetMs) break;
    }
    if (this.#storeIndex()) this.#scheduleSync();
    return done;
  }

  /**
   * Writes the pending summaries of the index, and what lists read about exchanges that the index lacks.
   * @param isLast whether further calls may not come soon
   * @returns whether there was something to write.
   * @throws the storage's error; the next call then writes it
   */
  #storeIndex(isLast = false): boolean {
    const { index } = this.#live;
    if (index.pending === 0) return this.#live.tellNewest(isLast);
    this.#options.fault?.('index');
    index.store();
    this.#live.tellNewest(isLast);
    return true;
  }

  /**
   * Seals the live file and opens a new one at the same path; ids continue. Appends wait until the new file is open,
   * but not for the compaction of the old one.
   * @returns the paths of the sealed file, which is compacted and read-only, and of the live file; `sealed` is null if
   * the live file was empty
   * @throws the storage's error; the log continues in any case
   */
  rotate(): Promise<{ sealed: string | null; opened: string }> {
    return this.#alone(() => this.#rotate());
  }

  /** Runs work that must not overlap with a rotation, an erasure or a rewrite. */
  #alone<Value>(work: () => Promise<Value>): Promise<Value> {
    // The work begins within this call if possible, so that calls made afterwards run after it.
    const done = this.#fileWork === null ? work() : this.#fileWork.then(work);
    const ended = done.then(ignore, ignore).then(() => {
      if (this.#fileWork === ended) this.#fileWork = null;
    });
    this.#fileWork = ended;
    return done;
  }

  /**
   * Carries out the order to erase exchanges, if there is one (erase-order.ts), while exchanges are stored.
   * @returns whether there was an order
   * @throws Error if it cannot be carried out now: the order stays
   */
  async eraseOrdered(): Promise<boolean> {
    const { path, data_key = null } = this.#options;
    if (!hasOrder(path)) return false;
    return this.#alone(async () => {
      await this.#enqueue(() => this.#makeReady());
      const erasure = LogErasure.accept({
        path,
        data_key,
        live: this.#live,
        text: this.#text,
        hold: (work) => this.#hold(work),
        flush: () => this.#flush(),
        settle: (lastId) => this.#settleTo(lastId),
        forgetBases: (ids) => this.#encoder.forgetSome(ids),
        forgetAttachments: () => this.#files.forget(),
        closeSealed: async () => this.#textSources?.close(),
        reopenLive: () => this.#reopenLive(this.#sealed.last_id),
        restoreOffloaded: (isMeant) => this.#restoreOffloaded(isMeant),
        removeErasedObjects: async () => this.#offload?.removeErased(),
      });
      await this.#offload?.pause();
      try {
        await erasure?.run();
      } finally {
        this.#offload?.go();
      }
      return erasure !== null;
    });
  }

  /**
   * Carries out an order to write files again, if there is one (rewrite-order.ts), while exchanges are stored.
   * @returns the kind of the order; null if there was none
   * @throws Error if it cannot be carried out now: the order stays
   */
  async rewriteOrdered(): Promise<RewriteKind | null> {
    const { path, data_key = null } = this.#options;
    if (findRewriteOrder(path) === null) return null;
    return this.#alone(async () => {
      const kind = findRewriteOrder(path);
      if (kind === null) return null;
      await this.#enqueue(() => this.#makeReady());
      await this.#sealed.settle();
      const live = this.#live;
      await this.#offload?.pause();
      try {
        await rewriteOrdered(
          {
            path,
            data_key,
            get live_key_id() {
              return live.sealing?.key.id ?? null;
            },
            measureLive: () => live.measurePages(),
            hold: (work) => this.#hold(work),
            seal: async () => (await this.#rotate()).sealed !== null,
            replaceEmpty: () => this.#replaceEmpty(),
            closeSealed: async () => this.#textSources?.close(),
            restoreOffloaded: () => this.#restoreOffloaded(async () => true),
            removeErasedObjects: async () => this.#offload?.removeErased(),
          },
          kind,
        );
      } finally {
        this.#offload?.go();
      }
      return kind;
    });
  }

  /** Replaces the live file, which has no exchanges, by a new one. */
  async #replaceEmpty(): Promise<void> {
    const { path } = this.#options;
    const turns = this.#live.index.listCarriedTurns();
    await this.#live.close();
    this.#live.giveUp();
    removeCheckpoint(path);
    removeDatabase(path);
    await this.#reopenLive(this.#sealed.last_id, turns);
  }

  /** Restores files whose blocks are in a bucket. */
  async #restoreOffloaded(isMeant: (file: SealedFile) => Promise<boolean>): Promise<void> {
    await this.#offload?.restoreErasing(isMeant, (work) => this.#replaceSealed(work));
  }

  /** Runs work that replaces a sealed file. */
  #replaceSealed(work: () => void): Promise<void> {
    return this.#enqueue(async () => {
      await this.#textSources?.close();
      work();
    });
  }

  /** Resolves when every sealing that has begun has succeeded or failed, including those of an earlier process. */
  settleSealing(): Promise<void> {
    return this.#sealed.settle();
  }

  /**
   * Runs a pass of work with the bucket (../offload/offload.ts): sends sealed files, and removes blocks that are in the
   * bucket from the disk, or restores them. No time limit, because no other work waits for the pass.
   * @throws StoreError, or a file system error: the next call continues
   */
  async offloadSome(): Promise<void> {
    await this.#offload?.pass({
      replace: (work) => this.#alone(() => this.#replaceSealed(work)),
      isSearchable: ({ first_id, last_id }) => this.#text?.hasAll(first_id, last_id) ?? true,
      readFirstStart: () => this.readFirstStart(),
    });
  }

  /** Records that expiry is about to remove a sealed file. @throws a file system error */
  expireSealed(file: SealedFile): void {
    this.#offload?.expire(file);
  }

  /**
   * Runs a part of an erasure or a rewrite while nothing is stored. Before that, the event loop handles messages that
   * have arrived.
   */
  async #hold<Value>(work: () => Value | Promise<Value>): Promise<Value> {
    await nextTurn();
    return this.#enqueue(async () => {
      this.#ending.signal.throwIfAborted();
      await this.#makeReady();
      await this.#syncing;
      try {
        this.#options.fault?.('erase');
        return await work();
      } catch (error) {
        // LMDB refuses to continue after some errors.
        this.#encoder.forget();
        this.#live.giveUp();
        this.#text?.forget();
        throw error;
      }
    });
  }

  /** Packs and indexes everything up to an exchange. */
  async #settleTo(lastId: number): Promise<void> {
    const { decode } = this.#options;
    await this.#sealed.settle();
    // Closes the open raw file, so that no later block is written to it.
    await this.#hold(() => this.#rawFiles.abandon());
    while ((this.#queue.oldest_key ?? Number.POSITIVE_INFINITY) <= lastId) {
      await nextTurn();
      this.#ending.signal.throwIfAborted();
      if ((await this.packSome(ERASE_SLICE_MS)) === 0 && this.#syncFailure !== null) throw this.#syncFailure;
    }
    while (decode !== undefined && this.#live.index.stored < lastId) {
      await nextTurn();
      this.#ending.signal.throwIfAborted();
      if ((await this.indexSome(decode, ERASE_SLICE_MS)) === 0) break;
    }
  }

  async #rotate(): Promise<{ sealed: string | null; opened: string }> {
    const opened = this.#options.path;
    if (this.#isIndexBehind()) await this.#indexAhead();
    const rotated = await this.#enqueue(() => this.#beginFile());
    if (rotated === null) return { sealed: null, opened };
    const failure = rotated.sync_failure;
    try {
      const sealed = await this.#sealed.seal(rotated.moved, rotated.indexed);
      this.#text?.reconcile();
      await this.#tellNewest();
      // The whole file has been rewritten, so the failed sync no longer matters.
      if (this.#syncFailure === failure) this.#syncFailure = null;
      return { sealed, opened };
    } catch (error) {
      this.#syncFailure = failure ?? this.#syncFailure;
      throw error;
    }
  }

  /**
   * Updates what lists read about the newest exchanges after a file was sealed, because lists show all exchanges of a
   * sealed file by its index. Ignores a failure, because the next write tries again.
   */
  async #tellNewest(): Promise<void> {
    await this.#enqueue(async () => {
      await this.#makeReady();
      this.#live.tellNewest(true);
    }).catch(ignore);
  }

  /** Whether the index lacks so many exchanges that adding them would make new exchanges wait too long. */
  #isIndexBehind(): boolean {
    return this.#countUnindexed() > ROTATE_BACKLOG;
  }

  #countUnindexed(): number {
    const { index, next_id } = this.#live;
    return next_id - 1 - index.indexed;
  }

  /**
   * Indexes exchanges that were stored under pressure before their file is sealed, so that turns in the next file can
   * continue their conversations. Exchanges that are left are indexed when the sealed file is compacted. Messages are
   * handled between two slices, because the service kills a capture process that does not answer for half a minute.
   */
  async #indexAhead(): Promise<void> {
    const { decode } = this.#options;
    if (decode === undefined) return;
    const deadline = performance.now() + ROTATE_INDEX_MS;
    while (this.#isIndexBehind() && performance.now() < deadline && !this.#ending.signal.aborted) {
      if (this.#countUnindexed() > ROTATE_BACKLOG_MAX) break;
      const start = performance.now();
      if ((await this.indexSome(decode, ROTATE_SLICE_MS)) === 0) break;
      await this.#appends.rest(performance.now() - start);
    }
  }

  /**
   * Continues in a new file.
   * @returns the old file, its last indexed exchange and its sync failure; null if the live file is empty and stays
   */
  async #beginFile(): Promise<{ moved: MovedFile; indexed: number; sync_failure: Error | null } | null> {
    await this.#makeReady();
    const { path, decode, fault } = this.#options;
    const firstId = this.#live.readFirstId();
    const lastId = this.#live.next_id - 1;
    if (lastId < firstId) return null;
    const start = performance.now();
    // New exchanges wait during this loop, so a large backlog is indexed during sealing instead.
    while (decode !== undefined && !this.#isIndexBehind() && performance.now() - start < SEAL_INDEX_MS) {
      if ((await this.#indexSome(decode, SEAL_INDEX_MS)) === 0) break;
    }
    fault?.('seal');
    await this.#syncing;
    if (this.#syncFailure === null) await this.#flush();
    else await this.#sync();
    const turns = this.#live.index.listCarriedTurns();
    const indexed = this.#live.index.stored;
    this.#live.leaveNewest();
    await this.#live.close();
    // Stays set until the new file is open, even if a later line throws.
    this.#live.giveUp();
    this.#encoder.forget();
    const before = this.#sealed.last_id;
    const moved = this.#sealed.moveAside(firstId, lastId);
    const waiting = this.#queue.take();
    this.#text?.beginFile(lastId + 1);
    try {
      await this.#reopenLive(lastId, turns);
    } catch (error) {
      // The new file could not be made, for example because the disk is full. Continue with the old one.
      if (!existsSync(path)) {
        this.#sealed.moveBack(moved, before);
        this.#queue.restore(waiting);
      }
      throw namePlace(error, path);
    }
    return { moved, indexed, sync_failure: this.#syncFailure };
  }

  /**
   * Handles a live file that was removed or replaced. Writes to the open descriptor would succeed but be lost. New
   * exchanges go to the file that the path now names, and do not refer to exchanges in the old file.
   */
  async #forgetFile(): Promise<void> {
    this.#encoder.forget();
    this.#queue.take();
    this.#syncFailure = null;
    await this.#rawFiles.abandon();
    this.#files.forget();
    this.#live.giveUp();
    this.#text?.forget();
  }

  /** Reads when the first exchange of the live file began; null if the file is empty. @throws the storage's error */
  readFirstStart(): Promise<number | null> {
    return this.#enqueue(async () => {
      await this.#makeReady();
      return this.#live.readFirstStart();
    });
  }

  /** Records that expiry removed a sealed file. */
  forgetSealed(): void {
    this.#sealed.forget();
    this.#textSources?.close();
    this.#text?.reconcile();
  }

  /** Lists the read transactions of all processes in the live file; empty while the file is not open. */
  listReads(): OpenSnapshot[] {
    return this.#closed || this.#live.isGivenUp ? [] : this.#live.listReads();
  }

  /** Current state of the log; cheap. */
  stats(): CaptureLogStats {
    const { bytes } = this.#live;
    const backlog = this.#backlog();
    return {
      path: this.#options.path,
      bytes: bytes + this.#rawFiles.bytes,
      unused_bytes: this.#live.unused_bytes,
      packed_bytes: bytes + backlog.waiting_bytes / PACKING_RATIO,
      sealed: this.#sealed.count,
      last_id: this.#live.next_id - 1,
      indexed_id: this.#live.index.stored,
      packing: { ...backlog, share: this.#chooseShare(backlog) },
      withheld: { ...this.#withheld },
      text: this.#text?.state() ?? null,
      bucket: this.#offload?.state() ?? null,
    };
  }

  #flushText(): void {
    try {
      this.#text?.flush(FLUSH_TEXT_MS);
    } catch {
      // Texts that were not written are read again later.
    }
  }

  #closeText(): void {
    this.#flushText();
    this.#text?.close();
    this.#textSources?.close();
  }

  /**
   * Flushes and closes the log after all earlier calls. Interrupts an erasure, a rewrite, a seal and a pass of work with
   * the bucket. A second call does nothing.
   */
  async close(): Promise<void> {
    this.#ending.abort(new Error('the capture log is being closed'));
    await this.#offload?.close();
    await this.#sealed.end();
    await this.#fileWork;
    return this.#enqueue(async () => {
      if (this.#closed) return;
      try {
        await this.#flush();
      } finally {
        this.#closed = true;
        this.#closeText();
        await this.#rawFiles.abandon();
        await this.#live.close();
      }
    });
  }
}

function countBodyBytes(batch: readonly CapturedExchange[]): number {
  let bytes = 0;
  for (const { request_body, response_body } of batch) bytes += request_body.length + response_body.length;
  return bytes;
}

function ignore(): void {}
