/**
 * Writes the capture database: one writer, in the capture process. Exchanges come in batches, get the next ids, and are
 * with the kernel when `append` resolves, so that no end of the process can undo them; `flush` makes them outlast the
 * machine.
 *
 * Calls are carried out one after the other in the order they are made. A failed append has no effect: no id is used
 * up, and the same batch may be tried again. After a failure the file is opened anew before the next attempt, since
 * LMDB refuses to go on after some errors.
 *
 * The log says what happens when. A batch becomes blocks in `BatchEncoder`, the database is `LiveFile`'s, what waits to be
 * packed `PackingQueue`'s, and what is full `SealedFiles`'.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { findPlaceCause, type SetApart } from '../../domain/capture-cause.ts';
import { type CapturedExchange, WITHHELD_CAUSES, type WithheldCause } from '../../domain/exchange.ts';
import { openDataKey } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { AttachmentStore } from './attachments.ts';
import { BatchEncoder, type EncodedBatch } from './batch-encoder.ts';
import { ExchangeEncoder } from './exchange-encoder.ts';
import type { DecodeExchange } from './exchange-index.ts';
import { attachmentsFolder, ensureCaptureFile, rawFolder } from './layout.ts';
import { LiveFile } from './live-file.ts';
import { LoadMeter } from './load-meter.ts';
import { PackingQueue } from './packing-queue.ts';
import { chooseTidyShare, measurePackingNeed, type TidyBacklog, type TidyPass } from './packing-share.ts';
import { Preparer } from './preparation.ts';
import { RawFiles } from './raw-files.ts';
import { type MovedFile, SealedFiles } from './sealed-files.ts';
import { describeSetApart } from './set-apart.ts';

/** A batch that fails for another reason than the place it goes to is tried so often, then each exchange by itself. */
const BATCH_TRIES = 2;
/** Of so many passes over what was put off one is the index's, or half of them while little waits to be packed. */
const TIDY_TURNS = 4;
const URGENT_NEED = 0.25;
/** Delay from a write to the background sync that makes it outlast the machine. */
const SYNC_DELAY_MS = 1_000;
/** Exchanges whose entries are held before they are written. */
const INDEX_BATCH = 256;
/** Longest that sealing waits for the index; what is missing then, readers find for themselves. */
const SEAL_INDEX_MS = 2_000;

/** Where a test may let a write fail. */
export type FaultPoint = 'attachment' | 'commit' | 'encode' | 'index' | 'seal' | 'sync';

export interface CaptureLogOptions {
  /** The live file, `DATA_DIR/capture.mdb`. Made when it is missing, with its folder. */
  path: string;
  /** SVC_REDACT: mask key shapes in the stored copy; false keeps bodies byte for byte as they were on the wire. */
  redact: boolean;
  /** Most bytes of a body without its content-encoding; 64 MiB when not given. */
  max_decoded_bytes?: number;
  /** Seals what is stored; null or left out: it stands as it is. Secret. */
  data_key?: Uint8Array | null;
  /** Credentials that the gateway adds to requests: masked in what is stored. Secret. */
  operator_secrets?: readonly string[];
  /** Headers that name runs, in lower case; left out: those that stand in the file. */
  run_headers?: readonly string[];
  /** Used to finish the index before a file is sealed. */
  decode?: DecodeExchange;
  /** For tests: from so many exchanges a second on, blocks are stored raw; PRESSED_RATE when not given. */
  pressed_rate?: number;
  /** A new file begins with this id at least; 1 when not given. */
  first_id?: number;
  /** For tests: throws when the write at that point shall fail; an exchange comes with `encode`. */
  fault?: (point: FaultPoint, exchange?: CapturedExchange) => void;
}

export interface AppendResult {
  /** Ids of what was stored; without anything, last_id is one less. */
  first_id: number;
  last_id: number;
  /** What could not be stored for its own sake, and never will be; not there when all of the batch could. */
  set_apart?: SetApart[];
  /** When the place failed in the middle: the last so many of the batch are to be appended again. */
  left?: { exchanges: number; failure: Error };
}

export interface CaptureLogStats {
  path: string;
  /** Of the live file, and of what waits beside it. */
  bytes: number;
  /** Number of sealed files. */
  sealed: number;
  last_id: number;
  indexed_id: number;
  /** What was put off, and the share of one core that it gets. */
  packing: PackingState;
  /** Bodies that are not kept since nobody could tell what is in them, by cause, since the log was opened. */
  withheld: Record<WithheldCause, number>;
}

/** What was put off while exchanges came. */
export interface PackingState extends TidyBacklog {
  /** Of one core, that putting it in order may take while exchanges come. */
  share: number;
}

export class CaptureLog {
  readonly #options: CaptureLogOptions;
  readonly #files: AttachmentStore;
  readonly #rawFiles: RawFiles;
  readonly #sealed: SealedFiles;
  readonly #live: LiveFile;
  readonly #load: LoadMeter;
  readonly #encoder: ExchangeEncoder;
  readonly #batches: BatchEncoder;
  readonly #queue = new PackingQueue();
  readonly #withheld = Object.fromEntries(WITHHELD_CAUSES.map((cause) => [cause, 0])) as Record<
    WithheldCause,
    number
  >;
  /** Tidying passes so far. */
  #passes = 0;
  #closed = false;
  #syncTimer: NodeJS.Timeout | null = null;
  /**
   * Why nothing of the file is promised: a sync that failed. The system forgets what it could not write, and the next sync
   * succeeds without it; so it stands until the file has been written anew, which sealing it does.
   */
  #syncFailure: Error | null = null;
  /** The end of the queue of calls. */
  #tail: Promise<unknown> = Promise.resolve();

  /**
   * Opens the log, finishing a rotation that was cut short.
   * @throws {import('./layout.ts').CaptureFileError} when the file is there but cannot be used
   */
  static async open(options: CaptureLogOptions): Promise<CaptureLog> {
    const { path, data_key, first_id } = options;
    makeFolder(dirname(path));
    const sealed = new SealedFiles(path, data_key ?? null, (file) => log.#rawFiles.release(file));
    await ensureCaptureFile(path, Math.max(sealed.last_id + 1, first_id ?? 1), [], data_key);
    const log = new CaptureLog(options, sealed);
    sealed.resume();
    return log;
  }

  private constructor(options: CaptureLogOptions, sealed: SealedFiles) {
    const { path, redact, fault } = options;
    const dataKey = options.data_key ?? null;
    this.#options = options;
    this.#sealed = sealed;
    this.#files = new AttachmentStore(attachmentsFolder(path), openDataKey(dataKey));
    this.#live = new LiveFile(path, dataKey, sealed.last_id, options.run_headers ?? null);
    for (const block of this.#live.listWaiting()) this.#queue.add(block);
    const waiting = [...this.#queue.files, ...sealed.listWaitingFiles()];
    this.#rawFiles = new RawFiles(rawFolder(path), waiting);
    this.#load = new LoadMeter(options.pressed_rate);
    const preparer = new Preparer(redact, options.max_decoded_bytes ?? 64 << 20, {
      operator_secrets: options.operator_secrets ?? [],
    });
    this.#encoder = new ExchangeEncoder(preparer, (sha256, content) => {
      fault?.('attachment');
      this.#files.save(sha256, content);
    });
    this.#batches = new BatchEncoder(preparer, this.#encoder, this.#rawFiles, (exchange) => {
      fault?.('encode', exchange);
    });
  }

  /** Runs a call after those before it. */
  #enqueue<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(call);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  /** @throws when the log is closed, or the file cannot be opened again after a failure */
  async #makeReady(): Promise<void> {
    if (this.#closed) throw new Error('the capture log is closed');
    if (!this.#live.isGivenUp && this.#live.isGone) await this.#forgetFile();
    if (this.#live.isGivenUp) await this.#live.reopen(this.#sealed.last_id);
  }

  /**
   * Stores a batch in the order given. Once it is answered, nothing looks at the bodies' memory any more if it is shared.
   * An exchange for which this fails by what it holds is set apart, and the others are stored.
   * @throws the storage's error (disk full, …); then nothing of the batch is stored and no id is used up
   */
  append(batch: readonly CapturedExchange[]): Promise<AppendResult> {
    return this.#enqueue(() => this.#append(batch));
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

  /** The batch fails as a whole, and not for want of room: an exchange that also fails alone is set apart. */
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
      const isPressed = this.#load.note(batch.length, bodyBytes) && !this.#queue.isFull;
      const encoded = await this.#batches.encode(batch, bodyBytes, isPressed, this.#live);
      if (encoded.blocks.length > 0) this.#commit(encoded);
      for (const cause of encoded.withheld) this.#withheld[cause]++;
      const ids = { first_id: firstId, last_id: encoded.next_id - 1 };
      return encoded.set_apart.length === 0 ? ids : { ...ids, set_apart: encoded.set_apart };
    } catch (error) {
      // What was never stored must not be built on.
      this.#encoder.forget();
      this.#live.giveUp();
      await this.#rawFiles.abandon();
      throw namePlace(error, this.#options.path);
    }
  }

  #commit(encoded: EncodedBatch): void {
    this.#options.fault?.('commit');
    this.#live.append(encoded);
    this.#rawFiles.commit();
    for (const { key, waits_in, bytes } of encoded.blocks) {
      if (waits_in !== null) this.#queue.add({ key, file: waits_in, bytes });
    }
    this.#scheduleSync();
  }

  /** fsync of everything appended so far. @throws the storage's error, also that of an earlier sync of the file */
  flush(): Promise<void> {
    return this.#enqueue(() => this.#flush());
  }

  async #flush(): Promise<void> {
    await this.#makeReady();
    if (this.#syncTimer !== null) clearTimeout(this.#syncTimer);
    this.#syncTimer = null;
    await this.#sync();
    if (this.#syncFailure !== null) throw this.#syncFailure;
    for (const file of this.#queue.takeReleased()) this.#rawFiles.release(file);
  }

  async #sync(): Promise<void> {
    this.#files.sync();
    try {
      this.#options.fault?.('sync');
      await this.#rawFiles.sync();
      await this.#live.sync();
    } catch (error) {
      const why = `a sync failed (${(error as Error).message}): until the file is rotated, none of it is sure to be on the disk`;
      this.#syncFailure = new Error(why, { cause: error });
      throw error;
    }
  }

  #scheduleSync(): void {
    if (this.#syncTimer !== null) return;
    this.#syncTimer = setTimeout(() => {
      this.#syncTimer = null;
      // A failure shows at the next flush.
      this.#enqueue(async () => {
        if (!this.#closed) await this.#flush();
      }).catch(() => undefined);
    }, SYNC_DELAY_MS);
    this.#syncTimer.unref();
  }

  /**
   * Compresses blocks that were stored raw in a hurry, at least one and for about `budget_ms` at a time; none while a sync
   * of the file has failed, for its raw files could not go.
   * @returns how many; 0 when none is left
   * @throws the storage's error; the blocks stay as they are
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
   * One pass over what was put off, packing and the index in turns: packing more often the more of it waits.
   * @throws the storage's error; nothing is lost then
   */
  tidySome(decode: DecodeExchange, budget_ms: number): Promise<TidyPass> {
    return this.#enqueue(async () => {
      const start = performance.now();
      const turn = this.#passes++ % TIDY_TURNS;
      const isFirstPacking = turn >= (this.#measureNeed() < URGENT_NEED ? TIDY_TURNS / 2 : 1);
      let done = isFirstPacking ? await this.#packSome(budget_ms) : await this.#indexSome(decode, budget_ms);
      if (done === 0) {
        done = isFirstPacking ? await this.#indexSome(decode, budget_ms) : await this.#packSome(budget_ms);
      }
      const took_ms = performance.now() - start;
      return { done, took_ms, share: chooseTidyShare(this.#backlog(), this.#live.bytes) };
    });
  }

  #measureNeed(): number {
    return measurePackingNeed(this.#backlog(), this.#live.bytes);
  }

  #backlog(): TidyBacklog {
    return { ...this.#queue.backlog, unindexed: this.#live.next_id - 1 - this.#live.index.indexed };
  }

  /**
   * Indexes exchanges that are not yet, in the order of their ids, for at most about `budget_ms` at a time.
   * @returns how many; 0 when all are
   * @throws the storage's error; what was found is kept and written with the next call
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
    if (index.pending > 0) {
      this.#options.fault?.('index');
      index.store();
      this.#scheduleSync();
    }
    return done;
  }

  /**
   * Seals the live file and opens a new one at the same path; ids go on. Appends made meanwhile wait only until the new
   * file is there, not for the compaction.
   * @returns the sealed file, compacted and read-only, and the live one; sealed is null when there was nothing to seal
   * @throws the storage's error; the log goes on in any case
   */
  async rotate(): Promise<{ sealed: string | null; opened: string }> {
    const opened = this.#options.path;
    const rotated = await this.#enqueue(() => this.#beginFile());
    if (rotated === null) return { sealed: null, opened };
    const failure = rotated.sync_failure;
    try {
      const sealed = await this.#sealed.seal(rotated.moved);
      // All of it has been written anew.
      if (this.#syncFailure === failure) this.#syncFailure = null;
      return { sealed, opened };
    } catch (error) {
      this.#syncFailure = failure ?? this.#syncFailure;
      throw error;
    }
  }

  /** Goes on in a new file. @returns the old one, and why nothing of it is promised; null when there is nothing in it */
  async #beginFile(): Promise<{ moved: MovedFile; sync_failure: Error | null } | null> {
    await this.#makeReady();
    const { path, decode, fault } = this.#options;
    const firstId = this.#live.readFirstId();
    const lastId = this.#live.next_id - 1;
    if (lastId < firstId) return null;
    const start = performance.now();
    while (decode !== undefined && performance.now() - start < SEAL_INDEX_MS) {
      if ((await this.#indexSome(decode, SEAL_INDEX_MS)) === 0) break;
    }
    fault?.('seal');
    if (this.#syncFailure === null) await this.#flush();
    else await this.#sync();
    const turns = this.#live.index.listCarriedTurns();
    await this.#live.close();
    // Until the new file is open, whatever fails below.
    this.#live.giveUp();
    this.#encoder.forget();
    const before = this.#sealed.last_id;
    const moved = this.#sealed.moveAside(firstId, lastId);
    const waiting = this.#queue.take();
    try {
      await this.#live.reopen(lastId, turns);
    } catch (error) {
      // There is no room for a new file: the one that was moved aside goes on.
      if (!existsSync(path)) {
        this.#sealed.moveBack(moved, before);
        this.#queue.restore(waiting);
      }
      throw namePlace(error, path);
    }
    return { moved, sync_failure: this.#syncFailure };
  }

  /**
   * The file was removed or replaced under us. It would take writes as before, and nobody would ever find them: what
   * comes goes into the file that the path leads to now, and builds on nothing that was in the old one.
   */
  async #forgetFile(): Promise<void> {
    this.#encoder.forget();
    this.#queue.take();
    this.#syncFailure = null;
    await this.#rawFiles.abandon();
    this.#files.forget();
    this.#live.giveUp();
  }

  /** When the first exchange of the live file began; null: it holds none. @throws the storage's error */
  readFirstStart(): Promise<number | null> {
    return this.#enqueue(async () => {
      await this.#makeReady();
      return this.#live.readFirstStart();
    });
  }

  /** A sealed file was removed by age. */
  forgetSealed(): void {
    this.#sealed.forget();
  }

  /** Where the log stands; cheap. */
  stats(): CaptureLogStats {
    const { bytes } = this.#live;
    const backlog = this.#backlog();
    return {
      path: this.#options.path,
      bytes: bytes + this.#rawFiles.bytes,
      sealed: this.#sealed.count,
      last_id: this.#live.next_id - 1,
      indexed_id: this.#live.index.indexed,
      packing: { ...backlog, share: chooseTidyShare(backlog, bytes) },
      withheld: { ...this.#withheld },
    };
  }

  /** Flushes and ends the log, after the calls made before. A second call does nothing. */
  close(): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#closed) return;
      try {
        await this.#flush();
      } finally {
        this.#closed = true;
        await this.#sealed.settle();
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
