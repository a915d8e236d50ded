/**
 * Writes the capture database: one writer, on one actor thread. Exchanges come in batches, get the next ids, and are
 * with the kernel when `append` resolves, so that no end of the process can undo them; `flush` makes them outlast the
 * machine.
 *
 * Calls are carried out one after the other in the order they are made. A failed append has no effect: no id is used
 * up, and the same batch may be tried again. After a failure the file is opened anew before the next attempt, since
 * LMDB refuses to go on after some errors.
 */
import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { findPlaceCause, type SetApart } from '../../domain/capture-cause.ts';
import { type CapturedExchange, WITHHELD_CAUSES, type WithheldCause } from '../../domain/exchange.ts';
import { maskText } from '../../redaction/mask.ts';
import { openDataKey } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { AttachmentStore, syncPath } from './attachments.ts';
import {
  BaseCache,
  type BaseEntry,
  type ChosenBase,
  copyBody,
  countCopied,
  isAsItCame,
} from './base-cache.ts';
import { closeBlock, splitClosed } from './block-sealing.ts';
import { BlockReader } from './blocks.ts';
import {
  cutBlock,
  DICTIONARY_BYTES,
  draftBlock,
  draftRecord,
  encodeBlock,
  type Pace,
  pointToRawBlock,
  type RecordDraft,
  sealParts,
  writeRecordEnd,
} from './codec.ts';
import { type Delta, makeDelta } from './delta.ts';
import { type DecodeExchange, ExchangeIndex } from './facts.ts';
import {
  appendRow,
  attachmentsFolder,
  type CaptureEnv,
  ensureCaptureFile,
  listSealed,
  makeReadOnly,
  openCaptureEnv,
  rawFolder,
  type SealedFile,
  sealedPath,
  syncEnv,
} from './layout.ts';
import { chooseTidyShare, measurePackingNeed, type TidyBacklog, type TidyPass } from './packing-share.ts';
import {
  listWithheld,
  measureSharedPrefix,
  NO_FILES,
  type PreparedBody,
  type PreparedExchange,
  Preparer,
} from './preparation.ts';
import { RawFiles } from './raw-files.ts';
import { encodeMeta } from './record.ts';
import { encodeWaiting, listWaiting, repackAll, repackBlock, type WaitingBlock } from './repacking.ts';

/** Memory for earlier bodies that new ones are stored against. */
const BASE_CACHE_BYTES = 64 << 20;
/** Exchanges that may have to be read before one can be; then comes a keyframe. */
const MAX_DEPTH = 48;
/** A block is closed when its records come to so many bytes, or so many exchanges. */
const BLOCK_BYTES = 64 << 10;
const BLOCK_EXCHANGES = 64;
/** From this many exchanges at once on, speed counts more than size. */
const HURRIED_BATCH = 16;
/**
 * From so many exchanges a second or bytes of bodies on, full blocks are stored raw and packed later. To compress an exchange
 * at once, hurried, takes no more than that does in all (about 0.1 ms), so below it nothing is put off: a load without a
 * pause has no later. Beyond it the queue might overflow.
 */
const PRESSED_RATE = 1_000;
const PRESSED_BYTE_RATE = 32 << 20;
/** So does a batch with more bytes: an append is short. */
const PRESSED_BYTES = 8 << 20;
/** Exchanges with smaller requests are then stored without a base while bases do not help: to look for one takes longer. */
const PRESSED_BASE_BYTES = 16 << 10;
/** A batch that fails for another reason than the place it goes to is tried so often, then each exchange by itself. */
const BATCH_TRIES = 2;
/** Places in the program that are told of an error. */
const STACK_LINES = 4;
const TOLD_PATH_CHARACTERS = 200;
/** Raw blocks that wait to be packed, and their bytes; what comes beyond is compressed at once. */
const MAX_RAW_BLOCKS = 65_536;
const MAX_RAW_BYTES = 2 ** 35;
/**
 * Thorough compression takes at most this part of one core: after each one, single exchanges are compressed in less time
 * until nine times what it took has passed. Agents' turns come seconds apart, so nearly all get the thorough one.
 */
const PATIENT_SHARE = 0.1;
/** Part of a growing request by which its memory is longer: some turns fit in. */
const GROWTH_PART = 8;
/** Responses longer than this are not kept as bases. */
const MAX_RESPONSE_BASE_BYTES = 256 << 10;
/** Response bodies with a shorter common beginning are not worth a delta. */
const MIN_RESPONSE_PREFIX = 512;
/** Of so many passes over what was put off one is the index's, or half of them while little waits to be packed. */
const TIDY_TURNS = 4;
const URGENT_NEED = 0.25;
/** Delay from a write to the background sync that makes it outlast the machine. */
const SYNC_DELAY_MS = 1_000;
/** Memory for what the index reads. */
const INDEX_CACHE_BYTES = 16 << 20;
/** Facts that are held before they are written. */
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

/** What of an exchange goes into a block. */
interface EncodedExchange {
  draft: RecordDraft;
  base: BaseEntry | null;
}

/** A block as it goes into the file. */
interface CutBlock {
  key: number;
  value: Buffer;
  first_piece: number;
  pieces: Buffer[];
  /** When it is to be packed later: the raw file that it stands in, 0 for the database itself. */
  waits_in: number | null;
  /** Of the block, when it is to be packed later. */
  bytes: number;
}

/** A live file that was given up for a new one, before it is sealed. */
interface MovedFile {
  path: string;
  first_id: number;
  last_id: number;
  sync_failure: Error | null;
}

export class CaptureLog {
  readonly #options: CaptureLogOptions;
  readonly #preparer: Preparer;
  readonly #bases = new BaseCache(BASE_CACHE_BYTES);
  #rawFiles: RawFiles;
  #files: AttachmentStore;
  #env: CaptureEnv;
  #index: ExchangeIndex;
  #nextId: number;
  #nextPiece: number;
  /** Blocks that were stored raw, oldest first, and when: those that were there at the start, then. */
  #rawBlocks: (WaitingBlock & { since_ms: number })[] = [];
  #rawBytes = 0;
  /** Raw files of blocks that were packed since the last sync: a power cut must not find neither of the two. */
  #packedFrom: number[] = [];
  /** When, by performance.now(), compression may take its time again. */
  #patientFrom = 0;
  /** Exchanges and bytes of bodies a second as of `#rateAt`. */
  #rate = 0;
  #byteRate = 0;
  #rateAt = 0;
  readonly #withheld = Object.fromEntries(WITHHELD_CAUSES.map((cause) => [cause, 0])) as Record<
    WithheldCause,
    number
  >;
  /** Tidying passes so far. */
  #passes = 0;
  #sealed: number;
  #lastSealedId: number;
  #mustReopen = false;
  #isFileOpen = true;
  /** Which file the path led to when it was opened. */
  #fileId = '';
  #closed = false;
  #syncTimer: NodeJS.Timeout | null = null;
  /**
   * Why nothing of the file is promised: a sync that failed. The system forgets what it could not write, and the next sync
   * succeeds without it; so it stands until the file has been written anew, which sealing it does.
   */
  #syncFailure: Error | null = null;
  /** The end of the queue of calls. */
  #tail: Promise<unknown> = Promise.resolve();
  /** Compaction that goes on while the new file is already written to. */
  #sealing: Promise<unknown> = Promise.resolve();

  /**
   * Opens the log, finishing a rotation that was cut short.
   * @throws {import('./layout.ts').CaptureFileError} when the file is there but cannot be used
   */
  static async open(options: CaptureLogOptions): Promise<CaptureLog> {
    makeFolder(dirname(options.path));
    const sealed = listSealed(options.path);
    const firstId = Math.max(readLastSealed(sealed) + 1, options.first_id ?? 1);
    await ensureCaptureFile(options.path, firstId, [], options.data_key);
    const log = new CaptureLog(options, sealed);
    const unfinished = sealed.filter((file) => file.sealing);
    for (const file of unfinished) {
      log.#sealing = log.#sealing.then(() => log.#compact(file)).catch(() => undefined);
    }
    return log;
  }

  private constructor(options: CaptureLogOptions, sealed: SealedFile[]) {
    this.#options = options;
    this.#preparer = new Preparer(options.redact, options.max_decoded_bytes ?? 64 << 20);
    this.#files = new AttachmentStore(attachmentsFolder(options.path), openDataKey(options.data_key ?? null));
    this.#sealed = new Set(sealed.map((file) => file.first_id)).size;
    this.#lastSealedId = readLastSealed(sealed);
    const opened = this.#openFile();
    this.#env = opened.env;
    this.#index = opened.index;
    this.#nextId = opened.next_id;
    this.#nextPiece = opened.next_piece;
    for (const block of listWaiting(opened.env)) this.#await(block);
    const waiting = this.#rawBlocks.map(({ file }) => file);
    for (const file of sealed) if (file.sealing) waiting.push(...readWaitingFiles(file.path, this.#dataKey));
    this.#rawFiles = new RawFiles(rawFolder(options.path), waiting);
  }

  get #dataKey(): Uint8Array | null {
    return this.#options.data_key ?? null;
  }

  #openFile(): { env: CaptureEnv; index: ExchangeIndex; next_id: number; next_piece: number } {
    const env = openCaptureEnv(this.#options.path, 'write', this.#dataKey);
    this.#fileId = readFileId(this.#options.path);
    const reader = new BlockReader(env, this.#options.path, INDEX_CACHE_BYTES);
    return {
      env,
      index: new ExchangeIndex(env, reader, true),
      next_id: Math.max(reader.readLastId(), this.#lastSealedId) + 1,
      next_piece: reader.readNextPiece(),
    };
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
    if (!this.#mustReopen && readFileId(this.#options.path) !== this.#fileId) await this.#forgetFile();
    if (this.#mustReopen) await this.#reopen();
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

  /** The batch fails as a whole, and not for want of room: whoever fails alone as well is set apart. */
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
        if (at === 0) firstId = this.#nextId;
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
    const firstId = this.#nextId;
    const setApart: SetApart[] = [];
    try {
      const blocks: CutBlock[] = [];
      let nextPiece = this.#nextPiece;
      let open: RecordDraft[] = [];
      let openBytes = 0;
      let id = firstId;
      const withheld: WithheldCause[] = [];
      // Bytes of bodies that are still to come.
      let ahead = countBodyBytes(batch);
      this.#noteRate(batch.length, ahead);
      const isPressed = this.#isPressedBy(ahead);
      const { sealing } = this.#env;
      const add = (block: Buffer, key: number): void => {
        const { value, pieces } = cutBlock(closeBlock(block, key, sealing), nextPiece);
        blocks.push({ key, value, first_piece: nextPiece, pieces, waits_in: null, bytes: 0 });
        nextPiece += pieces.length;
      };
      const addRaw = (records: readonly RecordDraft[], key: number): void => {
        const closed = sealing === null ? null : closeBlock(encodeBlock(records, null, 'none'), key, sealing);
        const staged = this.#rawFiles.stage(closed === null ? draftBlock(records) : splitClosed(closed));
        if (staged !== null && closed === null) sealParts(staged.memory);
        const value =
          staged === null
            ? (closed ?? encodeBlock(records, null, 'none'))
            : pointToRawBlock(records.length, staged.place);
        const waitsIn = staged?.place.file ?? 0;
        const bytes = staged === null ? value.length : countBytes(staged.place.pieces);
        blocks.push({ key, value, first_piece: nextPiece, pieces: [], waits_in: waitsIn, bytes });
      };
      const close = (): void => {
        if (open.length === 0) return;
        const key = id - open.length;
        if (isPressed && openBytes >= BLOCK_BYTES) addRaw(open, key);
        else add(encodeBlock(open, null, paceOf(batch.length)), key);
        open = [];
        openBytes = 0;
      };
      for (const exchange of batch) {
        ahead -= exchange.request_body.length + exchange.response_body.length;
        try {
          this.#options.fault?.('encode', exchange);
          const prepared = this.#preparer.prepare(exchange);
          const ready = prepared instanceof Promise ? await prepared : prepared;
          if (batch.length < HURRIED_BATCH && !isPressed) {
            // While there is time, each exchange is packed with the one that it builds on, which mixed runs in one block
            // would not be.
            add(this.#packAlone(this.#encode(ready, id, false, true), id), id);
            withheld.push(...listWithheld(ready));
            id++;
            continue;
          }
          const isWorthKeeping = !isPressed || this.#bases.isWorthKeeping();
          const isAlone = !isWorthKeeping && ready.request_raw.length < PRESSED_BASE_BYTES;
          const draft = isAlone
            ? this.#draftAlone(ready)
            : this.#encode(ready, id, isPressed, isWorthKeeping).draft;
          open.push(draft);
          openBytes += draft.bytes;
          withheld.push(...listWithheld(ready));
          id++;
        } catch (error) {
          if (findPlaceCause(error) !== null) throw error;
          setApart.push(describeSetApart(exchange, error));
          // What it left there half done must not be built on.
          this.#bases.clear();
        }
        // A rest too small for a raw block would have to be compressed at once: it goes with the block before it.
        const isFull = isPressed
          ? openBytes >= BLOCK_BYTES && ahead >= BLOCK_BYTES
          : openBytes >= BLOCK_BYTES || open.length >= BLOCK_EXCHANGES;
        if (batch.length < HURRIED_BATCH || isFull) close();
        if (this.#rawFiles.isFull) await this.#rawFiles.write();
      }
      close();
      await this.#rawFiles.finish();
      this.#commit(blocks);
      for (const cause of withheld) this.#withheld[cause]++;
      this.#nextId = id;
      this.#nextPiece = nextPiece;
      const ids = { first_id: firstId, last_id: id - 1 };
      return setApart.length === 0 ? ids : { ...ids, set_apart: setApart };
    } catch (error) {
      // Bases that were never stored must not be built on.
      this.#bases.clear();
      this.#mustReopen = true;
      await this.#rawFiles.abandon();
      throw namePlace(error, this.#options.path);
    }
  }

  /** Counts of which all but 1/e is forgotten in a second. */
  #noteRate(exchanges: number, bytes: number): void {
    const now = performance.now();
    const kept = Math.exp((this.#rateAt - now) / 1_000);
    this.#rate = this.#rate * kept + exchanges;
    this.#byteRate = this.#byteRate * kept + bytes;
    this.#rateAt = now;
  }

  /** @param bytes of the batch's bodies */
  #isPressedBy(bytes: number): boolean {
    if (this.#rawBlocks.length >= MAX_RAW_BLOCKS || this.#rawBytes >= MAX_RAW_BYTES) return false;
    const rate = this.#options.pressed_rate ?? PRESSED_RATE;
    return this.#rate >= rate || this.#byteRate >= PRESSED_BYTE_RATE || bytes >= PRESSED_BYTES;
  }

  /** A block of one exchange, with its base as dictionary. */
  #packAlone(encoded: EncodedExchange, id: number): Buffer {
    const { base } = encoded;
    const start = performance.now();
    const patient = start >= this.#patientFrom;
    const dictionary =
      base === null || base.record === null
        ? null
        : {
            distance: id - base.id,
            record: base.record,
            request: patient ? base.request.stored : null,
          };
    const block = encodeBlock([encoded.draft], dictionary, patient ? 'patient' : 'hurried');
    if (patient) {
      const end = performance.now();
      this.#patientFrom = end + (end - start) * (1 / PATIENT_SHARE - 1);
    }
    return block;
  }

  #commit(blocks: CutBlock[]): void {
    if (blocks.length === 0) return;
    this.#options.fault?.('commit');
    this.#env.root.transactionSync(() => {
      for (const { key, value, first_piece, pieces, waits_in } of blocks) {
        appendRow(this.#env.blocks, key, value);
        if (waits_in !== null) appendRow(this.#env.waiting!, key, encodeWaiting(waits_in));
        for (const [i, piece] of pieces.entries()) appendRow(this.#env.pieces, first_piece + i, piece);
      }
    });
    this.#rawFiles.commit();
    for (const { key, waits_in, bytes } of blocks) {
      if (waits_in !== null) this.#await({ key, file: waits_in, bytes });
    }
    this.#scheduleSync();
  }

  /** The block is to be packed later. */
  #await(block: WaitingBlock): void {
    this.#rawBlocks.push({ ...block, since_ms: performance.now() });
    this.#rawBytes += block.bytes;
  }

  /** An exchange as a keyframe that nothing builds on. */
  #draftAlone(prepared: PreparedExchange): RecordDraft {
    const request = this.#preparer.editRequest(prepared, null, 0);
    const response = this.#preparer.editResponse(prepared, null, 0);
    this.#saveFiles(request);
    this.#saveFiles(response);
    const meta = encodeMeta(prepared, request.has_files, response.has_files);
    return draftRecord(0, [], [request.stored], [], [response.stored], meta);
  }

  /**
   * An exchange built on an earlier one, if any helps, and kept so that others can build on it.
   * @param pressed answers are not kept, which saves copying them
   * @param isWorthKeeping others may build on it
   */
  #encode(
    prepared: PreparedExchange,
    id: number,
    pressed: boolean,
    isWorthKeeping: boolean,
  ): EncodedExchange {
    const { exchange } = prepared;
    const chosen = this.#chooseBase(prepared, pressed);
    const base = chosen?.entry ?? null;
    // Edits of the base hold for this body only when the same secrets were looked for.
    const alike = base !== null && base.secrets === prepared.secrets;
    const request = this.#preparer.editRequest(prepared, alike ? base.request : null, chosen?.prefix ?? 0);
    const responseBase = alike && base.response !== null ? base.response : null;
    const responsePrefix =
      responseBase === null ? 0 : measureSharedPrefix(responseBase, prepared.response_raw);
    const usesResponse = responseBase !== null && responsePrefix >= MIN_RESPONSE_PREFIX;
    const response = this.#preparer.editResponse(
      prepared,
      usesResponse ? responseBase : null,
      responsePrefix,
    );
    this.#saveFiles(request);
    this.#saveFiles(response);
    if (listWithheld(prepared).length > 0) {
      const meta = encodeMeta(prepared, request.has_files, response.has_files);
      return { draft: draftRecord(0, [], [request.stored], [], [response.stored], meta), base: null };
    }

    const plain =
      base === null || chosen === null || (chosen.by_path && chosen.prefix * 4 < request.raw.length);
    const requestDelta = plain ? null : diff(base.request, request, alike ? chosen.prefix : undefined);
    const responseDelta = usesResponse ? diff(responseBase, response, responsePrefix) : null;
    const distance = base === null || (requestDelta === null && responseDelta === null) ? 0 : id - base.id;
    const meta = encodeMeta(prepared, request.has_files, response.has_files);
    const draft = draftRecord(
      distance,
      requestDelta?.ops ?? [],
      requestDelta?.literals ?? [request.stored],
      responseDelta?.ops ?? [],
      responseDelta?.literals ?? [response.stored],
      meta,
    );
    if (!isWorthKeeping) return { draft, base };
    const kept = !pressed && response.raw.length <= MAX_RESPONSE_BASE_BYTES ? response : null;
    const requestBytes = countCopied(request);
    const bodyBytes = requestBytes + (kept === null ? 0 : countCopied(kept));
    const recordBytes = pressed ? 0 : Math.min(draft.bytes, DICTIONARY_BYTES);
    const repeats = base !== null && chosen !== null && chosen.prefix * 10 >= base.request.raw.length * 9;
    // Under pressure a conversation that goes on grows where it is.
    const grows = pressed && repeats && isAsItCame(request) && isAsItCame(base.request);
    const taken = grows ? this.#bases.takeOver(base, requestBytes) : null;
    const room = grows ? Math.floor(requestBytes / GROWTH_PART) : 0;
    const memory = taken ?? this.#bases.takeMemory(bodyBytes + recordBytes + room);
    if (memory === null) return { draft, base };
    const record = pressed ? null : memory.subarray(bodyBytes, bodyBytes + recordBytes);
    if (record !== null) writeRecordEnd(draft, record);
    const entry: BaseEntry = {
      id,
      depth: base === null ? 0 : base.depth + 1,
      root: base === null ? id : base.root,
      request: copyBody(request, memory, 0, taken === null ? 0 : chosen!.prefix),
      response: kept === null ? null : copyBody(kept, memory, requestBytes),
      record,
      secrets: prepared.secrets,
      memory,
    };
    this.#bases.add(entry, exchange.run_id, exchange.path, repeats ? base : null);
    return { draft, base };
  }

  /** At the end of a chain, the exchange at its beginning if it still helps, else none: a keyframe. */
  #chooseBase(prepared: PreparedExchange, pressed: boolean): ChosenBase | null {
    const { exchange } = prepared;
    const chosen = this.#bases.choose(exchange.run_id, exchange.path, prepared.request_raw, pressed);
    if (chosen === null || chosen.entry.depth < MAX_DEPTH) return chosen;
    const root = this.#bases.get(chosen.entry.root);
    if (root === undefined) return null;
    const prefix = measureSharedPrefix(root.request, prepared.request_raw);
    return prefix * 2 >= prepared.request_raw.length ? { entry: root, prefix, by_path: false } : null;
  }

  #saveFiles(body: PreparedBody): void {
    if (body.new_files.length === 0) return;
    for (const file of body.new_files) {
      this.#options.fault?.('attachment');
      this.#files.save(file.sha256, file.content);
    }
    // The body may be kept as a base, without them.
    body.new_files = NO_FILES;
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
    for (const file of this.#packedFrom.splice(0)) this.#rawFiles.release(file);
  }

  async #sync(): Promise<void> {
    this.#files.sync();
    try {
      this.#options.fault?.('sync');
      await this.#rawFiles.sync();
      await syncEnv(this.#env);
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
    const start = performance.now();
    let done = 0;
    while (done < this.#rawBlocks.length && (done === 0 || performance.now() - start < budgetMs)) {
      const { key, file, bytes } = this.#rawBlocks[done]!;
      const pieces = repackBlock(this.#env, rawFolder(this.#options.path), key, this.#nextPiece);
      if (pieces !== null) {
        this.#nextPiece += pieces;
        this.#packedFrom.push(file);
      }
      this.#rawBytes -= bytes;
      done++;
    }
    this.#rawBlocks.splice(0, done);
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
      return { done, took_ms, share: chooseTidyShare(this.#backlog(), this.#fileBytes()) };
    });
  }

  #measureNeed(): number {
    return measurePackingNeed(this.#backlog(), this.#fileBytes());
  }

  #backlog(): TidyBacklog {
    const oldest = this.#rawBlocks[0];
    return {
      waiting_blocks: this.#rawBlocks.length,
      waiting_bytes: this.#rawBytes,
      oldest_s: oldest === undefined ? 0 : Math.round((performance.now() - oldest.since_ms) / 1_000),
      unindexed: this.#nextId - 1 - this.#index.indexed,
    };
  }

  /** Of the live file alone; 0 between two files, in a rotation. */
  #fileBytes(): number {
    return statSync(this.#options.path, { throwIfNoEntry: false })?.size ?? 0;
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
    let done = 0;
    while (this.#index.pending < INDEX_BATCH && this.#index.indexed < this.#nextId - 1) {
      if (!this.#index.indexNext(decode)) break;
      done++;
      if (performance.now() - start >= budgetMs) break;
    }
    if (this.#index.pending > 0) {
      this.#options.fault?.('index');
      this.#index.store();
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
    const moved = await this.#enqueue(() => this.#moveAside());
    if (moved === null) return { sealed: null, opened: this.#options.path };
    const compacted = this.#sealing.then(() => this.#compact(moved));
    this.#sealing = compacted.then(
      () => {
        // All of it has been written anew.
        if (this.#syncFailure === moved.sync_failure) this.#syncFailure = null;
      },
      () => {
        this.#syncFailure = moved.sync_failure ?? this.#syncFailure;
      },
    );
    return { sealed: await compacted, opened: this.#options.path };
  }

  async #moveAside(): Promise<MovedFile | null> {
    await this.#makeReady();
    const { path } = this.#options;
    const reader = new BlockReader(this.#env, path, INDEX_CACHE_BYTES);
    const firstId = reader.readFirstId();
    const lastId = this.#nextId - 1;
    if (lastId < firstId) return null;
    const decode = this.#options.decode;
    const start = performance.now();
    while (decode !== undefined && performance.now() - start < SEAL_INDEX_MS) {
      if ((await this.#indexSome(decode, SEAL_INDEX_MS)) === 0) break;
    }
    this.#options.fault?.('seal');
    if (this.#syncFailure === null) await this.#flush();
    else await this.#sync();
    const turns = this.#index.listCarriedTurns();
    const aside = sealedPath(path, firstId, lastId, true);
    await this.#closeFile();
    // Until the new file is open, whatever fails below.
    this.#mustReopen = true;
    this.#bases.clear();
    const before = { blocks: this.#rawBlocks, bytes: this.#rawBytes, last_sealed: this.#lastSealedId };
    this.#rawBlocks = [];
    this.#rawBytes = 0;
    renameSync(path, aside);
    this.#sealed++;
    this.#lastSealedId = lastId;
    try {
      await this.#reopen(turns);
    } catch (error) {
      // There is no room for a new file: the one that was moved aside goes on.
      if (readFileId(path) === '') {
        renameSync(aside, path);
        this.#sealed--;
        this.#lastSealedId = before.last_sealed;
        this.#rawBlocks = before.blocks;
        this.#rawBytes = before.bytes;
      }
      throw namePlace(error, path);
    }
    return { path: aside, first_id: firstId, last_id: lastId, sync_failure: this.#syncFailure };
  }

  /** Makes the sealed file of one that was moved aside. Repeatable: a file half made is made again. */
  async #compact(moved: Pick<MovedFile, 'path' | 'first_id' | 'last_id'>): Promise<string> {
    const aside = moved.path;
    const target = sealedPath(this.#options.path, moved.first_id, moved.last_id, false);
    if (!existsSync(target)) {
      await repackAll(aside, rawFolder(aside), (file) => this.#rawFiles.release(file), this.#dataKey);
      const partial = `${target}.part`;
      rmSync(partial, { force: true });
      const env = openCaptureEnv(aside, 'read', this.#dataKey);
      try {
        await env.root.backup(partial, true);
      } finally {
        await env.root.close();
      }
      syncPath(partial);
      makeReadOnly(partial);
      renameSync(partial, target);
    }
    rmSync(aside, { force: true });
    rmSync(`${aside}-lock`, { force: true });
    syncPath(dirname(target));
    return target;
  }

  /**
   * The file was removed or replaced under us. It would take writes as before, and nobody would ever find them: what
   * comes goes into the file that the path leads to now, and builds on nothing that was in the old one.
   */
  async #forgetFile(): Promise<void> {
    this.#bases.clear();
    this.#rawBlocks = [];
    this.#rawBytes = 0;
    this.#syncFailure = null;
    await this.#rawFiles.abandon();
    this.#files = new AttachmentStore(attachmentsFolder(this.#options.path), openDataKey(this.#dataKey));
    this.#mustReopen = true;
  }

  /** LMDB's close is to be called once only. */
  async #closeFile(): Promise<void> {
    if (!this.#isFileOpen) return;
    this.#isFileOpen = false;
    await this.#env.root.close();
  }

  /** Opens the live file anew, making it when it is gone. */
  async #reopen(turns: { key: number; value: Buffer }[] = []): Promise<void> {
    this.#mustReopen = true;
    await this.#closeFile();
    makeFolder(dirname(this.#options.path));
    const firstId = Math.max(this.#lastSealedId + 1, this.#nextId);
    await ensureCaptureFile(this.#options.path, firstId, turns, this.#dataKey);
    const opened = this.#openFile();
    this.#env = opened.env;
    this.#index = opened.index;
    this.#nextId = opened.next_id;
    this.#nextPiece = opened.next_piece;
    this.#mustReopen = false;
    this.#isFileOpen = true;
  }

  /** Where the log stands; cheap. */
  stats(): CaptureLogStats {
    const bytes = this.#fileBytes();
    const backlog = this.#backlog();
    return {
      path: this.#options.path,
      bytes: bytes + this.#rawFiles.bytes,
      sealed: this.#sealed,
      last_id: this.#nextId - 1,
      indexed_id: this.#index.indexed,
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
        await this.#sealing;
        await this.#rawFiles.abandon();
        await this.#closeFile();
      }
    });
  }
}

/** Tells a file from another one at the same path; '' when there is none. */
function readFileId(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.dev}:${stat.ino}`;
}

/** Its path may hold a credential all the same. */
function describeSetApart(exchange: CapturedExchange, thrown: unknown): SetApart {
  const { name = typeof thrown, stack = '' } = thrown instanceof Error ? thrown : {};
  return {
    cause: 'unstorable',
    provider: exchange.provider,
    is_turn: exchange.kind === 'turn',
    aborted: exchange.aborted,
    path: maskText(exchange.path.slice(0, TOLD_PATH_CHARACTERS)),
    bytes: exchange.request_bytes + exchange.response_bytes,
    error: name,
    at: stack
      .split('\n')
      .filter((line) => /^ +at /.test(line))
      .slice(0, STACK_LINES)
      .map((line) => line.trim()),
  };
}

function paceOf(batchSize: number): Pace {
  return batchSize >= HURRIED_BATCH ? 'hurried' : 'steady';
}

function countBodyBytes(batch: readonly CapturedExchange[]): number {
  let bytes = 0;
  for (const { request_body, response_body } of batch) bytes += request_body.length + response_body.length;
  return bytes;
}

function countBytes(pieces: readonly number[]): number {
  return pieces.reduce((sum, bytes) => sum + bytes, 0);
}

/** The highest id in sealed files; 0 without any. */
function readLastSealed(sealed: SealedFile[]): number {
  return sealed.reduce((last, file) => Math.max(last, file.last_id), 0);
}

/** How `body` is made from `base`, or null when it is not worth it. */
function diff(base: PreparedBody, body: PreparedBody, rawPrefix: number | undefined): Delta | null {
  if (body.stored.length === 0 || base.stored.length === 0) return null;
  const untouched = body.stored === body.raw && base.stored === base.raw;
  const delta = makeDelta(base.stored, body.stored, untouched ? rawPrefix : undefined);
  return delta.literal_bytes * 10 < body.stored.length * 9 ? delta : null;
}

/** The raw files that a file on its way to being sealed waits for. */
function readWaitingFiles(path: string, dataKey: Uint8Array | null): number[] {
  const env = openCaptureEnv(path, 'write', dataKey);
  try {
    return listWaiting(env).map(({ file }) => file);
  } finally {
    void env.root.close();
  }
}
