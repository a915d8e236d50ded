/**
 * Erases captured exchanges for good: out of the live file, the sealed ones and the attachments. Each file that holds something
 * of them is written anew beside itself, so that no free page keeps a trace, and then all take their places at once
 * (rekey-plan.ts). Main thread of the command line.
 *
 * Ids have no holes, so an erased exchange leaves an empty one with its time. A conversation is stored as differences: an
 * exchange that was stored against an erased one is stored anew against the next earlier one that stays, and a block that was
 * packed with such an exchange as dictionary is packed without. All others are copied as they are.
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
import { type DecodeExchange, ExchangeIndex } from './capture/exchange-index.ts';
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
import { rewriteCaptureFile } from './capture-rewrite.ts';
import { finishPlan, type RekeyPlan, settlePlan, writePlan } from './rekey-plan.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** Nothing can be erased now. One line for the person. */
export class ErasureError extends Error {
  override readonly name = 'ErasureError';
}

/** Which exchanges are meant. */
export type ErasureTarget =
  /** Those of a run, by its label or by the name of one that was found, and of the runs that it began. A session's name: all of it. */
  | { run_id: string }
  /** Those that began before, milliseconds since the epoch. */
  | { before_ms: number }
  /** Those in whose stored copy this stands: as it is, escaped, encoded. Secret. */
  | { credential: string };

export interface ErasureOptions {
  data_dir: string;
  capture_db: string;
  /** Secret; null: nothing is encrypted. */
  data_key: Uint8Array | null;
  decode: DecodeExchange;
  target: ErasureTarget;
  /** Says what would go, and changes nothing. */
  is_dry: boolean;
}

export interface ErasureReport {
  exchanges: number;
  /** Files that were written anew. */
  files: number;
  attachments: number;
  /** Exchanges that are damaged: whether they are meant nobody can tell, and they are still there. */
  unreadable: number;
  /** Damaged files that were set aside earlier, which may hold what was meant. */
  set_aside: string[];
}

/** Told of each file as it is gone through. */
export type ErasureProgress = (name: string, doneBytes: number, ofBytes: number) => void;

const PART = '.erase';
const CACHE_BYTES = 32 << 20;
const BATCH_BLOCKS = 200;
const INDEX_BATCH = 256;
/** Stands where the provider stood: an exchange that was erased. */
const ERASED = 'erased';
/** Behind a placeholder's head: the variant and the digest. */
const DIGEST_AT = PLACEHOLDER_HEAD_BYTES.length + 1;
const DIGEST_CHARACTERS = 64;

/**
 * @throws ErasureError when a process writes to the database or there is none; CaptureFileError for a file that cannot be
 *   read; DataKeyError; Error of the file system. Then everything is as it was.
 */
export async function eraseCaptured(
  options: ErasureOptions,
  progress: ErasureProgress,
): Promise<ErasureReport> {
  const { data_dir, capture_db } = options;
  let claim: WriterClaim | null = null;
  try {
    claim = await claimWriter(capture_db, { patience_ms: 0 });
    await settlePlan(data_dir, [capture_db]);
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

/** What a file holds of what is meant. */
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
        // It has first words, and is made again from what is left.
        ...listRunIndexFiles(capture_db),
      ],
    };
    this.#done = 0;
    this.#of = meant.reduce((sum, { path }) => sum + statSync(path).size, 0);
    writePlan(data_dir, plan);
    try {
      for (const file of meant) await this.#rewrite(file, all);
      writePlan(data_dir, { ...plan, state: 'written' });
    } catch (thrown) {
      await settlePlan(data_dir, [capture_db]);
      throw thrown;
    }
    finishPlan(data_dir, plan, () => {});
    return { ...report, files: meant.length, attachments: attachments.length };
  }

  /** What waits in raw files is packed then, and a rotation that was cut short is finished. */
  async #settle(): Promise<void> {
    const { capture_db: path, data_key, decode } = this.#options;
    if (!isThere(path) && listSealed(path).length === 0) return;
    const log = await CaptureLog.open({ path, redact: true, decode, data_key });
    try {
      while ((await log.packSome(1_000)) > 0) this.#tell(path, 0);
    } finally {
      await log.close();
    }
  }

  #tell(path: string, bytes: number): void {
    this.#done = Math.min(this.#done + bytes, this.#of);
    this.#progress(path, this.#done, this.#of);
  }

  /** A run, the runs that it began, and those that they began: whoever wants a run gone means its sub-agents too. */
  async #listFamily(paths: readonly string[], runId: string): Promise<Set<string>> {
    const { data_key, decode } = this.#options;
    const children = new Map<string, Set<string>>();
    for (const path of paths) {
      const reader = CaptureReader.open(path, { decode, data_key, skipped: () => {} });
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

  /** The exchanges of a file that are meant. */
  async #select(path: string, runs: ReadonlySet<string>): Promise<Set<number>> {
    const { target, data_key, decode } = this.#options;
    const skipped = () => {
      this.#unreadable++;
    };
    const reader = CaptureReader.open(path, { decode, data_key, skipped });
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

  #listSetAside(): string[] {
    const { capture_db } = this.#options;
    const folder = dirname(capture_db);
    if (!existsSync(folder)) return [];
    const live = basename(capture_db);
    return readdirSync(folder)
      .filter((name) => isDamagedName(live, name))
      .map((name) => join(folder, name));
  }

  /** Paths of attachments that erased exchanges name, and no other. */
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
      const index = new ExchangeIndex(target, new BlockReader(target, path, CACHE_BYTES), true);
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
    /** Exchanges whose record is another one now. */
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
        // Damaged before: it stays so, under its ids.
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

  /** The block without what is erased; as it was, where none of it and of what it builds on has changed. */
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
        throw new RangeError('what it stood in could not be read');
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

/** The record that an exchange has afterwards. @throws CaptureFileError, RangeError for one that is damaged */
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
  const [one, other] = [diff(against.request, request), diff(against.response, response)];
  const distance = one.ops.length === 0 && other.ops.length === 0 ? 0 : id - base;
  return {
    record: draftRecord(distance, one.ops, one.literals, other.ops, other.literals, meta),
    is_another: true,
  };
}

/** Nothing but its time. */
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
  while (readOrNull(() => index.indexNext(decode)) === true) if (index.pending >= INDEX_BATCH) index.store();
  index.store();
}

/** Whether a file knows turns of earlier files that are erased. */
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

/** Whether one of the needles stands anywhere in what is stored of an exchange. */
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

/** null for what is damaged. */
function readOrNull<Value>(read: () => Value): Value | null {
  try {
    return read();
  } catch {
    return null;
  }
}
