/**
 * Erases captured exchanges permanently: from the live file, the sealed files and the attachments. Each file that
 * contains them is rewritten beside the original, so that no free page keeps a trace; then all new files replace the
 * originals together (rekey-plan.ts). Main thread of the command line.
 *
 * Ids have no gaps, so an erased exchange leaves an empty exchange with its time. A conversation is stored as
 * differences: an exchange whose base is erased is stored again relative to the nearest earlier exchange that stays,
 * and a block whose dictionary contains an erased exchange is packed without a dictionary. All others are copied
 * unchanged.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { packNeedles } from '../../native/byte-engine.ts';
import { credentialForms } from '../redaction/credentials.ts';
import { findAny } from '../redaction/needles.ts';
import { openDataKey } from '../std/data-key.ts';
import { isThere } from '../std/file-place.ts';
import { nameAttachment, PLACEHOLDER_HEAD_BYTES } from './capture/attachments.ts';
import { closeBlock, openBlock } from './capture/block-sealing.ts';
import { BlockReader } from './capture/blocks.ts';
import {
  cutBlock,
  decodeRecord,
  draftRecord,
  encodeBlock,
  joinBlock,
  type RecordDraft,
  readBlockCount,
  readBlockHead,
} from './capture/codec.ts';
import { makeDelta } from './capture/delta.ts';
import { ExchangeIndex } from './capture/exchange-index.ts';
import {
  attachmentsFolder,
  type CaptureEnv,
  isDamagedName,
  listSealed,
  openCaptureEnv,
} from './capture/layout.ts';
import { CaptureLog } from './capture/log.ts';
import { CaptureReader } from './capture/reader.ts';
import { decodeMeta } from './capture/record.ts';
import { listRunIndexFiles } from './capture/run-index.ts';
import type { DecodeExchange } from './capture/stored-copy.ts';
import { rewriteCaptureFile } from './capture-rewrite.ts';
import { finishPlan, type RekeyPlan, settlePlan, writePlan } from './rekey-plan.ts';
import { refuseHalfRestored } from './restore-marker.ts';
import { listSegmentFiles } from './text-index/segment-files.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** Nothing can be erased now. The message is one line for the user. */
export class ErasureError extends Error {
  override readonly name = 'ErasureError';
}

/** Selects the exchanges to erase. */
export type ErasureTarget =
  /**
   * Exchanges of a run and of its child runs. The run is given by its label, or by the name that was detected; a
   * session name selects the whole session.
   */
  | { run_id: string }
  /** Exchanges that began before this time, in milliseconds since the epoch. */
  | { before_ms: number }
  /** Exchanges whose stored copy contains this credential: plain, escaped or encoded. Secret. */
  | { credential: string };

interface ErasureOptions {
  data_dir: string;
  capture_db: string;
  /** Secret; null: nothing is encrypted. */
  data_key: Uint8Array | null;
  decode: DecodeExchange;
  target: ErasureTarget;
  /** Reports what would be erased, and changes nothing. */
  is_dry: boolean;
}

export interface ErasureReport {
  exchanges: number;
  /** The erased runs: the one of the target, and its child runs. */
  run_ids: string[];
  /** Number of rewritten files. */
  files: number;
  attachments: number;
  /** Damaged exchanges. They cannot be checked against the target, and are not erased. */
  unreadable: number;
  /** Damaged files that were set aside earlier; they may contain exchanges that match. */
  set_aside: string[];
}

/** Called for each file as it is processed. */
type ErasureProgress = (name: string, doneBytes: number, ofBytes: number) => void;

const PART = '.erase';
const CACHE_BYTES = 32 << 20;
const BATCH_BLOCKS = 200;
const INDEX_BATCH = 256;
/** The provider of an erased exchange. */
const ERASED = 'erased';
/** Offset of the digest in a placeholder, after the head and the variant. */
const DIGEST_AT = PLACEHOLDER_HEAD_BYTES.length + 1;
const DIGEST_CHARACTERS = 64;

/**
 * @throws ErasureError when a process writes to the database or it is missing; CaptureFileError for a file that cannot
 *   be read; DataKeyError; Error of the file system. Nothing has changed then.
 */
export async function eraseCaptured(
  options: ErasureOptions,
  progress: ErasureProgress,
): Promise<ErasureReport> {
  const { data_dir, capture_db } = options;
  let claim: WriterClaim | null = null;
  try {
    claim = await claimWriter(capture_db, { patience_ms: 0 });
    refuseHalfRestored(capture_db);
    await settlePlan({ data_dir, capture_db }, [capture_db]);
    return await new Erasure(options, progress).run();
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError)
      throw new ErasureError(
        `${thrown.holder} writes to ${capture_db}: stop it first (SIGTERM), and start it again afterwards`,
      );
    throw thrown;
  } finally {
    await claim?.release();
  }
}

/** The exchanges of a file that are to be erased. */
interface FilePlan {
  path: string;
  is_sealed: boolean;
  erased: Set<number>;
}

class Erasure {
  readonly #options: ErasureOptions;
  readonly #progress: ErasureProgress;
  #done = 0;
  #of = 0;
  #unreadable = 0;

  constructor(options: ErasureOptions, progress: ErasureProgress) {
    this.#options = options;
    this.#progress = progress;
  }

  async run(): Promise<ErasureReport> {
    const { data_dir, capture_db, is_dry } = this.#options;
    await this.#settle();
    const paths = [...listSealed(capture_db).map(({ path }) => path), ...[capture_db].filter(isThere)];
    if (paths.length === 0) throw new ErasureError(`${capture_db}: no such capture database`);
    this.#of = paths.reduce((sum, path) => sum + statSync(path).size, 0);
    const { target } = this.#options;
    const runs = 'run_id' in target ? await this.#listFamily(paths, target.run_id) : new Set<string>();
    const files: FilePlan[] = [];
    for (const path of paths) {
      files.push({ path, is_sealed: path !== capture_db, erased: await this.#select(path, runs) });
      this.#tell(path, statSync(path).size);
    }
    const all = new Set(files.flatMap(({ erased }) => [...erased]));
    const report = {
      exchanges: all.size,
      run_ids: [...runs],
      files: 0,
      attachments: 0,
      unreadable: this.#unreadable,
      set_aside: this.#listSetAside(),
    };
    if (all.size === 0 || is_dry) return report;
    const meant = files.filter(
      (file) => file.erased.size > 0 || holdsTails(file.path, all, this.#options.data_key),
    );
    const attachments = await this.#findOrphans(files);
    const plan: RekeyPlan = {
      format: 'understudy_rekey_v1',
      state: 'writing',
      key_id: openDataKey(this.#options.data_key)?.id ?? null,
      claims: [capture_db],
      moves: meant.map(({ path }) => ({ from: `${path}${PART}`, to: path })),
      removals: [
        ...meant.map(({ path }) => `${path}-lock`),
        ...attachments,
        // The run index contains first words of runs; it is rebuilt from the remaining exchanges.
        ...listRunIndexFiles(capture_db),
        // The gateway rebuilds the segments of the remaining exchanges.
        ...meant.flatMap(({ path, erased }) => (erased.size > 0 ? this.#listSegments(path) : [])),
      ],
    };
    this.#done = 0;
    this.#of = meant.reduce((sum, { path }) => sum + statSync(path).size, 0);
    writePlan({ data_dir, capture_db }, plan);
    try {
      for (const file of meant) await this.#rewrite(file, all);
      writePlan({ data_dir, capture_db }, { ...plan, state: 'written' });
    } catch (thrown) {
      await settlePlan({ data_dir, capture_db }, [capture_db]);
      throw thrown;
    }
    finishPlan({ data_dir, capture_db }, plan, () => {});
    return { ...report, files: meant.length, attachments: attachments.length };
  }

  /** Packs the blocks in raw files, and finishes a rotation that was interrupted. */
  async #settle(): Promise<void> {
    const { capture_db: path, data_key, decode } = this.#options;
    if (!isThere(path) && listSealed(path).length === 0) return;
    const log = await CaptureLog.open({ path, redact: true, decode, data_key });
    try {
      while ((await log.packSome(1_000)) > 0) this.#tell(path, 0);
      // The selection finds runs through the index.
      while ((await log.indexSome(decode, 1_000)) > 0) this.#tell(path, 0);
    } finally {
      await log.close();
    }
  }

  #tell(path: string, bytes: number): void {
    this.#done = Math.min(this.#done + bytes, this.#of);
    this.#progress(path, this.#done, this.#of);
  }

  /** A run and all its descendants: erasing a run includes its sub-agents. */
  async #listFamily(paths: readonly string[], runId: string): Promise<Set<string>> {
    const { data_key } = this.#options;
    const children = new Map<string, Set<string>>();
    for (const path of paths) {
      const reader = CaptureReader.open(path, { data_key, skipped: () => {} });
      try {
        for (const { run_id, session_id, parent_run_id } of reader.summaries({})) {
          if (run_id === null) continue;
          for (const parent of [session_id, parent_run_id]) {
            if (parent == null || parent === run_id) continue;
            const begun = children.get(parent);
            if (begun === undefined) children.set(parent, new Set([run_id]));
            else begun.add(run_id);
          }
        }
      } finally {
        await reader.close();
      }
    }
    const family = new Set([runId]);
    for (const member of family) for (const child of children.get(member) ?? []) family.add(child);
    return family;
  }

  /** The exchanges of a file that match the target. */
  async #select(path: string, runs: ReadonlySet<string>): Promise<Set<number>> {
    const { target, data_key } = this.#options;
    const skipped = () => {
      this.#unreadable++;
    };
    const reader = CaptureReader.open(path, { data_key, skipped });
    const found = new Set<number>();
    const needles = 'credential' in target ? packForms(target.credential) : null;
    try {
      for (const { id, provider, started_at, run_id } of reader.summaries({})) {
        if (provider === ERASED) continue;
        if ('run_id' in target && (run_id === null || !runs.has(run_id))) continue;
        if ('before_ms' in target && Date.parse(started_at) >= target.before_ms) continue;
        if (needles !== null && !holds(reader, id, needles)) continue;
        found.add(id);
      }
      return found;
    } finally {
      await reader.close();
    }
  }

  /** The segments of the full-text index that were made from a file. */
  #listSegments(path: string): string[] {
    const { capture_db, data_key } = this.#options;
    const env = openCaptureEnv(path, 'read', data_key);
    try {
      const blocks = new BlockReader(env, path, CACHE_BYTES);
      return listSegmentFiles(capture_db, blocks.readFirstId(), blocks.readLastId());
    } finally {
      void env.root.close();
    }
  }

  #listSetAside(): string[] {
    const { capture_db } = this.#options;
    const folder = dirname(capture_db);
    if (!existsSync(folder)) return [];
    const live = basename(capture_db);
    return readdirSync(folder)
      .filter((name) => isDamagedName(live, name))
      .map((name) => join(folder, name));
  }

  /** Paths of attachments to which only erased exchanges refer. */
  async #findOrphans(files: readonly FilePlan[]): Promise<string[]> {
    const { capture_db, data_key } = this.#options;
    const named = new Set<string>();
    for (const { path, erased } of files)
      if (erased.size > 0)
        this.#eachAttachment(
          path,
          (id) => erased.has(id),
          (sha256) => named.add(sha256),
        );
    if (named.size === 0) return [];
    for (const { path, erased } of files)
      this.#eachAttachment(
        path,
        (id) => !erased.has(id),
        (sha256) => named.delete(sha256),
      );
    const key = openDataKey(data_key);
    const folder = attachmentsFolder(capture_db);
    return [...named].map((sha256) => join(folder, nameAttachment(sha256, key)));
  }

  #eachAttachment(path: string, isMeant: (id: number) => boolean, tell: (sha256: string) => void): void {
    const env = openCaptureEnv(path, 'read', this.#options.data_key);
    try {
      const blocks = new BlockReader(env, path, CACHE_BYTES);
      const last = blocks.readLastId();
      for (let id = blocks.readFirstId(); id <= last; id++) {
        if (!isMeant(id)) continue;
        const meta = readOrNull(() => blocks.readMeta(id));
        if (meta == null || !(meta.request_has_files || meta.response_has_files)) continue;
        const bodies = readOrNull(() => blocks.readStored(id));
        if (bodies == null) continue;
        for (const body of [bodies.request, bodies.response])
          for (const sha256 of listDigests(body)) tell(sha256);
      }
    } finally {
      void env.root.close();
    }
  }

  async #rewrite({ path, is_sealed, erased }: FilePlan, all: ReadonlySet<number>): Promise<void> {
    const copy = `${path}${PART}`;
    const { data_key, decode } = this.#options;
    await rewriteCaptureFile({ path, copy, from: data_key, to: data_key, is_sealed }, (source, target) => {
      const blocks = new BlockReader(source, path, CACHE_BYTES);
      const firstId = blocks.readFirstId();
      const meta = [...source.meta.getRange({})].filter(({ key }) => key !== 'indexed');
      const tails = [...source.tails.getRange({ end: firstId })].filter(({ key }) => !all.has(key));
      target.root.transactionSync(() => {
        for (const { key, value } of meta) target.meta.putSync(key, value);
        for (const { key, value } of tails) target.tails.putSync(key, value);
      });
      this.#copyBlocks(source, target, blocks, erased, path);
      const index = new ExchangeIndex(target, new BlockReader(target, path, CACHE_BYTES), decode);
      indexAll(index, decode);
    });
  }

  #copyBlocks(
    source: CaptureEnv,
    target: CaptureEnv,
    blocks: BlockReader,
    erased: ReadonlySet<number>,
    path: string,
  ): void {
    /** Exchanges whose record has changed. */
    const changed = new Set<number>(erased);
    let nextPiece = 1;
    let batch: { key: number; value: Buffer; pieces: { key: number; value: Buffer }[] }[] = [];
    const write = () => {
      target.root.transactionSync(() => {
        for (const { key, value, pieces } of batch) {
          for (const piece of pieces) target.pieces.putSync(piece.key, piece.value);
          target.blocks.putSync(key, value);
        }
      });
      batch = [];
    };
    for (const { key, value } of source.blocks.getRange({})) {
      let cut: { value: Buffer; pieces: Buffer[] };
      try {
        const block = this.#convertBlock(source, target, blocks, key, value, erased, changed);
        cut = cutBlock(block, nextPiece);
      } catch (thrown) {
        for (let id = key; id < key + readBlockCount(value); id++) if (erased.has(id)) throw thrown;
        // The block was already damaged: copy it unchanged under its ids.
        cut = { value, pieces: [] };
      }
      const pieces = cut.pieces.map((piece) => ({ key: nextPiece++, value: piece }));
      batch.push({ key, value: cut.value, pieces });
      if (batch.length < BATCH_BLOCKS) continue;
      write();
      this.#tell(path, 0);
    }
    write();
    this.#tell(path, statSync(path).size);
  }

  /**
   * Returns the block without erased exchanges; unchanged if neither the block nor anything it refers to has changed.
   */
  #convertBlock(
    source: CaptureEnv,
    target: CaptureEnv,
    blocks: BlockReader,
    key: number,
    value: Buffer,
    erased: ReadonlySet<number>,
    changed: Set<number>,
  ): Buffer {
    const joined = joinBlock(
      value,
      (number) => source.pieces.get(number),
      () => {
        throw new RangeError('a piece of the block could not be read');
      },
    );
    const opened = openBlock(joined, key, source.sealing);
    const head = readBlockHead(opened);
    const count = readBlockCount(value);
    const drafts: RecordDraft[] = [];
    let isAnother = head.dictionary_distance > 0 && changed.has(key - head.dictionary_distance);
    for (let id = key; id < key + count; id++) {
      const draft = draftKept(blocks, id, erased);
      if (draft.is_another) {
        changed.add(id);
        isAnother = true;
      }
      drafts.push(draft.record);
    }
    const block = isAnother ? encodeBlock(drafts, null, 'patient') : opened;
    return closeBlock(block, key, target.sealing);
  }
}

/** The new record of an exchange. @throws CaptureFileError, RangeError for a damaged record */
function draftKept(
  blocks: BlockReader,
  id: number,
  erased: ReadonlySet<number>,
): { record: RecordDraft; is_another: boolean } {
  const bytes = blocks.readRecord(id)!;
  const { base_distance, meta } = decodeRecord(bytes);
  if (erased.has(id)) return { record: draftErased(id, meta), is_another: true };
  if (base_distance === 0 || !erased.has(id - base_distance))
    return { record: { parts: [bytes], bytes: bytes.length }, is_another: false };
  let base = id - base_distance;
  while (base > 0 && erased.has(base)) {
    const { base_distance: further } = decodeRecord(blocks.readRecord(base)!);
    base = further === 0 ? 0 : base - further;
  }
  const { request, response } = blocks.readStored(id)!;
  if (base === 0) return { record: draftRecord(0, [], [request], [], [response], meta), is_another: true };
  const against = blocks.readStored(base)!;
  const asked = diff(against.request, request);
  const answered = diff(against.response, response);
  const distance = asked.ops.length === 0 && answered.ops.length === 0 ? 0 : id - base;
  return {
    record: draftRecord(distance, asked.ops, asked.literals, answered.ops, answered.literals, meta),
    is_another: true,
  };
}

/** An empty exchange that keeps only its time. */
function draftErased(id: number, meta: Buffer): RecordDraft {
  const { started_at } = decodeMeta(id, meta).record;
  const left = [
    null,
    null,
    '',
    ERASED,
    null,
    '',
    '',
    '',
    'upstream',
    0,
    0,
    '',
    '',
    0,
    0,
    Date.parse(started_at),
    null,
    0,
  ];
  return draftRecord(0, [], [], [], [], Buffer.from(JSON.stringify(left)));
}

function diff(base: Buffer, body: Buffer): { ops: number[]; literals: Buffer[] } {
  if (base.length === 0 || body.length === 0) return { ops: [], literals: [body] };
  const delta = makeDelta(base, body);
  return delta.literal_bytes * 10 < body.length * 9 ? delta : { ops: [], literals: [body] };
}

function indexAll(index: ExchangeIndex, decode: DecodeExchange): void {
  while (index.indexNext(decode)) if (index.pending >= INDEX_BATCH) index.store();
  index.store();
}

/** Whether a file holds turns of earlier files that are erased. */
function holdsTails(path: string, erased: ReadonlySet<number>, dataKey: Uint8Array | null): boolean {
  const env = openCaptureEnv(path, 'read', dataKey);
  try {
    for (const key of env.tails.getKeys({})) if (erased.has(key as number)) return true;
    return false;
  } finally {
    void env.root.close();
  }
}

function packForms(credential: string): Uint8Array {
  return packNeedles(credentialForms(credential).map((form) => Buffer.from(form, 'latin1')));
}

/** Whether the stored exchange contains one of the needles. */
function holds(reader: CaptureReader, id: number, needles: Uint8Array): boolean {
  const record = readOrNull(() => reader.exchange(id));
  const parts = [
    Buffer.from(JSON.stringify(record ?? null)),
    readOrNull(() => reader.body(id, 'request')) ?? NOTHING,
    readOrNull(() => reader.body(id, 'response')) ?? NOTHING,
  ];
  return parts.some((part) => findAny(part, needles, 0, part.length) >= 0);
}

const NOTHING = new Uint8Array(0);

/** The digests of the attachments that a stored body names. */
function* listDigests(body: Buffer): Iterable<string> {
  for (
    let at = body.indexOf(PLACEHOLDER_HEAD_BYTES);
    at >= 0;
    at = body.indexOf(PLACEHOLDER_HEAD_BYTES, at + 1)
  )
    yield body.toString('latin1', at + DIGEST_AT, at + DIGEST_AT + DIGEST_CHARACTERS);
}

/** Returns null when the data is damaged. */
function readOrNull<Value>(read: () => Value): Value | null {
  try {
    return read();
  } catch {
    return null;
  }
}
