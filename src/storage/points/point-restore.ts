/**
 * `understudy restore --from PLACE --to TIME`: makes a backup from a restore point, and restores that backup
 * (../restore.ts) with all checks. Command line.
 */
import {
  closeSync,
  existsSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { openDataKey } from '../../std/data-key.ts';
import { isThere, namePlace } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import type { BackupProgress } from '../backup.ts';
import { countRows, digestFile } from '../backup-copy.ts';
import {
  BACKUP_FORMAT,
  BackupError,
  type BackupManifest,
  type BackupSource,
  CAPTURE,
  DATABASES,
  type FileEntry,
  MANIFEST,
} from '../backup-manifest.ts';
import { isBucketPlace, readFolderAddress } from '../bucket/bucket-place.ts';
import type { ObjectStore } from '../bucket/object-store.ts';
import { SealedObjects } from '../bucket/sealed-objects.ts';
import { repackAll } from '../capture/repacking.ts';
import { restoreBackup } from '../restore.ts';
import { readMarker } from '../restore-marker.ts';
import { DamagedPieceError, readPiece } from './page-layer.ts';
import { PageTable } from './page-table.ts';
import { ABOUT, ATTACHMENTS, listPoints, type Point, type PointFile, readAbout, readPoint } from './point.ts';

interface RestoredPoint {
  manifest: BackupManifest;
  point: Point;
  /** Number of blocks of captured exchanges that the point lacks. */
  lost_blocks: number;
}

/** Returns the folder in which the files of a point are assembled. */
export function fetchFolder(dataDir: string): string {
  return `${dataDir.replace(/[/\\]+$/, '')}.fetched`;
}

/** The kinds of files for a machine that only reads captures: no accounts and no secrets. */
const CAPTURE_KINDS: ReadonlySet<PointFile['kind']> = new Set([
  'capture',
  'sealed',
  'keys',
  'raw',
  'attachments',
]);

export interface PointChoice {
  /** The newest point at or before this time; null: the newest one. */
  to_ms: number | null;
  /** Whether only captured exchanges are restored. */
  only_captures: boolean;
}

/**
 * Restores a point. First removes the remains of an earlier restore.
 * @throws BackupError if there is no such point, it is damaged, or the destination contains data; StoreError; a file
 *   system error
 */
export async function restorePoint(
  store: ObjectStore,
  into: BackupSource,
  { to_ms, only_captures }: PointChoice,
  progress: BackupProgress,
): Promise<RestoredPoint> {
  const key = openDataKey(into.data_key ?? null);
  const about = await readAbout(store);
  if (about === null) throw new BackupError(`${store.name} has no points, and is no backup`);
  if (about.key !== (key?.id ?? null))
    throw new BackupError(
      about.key === null
        ? `the points in ${store.name} are not encrypted: leave out DATA_KEY_FILE`
        : `the points in ${store.name} need their data key (DATA_KEY_FILE)`,
    );
  refuseOccupied(into);
  const objects = new SealedObjects(key);
  const whole = await findPoint(store, objects, to_ms);
  const point = only_captures
    ? { ...whole, files: whole.files.filter(({ kind }) => CAPTURE_KINDS.has(kind)) }
    : whole;
  if (point.files.length === 0) throw new BackupError(`${store.name} has no captures`);
  const folder = fetchFolder(into.data_dir);
  rmSync(folder, { recursive: true, force: true });
  makeFolder(folder, 0o700);
  try {
    const fetch = new PointFetch(store, objects, folder);
    const { files, lost_blocks } = await fetch.run(point, into.data_key ?? null, progress);
    const manifest = { format: BACKUP_FORMAT, created_at: point.at, files } satisfies BackupManifest;
    writeFileSync(join(folder, MANIFEST), JSON.stringify(manifest), { mode: 0o600 });
    return { manifest: await restoreBackup(folder, into, progress), point, lost_blocks };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Refuses a destination with a database before anything is fetched, unless an unfinished restore left the database.
 * Later, `restoreBackup` checks every file and removes an unfinished restore.
 */
function refuseOccupied(into: BackupSource): void {
  const present = [...DATABASES.map((name) => join(into.data_dir, name)), into.capture_db].find(isThere);
  if (present !== undefined && readMarker(into) === null)
    throw new BackupError(
      `${present} exists already, and a restore replaces no files: choose a new DATA_DIR, ` +
        'or another --db if the file belongs to the capture database',
    );
}

async function findPoint(store: ObjectStore, objects: SealedObjects, toMs: number | null): Promise<Point> {
  const points = await listPoints(store);
  const found = points.findLast(({ at_ms }) => toMs === null || at_ms <= toMs);
  if (found === undefined) {
    const oldest = points[0];
    if (oldest === undefined) throw new BackupError(`${store.name} has no complete point yet`);
    const since = new Date(oldest.at_ms).toISOString();
    throw new BackupError(`${store.name} has no point at or before that time; the oldest is of ${since}`);
  }
  const point = await readPoint(store, objects, found.name);
  if (point === null) throw new BackupError(`${found.name} was removed just now: try again`);
  return point;
}

/** Assembles the files of a point as a backup. */
class PointFetch {
  readonly #store: ObjectStore;
  readonly #objects: SealedObjects;
  readonly #folder: string;

  constructor(store: ObjectStore, objects: SealedObjects, folder: string) {
    this.#store = store;
    this.#objects = objects;
    this.#folder = folder;
  }

  /**
   * Fetches the files, packs the raw files into the databases, and describes the files for a manifest.
   * @throws BackupError, StoreError; a file system error
   */
  async run(
    { files }: Point,
    dataKey: Uint8Array | null,
    progress: BackupProgress,
  ): Promise<{ files: FileEntry[]; lost_blocks: number }> {
    for (const [at, file] of files.entries()) {
      progress(file.name, at, files.length);
      await this.#fetchFile(file);
    }
    const lost_blocks = await this.#packRaw(files, dataKey);
    const entries: FileEntry[] = [];
    for (const { name, kind } of files) {
      if (kind === 'raw') continue;
      if (kind === 'attachments') {
        entries.push(...(await this.#fetchAttachments()));
        continue;
      }
      const path = join(this.#folder, name);
      const isDatabase = kind === 'database' || kind === 'capture';
      const rows = isDatabase ? { rows: await countRows(path) } : {};
      entries.push({ name, kind, bytes: statSync(path).size, ...rows, sha256: digestFile(path) });
    }
    return { files: entries, lost_blocks };
  }

  #placeOf({ name, kind }: PointFile): string {
    return join(this.#folder, kind === 'raw' ? name.replace(/^raw/, `${CAPTURE}.raw`) : name);
  }

  async #fetchFile(file: PointFile): Promise<void> {
    const path = this.#placeOf(file);
    makeFolder(dirname(path), 0o700);
    const opened = openSync(path, 'wx+', 0o600);
    try {
      for (const { name, pieces } of file.layers)
        for (let piece = 0; piece < pieces; piece++) await this.#applyPiece(`${name}/${piece}`, opened, file);
      ftruncateSync(opened, file.bytes);
      if (digestPages(opened, file) !== file.digest)
        throw new BackupError(`${file.name} in ${this.#store.name} is damaged`);
    } catch (thrown) {
      throw namePlace(thrown, path);
    } finally {
      closeSync(opened);
    }
  }

  async #applyPiece(name: string, file: number, { bytes: end, page_bytes }: PointFile): Promise<void> {
    const bytes = await this.#store.get(name);
    if (bytes === null) throw new BackupError(`${name} is missing in ${this.#store.name}`);
    const zeros = Buffer.alloc(page_bytes);
    try {
      readPiece(this.#objects.open(name, bytes), page_bytes, (page, content) => {
        // Earlier layers may have pages of a file that became shorter.
        if (page * page_bytes < end) writeAll(file, content ?? zeros, page * page_bytes);
      });
    } catch (thrown) {
      if (!(thrown instanceof DamagedPieceError)) throw thrown;
      throw new BackupError(`${name} in ${this.#store.name} is damaged`);
    }
  }

  /** Packs blocks from raw files into the databases, because backups contain no raw files. */
  async #packRaw(files: readonly PointFile[], dataKey: Uint8Array | null): Promise<number> {
    if (!files.some(({ kind }) => kind === 'raw')) return 0;
    const raw = join(this.#folder, `${CAPTURE}.raw`);
    let lost = 0;
    for (const { name, kind } of files) {
      if (kind !== 'capture' && kind !== 'sealed') continue;
      const path = join(this.#folder, name);
      lost += await repackAll(path, raw, undefined, dataKey);
      rmSync(`${path}-lock`, { force: true });
    }
    rmSync(raw, { recursive: true, force: true });
    return lost;
  }

  async #fetchAttachments(): Promise<FileEntry[]> {
    const list = join(this.#folder, ATTACHMENTS);
    const names = readNames(list);
    rmSync(list);
    makeFolder(list, 0o700);
    const entries: FileEntry[] = [];
    for (const attachment of names) {
      const name = `${ATTACHMENTS}/${attachment}`;
      const bytes = await this.#store.get(name);
      if (bytes === null) throw new BackupError(`${name} is missing in ${this.#store.name}`);
      const path = join(this.#folder, name);
      writeFileSync(path, this.#objects.open(name, bytes), { mode: 0o600 });
      entries.push({ name, kind: 'attachment', bytes: statSync(path).size, sha256: digestFile(path) });
    }
    return entries;
  }
}

function readNames(list: string): string[] {
  const file = openSync(list, 'r');
  try {
    const names: string[] = [];
    const digest = Buffer.alloc(32);
    for (let at = 0; readSync(file, digest, 0, digest.length, at) === digest.length; at += digest.length)
      names.push(digest.toString('hex'));
    return names;
  } finally {
    closeSync(file);
  }
}

function digestPages(file: number, { bytes, page_bytes }: PointFile): string {
  const table = new PageTable(page_bytes, Math.ceil(bytes / page_bytes));
  const page = Buffer.alloc(page_bytes);
  for (let at = 0; at < bytes; at += page_bytes) {
    const read = readSync(file, page, 0, page_bytes, at);
    table.note(at / page_bytes, page.subarray(0, read));
  }
  return table.digest(bytes);
}

function writeAll(file: number, bytes: Buffer, at: number): void {
  for (let done = 0; done < bytes.length; )
    done += writeSync(file, bytes, done, bytes.length - done, at + done);
}

/**
 * Whether the place has restore points of `backup --follow`, and not a plain backup. True for every bucket, because
 * plain backups are only in folders. False for a folder that cannot be read.
 * @throws StoreError for a `file:` address that names no folder
 */
export function isPointPlace(place: string): boolean {
  return isBucketPlace(place) || existsSync(join(readFolderAddress(place), ABOUT));
}
