/** `understudy compact`: rewrites the databases of DATA_DIR without the bytes of deleted content. Main thread. */

import { basename } from 'node:path';
import { loadConfig } from '../config.ts';
import { CompactionError, compactData } from '../storage/compaction.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Writes main.mdb and runs.mdb in DATA_DIR anew and empties the redo logs. A database keeps the bytes of deleted content in free
pages; the new files have none. Captured exchanges are in separate files: see understudy erase.

The service must be stopped. Each file is written beside the old one, which takes as much room again, and then takes its
place: whatever ends the command, all content is there, in the old file or in the new one. What the old file held stays on
the disk until the system overwrites it, as with every file that is removed. Backups are yours to remove.

The service overwrites deleted content itself when it is idle for some seconds. Its start writes a file anew that still holds
deleted content, up to 256 MiB.

Usage: understudy compact

Example:
  understudy compact
`;

/** @returns the exit status */
export async function runCompact(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, {});
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const { data_dir, data_key } = loadConfig({ listener: 'gateway' });
  const progress = new Progress(io, Date.now);
  try {
    const done = await compactData({ data_dir, data_key }, (path) => progress.tell(path, 0, 0));
    progress.clear();
    for (const { path, before_bytes, after_bytes } of done)
      await io.out(`${basename(path)}: ${megabytes(before_bytes)} before, ${megabytes(after_bytes)} now.\n`);
    return EXIT.done;
  } catch (thrown) {
    progress.clear();
    if (!(thrown instanceof CompactionError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
