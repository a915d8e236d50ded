/**
 * The writer's side of the exchange index. It takes the facts of each exchange (exchange-facts.ts), finds the run of
 * each turn (turn-links.ts), and stores the summaries (summary-table.ts). Readers use only the stored table. Runs in
 * the capture process, and on the command line in commands that rewrite a capture file.
 * Exchanges are indexed in id order. Facts usually arrive while the exchange is stored. Under pressure, exchanges are
 * stored without facts. `indexNext` reads them later, and the facts of later exchanges wait until then
 * (early-facts.ts).
 */
import type { BlockReader } from './blocks.ts';
import { EarlyFacts } from './early-facts.ts';
import { type ExchangeFacts, FactsReader, type LinkEntry } from './exchange-facts.ts';
import { type CaptureEnv, CaptureFileError, readRunHeaders } from './layout.ts';
import type { ExchangeSummary } from './record.ts';
import type { DecodeExchange } from './stored-copy.ts';
import {
  blockEnd,
  blockStart,
  encodeBlockRow,
  encodeMovesRow,
  encodeSummaryRow,
  type FactsRow,
  type IndexedSummary,
  type RunMove,
  SummaryTable,
} from './summary-table.ts';
import { type Correction, type LinkChanges, TurnLinks, type TurnRow } from './turn-links.ts';

/**
 * Number of moves that a file keeps; older ones are dropped. A move records that turns of one run got another run
 * because an earlier turn was stored late. A reader that follows the file usually reads each move long before it is
 * dropped; otherwise the reader sees by `forgotten_to` that moves are missing.
 */
const MOVES_KEPT = 1_024;

/** What one write to the file contains. */
interface PlannedWrite {
  facts: FactsRow[];
  /** Keys in `facts` that a full block replaces. */
  gone: number[];
  links: LinkChanges;
  /** Keys of rows of early facts that are used up. */
  used: readonly number[];
  indexed: number;
}

/** Called for each indexed exchange that can be read, in id order. The summary has the run that the index has found. */
export type TellIndexed = (facts: ExchangeFacts) => void;

export class ExchangeIndex {
  readonly #env: CaptureEnv;
  readonly #blocks: BlockReader;
  readonly #firstId: number;
  readonly #table: SummaryTable;
  readonly #links: TurnLinks;
  readonly #early: EarlyFacts;
  readonly #tell: TellIndexed | null;
  readonly #runHeaders: readonly string[];
  /** The facts passed to the current call of `add`. Their exchanges cannot be read from the file yet. */
  #adding: readonly ExchangeFacts[] = [];
  /** Last id whose summary is written. */
  #stored: number;
  /** The summaries that are not written yet: those of the ids after `#stored`, without gaps. */
  #pending: IndexedSummary[] = [];
  /** Corrections of summaries that are written already, by the id of the exchange. */
  readonly #corrections = new Map<number, Correction>();
  #reader: { decode: DecodeExchange; facts: FactsReader } | null = null;

  /**
   * @param env a file that is open for writing
   * @param decode decodes exchanges while they are stored; null: exchanges are indexed only by `indexNext`
   */
  constructor(
    env: CaptureEnv,
    blocks: BlockReader,
    decode: DecodeExchange | null = null,
    tell: TellIndexed | null = null,
  ) {
    this.#env = env;
    this.#tell = tell;
    this.#blocks = blocks;
    this.#early = new EarlyFacts(env.early!);
    this.#runHeaders = readRunHeaders(env);
    if (decode !== null) this.#reader = { decode, facts: new FactsReader(decode, this.#runHeaders) };
    this.#firstId = blocks.readFirstId();
    this.#table = new SummaryTable(env, this.#firstId);
    this.#stored = this.#table.indexed;
    const summaries = {
      readRun: (id: number) => this.#readSummary(id)?.run_id,
      readEntry: (id: number) => this.#readEntry(id),
      correct: (id: number, correction: Correction) => this.#correct(id, correction),
    };
    this.#links = new TurnLinks(env.tails, summaries, this.#stored);
  }

  /** The first exchange of the file. */
  get first_id(): number {
    return this.#firstId;
  }

  /** Reads the facts of exchanges while these are stored; null without a decoder. */
  get facts_reader(): FactsReader | null {
    return this.#reader?.facts ?? null;
  }

  /** Last indexed id, whether written or not. */
  get indexed(): number {
    return this.#stored + this.#pending.length;
  }

  /** Last id whose summary is written. */
  get stored(): number {
    return this.#stored;
  }

  /** Number of indexed exchanges that are not written yet. */
  get pending(): number {
    return this.#pending.length;
  }

  /** Whether no further facts can wait. */
  get isFull(): boolean {
    return this.#early.isFull;
  }

  /**
   * Takes the facts of exchanges that are about to be stored, in id order. Facts wait if earlier exchanges are not
   * indexed yet.
   * @returns what the transaction that stores the exchanges must write; null: nothing
   */
  add(facts: readonly ExchangeFacts[]): ReturnType<EarlyFacts['takeStaged']> {
    this.#adding = facts;
    try {
      let at = 0;
      while (at < facts.length && facts[at]!.summary.id === this.indexed + 1) this.#index(facts[at++]!);
      if (at < facts.length) this.#early.stage(facts.slice(at));
    } finally {
      this.#adding = [];
    }
    return this.#early.takeStaged();
  }

  /**
   * Indexes the next stored exchange. A damaged exchange is indexed as unreadable.
   * @returns false if all exchanges are indexed already
   */
  indexNext(decode: DecodeExchange): boolean {
    if (this.#reader?.decode !== decode)
      this.#reader = { decode, facts: new FactsReader(decode, this.#runHeaders) };
    const id = this.indexed + 1;
    let facts: ExchangeFacts | null | undefined = this.#early.take(id);
    try {
      facts ??= this.#readFacts(id);
    } catch (error) {
      if (!(error instanceof CaptureFileError)) throw error;
      this.#pending.push(null);
      return true;
    }
    if (facts === null) return false;
    this.#index(facts);
    return true;
  }

  #index(facts: ExchangeFacts): void {
    const { summary } = facts;
    if (summary.kind === 'turn') {
      const { run_id, follows } = this.#links.add(facts);
      summary.run_id = run_id;
      if (follows !== 0) summary.follows = follows;
    }
    this.#pending.push(summary);
    this.#tell?.(facts);
  }

  /**
   * Reads an indexed exchange again.
   * @returns null if the exchange is not indexed or does not exist, or the index has no decoder yet
   * @throws CaptureFileError if the exchange is damaged
   */
  readAgain(id: number): { facts: ExchangeFacts; run_id: string | null } | null {
    if (id < this.#firstId || id > this.indexed || this.#reader === null) return null;
    const facts = this.#readFacts(id);
    return facts === null ? null : { facts, run_id: this.#readSummary(id)?.run_id ?? null };
  }

  /**
   * Reads the summary of an exchange; null if the exchange was not readable, undefined if it is not indexed in this
   * file.
   */
  readSummary(id: number): ExchangeSummary | null | undefined {
    return id < this.#firstId ? undefined : this.#readSummary(id);
  }

  #readFacts(id: number): ExchangeFacts | null {
    const meta = this.#blocks.readMeta(id);
    return meta === undefined
      ? null
      : this.#reader!.facts.read(meta, () => this.#blocks.readBodies(id, meta));
  }

  #readEntry(id: number): LinkEntry | null {
    if (id < this.#firstId || this.#reader === null) return null;
    const told = this.#adding.find(({ summary }) => summary.id === id);
    if (told !== undefined) return told.entry;
    try {
      return this.#readFacts(id)?.entry ?? null;
    } catch (error) {
      if (error instanceof CaptureFileError) return null;
      throw error;
    }
  }

  /** Reads the indexed summaries of a block of the file; summaries of a damaged block count as unreadable. */
  #readBlock(key: number): readonly IndexedSummary[] {
    try {
      return this.#table.readBlock(key);
    } catch {
      // Later writes into the block must not fail, so its exchanges count as unreadable.
      return Array.from({ length: Math.min(blockEnd(key), this.#stored) - key + 1 }, () => null);
    }
  }

  #readStored(id: number): IndexedSummary | undefined {
    if (id < this.#firstId || id > this.#stored) return undefined;
    const key = blockStart(id, this.#firstId);
    return this.#readBlock(key)[id - key];
  }

  #readSummary(id: number): IndexedSummary | undefined {
    if (id > this.#stored) return this.#pending[id - this.#stored - 1];
    const summary = this.#readStored(id);
    const correction = summary ? this.#corrections.get(id) : undefined;
    return correction === undefined ? summary : correctSummary(summary!, correction);
  }

  #correct(id: number, correction: Correction): boolean {
    if (id > this.indexed || id < this.#firstId) return false;
    const at = id - this.#stored - 1;
    const pending = at < 0 ? null : this.#pending[at];
    if (pending) {
      this.#pending[at] = correctSummary(pending, correction);
      return false;
    }
    if (at >= 0 || !this.#readStored(id)) return false;
    this.#corrections.set(id, correction);
    return true;
  }

  /** Writes the pending summaries in a transaction. @throws lmdb's error; then they stay pending */
  store(): void {
    const write = this.prepareWrite();
    if (write === null) return;
    this.#env.root.transactionSync(() => write.run());
    write.settle();
  }

  /**
   * Prepares a write in the caller's transaction: call `run` inside it and `settle` after it. null: nothing to write.
   */
  prepareWrite(): { run(): void; settle(): void } | null {
    if (this.#pending.length === 0) return null;
    const planned = this.#planWrite();
    return { run: () => this.#write(planned), settle: () => this.#settle(planned) };
  }

  #write({ facts, gone, links, used, indexed }: PlannedWrite): void {
    for (const key of gone) this.#env.facts.removeSync(key);
    for (const { key, value } of facts) this.#env.facts.putSync(key, value);
    for (const { key, value } of links.added) this.#env.tails.putSync(key, value, { append: true });
    for (const { key, value } of links.changed) this.#env.tails.putSync(key, value);
    this.#early.remove(used);
    this.#env.meta.putSync('indexed', Buffer.from(String(indexed)));
  }

  #settle({ indexed }: PlannedWrite): void {
    this.#links.settle();
    this.#early.settle();
    this.#corrections.clear();
    this.#pending = [];
    this.#stored = indexed;
    this.#table.refresh();
  }

  #planWrite(): PlannedWrite {
    const { indexed } = this;
    const links = this.#links.listChanges();
    const facts: FactsRow[] = [];
    const gone: number[] = [];
    const planBlock = (key: number, summaries: readonly IndexedSummary[]): void => {
      facts.push(encodeBlockRow(key, summaries));
      // A full block has a single row. A block that is not full has a row for each summary.
      if (blockEnd(key) > this.#stored) for (let id = key + 1; id <= this.#stored; id++) gone.push(id);
    };
    const corrected = this.#correctBlocks();
    let done = 0;
    while (done < this.#pending.length) {
      const id = this.#stored + 1 + done;
      const key = blockStart(id, this.#firstId);
      const last = Math.min(blockEnd(id), indexed);
      const added = this.#pending.slice(done, done + last - id + 1);
      done += added.length;
      const before = corrected.get(key);
      corrected.delete(key);
      if (last === blockEnd(id) || before !== undefined) {
        const known = id === key ? [] : (before ?? this.#readBlock(key));
        planBlock(key, [...known.slice(0, id - key), ...added]);
      } else for (const [i, summary] of added.entries()) facts.push(encodeSummaryRow(id + i, summary));
    }
    for (const [key, summaries] of corrected) planBlock(key, summaries);
    if (links.moves.length > 0) facts.push(encodeMovesRow(this.#joinMoves(links.moves)));
    return { facts, gone, links, used: this.#early.listDone(), indexed };
  }

  /** Returns the stored blocks that contain a corrected summary, with the corrections applied, by key. */
  #correctBlocks(): Map<number, IndexedSummary[]> {
    const blocks = new Map<number, IndexedSummary[]>();
    for (const [id, correction] of this.#corrections) {
      const key = blockStart(id, this.#firstId);
      const block = blocks.get(key) ?? [...this.#readBlock(key)];
      blocks.set(key, block);
      const summary = block[id - key];
      if (summary) block[id - key] = correctSummary(summary, correction);
    }
    return blocks;
  }

  #joinMoves(added: readonly RunMove[]): { moves: RunMove[]; forgotten_to: number } {
    const { moves: kept, forgotten_to } = this.#table.readAllMoves();
    const moves = [...kept, ...added];
    const forgotten = moves.splice(0, Math.max(0, moves.length - MOVES_KEPT));
    return { moves, forgotten_to: forgotten.at(-1)?.at ?? forgotten_to };
  }

  /** Drops cached rows, because stored rows were changed. No summary may be pending. */
  forgetRows(): void {
    this.#table.forget();
  }

  /**
   * Drops the turns in memory, because some were removed from `tails`. They are read again when they are needed. No
   * summary may be pending.
   */
  forgetTurns(): void {
    this.#links.forget(this.#stored);
  }

  /** Drops early facts in memory, because rows were removed from the table `early`. */
  forgetEarly(): void {
    this.#early.forget();
  }

  /** Lists the latest turns with their runs, for `tails` in the next file. */
  listCarriedTurns(): TurnRow[] {
    return this.#links.listCarried();
  }
}

function correctSummary(summary: ExchangeSummary, { run_id, follows }: Correction): ExchangeSummary {
  const { follows: _before, ...rest } = summary;
  return { ...rest, run_id, ...(follows === 0 ? {} : { follows }) };
}
