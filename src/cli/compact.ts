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

const HELP = `Writes main.mdb and runs.mdb in DATA_DIR anew and empties the redo logs. A database keeps the bytes of deleted content in free
pages; the new files have none.

With --captures it gives unused space of the capture database back instead, also while the gateway runs: it seals the live
file if an eighth of it is unused, and writes such sealed files anew, one after the other, which takes as much room as the
largest of them. The bytes of erased exchanges are gone before (understudy erase overwrites them).

Without --captures the service must be stopped. Each file is written beside the old one, which takes as much room again, and then takes its
place: whatever ends the command, all content is there, in the old file or in the new one. What the old file held stays on
the disk until the system overwrites it, as with every file that is removed. Backups are yours to remove.

The service overwrites deleted content itself when it is idle for some seconds. Its start writes a file anew that still holds
deleted content, up to 256 MiB.

Usage: understudy compact [--captures] [--db FILE]

  --captures   the capture database alone
  --db FILE    capture database, for --captures; DATA_DIR/capture.mdb when not given

Examples:
  understudy compact
  understudy compact --captures
`;

/** @returns the exit status */
export async function runCompact(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { captures: 'switch', db: 'text' });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  if (values.db !== undefined && values.captures !== true) throw new UsageError('--db is for --captures');
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
