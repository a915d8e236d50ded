/** `understudy compact`: rewrites databases without the bytes of deleted content, or without unused space. Main thread. */

import { basename } from 'node:path';
import { loadConfig } from '../config.ts';
import { decodeExchange } from '../providers/decode.ts';
import { CompactionError, compactData } from '../storage/compaction.ts';
import { compactCaptures, RewriteError } from '../storage/ordered-rewrite.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Rewrites main.mdb and runs.mdb in DATA_DIR and empties the redo logs. A database keeps the bytes of deleted content in free
pages; the new files have none.

With --captures it frees unused space of the capture database instead. The gateway may run meanwhile. It seals the live
file if an eighth of it is unused. One after the other, it rewrites sealed files of which an eighth is unused, which needs
as much space as the largest of them. Erased exchanges do not need this (understudy erase overwrites their bytes).

Without --captures the service must be stopped. Each new file is written beside the old one, which needs the same space
again, and then replaces it. So the content is complete, in the old or the new file, even if the command is killed. The
old file's content stays on the disk until the system overwrites it, as after every removal of a file. You have to remove
backups yourself.

The service itself overwrites deleted content when idle for some seconds. When the service starts, it rewrites a file of up
to 256 MiB that still contains deleted content.

Usage: understudy compact [--captures] [--db FILE]

  --captures   only the capture database
  --db FILE    capture database, for --captures; default: DATA_DIR/capture.mdb

Examples:
  understudy compact
  understudy compact --captures
`;

/** Runs `understudy compact`. @returns the exit status */
export async function runCompact(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { captures: 'switch', db: 'text' });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  if (values.db !== undefined && values.captures !== true) throw new UsageError('--db requires --captures');
  const { data_dir, data_key, capture } = loadConfig({ listener: 'gateway', db: values.db });
  const progress = new Progress(io, Date.now);
  try {
    if (values.captures === true) {
      const options = { data_dir, data_key, capture_db: capture.db, decode: decodeExchange };
      const report = await compactCaptures(options, (path) => progress.tell(path, 0, 0));
      progress.clear();
      const { before_bytes, after_bytes } = report;
      await io.out(`Captures: ${megabytes(before_bytes)} before, ${megabytes(after_bytes)} now.\n`);
      return EXIT.done;
    }
    const done = await compactData({ data_dir, data_key }, (path) => progress.tell(path, 0, 0));
    progress.clear();
    for (const { path, before_bytes, after_bytes } of done)
      await io.out(`${basename(path)}: ${megabytes(before_bytes)} before, ${megabytes(after_bytes)} now.\n`);
    return EXIT.done;
  } catch (thrown) {
    progress.clear();
    if (!(thrown instanceof CompactionError || thrown instanceof RewriteError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
