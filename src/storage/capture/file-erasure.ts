/**
 * Erases exchanges from one open capture file, in transactions of a few exchanges each. Only blocks that change are
 * written again. To find the exchanges that were stored against erased ones, the file is read from the first erased
 * exchange on.
 *
 * Ids must have no gaps, so an erased exchange is replaced by an empty exchange with its time. A conversation is stored
 * as differences: an exchange whose base is erased is stored again relative to the nearest earlier exchange that stays,
 * and a block whose dictionary contains a changed exchange is packed without a dictionary.
 *
 * Exchanges are erased from the last to the first, so that each remaining exchange can be read between two
 * transactions. Afterwards, the erased bytes are still in unused parts of the file (../lmdb/unused-bytes.ts overwrites
 * them). Runs in the capture process, and on the command line while no other process writes.
 */
import { listDigests } from './attachments.ts';
import { closeBlock, openBlock } from './block-sealing.ts';
import { BlockReader } from './blocks.ts';
import {
  cutBlock,
  decodeBlock,
  decodeRecord,
  draftRecord,
  encodeBlock,
  joinBlock,
  listPieces,
  type RecordDraft,
  readBlockCount,
  readBlockHead,
} from './codec.ts';
import { makeDelta } from './delta.ts';
import { listEarlyKeys } from './early-facts.ts';
import type { EraseOrder } from './erase-order.ts';
import { type CaptureEnv, rawFolder, readMetaNumber } from './layout.ts';
import { hasNewest, removeNewest } from './newest-exchanges.ts';
import { readRawBlock } from './raw-files.ts';
import { decodeMeta, ERASED, type ExchangeSummary, summarize } from './record.ts';
import {
  blockEnd,
  blockStart,
  encodeBlockRow,
  encodeMovesRow,
  type IndexedSummary,
  SummaryTable,
} from './summary-table.ts';

/** Maximum number of exchanges that one transaction erases. */
const ERASED_AT_ONCE = 32;
/** Maximum number of rows that are read between two pauses. */
const ROWS_AT_ONCE = 64;
const CACHE_BYTES = 8 << 20;
/** Key of the count of transactions that changed stored exchanges. When it grows, readers drop their caches. */
const CHANGES = 'changes';
/** Key of the count of completed erasures, in the live file. */
export const ERASURES = 'erasures';

/** Reads the number of transactions that have changed stored exchanges of the file. */
export function readChanges(env: CaptureEnv): number {
  return readMetaNumber(env, CHANGES, 0);
}

/** Reads the number of erasures that were completed since the live file was created. */
export function readErasures(env: CaptureEnv): number {
  return readMetaNumber(env, ERASURES, 0);
}

/** Exchanges and blocks that refer to others. */
interface Dependents {
  /** For each erased base: the exchanges that stay and are stored against it. */
  records: Map<number, number[]>;
  /** For each changed exchange: the keys of the blocks that have it as dictionary. */
  blocks: Map<number, number[]>;
}

export class FileErasure {
  readonly #env: CaptureEnv;
  readonly #path: string;
  readonly #erased: ReadonlySet<number>;
  /** The erased exchanges of this file. */
  readonly #mine: ReadonlySet<number>;
  /** The exchanges of this file that are still to be erased, ascending. */
  readonly #left: number[];
  readonly #dependents: Dependents = { records: new Map(), blocks: new Map() };
  readonly #firstId: number;
  /** The first and the last erased exchange of all files. */
  readonly #span: readonly [number, number];
  #lookedTo: number;

  /**
   * @param erased ids to erase, of all files
   * @param marks exchanges that show whether the order is for this file
   */
  constructor(env: CaptureEnv, path: string, erased: ReadonlySet<number>, marks: EraseOrder['marks']) {
    this.#env = env;
    this.#path = path;
    this.#erased = erased;
    this.#span = spanOf(erased);
    const blocks = this.#openBlocks();
    this.#firstId = blocks.readFirstId();
    const last = blocks.readLastId();
    const isHere = (id: number) => id >= this.#firstId && id <= last;
    const own = marks.filter(({ id }) => isHere(id));
    const isOwn =
      own.length > 0 &&
      own.every(({ id, started_at }) => blocks.readMeta(id)?.record.started_at === started_at);
    this.#left = isOwn ? [...erased].filter(isHere).sort((a, b) => a - b) : [];
    this.#mine = new Set(this.#left);
    this.#lookedTo = this.#left.length === 0 ? last : this.#keyOf(this.#left[0]!);
  }

  /** Whether the file contains exchanges to erase. */
  get hasAny(): boolean {
    return this.#mine.size > 0;
  }

  /** Lists the exchanges whose records change. Later exchanges must not be stored against them. */
  listChanged(): Set<number> {
    const changed = new Set(this.#mine);
    for (const ids of this.#dependents.records.values()) for (const id of ids) changed.add(id);
    return changed;
  }

  /**
   * Finds the records and blocks that refer to erased exchanges, up to the last exchange that is stored now. A further
   * call examines exchanges that were stored later.
   */
  *findDependents(): Generator<void> {
    if (this.#mine.size === 0) return;
    const changed = this.listChanged();
    const blocks = this.#openBlocks();
    for (;;) {
      let rows = 0;
      for (const { key, value } of this.#env.blocks.getRange({
        start: this.#lookedTo,
        limit: ROWS_AT_ONCE,
        snapshot: false,
      })) {
        rows++;
        try {
          this.#lookAt(blocks, key, value, changed);
        } catch {
          // The block is damaged and cannot be read.
        }
        this.#lookedTo = key + 1;
      }
      if (rows < ROWS_AT_ONCE) return;
      this.#env.root.resetReadTxn();
      yield;
    }
  }

  #lookAt(blocks: BlockReader, key: number, value: Buffer, changed: Set<number>): void {
    const head = readBlockHead(this.#open(key, value));
    const base = key - head.dictionary_distance;
    let records: Buffer[];
    if (head.dictionary_distance > 0) {
      if (!changed.has(base)) return;
      records = [blocks.readRecord(key)!];
    } else records = decodeBlock(head, null);
    for (const [at, record] of records.entries()) {
      const id = key + at;
      const { base_distance } = decodeRecord(record);
      if (base_distance === 0 || this.#erased.has(id) || !this.#erased.has(id - base_distance)) continue;
      note(this.#dependents.records, id - base_distance, id);
      changed.add(id);
    }
    if (head.dictionary_distance > 0) note(this.#dependents.blocks, base, key);
  }

  /** Removes the erased turns from `tails`, also those that this file took over from earlier files. */
  eraseTurns(): void {
    const [start, end] = this.#span;
    if (end === 0) return;
    const gone: number[] = [];
    for (const key of this.#env.tails.getKeys({ start, end: end + 1, snapshot: false }))
      if (this.#erased.has(key)) gone.push(key);
    if (gone.length === 0) return;
    this.#env.root.transactionSync(() => {
      for (const key of gone) this.#env.tails.removeSync(key);
      this.#countChange();
    });
  }

  /** Removes what lists read about the newest exchanges. The writer writes it again, without erased exchanges. */
  eraseNewest(): void {
    if (!hasNewest(this.#env)) return;
    this.#env.root.transactionSync(() => {
      removeNewest(this.#env);
      this.#countChange();
    });
  }

  /**
   * Removes facts that wait for their turn in the index, if they may be of erased exchanges. The index reads these
   * exchanges again.
   */
  eraseEarly(): void {
    const { early, root } = this.#env;
    const gone = listEarlyKeys(early!, this.#span[1]);
    if (gone.length === 0) return;
    root.transactionSync(() => {
      for (const key of gone) early!.removeSync(key);
      this.#countChange();
    });
  }

  /**
   * Removes the moves of erased exchanges, and those that name a run of an erased exchange.
   * @param runs the runs of the erased exchanges
   */
  eraseMoves(runs: ReadonlySet<string>): void {
    const { moves, forgotten_to } = new SummaryTable(this.#env, this.#firstId).readAllMoves();
    const gone = moves.filter(({ at, from, to }) => this.#erased.has(at) || runs.has(from) || runs.has(to));
    if (gone.length === 0) return;
    const row = encodeMovesRow({
      moves: moves.filter((move) => !gone.includes(move)),
      forgotten_to: Math.max(forgotten_to, ...gone.map(({ at }) => at)),
    });
    this.#env.root.transactionSync(() => {
      this.#env.facts.putSync(row.key, row.value);
      this.#countChange();
    });
  }

  /**
   * Erases the last exchanges that are left, at most ERASED_AT_ONCE. Call `findDependents` and write the index before.
   * @param nextPiece number of the next free piece
   * @returns the number of the next free piece afterwards; null: no exchange was left
   * @throws CaptureFileError if a block with an erased exchange is damaged; the storage's error
   */
  eraseSome(nextPiece: number): number | null {
    const now = new Set(this.#left.splice(-ERASED_AT_ONCE));
    return now.size === 0 ? null : this.#erase(now, nextPiece);
  }

  #erase(now: ReadonlySet<number>, firstPiece: number): number {
    const { records, blocks: packed } = this.#dependents;
    const again = new Set([...now].flatMap((id) => records.get(id) ?? []));
    const changed = [...now, ...again];
    const blocks = this.#openBlocks();
    const keys = new Set([
      ...changed.map((id) => this.#keyOf(id)),
      ...changed.flatMap((id) => packed.get(id) ?? []),
    ]);
    const rows = [...keys].map((key) => this.#makeBlock(blocks, key, now, again));
    const facts = this.#planFacts(blocks, now);
    let nextPiece = firstPiece;
    this.#env.root.transactionSync(() => {
      for (const { key, block, old } of rows) {
        for (const piece of old) this.#env.pieces.removeSync(piece);
        const { value, pieces } = cutBlock(block, nextPiece);
        for (const piece of pieces) this.#env.pieces.putSync(nextPiece++, piece);
        this.#env.blocks.putSync(key, value);
      }
      for (const key of facts.gone) this.#env.facts.removeSync(key);
      for (const { key, value } of facts.rows) this.#env.facts.putSync(key, value);
      this.#countChange();
    });
    for (const id of changed) packed.delete(id);
    return nextPiece;
  }

  /** Commits once more after the last erasing commit, so that neither head of the file contains erased data. */
  settle(): void {
    this.#env.root.transactionSync(() => this.#countChange());
  }

  /**
   * Rewrites the summaries of turns that continued an erased turn, without the id of that turn.
   * @param followers of all files
   */
  unlink(followers: readonly number[]): void {
    const table = new SummaryTable(this.#env, this.#firstId);
    const mine = followers.filter((id) => id >= this.#firstId && id <= table.indexed);
    for (let at = 0; at < mine.length; at += ERASED_AT_ONCE) {
      const some = new Set(mine.slice(at, at + ERASED_AT_ONCE));
      const facts = planRows(table, this.#firstId, some, (_id, summary) => {
        if (summary === null) return null;
        const { follows: _erased, ...rest } = summary;
        return rest;
      });
      this.#env.root.transactionSync(() => {
        for (const key of facts.gone) this.#env.facts.removeSync(key);
        for (const { key, value } of facts.rows) this.#env.facts.putSync(key, value);
        this.#countChange();
      });
    }
  }

  #planFacts(blocks: BlockReader, now: ReadonlySet<number>): PlannedRows {
    const table = new SummaryTable(this.#env, this.#firstId);
    return planRows(table, this.#firstId, now, (id) => {
      const { meta } = decodeRecord(blocks.readRecord(id)!);
      return summarize(decodeMeta(id, encodeErasedMeta(id, meta)).record, null, null);
    });
  }

  /** Finds the key of the block that contains an exchange. @throws RangeError if no block does */
  #keyOf(id: number): number {
    for (const key of this.#env.blocks.getKeys({ start: id, reverse: true, limit: 1, snapshot: false }))
      return key;
    throw new RangeError(`exchange ${id} is missing`);
  }

  /** Makes a block with changed records, and lists the pieces of the stored block. */
  #makeBlock(
    blocks: BlockReader,
    key: number,
    now: ReadonlySet<number>,
    again: ReadonlySet<number>,
  ): { key: number; block: Buffer; old: number[] } {
    const stored = this.#env.blocks.get(key)!;
    const drafts: RecordDraft[] = [];
    for (let id = key; id < key + readBlockCount(stored); id++) {
      const bytes = blocks.readRecord(id)!;
      if (now.has(id)) drafts.push(draftErased(id, decodeRecord(bytes).meta));
      else if (again.has(id)) drafts.push(this.#draftAgain(blocks, id));
      else drafts.push({ parts: [bytes], bytes: bytes.length });
    }
    const block = closeBlock(encodeBlock(drafts, null, 'patient'), key, this.#env.sealing);
    return { key, block, old: listPieces(stored) };
  }

  /** Makes the record of an exchange again, relative to the nearest exchange of its chain that stays. */
  #draftAgain(blocks: BlockReader, id: number): RecordDraft {
    let base = id;
    do {
      const { base_distance } = decodeRecord(blocks.readRecord(base)!);
      base = base_distance === 0 ? 0 : base - base_distance;
    } while (base > 0 && this.#erased.has(base));
    const { meta } = decodeRecord(blocks.readRecord(id)!);
    const { request, response } = blocks.readStored(id)!;
    if (base === 0) return draftRecord(0, [], [request], [], [response], meta);
    const against = blocks.readStored(base)!;
    const asked = diff(against.request, request);
    const answered = diff(against.response, response);
    const distance = asked.ops.length === 0 && answered.ops.length === 0 ? 0 : id - base;
    return draftRecord(distance, asked.ops, asked.literals, answered.ops, answered.literals, meta);
  }

  #open(key: number, value: Buffer): Buffer {
    const joined = joinBlock(
      value,
      (number) => this.#env.pieces.get(number),
      (place) => readRawBlock(rawFolder(this.#path), place),
    );
    return openBlock(joined, key, this.#env.sealing);
  }

  #openBlocks(): BlockReader {
    return new BlockReader(this.#env, this.#path, CACHE_BYTES);
  }

  #countChange(): void {
    this.#env.meta.putSync(CHANGES, Buffer.from(String(readChanges(this.#env) + 1)));
  }
}

interface PlannedRows {
  rows: { key: number; value: Buffer }[];
  /** Keys of rows to remove, because other rows replace them. */
  gone: number[];
}

/** Plans the rows of those blocks of summaries in which exchanges change. */
function planRows(
  table: SummaryTable,
  firstId: number,
  ids: ReadonlySet<number>,
  change: (id: number, summary: ExchangeSummary | null) => IndexedSummary,
): PlannedRows {
  const planned: PlannedRows = { rows: [], gone: [] };
  const indexed = [...ids].filter((id) => id <= table.indexed);
  for (const key of new Set(indexed.map((id) => blockStart(id, firstId)))) {
    const summaries = table.readBlock(key).map((summary, at) => {
      const id = key + at;
      return ids.has(id) ? change(id, summary) : summary;
    });
    planned.rows.push(encodeBlockRow(key, summaries));
    // A block that is still growing has a row for each further summary.
    if (blockEnd(key) > table.indexed)
      for (let id = key + 1; id <= table.indexed; id++) planned.gone.push(id);
  }
  return planned;
}

/** Lists the attachments among `wanted` that an exchange has. @throws CaptureFileError for a damaged exchange */
export function listAttachments(blocks: BlockReader, id: number, wanted: ReadonlySet<string>): string[] {
  const meta = blocks.readMeta(id);
  if (meta === undefined || !(meta.request_has_files || meta.response_has_files)) return [];
  const { request, response } = blocks.readStored(id)!;
  return [request, response].flatMap((body) => [...listDigests(body)]).filter((sha256) => wanted.has(sha256));
}

function spanOf(ids: Iterable<number>): [number, number] {
  let [first, last] = [Number.POSITIVE_INFINITY, 0];
  for (const id of ids) {
    first = Math.min(first, id);
    last = Math.max(last, id);
  }
  return [first, last];
}

function note(map: Map<number, number[]>, key: number, id: number): void {
  const ids = map.get(key);
  if (ids === undefined) map.set(key, [id]);
  else ids.push(id);
}

/** Makes an empty exchange that keeps only its time. */
function draftErased(id: number, meta: Buffer): RecordDraft {
  return draftRecord(0, [], [], [], [], encodeErasedMeta(id, meta));
}

function encodeErasedMeta(id: number, meta: Buffer): Buffer {
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
  return Buffer.from(JSON.stringify(left));
}

function diff(base: Buffer, body: Buffer): { ops: number[]; literals: Buffer[] } {
  if (base.length === 0 || body.length === 0) return { ops: [], literals: [body] };
  const delta = makeDelta(base, body);
  return delta.literal_bytes * 10 < body.length * 9 ? delta : { ops: [], literals: [body] };
}
