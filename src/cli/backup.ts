/** `understudy backup` copies everything while the service runs; `understudy restore` puts a copy back. Main thread. */

import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadConfig } from '../config.ts';
import { countOf } from '../std/count-of.ts';
import { isThere } from '../std/file-place.ts';
import { type BackupProgress, writeBackup } from '../storage/backup.ts';
import { BackupError, type BackupManifest, type BackupSource } from '../storage/backup-manifest.ts';
import { isBucketPlace, readFolderAddress } from '../storage/bucket/bucket-place.ts';
import { StoreError } from '../storage/bucket/object-store.ts';
import { openStore } from '../storage/bucket/open-store.ts';
import { viewPath } from '../storage/lmdb/stores.ts';
import { listPoints } from '../storage/points/point.ts';
import {
  fetchFolder,
  isPointPlace,
  type PointChoice,
  restorePoint,
} from '../storage/points/point-restore.ts';
import { restoreBackup, undoRestore } from '../storage/restore.ts';
import { followBackup } from './backup-follow.ts';
import { type FlagValues, readFlags } from './flags.ts';
import type { GuardedEnd } from './guard.ts';
import { readInterval } from './interval.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/** Maximum values of --every and --keep. */
const EVERY_MAX_DAYS = 1;
const KEEP_MAX_DAYS = 3_650;

/** The warning on a box whose rows are in a shared database. The box itself has only a copy of the rows. */
const WORDS_OF_SHARED =
  'understudy: the rows of this box are in the PostgreSQL database of AUTH_DB_URL and are not copied here: back up ' +
  'that database with its tools, such as pg_dump\n';

export type BackupCommand = 'backup' | 'restore';

const FLAGS = {
  backup: { out: 'text', db: 'text', json: 'switch', follow: 'switch', every: 'text', keep: 'text' },
  restore: { from: 'text', to: 'text', captures: 'switch', list: 'switch', db: 'text', json: 'switch' },
} as const;

const HELP: Record<BackupCommand, string> = {
  backup: `Copies everything in DATA_DIR and the capture database into a new folder, each database as of one moment.
The process may run and write meanwhile. The copy contains secrets: keep it as safe as DATA_DIR.

Usage: understudy backup --out DIR [--db FILE] [--json]
       understudy backup --follow --out PLACE [--every TIME] [--keep TIME] [--db FILE] [--json]

  --out DIR      the new folder, which must not exist
  --follow       run until a signal comes: send changes to PLACE, and keep earlier points in time. PLACE is a
                 folder, or a bucket: s3://bucket/prefix?region=REGION or s3://bucket/prefix?endpoint=https://HOST
  --every TIME   with --follow, how often (default: 10s). If the machine is lost, you lose at most this time, and the time
                 that a point takes
  --keep TIME    with --follow, how long points in time are kept (default: 7d): all points of the last hour, one per minute
                 of the last day, one per hour before that
  --db FILE      capture database; default: DATA_DIR/capture.mdb
  --json         a report as JSON; with --follow, a line for each point

Examples:
  understudy backup --out backups/2026-03-01
  understudy backup --follow --out /mnt/other-disk/understudy
  understudy backup --follow --out 's3://bucket/understudy?region=eu-central-1'
`,
  restore: `Puts a backup into DATA_DIR, which must contain no databases, and checks every file by reading it.

Usage: understudy restore --from PLACE [--to TIME] [--captures] [--db FILE] [--json]
       understudy restore --from PLACE --list [--json]

  --from PLACE a folder that understudy backup made, or the folder or bucket of backup --follow
  --to TIME    the last point at or before this time (2026-03-01T12:00:00Z); default: the newest point. Only with a
               folder or bucket of backup --follow
  --captures   restore only captured exchanges, without accounts, keys and secrets, for a machine that only reads
               captures. Only with a folder or bucket of backup --follow
  --list       print the times of the points in a folder or bucket of backup --follow, and restore nothing
  --db FILE    path of the restored capture database; default: DATA_DIR/capture.mdb
  --json       a report as JSON

Examples:
  DATA_DIR=./restored understudy restore --from backups/2026-03-01
  DATA_DIR=./restored understudy restore --from /mnt/other-disk/understudy --to 2026-03-01T12:00:00Z
`,
};

/** Runs `understudy backup` or one of its related commands. @returns the exit status */
export async function runBackup(command: BackupCommand, argv: string[], io: CliIo): Promise<number> {
  const values: Values = readFlags(argv, FLAGS[command]);
  if (values.help) {
    await io.out(HELP[command]);
    return EXIT.done;
  }
  const folder = command === 'backup' ? values.out : values.from;
  if (folder === undefined || folder === '')
    throw new UsageError(`name the folder with --${command === 'backup' ? 'out' : 'from'}`);
  if (command === 'backup' && !values.follow && isBucketPlace(folder))
    throw new UsageError('--out with a bucket requires --follow');
  if (!values.follow && (values.every !== undefined || values.keep !== undefined))
    throw new UsageError('--every and --keep require --follow');
  const config = loadConfig({ listener: 'gateway', db: values.db });
  if (command === 'backup' && values.db !== undefined && !isThere(config.capture.db)) {
    io.err(
      `understudy: there is no capture database ${makeHarmlessLine(config.capture.db)}; name another with --db\n`,
    );
    return EXIT.failed;
  }
  const places = {
    data_dir: config.data_dir,
    capture_db: config.capture.db,
    data_key: config.data_key,
  };
  if (command === 'backup' && isThere(viewPath(config.data_dir))) io.err(WORDS_OF_SHARED);
  try {
    if (command === 'backup' && values.follow) {
      await followBackup(
        places,
        { ...readFollowTimes(values), place: folder, json: values.json === true },
        io,
      );
      return EXIT.done;
    }
    if (values.list) await listTimes(folder, values.json === true, io);
    else await copyOnce(command, folder, values, places, io);
    return EXIT.done;
  } catch (thrown) {
    if (!(thrown instanceof BackupError || thrown instanceof StoreError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

type Values = FlagValues<typeof FLAGS.backup & typeof FLAGS.restore>;

/** Reads `--every` and `--keep`. @throws UsageError */
function readFollowTimes({ every = '10s', keep = '7d' }: Values): { every_ms: number; keep_ms: number } {
  return {
    every_ms: readInterval('--every', every, EVERY_MAX_DAYS),
    keep_ms: readInterval('--keep', keep, KEEP_MAX_DAYS),
  };
}

/** Reads `--to` as milliseconds since the epoch; null without it. @throws UsageError */
function readTo({ to }: Values): number | null {
  if (to === undefined) return null;
  const ms = Date.parse(to);
  if (Number.isNaN(ms) || !/^\d{4}-\d{2}-\d{2}/.test(to))
    throw new UsageError(
      `--to ${makeHarmlessLine(to)}: must be a time like 2026-01-31 or 2026-01-31T12:00:00Z`,
    );
  return ms;
}

/** Prints the times to which a restore can go back, the oldest first. @throws BackupError, StoreError */
async function listTimes(place: string, isJson: boolean, io: CliIo): Promise<void> {
  if (!isPointPlace(place))
    throw new BackupError(`${place} is not a place of backup --follow, so it has no points in time`);
  const store = await openStore(place);
  try {
    const times = (await listPoints(store)).map(({ at_ms }) => new Date(at_ms).toISOString());
    await io.out(isJson ? `${JSON.stringify(times)}\n` : times.map((time) => `${time}\n`).join(''));
  } finally {
    store.close();
  }
}

/** Makes a complete backup, or a restore. @throws BackupError, StoreError, UsageError */
async function copyOnce(
  command: BackupCommand,
  folder: string,
  values: Values,
  places: BackupSource,
  io: CliIo,
): Promise<void> {
  const shown = new Progress(io, Date.now);
  const progress = (name: string, done: number, of: number) =>
    shown.announce(`${done + 1} of ${of}: ${name}`);
  try {
    const choice = { to_ms: readTo(values), only_captures: values.captures === true };
    const { manifest, more } =
      command === 'backup'
        ? {
            manifest: await writeBackup(places, resolve(readFolderAddress(folder)), progress, Date.now()),
            more: '',
          }
        : isPointPlace(folder)
          ? await restoreFromPlace(folder, places, choice, progress)
          : await restorePlain(folder, places, choice, progress);
    shown.clear();
    await io.out(
      values.json
        ? `${JSON.stringify(manifest, null, 2)}\n`
        : `${describe(command, manifest, folder)}${more}`,
    );
  } finally {
    shown.clear();
  }
}

async function restorePlain(
  folder: string,
  places: BackupSource,
  { to_ms, only_captures }: PointChoice,
  progress: BackupProgress,
): Promise<{ manifest: BackupManifest; more: string }> {
  if (to_ms !== null || only_captures)
    throw new BackupError(`${folder} is not a place of backup --follow: leave out --to and --captures`);
  return { manifest: await restoreBackup(resolve(readFolderAddress(folder)), places, progress), more: '' };
}

async function restoreFromPlace(
  place: string,
  places: BackupSource,
  choice: PointChoice,
  progress: BackupProgress,
): Promise<{ manifest: BackupManifest; more: string }> {
  const store = await openStore(place);
  try {
    const { manifest, point, lost_blocks } = await restorePoint(store, places, choice, progress);
    const lost =
      lost_blocks === 0
        ? ''
        : `, except ${countOf(lost_blocks, 'block')} of captured exchanges, which could not be read`;
    const what = choice.only_captures ? 'everything captured' : 'everything acknowledged';
    return { manifest, more: `The restored data has ${what} before ${point.from}${lost}.\n` };
  } finally {
    store.close();
  }
}

/**
 * Returns what the parent process says and does when a signal ends a restore. It removes the files that the restore has
 * placed so far.
 */
export function endRestore(argv: string[]): GuardedEnd & { what: string | undefined } {
  const { from, db }: FlagValues<typeof FLAGS.restore> = readFlags(argv, FLAGS.restore);
  const { data_dir, capture } = loadConfig({ listener: 'gateway', db });
  return {
    what: from === undefined ? undefined : makeHarmlessLine(from),
    interrupted: 'nothing was restored',
    advice: 'Restore an earlier backup',
    undo: async () => {
      await undoRestore({ data_dir, capture_db: capture.db });
      rmSync(fetchFolder(data_dir), { recursive: true, force: true });
    },
  };
}

function describe(command: BackupCommand, { files }: BackupManifest, folder: string): string {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const rows = files.flatMap((file) => Object.values(file.rows ?? {})).reduce((sum, count) => sum + count, 0);
  const verb = command === 'backup' ? 'Copied' : 'Restored and checked';
  return `${verb} ${countOf(files.length, 'file')}, ${countOf(rows, 'row')}, ${(bytes / 1e6).toFixed(1)} MB: ${folder}\n`;
}
