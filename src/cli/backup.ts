/** `understudy backup` and `restore`: copies everything while the process runs, and puts a copy back. Main thread. */

import { resolve } from 'node:path';
import { loadConfig } from '../config.ts';
import { countOf } from '../std/count-of.ts';
import { isThere } from '../std/file-place.ts';
import { writeBackup } from '../storage/backup.ts';
import { BackupError, type BackupManifest } from '../storage/backup-manifest.ts';
import { restoreBackup, undoRestore } from '../storage/restore.ts';
import { type FlagValues, readFlags } from './flags.ts';
import type { GuardedEnd } from './guard.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

export type BackupCommand = 'backup' | 'restore';

const FLAGS = {
  backup: { out: 'text', db: 'text', json: 'switch' },
  restore: { from: 'text', db: 'text', json: 'switch' },
} as const;

const HELP: Record<BackupCommand, string> = {
  backup: `Copies everything in DATA_DIR and the capture database into a new folder, each database as of one moment.
The process may run and write meanwhile. The copy holds secrets: keep it as safe as DATA_DIR.

Usage: understudy backup --out DIR [--db FILE] [--json]

  --out DIR    the folder to make; must not be there
  --db FILE    capture database; DATA_DIR/capture.mdb when not given
  --json       what was copied, as JSON

Example:
  understudy backup --out backups/2026-03-01
`,
  restore: `Puts a backup into DATA_DIR, which must hold no databases, and checks every file by reading it.

Usage: understudy restore --from DIR [--db FILE] [--json]

  --from DIR   a folder that understudy backup made
  --db FILE    where the capture database goes; DATA_DIR/capture.mdb when not given
  --json       what was restored, as JSON

Example:
  DATA_DIR=./restored understudy restore --from backups/2026-03-01
`,
};

/** @returns the exit status */
export async function runBackup(command: BackupCommand, argv: string[], io: CliIo): Promise<number> {
  const values: FlagValues<typeof FLAGS.backup & typeof FLAGS.restore> = readFlags(argv, FLAGS[command]);
  if (values.help) {
    await io.out(HELP[command]);
    return EXIT.done;
  }
  const folder = command === 'backup' ? values.out : values.from;
  if (folder === undefined || folder === '')
    throw new UsageError(`name the folder with --${command === 'backup' ? 'out' : 'from'}`);
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
  const shown = new Progress(io, Date.now);
  const progress = (name: string, done: number, of: number) =>
    shown.announce(`${done + 1} of ${of}: ${name}`);
  try {
    const manifest =
      command === 'backup'
        ? await writeBackup(places, resolve(folder), progress, Date.now())
        : await restoreBackup(resolve(folder), places, progress);
    shown.clear();
    await io.out(
      values.json ? `${JSON.stringify(manifest, null, 2)}\n` : describe(command, manifest, folder),
    );
    return EXIT.done;
  } catch (thrown) {
    shown.clear();
    if (!(thrown instanceof BackupError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

/** When a signal ends a restore, the parent process removes the files placed so far. */
export function endRestore(argv: string[]): GuardedEnd & { what: string | undefined } {
  const { from, db }: FlagValues<typeof FLAGS.restore> = readFlags(argv, FLAGS.restore);
  const { data_dir, capture } = loadConfig({ listener: 'gateway', db });
  return {
    what: from === undefined ? undefined : makeHarmlessLine(from),
    interrupted: 'nothing was restored',
    advice: 'Restore an earlier backup',
    undo: () => undoRestore({ data_dir, capture_db: capture.db }),
  };
}

function describe(command: BackupCommand, { files }: BackupManifest, folder: string): string {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const rows = files.flatMap((file) => Object.values(file.rows ?? {})).reduce((sum, count) => sum + count, 0);
  const verb = command === 'backup' ? 'Copied' : 'Restored and checked';
  return `${verb} ${countOf(files.length, 'file')}, ${countOf(rows, 'row')}, ${(bytes / 1e6).toFixed(1)} MB: ${folder}\n`;
}
