/**
 * Makes the draft of a sealed file (the file without blocks) and its packs, and rebuilds the sealed file from them. A
 * pack is a sequence of blocks with the same bytes as in the file: compressed, and encrypted if there is a data key.
 * Bucket thread of the capture process and the command line.
 */
import { createHash } from 'node:crypto';
import { rmSync, statSync, utimesSync } from 'node:fs';
import { openDataKey } from '../../std/data-key.ts';
import { syncPath } from '../../std/synced-path.ts';
import { BlockReader } from '../capture/blocks.ts';
import { readCaptureKeys } from '../capture/capture-keys.ts';
import { cutBlock, joinBlock, pointToPack, readBlockCount, readPackPlace } from '../capture/codec.ts';
import { readChanges } from '../capture/file-erasure.ts';
import {
  attachmentsFolder,
  CAPTURE_FORMAT,
  type CaptureEnv,
  createCaptureEnv,
  livePath,
  makeReadOnly,
  OFFLOADED_FORMAT,
  openCaptureEnv,
} from '../capture/layout.ts';
import { SummaryTable } from '../capture/summary-table.ts';
import { cutPacks, planAttachments, restoreAttachmentFiles } from './attachment-packs.ts';
import { StaleDraftError } from './bucket-failures.ts';
import type { PlannedFile } from './bucket-protocol.ts';
import {
  isOffloadedRow,
  listAttachmentPlaces,
  type OffloadedContent,
  packName,
  readOffloadedFile,
  writeAttachmentPlace,
  writeOffloadedFile,
} from './offloaded-file.ts';

/**
 * No more blocks are added to a pack of this size. It is small, because a reader fetches a whole pack for one exchange.
 */
const PACK_BYTES = 4 << 20;
/** Larger blocks stay in the file, because whole objects are held in memory. */
const BLOCK_BYTES_MAX = 32 << 20;
const EMPTY = Buffer.alloc(0);
/** Maximum number of rows of one transaction. */
const BATCH_ROWS = 512;
const CACHE_BYTES = 1 << 20;

interface DraftOptions {
  path: string;
  draft: string;
  folder: string;
  data_key: Uint8Array | null;
  /** Called between batches of rows. It throws to stop the work. */
  check: () => void;
}

/**
 * Makes the draft of a sealed file; it is on the disk when this resolves.
 * @returns null if the index is incomplete, because without it exchanges can be listed only with the blocks
 * @throws CaptureFileError, what `check` throws, a storage error
 */
export async function makeDraft(options: DraftOptions): Promise<Omit<PlannedFile, 'index'> | null> {
  const { path, draft, folder, data_key, check } = options;
  const source = openCaptureEnv(path, 'read', data_key);
  try {
    const span = readSpan(source, path);
    if (span === null) return null;
    const packs: OffloadedContent['packs'] = [];
    const { places, packs: attachments } = planAttachments(source, path, check);
    await writeLike({ path, copy: draft, source, data_key }, async (target) => {
      copyMeta(source, target, OFFLOADED_FORMAT);
      packs.push(...pointBlocks(source, target, check));
      copyTables(source, target);
      target.root.transactionSync(() => {
        for (const place of places) writeAttachmentPlace(target, place);
        writeOffloadedFile(target, { folder, ...span, packs, attachments });
      });
    });
    const all = [...packs, ...attachments];
    const bytes = all.reduce((sum, [size]) => sum + size, 0);
    return { ...span, bytes, packs: all.length };
  } finally {
    await source.root.close();
  }
}

/** Reads when the first exchange began and the last one ended; null if the index is incomplete. */
function readSpan(env: CaptureEnv, path: string): Pick<OffloadedContent, 'from_ms' | 'to_ms'> | null {
  const blocks = new BlockReader(env, path, CACHE_BYTES);
  const [firstId, lastId] = [blocks.readFirstId(), blocks.readLastId()];
  const table = new SummaryTable(env, firstId);
  if (table.indexed < lastId) return null;
  const times = [firstId, lastId].map((id) => {
    const summary = table.read(id) ?? blocks.readMeta(id)?.record;
    if (summary === undefined) throw new RangeError(`${path} lacks exchange ${id}`);
    return { from: Date.parse(summary.started_at), to: Date.parse(summary.started_at) + summary.duration_ms };
  });
  const [first, last] = times as [(typeof times)[0], (typeof times)[0]];
  return { from_ms: Math.min(first.from, last.from), to_ms: Math.max(first.from, last.to) };
}

function pointBlocks(source: CaptureEnv, target: CaptureEnv, check: () => void): OffloadedContent['packs'] {
  const packs: OffloadedContent['packs'] = [];
  const rows = new Batch(target);
  let hash = createHash('sha256');
  let offset = 0;
  const closePack = (): void => {
    if (offset > 0) packs.push([offset, hash.digest('hex')]);
    hash = createHash('sha256');
    offset = 0;
  };
  for (const { key, value } of source.blocks.getRange({ snapshot: false })) {
    const block = joinWhole(source, value);
    if (block.length > BLOCK_BYTES_MAX) rows.addBlock(key, block);
    else {
      hash.update(block);
      const place = { pack: packs.length, offset, bytes: block.length };
      rows.addRow(key, pointToPack(readBlockCount(value), place));
      offset += block.length;
      if (offset >= PACK_BYTES) closePack();
    }
    if (rows.isFull) {
      check();
      rows.write();
    }
  }
  rows.write();
  closePack();
  return packs;
}

/** Reads the packs of a draft from its sealed file, in order. */
export class PackBuilder {
  readonly #source: CaptureEnv;
  readonly #draft: CaptureEnv;
  readonly #attachments: string;
  /** The packs and times that the draft lists. */
  readonly content: OffloadedContent;
  /** The first block of the next pack. */
  #next = { pack: 0, key: 1 };

  constructor({ path, draft, data_key }: { path: string; draft: string; data_key: Uint8Array | null }) {
    this.#source = openCaptureEnv(path, 'read', data_key);
    this.#draft = openCaptureEnv(draft, 'read', findKey(this.#source, path, data_key));
    this.#attachments = attachmentsFolder(path);
    this.content = readOffloadedFile(this.#draft)!;
  }

  /** Returns the packs of attachments, in order. @throws StaleDraftError */
  attachments(): Generator<Buffer> {
    return cutPacks(this.#attachments, [...listAttachmentPlaces(this.#draft)]);
  }

  /**
   * Reads a pack from the blocks of the sealed file. Fast if the last call read the previous pack; otherwise the search
   * for the pack's first block starts at the beginning of the draft.
   */
  read(pack: number): Buffer {
    const parts: Buffer[] = [];
    const start = pack === this.#next.pack ? this.#next.key : 1;
    for (const { key, value } of this.#draft.blocks.getRange({ start, snapshot: false })) {
      const place = readPackPlace(value);
      if (place === null || place.pack < pack) continue;
      if (place.pack > pack) {
        this.#next = { pack: pack + 1, key };
        break;
      }
      const block = this.#source.blocks.get(key);
      if (block !== undefined) parts.push(joinWhole(this.#source, block));
    }
    return Buffer.concat(parts);
  }

  async close(): Promise<void> {
    await this.#draft.root.close();
    await this.#source.root.close();
  }
}

/** Reads a pack. @throws StoreError */
export type PackReader = (object: string, bytes: number, sha256: string) => Promise<Buffer>;

interface WholeOptions {
  path: string;
  target: string;
  data_key: Uint8Array | null;
  read: PackReader;
}

/**
 * Rebuilds a sealed file from the file without blocks, and restores its attachments. All are on the disk when this
 * resolves.
 * @throws what `read` throws; CaptureFileError; a storage error
 */
export async function makeWhole({ path, target: copy, data_key, read }: WholeOptions): Promise<void> {
  const source = openCaptureEnv(path, 'read', data_key);
  try {
    const content = readOffloadedFile(source);
    if (content !== null) await restoreAttachmentFiles({ env: source, path, content, read });
    await writeLike({ path, copy, source, data_key }, async (target) => {
      copyMeta(source, target, CAPTURE_FORMAT);
      const rows = new Batch(target);
      let pack: { number: number; bytes: Buffer } = { number: -1, bytes: EMPTY };
      for (const { key, value } of source.blocks.getRange({ snapshot: false })) {
        const place = readPackPlace(value);
        if (place === null) rows.addBlock(key, joinWhole(source, value));
        else {
          if (pack.number !== place.pack) {
            rows.write();
            const [bytes, sha256] = content!.packs[place.pack]!;
            pack = {
              number: place.pack,
              bytes: await read(packName(content!, place.pack), bytes, sha256),
            };
          }
          rows.addBlock(key, pack.bytes.subarray(place.offset, place.offset + place.bytes));
        }
        if (rows.isFull) rows.write();
      }
      rows.write();
      copyTables(source, target);
    });
  } finally {
    await source.root.close();
  }
}

/**
 * Reads which packs a draft lists.
 * @throws StaleDraftError if the draft does not match the sealed file; CaptureFileError
 */
export async function readDraft(
  path: string,
  draft: string,
  dataKey: Uint8Array | null,
): Promise<OffloadedContent> {
  const source = openCaptureEnv(path, 'read', dataKey);
  try {
    const env = openCaptureEnv(draft, 'read', findKey(source, path, dataKey));
    try {
      const content = readOffloadedFile(env);
      if (content !== null && readChanges(env) === readChanges(source)) return content;
      throw new StaleDraftError(`${path} has changed since its draft was made`);
    } finally {
      await env.root.close();
    }
  } finally {
    await source.root.close();
  }
}

/**
 * Finds the key that encrypts a sealed file. During a change of the key, files may have either key (capture-keys.ts).
 */
function findKey({ sealing }: CaptureEnv, path: string, dataKey: Uint8Array | null): Uint8Array | null {
  const { all } = readCaptureKeys(livePath(path), dataKey);
  return all.find((key) => openDataKey(key)?.id === sealing?.key.id) ?? dataKey;
}

function joinWhole(env: CaptureEnv, value: Buffer): Buffer {
  return joinBlock(
    value,
    (number) => env.pieces.get(number),
    () => {
      throw new RangeError('a sealed file has no raw blocks');
    },
  );
}

function copyMeta(source: CaptureEnv, target: CaptureEnv, format: number): void {
  target.root.transactionSync(() => {
    for (const { key, value } of source.meta.getRange({}))
      if (!isOffloadedRow(key)) target.meta.putSync(key, value);
    target.meta.putSync('format', Buffer.from(String(format)));
  });
}

function copyTables(source: CaptureEnv, target: CaptureEnv): void {
  for (const name of ['facts', 'tails'] as const) {
    let rows: { key: number; value: Buffer }[] = [];
    const write = (): void => {
      target.root.transactionSync(() => {
        for (const { key, value } of rows) target[name].putSync(key, value);
      });
      rows = [];
    };
    for (const row of source[name].getRange({ snapshot: false }))
      if (rows.push({ key: row.key, value: Buffer.from(row.value) }) >= BATCH_ROWS) write();
    write();
  }
}

/** Blocks that wait to be written to a new file. */
class Batch {
  readonly #env: CaptureEnv;
  #rows: { key: number; value: Buffer; pieces: Buffer[]; from: number }[] = [];
  #bytes = 0;
  #nextPiece = 1;

  constructor(env: CaptureEnv) {
    this.#env = env;
  }

  get isFull(): boolean {
    return this.#rows.length >= BATCH_ROWS || this.#bytes >= PACK_BYTES;
  }

  addRow(key: number, value: Buffer): void {
    this.#rows.push({ key, value, pieces: [], from: 0 });
    this.#bytes += value.length;
  }

  addBlock(key: number, block: Buffer): void {
    const { value, pieces } = cutBlock(block, this.#nextPiece);
    // Copied, because LMDB reuses the memory of its pages.
    const row = { key, value: Buffer.from(value), pieces: pieces.map((piece) => Buffer.from(piece)) };
    this.#rows.push({ ...row, from: this.#nextPiece });
    this.#nextPiece += pieces.length;
    this.#bytes += block.length;
  }

  write(): void {
    this.#env.root.transactionSync(() => {
      for (const { key, value, pieces, from } of this.#rows) {
        for (const [at, piece] of pieces.entries()) this.#env.pieces.putSync(from + at, piece);
        this.#env.blocks.putSync(key, value);
      }
    });
    this.#rows = [];
    this.#bytes = 0;
  }
}

interface CopyOptions {
  path: string;
  copy: string;
  source: CaptureEnv;
  data_key: Uint8Array | null;
}

/** Writes a file like a sealed one: without free pages, synced, read-only, and with the same modification time. */
async function writeLike(
  { path, copy, source, data_key }: CopyOptions,
  fill: (target: CaptureEnv) => Promise<void>,
): Promise<void> {
  const loose = `${copy}.loose`;
  removeFile(loose);
  removeFile(copy);
  try {
    const target = await createCaptureEnv(loose, findKey(source, path, data_key), true, source);
    try {
      await fill(target);
      await target.root.backup(copy, true);
    } finally {
      await target.root.close();
    }
  } finally {
    removeFile(loose);
  }
  const { atimeMs, mtimeMs } = statSync(path);
  syncPath(copy);
  makeReadOnly(copy);
  utimesSync(copy, atimeMs / 1_000, mtimeMs / 1_000);
}

/** Removes a file and its lock. */
export function removeFile(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}-lock`, { force: true });
}
