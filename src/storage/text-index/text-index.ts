/**
 * The writer's side of the full-text index of a capture database. Exchanges arrive with their texts while the exchange
 * index reads them, wait in memory, and are split into words in passes of `tidySome`. Exchanges that arrived too fast,
 * were stored before, or were in a damaged segment are read again from the capture files, newest first. Capture
 * process.
 *
 * A segment is made from one capture file. It is removed when the capture file is removed, when the segment is damaged,
 * and when the segment was merged into a larger one. After an erasure, segments with erased exchanges are written again
 * or removed.
 *
 * Bounds: QUEUE_CHARS waiting characters; further texts are read again later. The index may use INDEX_SHARE of the
 * capture files' bytes, or LEAST_BYTES if that is more. Beyond that, the oldest segments are removed, and their
 * exchanges count as not searched.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { ExchangeTexts } from '../../domain/placed-text.ts';
import { openDataKey } from '../../std/data-key.ts';
import { syncPath } from '../../std/synced-path.ts';
import { KnownMessages, type TextEntry } from './known-messages.ts';
import { runKey } from './run-key.ts';
import { type CollectedExchange, SegmentBuilder, TEXT_CHARS } from './segment-builder.ts';
import {
  damagePath,
  listNames,
  listSegments,
  removeSegments,
  segmentPath,
  textIndexFolder,
} from './segment-files.ts';
import { type SegmentContents, SegmentDamage } from './segment-format.ts';
import { chooseMerge, mergeSegments } from './segment-merge.ts';
import { BlockCache, SegmentReader } from './segment-reader.ts';
import { SegmentWriter } from './segment-writer.ts';

/** Maximum number of characters of texts that wait to be split into words; each takes one or two bytes in V8. */
const QUEUE_CHARS = 16 << 20;
/**
 * A segment of this many exchanges is written as soon as no text waits, and a smaller segment when the capture process
 * is idle. A segment is written earlier if it is full, or if the next exchange is in another capture file.
 */
const SEGMENT_EXCHANGES = 256;
/** Number of words between two pauses of writing. */
const WORDS_AT_ONCE = 512;
/** Maximum number of exchanges that are read again for one segment. */
const BACKFILL_EXCHANGES = 2_048;
/** Higher levels of zstd take ten times as long and save 4 %. */
const ZSTD_LEVEL = 3;
/** Minimum interval between two counts of the exchanges that are not searchable. */
const COUNT_MS = 1_000;
const INDEX_SHARE = 0.1;
const LEAST_BYTES = 32 << 20;
/**
 * After segments had to be removed, old exchanges are added only while the index is smaller than this share
 * of its bound.
 */
const BACKFILL_SHARE = 0.8;

/** An exchange with its searchable texts. */
export interface TextExchange {
  id: number;
  run_id: string | null;
  /** Identifies its content. */
  mark: string;
  entry: TextEntry | null;
  /** null: the exchange cannot be read. */
  texts: ExchangeTexts | null;
}

/** A capture file, from which segments are made. */
export interface TextSource {
  first_id: number;
  last_id: number;
  /** Whether it can be read now; false while it is being sealed. */
  is_readable: boolean;
}

/** Access to the capture files. */
export interface TextSources {
  /** Sealed files and the live one, in the order of ids. */
  list(): TextSource[];
  /** Total bytes of the files. */
  bytes(): number;
  /**
   * Reads an exchange of a readable file; `texts` is null if the exchange is damaged.
   * @returns null if it does not exist
   */
  read(id: number): TextExchange | null;
  /** Identifies the content of an exchange; null if unknown. */
  markOf(id: number): string | null;
}

/** Progress of the index. */
export interface TextIndexState {
  /** The last searchable exchange; 0 without one. */
  searched_id: number;
  /** Number of stored exchanges that are not searchable: not yet, or not any more because the index was too large. */
  unsearched: number;
  /** Number of exchanges of which only the beginning is searchable. */
  cut: number;
  /** Size of all segments. */
  bytes: number;
  segments: number;
}

interface Queued extends CollectedExchange {
  id: number;
  chars: number;
}

/** A segment in the folder. */
interface KeptSegment {
  path: string;
  first_id: number;
  last_id: number;
  bytes: number;
  cut: number;
}

export class TextIndex {
  readonly #db: string;
  readonly #dataKey: Uint8Array | null;
  readonly #sources: TextSources;
  #segments: KeptSegment[] = [];
  #queue: Queued[] = [];
  #queuedAt = 0;
  #queuedChars = 0;
  readonly #known = new KnownMessages();
  /** The last exchange that was accepted or is covered. Exchanges up to this one are not accepted again. */
  #takenTo = 0;
  #writing: Generator<void> | null = null;
  /** Collects accepted exchanges. */
  #newest: SegmentBuilder | null = null;
  /** Later segments are not merged with earlier ones, because another capture file begins there. */
  readonly #boundaries = new Set<number>();
  #merge: {
    path: string;
    sources: KeptSegment[];
    readers: SegmentReader[];
    work: Generator<void, SegmentContents>;
  } | null = null;
  /** Collects exchanges that are read again. */
  #backfill: { builder: SegmentBuilder; to: number; known: KnownMessages } | null = null;
  #check: { segment: KeptSegment; reader: SegmentReader; work: Generator<void> } | null = null;
  #unchecked: KeptSegment[] = [];
  /** Whether the capture files may have changed. */
  #isStale = false;
  #counted = { unsearched: 0, at_ms: Number.NEGATIVE_INFINITY };
  /** Whether segments had to be removed because the index was too large. */
  #isTrimmed = false;
  /** Whether the last check found nothing to read again. */
  #isComplete = false;
  /** Whether exchanges are being erased. Meanwhile nothing else is done. */
  #isErasing = false;

  /**
   * Opens the index. Segments that are damaged, or belong to another key or other captures, are removed.
   * @throws a file system error
   */
  constructor(db: string, dataKey: Uint8Array | null, sources: TextSources) {
    this.#db = db;
    this.#dataKey = dataKey;
    this.#sources = sources;
    for (const name of listNames(db))
      if (name.endsWith('.part')) rmSync(join(textIndexFolder(db), name), { force: true });
    this.#load();
    this.#unchecked = [...this.#segments];
  }

  /**
   * Accepts the next exchange. Ignores an exchange that was accepted before or that a segment covers. If too many texts
   * wait, the texts of the exchange are read again later.
   * @param listTexts undefined: the texts are read later
   */
  take(
    { id, run_id, mark, entry }: Omit<TextExchange, 'texts'>,
    listTexts: (() => ExchangeTexts) | undefined,
  ): void {
    if (id <= this.#takenTo) return;
    this.#takenTo = id;
    const run = runKey(run_id);
    const found = listTexts === undefined ? [] : this.#known.takeNew(run, entry, listTexts());
    const chars = Math.min(
      TEXT_CHARS,
      found.reduce((sum, text) => sum + text.length, 0),
    );
    if (listTexts === undefined || this.#queuedChars + chars > QUEUE_CHARS) {
      this.#isComplete = false;
      return;
    }
    this.#queue.push({ id, run, mark, texts: found, chars });
    this.#queuedChars += chars;
  }

  /** Records that the next exchange is in a new capture file. */
  beginFile(firstId: number): void {
    this.#boundaries.add(firstId);
    // Each file is indexed separately, because the file with the beginning of a run may be removed before the
    // others.
    this.#known.clear();
  }

  /**
   * Removes segments whose capture file was removed or replaced. Drops work in progress, which begins again later.
   * @throws a file system error
   */
  reconcile(): void {
    this.#stopWriting();
    this.#stopMerge();
    this.#stopCheck();
    this.#backfill = null;
    this.#isStale = false;
    this.#load();
  }

  /**
   * Drops the waiting exchanges, because the files may contain other exchanges. The next pass reads the files
   * again.
   */
  forget(): void {
    this.#queue = [];
    this.#queuedAt = 0;
    this.#queuedChars = 0;
    this.#newest = null;
    this.#known.clear();
    this.#isStale = true;
  }

  /**
   * Removes exchanges that were erased, one segment after the other. Until the generator ends, nothing else is written.
   * @param runIds of the erased exchanges
   * @param isPartial whether some of these runs have other exchanges. Those exchanges repeat messages that the index
   *   has only for erased exchanges, so the segments are removed and built again
   * @throws a file system error
   */
  *erase(
    erased: ReadonlySet<number>,
    runIds: ReadonlySet<string>,
    isPartial: boolean,
  ): Generator<void, void, void> {
    this.#stopWriting();
    this.#stopMerge();
    this.#stopCheck();
    this.#backfill = null;
    this.#queue = [];
    this.#queuedAt = 0;
    this.#queuedChars = 0;
    this.#newest = null;
    this.#known.forgetRuns(new Set([...runIds].map(runKey)));
    this.#isErasing = true;
    try {
      for (const segment of [...this.#segments]) {
        const { first_id, last_id } = segment;
        if (![...erased].some((id) => id >= first_id && id <= last_id)) continue;
        if (isPartial) this.#remove([segment]);
        else yield* this.#rewriteWithout(segment, erased);
        yield;
      }
    } finally {
      this.#isErasing = false;
      this.#isStale = true;
    }
  }

  *#rewriteWithout(segment: KeptSegment, without: ReadonlySet<number>): Generator<void, void, void> {
    const { path, first_id, last_id } = segment;
    let reader: SegmentReader | null = null;
    try {
      reader = this.#openSegment(path);
      const [first, last] = reader.contents.marks;
      const marks = [this.#sources.markOf(first_id) ?? first, this.#sources.markOf(last_id) ?? last] as const;
      yield* mergeSegments([reader], {
        path,
        key: openDataKey(this.#dataKey),
        level: ZSTD_LEVEL,
        without,
        marks,
      });
      syncPath(textIndexFolder(this.#db));
    } catch (thrown) {
      const isGone = (thrown as NodeJS.ErrnoException).code === 'ENOENT';
      if (!isGone && !(thrown instanceof SegmentDamage)) throw thrown;
      this.#remove([segment]);
    } finally {
      reader?.close();
    }
  }

  /**
   * Continues the index, for about this many milliseconds.
   * @param isIdle no other work waits, so collected exchanges are written immediately
   * @returns the number of steps; 0 if nothing is left to do, or while exchanges are being erased
   * @throws a file system error
   */
  tidySome(budgetMs: number, isIdle: boolean): number {
    if (this.#isErasing) return 0;
    const until = performance.now() + budgetMs;
    if (this.#isStale) this.reconcile();
    let done = 0;
    do {
      if (!this.#step(isIdle)) break;
      done += 1;
    } while (performance.now() < until);
    return done;
  }

  /** Writes accepted exchanges, for about this many milliseconds. @throws a file system error */
  flush(budgetMs: number): void {
    if (this.#isErasing) return;
    const until = performance.now() + budgetMs;
    if (this.#isStale) this.reconcile();
    while (performance.now() < until && (this.#goOnWriting() || this.#absorb() || this.#closeNewest()));
  }

  /** Number of stored exchanges that are not searchable, as counted at most a second ago. */
  get behind(): number {
    const now = performance.now();
    if (now - this.#counted.at_ms >= COUNT_MS)
      this.#counted = { unsearched: this.state().unsearched, at_ms: now };
    return this.#counted.unsearched;
  }

  /** Whether the index no longer needs these exchanges: it has them, or had no room for them. */
  hasAll(firstId: number, lastId: number): boolean {
    let next = firstId;
    if (this.#isTrimmed) next = Math.max(next, this.#segments[0]?.first_id ?? next);
    for (const { first_id, last_id } of this.#segments)
      if (first_id <= next) next = Math.max(next, last_id + 1);
    return next > lastId;
  }

  /** Progress of the index. */
  state(): TextIndexState {
    let unsearched = 0;
    for (const { first_id, last_id } of this.#sources.list()) unsearched += last_id - first_id + 1;
    let cut = 0;
    let bytes = 0;
    for (const segment of this.#segments) {
      unsearched -= segment.last_id - segment.first_id + 1;
      cut += segment.cut;
      bytes += segment.bytes;
    }
    const searched_id = this.#segments.at(-1)?.last_id ?? 0;
    return { searched_id, unsearched: Math.max(0, unsearched), cut, bytes, segments: this.#segments.length };
  }

  close(): void {
    this.#stopWriting();
    this.#stopMerge();
    this.#stopCheck();
  }

  #step(isIdle: boolean): boolean {
    if (this.#goOnWriting() || this.#absorb()) return true;
    if ((isIdle || (this.#newest?.exchanges ?? 0) >= SEGMENT_EXCHANGES) && this.#closeNewest()) return true;
    return this.#goOnMerging() || this.#goOnChecking() || (isIdle && this.#goOnBackfilling());
  }

  /** Splits a piece of the waiting texts. @returns false if no texts wait */
  #absorb(): boolean {
    if (this.#newest?.goOn()) return true;
    const next = this.#queue[this.#queuedAt];
    if (next === undefined) return false;
    const newest = this.#newest;
    if (newest !== null) {
      const isNext = newest.last_id + 1 === next.id && !this.#boundaries.has(next.id);
      if (!isNext || newest.isFull) return this.#closeNewest();
    }
    this.#newest ??= new SegmentBuilder(next.id);
    this.#newest.add(next);
    this.#queuedChars -= next.chars;
    this.#queue[this.#queuedAt++] = undefined as never;
    if (this.#queuedAt === this.#queue.length) {
      this.#queue = [];
      this.#queuedAt = 0;
    }
    return true;
  }

  /** Starts writing the exchanges that are already split. @returns false if nothing is left */
  #closeNewest(): boolean {
    const newest = this.#newest;
    if (newest === null) return false;
    this.#newest = null;
    this.#beginWriting(newest);
    return true;
  }

  /** Starts writing the collected exchanges; from now on, none are added to them. */
  #beginWriting(builder: SegmentBuilder): void {
    const { first_id } = builder;
    for (const at of this.#boundaries) if (at <= first_id) this.#boundaries.delete(at);
    // If writing fails, its exchanges are read again.
    this.#isComplete = false;
    this.#writing = this.#write(builder);
  }

  /** Writes a portion of the segment that is being written. @returns false if none is being written */
  #goOnWriting(): boolean {
    const writing = this.#writing;
    if (writing === null) return false;
    try {
      if (writing.next().done === true) this.#writing = null;
    } catch (thrown) {
      this.#writing = null;
      throw thrown;
    }
    return true;
  }

  *#write(builder: SegmentBuilder): Generator<void> {
    const { first_id, last_id, cut, marks } = builder;
    const path = segmentPath(this.#db, first_id, last_id);
    mkdirSync(textIndexFolder(this.#db), { recursive: true, mode: 0o700 });
    const key = openDataKey(this.#dataKey);
    const writer = new SegmentWriter({ path, key, marks, cut, level: ZSTD_LEVEL, first_id, last_id });
    let isWhole = false;
    try {
      let words = 0;
      for (const { word, ids } of builder.words()) {
        writer.add(word, ids);
        if (++words % WORDS_AT_ONCE === 0) yield;
      }
      for (const run of builder.runs) writer.addRun(run);
      writer.finish();
      isWhole = true;
    } finally {
      if (!isWhole) writer.abandon();
    }
    this.#add({ path, first_id, last_id, bytes: writer.bytes, cut });
    this.#trim();
  }

  #add(segment: KeptSegment): void {
    this.#segments.push(segment);
    this.#segments.sort((a, b) => a.first_id - b.first_id);
  }

  /** Removes the oldest segments while the index is too large. The newest segment stays, whatever its size. */
  #trim(): void {
    const most = this.#mostBytes();
    let bytes = this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
    while (bytes > most && this.#segments.length > 1) {
      const [oldest] = this.#segments as [KeptSegment];
      this.#remove([oldest]);
      bytes -= oldest.bytes;
      this.#isTrimmed = true;
    }
  }

  #mostBytes(): number {
    return Math.max(LEAST_BYTES, this.#sources.bytes() * INDEX_SHARE);
  }

  #remove(gone: readonly KeptSegment[]): void {
    if (this.#merge?.sources.some((source) => gone.includes(source))) this.#stopMerge();
    if (this.#check !== null && gone.includes(this.#check.segment)) this.#stopCheck();
    removeSegments(this.#db, gone);
    this.#segments = this.#segments.filter((segment) => !gone.includes(segment));
    this.#unchecked = this.#unchecked.filter((segment) => !gone.includes(segment));
    this.#isComplete = false;
  }

  /** Reads the folder, and removes unusable files. */
  #load(): void {
    const { segments, covered } = listSegments(this.#db);
    removeSegments(this.#db, covered);
    const sources = this.#sources.list();
    const names = new Set(listNames(this.#db));
    this.#segments = [];
    for (const file of segments) {
      if (file.first_id <= (this.#segments.at(-1)?.last_id ?? 0)) {
        removeSegments(this.#db, [file]);
        continue;
      }
      const isThere = sources.some(
        ({ first_id, last_id }) => first_id <= file.first_id && last_id >= file.last_id,
      );
      const isMarked = names.has(damagePath(file.path).slice(textIndexFolder(this.#db).length + 1));
      const contents = isThere && !isMarked ? this.#readContents(file.path) : null;
      if (contents === null || !this.#isOfSource(contents)) removeSegments(this.#db, [file]);
      else this.#segments.push({ ...file, bytes: contents.bytes, cut: contents.cut });
    }
    this.#takenTo = Math.max(
      this.#queue.at(-1)?.id ?? 0,
      this.#newest?.last_id ?? 0,
      this.#segments.at(-1)?.last_id ?? 0,
    );
    this.#isComplete = false;
  }

  #readContents(path: string): (SegmentContents & { bytes: number }) | null {
    try {
      const reader = this.#openSegment(path);
      reader.close();
      return { ...reader.contents, bytes: reader.bytes };
    } catch (thrown) {
      if (thrown instanceof SegmentDamage) return null;
      throw thrown;
    }
  }

  #openSegment(path: string): SegmentReader {
    return SegmentReader.open(path, openDataKey(this.#dataKey), new BlockCache());
  }

  #isOfSource({ first_id, last_id, marks }: SegmentContents): boolean {
    return [[first_id, marks[0]] as const, [last_id, marks[1]] as const].every(([id, mark]) => {
      const is = mark === '' ? null : this.#sources.markOf(id);
      return is === null || is === mark;
    });
  }

  #goOnMerging(): boolean {
    if (this.#merge === null && !this.#beginMerge()) return false;
    const { work, sources } = this.#merge!;
    try {
      const next = work.next();
      if (next.done !== true) return true;
      const path = this.#merge!.path;
      const { first_id, last_id, cut } = next.value;
      const bytes = this.#readContents(path)?.bytes ?? 0;
      this.#stopMerge();
      this.#add({ path, first_id, last_id, bytes, cut });
      this.#remove(sources);
    } catch (thrown) {
      if (!(thrown instanceof SegmentDamage)) throw thrown;
      this.#stopMerge();
      // `#goOnChecking` finds which of the segments is damaged.
      this.#unchecked.push(...sources);
    }
    return true;
  }

  #beginMerge(): boolean {
    for (const { first_id, last_id } of this.#sources.list()) {
      const within = this.#segments.filter(
        (segment) => segment.first_id >= first_id && segment.last_id <= last_id,
      );
      const chosen = chooseMerge(within);
      if (chosen === null || chosen.some((segment) => this.#unchecked.includes(segment))) continue;
      const path = segmentPath(this.#db, chosen[0]!.first_id, chosen.at(-1)!.last_id);
      const readers: SegmentReader[] = [];
      try {
        for (const segment of chosen) readers.push(this.#openSegment(segment.path));
      } catch {
        for (const reader of readers) reader.close();
        this.#unchecked.push(...chosen);
        return true;
      }
      const work = mergeSegments(readers, { path, key: openDataKey(this.#dataKey), level: ZSTD_LEVEL });
      this.#merge = { path, sources: chosen, readers, work };
      return true;
    }
    return false;
  }

  /** Stops writing the segment. Its exchanges are read again later. */
  #stopWriting(): void {
    this.#writing?.return(undefined);
    this.#writing = null;
  }

  #stopMerge(): void {
    if (this.#merge === null) return;
    this.#merge.work.return(undefined as never);
    for (const reader of this.#merge.readers) reader.close();
    this.#merge = null;
  }

  /**
   * Checks a block of the segments that are to be checked: those of an earlier process, and those of a failed merge.
   * Removes a damaged segment.
   * @returns false if no segment is to be checked
   */
  #goOnChecking(): boolean {
    if (this.#check === null) {
      const segment = this.#unchecked.shift();
      if (segment === undefined) return false;
      try {
        const reader = this.#openSegment(segment.path);
        this.#check = { segment, reader, work: reader.check() };
      } catch {
        this.#remove([segment]);
      }
      return true;
    }
    const { work, segment } = this.#check;
    try {
      if (work.next().done === true) this.#stopCheck();
    } catch (thrown) {
      if (!(thrown instanceof SegmentDamage)) throw thrown;
      this.#remove([segment]);
    }
    return true;
  }

  #stopCheck(): void {
    this.#check?.reader.close();
    this.#check = null;
  }

  /** Reads an exchange that no segment covers. @returns false if segments cover all, or the index is too large */
  #goOnBackfilling(): boolean {
    if (this.#backfill === null && !this.#beginBackfill()) return false;
    const { builder, to, known } = this.#backfill!;
    if (builder.goOn()) return true;
    const id = builder.last_id + 1;
    const exchange = builder.isFull || id > to ? null : this.#sources.read(id);
    if (exchange === null) {
      this.#backfill = null;
      if (builder.exchanges === 0) this.#isComplete = true;
      else this.#beginWriting(builder);
      return true;
    }
    const { run_id, mark, entry, texts } = exchange;
    const run = runKey(run_id);
    builder.add({ run, mark, texts: texts === null ? [] : known.takeNew(run, entry, texts) });
    return true;
  }

  #beginBackfill(): boolean {
    if (this.#isComplete) return false;
    const gap = this.#findGap();
    if (gap === null) {
      this.#isComplete = true;
      return false;
    }
    const builder = new SegmentBuilder(Math.max(gap.first_id, gap.last_id - BACKFILL_EXCHANGES + 1));
    this.#backfill = { builder, to: gap.last_id, known: new KnownMessages() };
    return true;
  }

  /** Finds the latest uncovered exchanges of a readable file; null: all are covered, or the index is too large. */
  #findGap(): { first_id: number; last_id: number } | null {
    const bytes = this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
    if (bytes > this.#mostBytes() * (this.#isTrimmed ? BACKFILL_SHARE : 1)) return null;
    for (const source of this.#sources.list().reverse()) {
      if (!source.is_readable) continue;
      let to = source.last_id;
      for (let at = this.#segments.length - 1; at >= 0; at--) {
        const segment = this.#segments[at]!;
        if (segment.first_id > to) continue;
        if (segment.last_id < to) break;
        to = segment.first_id - 1;
      }
      if (to < source.first_id) continue;
      const before = this.#segments.findLast(({ last_id }) => last_id <= to);
      return { first_id: Math.max(source.first_id, (before?.last_id ?? 0) + 1), last_id: to };
    }
    return null;
  }
}
