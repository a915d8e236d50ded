/**
 * `understudy backup --follow`: sends the changes since the last restore point to a place, and then a point that refers
 * to them. Command line.
 * A point is sent after all objects to which it refers. So after a kill at any moment, all points are complete. Objects
 * without a point may be left, which pruning removes.
 */
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type DataKey, openDataKey } from '../../std/data-key.ts';
import { isThere } from '../../std/file-place.ts';
import { BackupError, type BackupSource, CAPTURE_KEYS, DATABASES, isBackupName } from '../backup-manifest.ts';
import type { ObjectStore } from '../bucket/object-store.ts';
import { SealedObjects } from '../bucket/sealed-objects.ts';
import { keysPath } from '../capture/capture-keys.ts';
import { hasOrder } from '../capture/erase-order.ts';
import { attachmentsFolder, listSealed } from '../capture/layout.ts';
import { databasePaths, findRedoLogs } from '../lmdb/stores.ts';
import { describePlan, planPath } from '../plan-file.ts';
import { refuseHalfRestored } from '../restore-marker.ts';
import { readSourceId } from '../source-id.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from '../writer-claim.ts';
import { Blobs } from './blobs.ts';
import { closeAll, type OpenedFile, openCaptures } from './capture-pages.ts';
import { addLayer, type LayeredFile } from './layered-file.ts';
import { memoryPages, openDatabasePages, openPlainPages } from './page-source.ts';
import {
  ABOUT,
  type About,
  ATTACHMENTS,
  compactTime,
  PLACE_FORMAT,
  type Point,
  type PointFile,
  pointName,
  readAbout,
} from './point.ts';
import { writePointNote } from './point-note.ts';
import { PointPruning, writeRemoval } from './point-pruning.ts';
import { Spool } from './spool.ts';

/** The result of a pass. */
interface PassResult {
  /** Everything that was acknowledged before this time is in the place. */
  from_ms: number;
  /** The name of the new point; null: nothing changed since the last one. */
  point: string | null;
  /** Bytes that were sent for databases and other files that change. */
  bytes: number;
}

/** A point that is to be sent. */
interface PendingPoint {
  point: Point;
  files: Map<string, LayeredFile>;
  from_ms: number;
  at_ms: number;
}

/** Kinds of files for which a later layer may contain all changes since the first layer. */
const KEEPS_BASE: ReadonlySet<PointFile['kind']> = new Set(['database', 'capture']);

export class Follower {
  readonly #source: BackupSource;
  readonly #store: ObjectStore;
  readonly #objects: SealedObjects;
  readonly #blobs: Blobs;
  readonly #pruning: PointPruning;
  readonly #spool: Spool;
  readonly #claim: WriterClaim;
  readonly #lineage: string;
  #files = new Map<string, LayeredFile>();
  #layers = 0;
  /** The point that waits to be sent. All of its objects are in the spool or in the place. null: no point waits. */
  #pending: PendingPoint | null = null;
  #lastAtMs = 0;
  /** The files of the last point as text. If they have not changed, no new point is needed. */
  #lastFiles = '';
  /** When the current pass opened its read transactions; null: none are open. */
  #readingSinceMs: number | null = null;

  /**
   * Claims the place for this DATA_DIR.
   * @param keepMs how long points are kept
   * @throws BackupError if the place belongs to another DATA_DIR or data key, or another process already sends points
   *   to the place; StoreError; a file system error
   */
  static async open(
    source: BackupSource,
    store: ObjectStore,
    keepMs: number,
    nowMs: number,
  ): Promise<Follower> {
    if (!isThere(source.data_dir))
      throw new BackupError(
        `there is no folder ${source.data_dir}: set DATA_DIR to the folder of the service`,
      );
    const key = openDataKey(source.data_key ?? null);
    const folder = spoolFolder(source.data_dir, store.name);
    const claim = await claimPlace(folder);
    try {
      await takePlace(source.data_dir, store, key);
      const lineage = `${compactTime(nowMs)}-${randomBytes(4).toString('hex')}`;
      return new Follower(source, store, new SealedObjects(key), keepMs, new Spool(folder), claim, lineage);
    } catch (thrown) {
      await claim.release();
      throw thrown;
    }
  }

  private constructor(
    source: BackupSource,
    store: ObjectStore,
    objects: SealedObjects,
    keepMs: number,
    spool: Spool,
    claim: WriterClaim,
    lineage: string,
  ) {
    this.#source = source;
    this.#store = store;
    this.#objects = objects;
    this.#blobs = new Blobs(store, objects);
    this.#pruning = new PointPruning(store, objects, keepMs);
    this.#spool = spool;
    this.#claim = claim;
    this.#lineage = lineage;
  }

  /**
   * Makes and sends a point with the changes; sends nothing if the files are those of the last point. If sending fails,
   * the next call sends the rest of the same point, without changes since then.
   * @param now the wall clock
   * @throws BackupError, StoreError; a file system or LMDB error; the reason of the signal
   */
  async pass(now: () => number, stop: AbortSignal): Promise<PassResult> {
    if (this.#pending === null) {
      try {
        this.#pending = await this.#collect(now, stop);
      } catch (thrown) {
        this.#spool.clear();
        throw thrown;
      }
    }
    const { point, files, from_ms, at_ms } = this.#pending;
    const described = JSON.stringify(point.files);
    const isNew = described !== this.#lastFiles;
    let bytes = 0;
    const name = pointName(at_ms, this.#lineage);
    if (isNew) {
      bytes = await this.#spool.send(this.#store, stop);
      await this.#store.put(name, this.#objects.seal(name, Buffer.from(JSON.stringify(point))));
    }
    this.#pending = null;
    this.#files = files;
    this.#lastFiles = described;
    writePointNote(this.#source.data_dir, { place: this.#store.name, from_ms });
    return { from_ms, point: isNew ? name : null, bytes };
  }

  /** Milliseconds since the current pass opened its read transactions; 0: none are open. */
  get reading_ms(): number {
    return this.#readingSinceMs === null ? 0 : performance.now() - this.#readingSinceMs;
  }

  /** Removes points that are too old or too close together, and objects to which no point refers. @throws StoreError */
  async prune(nowMs: number): Promise<void> {
    const removed = await this.#pruning.run(nowMs, (attachment) => this.#blobs.isListed(attachment));
    this.#blobs.forgetAttachments(removed);
  }

  async close(): Promise<void> {
    this.#spool.remove();
    await this.#claim.release();
  }

  /** Reads all data once, in the same order as a backup: each redo log before its database. */
  async #collect(now: () => number, stop: AbortSignal): Promise<PendingPoint> {
    const { data_dir, capture_db, data_key = null } = this.#source;
    for (const path of [join(data_dir, DATABASES[0]), capture_db]) refuseHalfRestored(path);
    if (existsSync(planPath(data_dir))) throw new BackupError(describePlan(data_dir));
    if (hasOrder(capture_db))
      throw new BackupError(`${capture_db}: exchanges are being erased; the next point is made afterwards`);
    const fromMs = now();
    const files = new Map<string, LayeredFile>();
    const entries: PointFile[] = [];
    const add = async ({ name, kind, source }: OpenedFile): Promise<void> => {
      stop.throwIfAborted();
      const layered = await this.#addLayer({ name, kind, source });
      files.set(name, layered);
      entries.push(layered.entry);
    };
    for (const path of findRedoLogs(databasePaths(data_dir)))
      await closing(openPlainPages(path, fromMs), (source) =>
        add({ name: basename(path), kind: 'redo', source }),
      );
    for (const name of DATABASES) {
      const path = join(data_dir, name);
      if (!isThere(path)) continue;
      await this.#reading(() =>
        closing(openDatabasePages(path, data_key), (source) => add({ name, kind: 'database', source })),
      );
    }
    const hasCaptures = isThere(capture_db) || listSealed(capture_db).length > 0;
    let atMs = 0;
    const sealed = await this.#reading(async () => {
      const captures = hasCaptures
        ? await openCaptures(capture_db, data_key, fromMs)
        : { changing: [], sealed: [] };
      // The point contains no later data, except attachments and secrets to which no row of the point refers.
      atMs = Math.max(now(), this.#lastAtMs + 1);
      this.#lastAtMs = atMs;
      await addOpened(captures.changing, add);
      return captures.sealed;
    });
    if (entries.length === 0 && sealed.length === 0)
      throw new BackupError(`${data_dir} holds nothing to copy: set DATA_DIR to the folder of the service`);
    const { list, gone } = await this.#blobs.addAttachments(attachmentsFolder(capture_db), stop);
    await writeRemoval(this.#store, this.#objects, atMs, this.#lineage, gone);
    this.#blobs.noteGone(gone);
    if (list.length > 0) await add({ name: ATTACHMENTS, kind: 'attachments', source: memoryPages(list) });
    const constant = [
      ...sealed.map((file) => ({ ...file, kind: 'sealed' as const })),
      // Read after the databases, so that every file to which they refer exists.
      ...[keysPath(capture_db)]
        .filter(isThere)
        .map((path) => ({ name: CAPTURE_KEYS, kind: 'keys' as const, path })),
      ...findSecrets(data_dir),
    ];
    entries.push(...(await this.#blobs.addFiles(constant, fromMs, stop)));
    const point: Point = {
      format: PLACE_FORMAT,
      from: new Date(fromMs).toISOString(),
      at: new Date(atMs).toISOString(),
      files: entries,
    };
    return { point, files, from_ms: fromMs, at_ms: atMs };
  }

  /** Runs a read, and records for how long its read transactions are open. */
  async #reading<Value>(read: () => Promise<Value>): Promise<Value> {
    this.#readingSinceMs = performance.now();
    try {
      return await read();
    } finally {
      this.#readingSinceMs = null;
    }
  }

  #addLayer({ name, kind, source }: OpenedFile): Promise<LayeredFile> {
    const layer = `layers/${this.#lineage}/${String(this.#layers++).padStart(8, '0')}`;
    const put = async (piece: string, bytes: Uint8Array): Promise<void> =>
      this.#spool.add(piece, this.#objects.seal(piece, bytes));
    const known = this.#files.get(name) ?? null;
    return addLayer(known, source, { name, kind }, { layer, put }, KEEPS_BASE.has(kind));
  }
}

/**
 * Adds files and closes each as soon as possible, because LMDB cannot reuse freed pages while a read transaction is
 * open.
 */
async function addOpened(
  files: readonly OpenedFile[],
  add: (file: OpenedFile) => Promise<void>,
): Promise<void> {
  const open = [...files];
  try {
    for (let file = open[0]; file !== undefined; file = open[0]) {
      await add(file);
      open.shift();
      await file.source.close();
    }
  } finally {
    await closeAll(open);
  }
}

async function closing<Source extends { close(): Promise<void> }>(
  source: Source,
  use: (source: Source) => Promise<void>,
): Promise<void> {
  try {
    await use(source);
  } finally {
    await source.close();
  }
}

/**
 * Returns the folder of the spool. There is one for each place, because the points of a DATA_DIR may be sent to several
 * places.
 */
function spoolFolder(dataDir: string, place: string): string {
  return join(dataDir, `backup-follow.${createHash('sha256').update(place).digest('hex').slice(0, 16)}`);
}

async function claimPlace(folder: string): Promise<WriterClaim> {
  try {
    return await claimWriter(folder, { patience_ms: 0 });
  } catch (thrown) {
    if (!(thrown instanceof WriterClaimedError)) throw thrown;
    throw new BackupError(
      `${thrown.holder} follows to this place already: stop that process, or name another place`,
    );
  }
}

/**
 * Records in an empty place that it belongs to this DATA_DIR and data key, or checks that it does.
 * @throws BackupError if the place belongs to another DATA_DIR or key; StoreError
 */
async function takePlace(dataDir: string, store: ObjectStore, key: DataKey | null): Promise<void> {
  const own: About = { format: PLACE_FORMAT, source: readSourceId(dataDir), key: key?.id ?? null };
  const about = await readAbout(store);
  if (about === null) await store.put(ABOUT, Buffer.from(JSON.stringify(own)));
  else if (about.source !== own.source)
    throw new BackupError(`${store.name} has the points of another DATA_DIR: name another place`);
  else if (about.key !== own.key)
    throw new BackupError(`${store.name} has points under another data key: name another place`);
}

function findSecrets(dataDir: string): { name: string; kind: 'secret'; path: string }[] {
  const folder = join(dataDir, 'secrets');
  if (!isThere(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((entry) => ({ name: `secrets/${entry}`, kind: 'secret' as const, path: join(folder, entry) }))
    .filter(({ name }) => isBackupName('secret', name));
}
