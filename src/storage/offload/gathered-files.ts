/**
 * Presents the captures that were gathered from a bucket as one database: the files of all gateways in the order in
 * which they were fetched, with local ids. A run that a client named is one run, even if several gateways captured it.
 * If a gateway named a run after its first exchange, the run gets a name here with the local id of that exchange. If
 * the exchange was never fetched, the name consists of the gateway's name for the run and the gateway. Capture reader;
 * synchronous, read-only.
 *
 * Memory: 200 bytes for each file, and up to OPEN_CAPTURE_FILES readers with bounded caches.
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { CaptureReaderSource } from '../../domain/captured-run.ts';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import { listAttachmentNames, readCaptureKeys } from '../capture/capture-keys.ts';
import { OPEN_CAPTURE_FILES } from '../capture/followed-files.ts';
import { foundRunId, readFoundRun } from '../capture/found-run.ts';
import { attachmentsFolder, CaptureFileError, sealedPath } from '../capture/layout.ts';
import type { NewestExchange } from '../capture/newest-exchanges.ts';
import { CaptureReader } from '../capture/reader.ts';
import { type ExchangeSummary, isErased } from '../capture/record.ts';
import type { StoredCopy } from '../capture/stored-copy.ts';
import type { RunMoves } from '../capture/summary-table.ts';
import { type GatheredGateway, gatheredDb, readRegistry, registryPath } from './gathered-registry.ts';

/** A file, and its local ids. */
interface GatheredPart {
  gateway: string;
  path: string;
  first_id: number;
  last_id: number;
  /** The difference between an exchange's local id and its id at the gateway. */
  shift: number;
  /** When its last exchange ended. */
  to_ms: number;
}

/** The fields of a record that contain ids of exchanges and names of runs. */
type Named = Pick<ExchangeRecord, 'id' | 'run_id' | 'session_id' | 'parent_run_id' | 'follows'>;

export class GatheredFiles {
  readonly #folder: string;
  readonly #dataKey: Uint8Array | null;
  #registryMark = '';
  #parts: GatheredPart[] = [];
  #gateways: GatheredGateway[] = [];
  /** For each part: when the last exchange of this part and the parts before it ended. */
  #ended: number[] = [];
  readonly #open = new Map<string, { reader: CaptureReader; inode: bigint | null }>();
  #changes = 0;
  #erasures = 0;
  #epoch = 0;

  /** @param folder where captures are gathered */
  constructor(folder: string, { data_key }: { data_key: Uint8Array | null }) {
    this.#folder = folder;
    this.#dataKey = data_key;
  }

  /** Grows when the files change. Iterations must then start again. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Grows when files were replaced or removed. Cached results must then be read again. */
  get erasures(): number {
    return this.#erasures;
  }

  /** Always 0, because files are gathered with complete indexes. */
  get unlisted(): number {
    return 0;
  }

  newestUnlisted(): NewestExchange[] {
    return [];
  }

  get last_stored_id(): number {
    return this.#parts.at(-1)?.last_id ?? 0;
  }

  get first_id(): number {
    return this.#parts[0]?.first_id ?? 1;
  }

  get ranges(): { first_id: number; last_id: number }[] {
    return this.#parts.map(({ first_id, last_id }) => ({ first_id, last_id }));
  }

  /** The files of the gateways, in the order of local ids. */
  get parts(): readonly GatheredPart[] {
    return this.#parts;
  }

  /** The gateways, and up to when their captures were fetched. */
  get sources(): Omit<CaptureReaderSource['gateways'][number], 'failure'>[] {
    return this.#gateways.map(({ gateway, sent_at, files }) => {
      const newest = files.reduce((latest, { to_ms }) => Math.max(latest, to_ms), Number.NEGATIVE_INFINITY);
      return {
        gateway,
        sent_at,
        newest_at: files.length === 0 ? null : new Date(newest).toISOString(),
        exchanges: files.reduce((sum, { first_id, last_id }) => sum + last_id - first_id + 1, 0),
      };
    });
  }

  /**
   * Finds out which files exist now.
   * @returns the last local id; 0 if no exchange was gathered
   * @throws Error if the list of files cannot be read
   */
  refresh(): number {
    const mark = markOf(registryPath(this.#folder));
    if (mark !== this.#registryMark) {
      this.#registryMark = mark;
      this.#load();
    }
    for (const [path, { reader, inode }] of this.#open) {
      if (inodeOf(path) === inode) continue;
      this.#open.delete(path);
      void reader.close();
    }
    return this.last_stored_id;
  }

  #load(): void {
    const registry = readRegistry(this.#folder);
    this.#gateways = registry?.gateways ?? [];
    this.#parts = this.#gateways
      .flatMap(({ gateway, files }) =>
        files.map(({ first_id, last_id, at, to_ms }) => ({
          gateway,
          path: sealedPath(gatheredDb(this.#folder, gateway), first_id, last_id, false),
          first_id: at,
          last_id: at + last_id - first_id,
          shift: at - first_id,
          to_ms,
        })),
      )
      .sort((a, b) => a.first_id - b.first_id);
    let ended = Number.NEGATIVE_INFINITY;
    this.#ended = this.#parts.map(({ to_ms }) => {
      ended = Math.max(ended, to_ms);
      return ended;
    });
    const changes = registry?.changes ?? 0;
    if (changes !== this.#changes) this.#erasures += 1;
    this.#changes = changes;
    this.#epoch += 1;
  }

  /**
   * Returns a time by which all exchanges with lower ids had ended, in milliseconds since the epoch: the latest end in
   * the file of `id` and the files before it. −Infinity if there are no files. Needed because ids are not in the order
   * of time.
   */
  endedBefore(id: number): number {
    const behind = this.#parts.findIndex(({ last_id }) => last_id >= id);
    const last = behind < 0 ? this.#parts.length - 1 : behind;
    return this.#ended[last] ?? Number.NEGATIVE_INFINITY;
  }

  /**
   * Yields records without headers by ascending id. Leaves out damaged and erased exchanges, and files that were removed
   * after the last `refresh`. @throws CaptureFileError
   */
  *summaries({
    run_id,
    from_id = 1,
  }: {
    run_id?: string;
    from_id?: number;
  } = {}): Generator<ExchangeSummary> {
    for (const part of this.#parts) {
      if (part.last_id < from_id) continue;
      const name = run_id === undefined ? undefined : this.#ownName(part, run_id);
      if (name === null) continue;
      let reader: CaptureReader;
      try {
        reader = this.#read(part);
      } catch (thrown) {
        // The file was removed after the last `refresh`.
        if (thrown instanceof CaptureFileError && thrown.code === 'missing') continue;
        throw thrown;
      }
      const from = Math.max(1, from_id - part.shift);
      for (const summary of reader.summaries({
        ...(name === undefined ? {} : { run_id: name }),
        from_id: from,
      }))
        if (!isErased(summary)) yield this.#show(part, summary);
    }
  }

  /** Always empty, because the runs of turns in a sealed file do not change any more. */
  movesAfter(): RunMoves {
    return { moves: [], forgotten_to: 0 };
  }

  /**
   * Reads a record. @returns undefined if it does not exist or is damaged
   * @throws CaptureFileError `remote` if the bucket cannot be read now
   */
  exchange(id: number): ExchangeRecord | undefined {
    return skipDamage(() => this.record(id));
  }

  copy(id: number): StoredCopy | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : skipDamage(() => this.#read(part).copy(id - part.shift));
  }

  /** Reads a record. @returns undefined if it does not exist @throws CaptureFileError also if it is damaged */
  record(id: number): ExchangeRecord | undefined {
    const part = this.#partOf(id);
    const record = part === undefined ? undefined : this.#read(part).exchange(id - part.shift);
    return record === undefined ? undefined : this.#show(part!, record);
  }

  body(id: number, side: 'request' | 'response'): Uint8Array | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#read(part).body(id - part.shift, side);
  }

  /** Whether the attachment with that SHA-256 is on this machine. */
  hasFile(sha256: string): boolean {
    return this.#gateways.some(({ gateway }) => {
      const db = gatheredDb(this.#folder, gateway);
      const keys = readCaptureKeys(db, this.#dataKey);
      return listAttachmentNames(sha256, keys).some((name) => existsSync(join(attachmentsFolder(db), name)));
    });
  }

  close(): void {
    for (const { reader } of this.#open.values()) void reader.close();
    this.#open.clear();
    this.#registryMark = '';
    this.#parts = [];
    this.#gateways = [];
    this.#ended = [];
    this.#epoch += 1;
  }

  /**
   * Returns the name that a gateway uses for a run; null: the run is of another gateway. A name from a client is the
   * same at every gateway, so it is returned even if this gateway has no such run.
   */
  #ownName({ gateway }: GatheredPart, runId: string): string | null {
    const named = readFoundRun(runId);
    if (named === null) {
      const other = NAMED_BY.exec(runId);
      if (other === null) return runId;
      return other[2] === gateway ? other[1]! : null;
    }
    const part = this.#partOf(named) ?? this.#gonePartOf(named);
    return part?.gateway === gateway ? foundRunId(named - part.shift) : null;
  }

  #shownName(part: GatheredPart, runId: string): string {
    const named = readFoundRun(runId);
    if (named === null) return runId;
    const id = this.#shownId(part, named);
    return id === null ? `${runId}_${part.gateway}` : foundRunId(id);
  }

  /** Returns the local id of an exchange; null if its file was never fetched. */
  #shownId({ gateway, shift, first_id, last_id }: GatheredPart, id: number): number | null {
    // Most names and links refer to exchanges in the same file.
    if (id + shift >= first_id && id + shift <= last_id) return id + shift;
    const source = this.#gateways.find((known) => known.gateway === gateway);
    for (const file of [...(source?.files ?? []), ...(source?.gone ?? [])])
      if (id >= file.first_id && id <= file.last_id) return id - file.first_id + file.at;
    return null;
  }

  #show<Shown extends Named>(part: GatheredPart, record: Shown): Shown {
    const { id, run_id, session_id, parent_run_id, follows, ...rest } = record;
    const shown: Named = {
      id: id + part.shift,
      run_id: run_id === null ? null : this.#shownName(part, run_id),
    };
    if (session_id !== undefined) shown.session_id = this.#shownName(part, session_id);
    if (parent_run_id !== undefined) shown.parent_run_id = this.#shownName(part, parent_run_id);
    const before = follows === undefined ? null : this.#shownId(part, follows);
    if (before !== null) shown.follows = before;
    return { ...rest, ...shown } as Shown;
  }

  #partOf(id: number): GatheredPart | undefined {
    return this.#parts.find(({ first_id, last_id }) => id >= first_id && id <= last_id);
  }

  #gonePartOf(id: number): Pick<GatheredPart, 'gateway' | 'shift'> | undefined {
    for (const { gateway, gone } of this.#gateways)
      for (const { first_id, last_id, at } of gone)
        if (id >= at && id <= at + last_id - first_id) return { gateway, shift: at - first_id };
    return undefined;
  }

  #read({ path }: GatheredPart): CaptureReader {
    let open = this.#open.get(path);
    if (open === undefined) {
      if (this.#open.size >= OPEN_CAPTURE_FILES) {
        const [oldestPath, oldest] = this.#open.entries().next().value!;
        this.#open.delete(oldestPath);
        void oldest.reader.close();
      }
      const reader = CaptureReader.open(path, { data_key: this.#dataKey, skipped: () => {} });
      open = { reader, inode: inodeOf(path) };
    } else this.#open.delete(path);
    this.#open.set(path, open);
    return open.reader;
  }
}

/** The name of a run that is named after an exchange whose file was never fetched. */
const NAMED_BY = /^(conv_\d+)_([a-z0-9.-]+)$/;

function skipDamage<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    // An exchange in a bucket exists even if it cannot be read now, so it is not reported as missing.
    if (error instanceof CaptureFileError && error.code !== 'remote') return undefined;
    throw error;
  }
}

/** Computes a text that is different after the file was replaced. */
function markOf(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? 'missing' : `${stat.ino} ${stat.mtimeNs}`;
}

function inodeOf(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}
