/** `understudy rekey`: rewrites all stored data under another data key. Main thread. */

import { resolve } from 'node:path';
import { loadConfig } from '../config.ts';
import { decodeExchange } from '../providers/decode.ts';
import { countOf } from '../std/count-of.ts';
import { DataKey } from '../std/data-key.ts';
import { readKeyFile } from '../std/key-file.ts';
import { RewriteError, rekeyCaptures } from '../storage/ordered-rewrite.ts';
import { RekeyError, type RekeyReport, rekeyData } from '../storage/rekey.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Encrypts everything in DATA_DIR and the capture database with another key. DATA_KEY_FILE names the present key; unset: the
data is not encrypted.

The service must be stopped, because its threads have main.mdb and runs.mdb open and write to them with one key. The new
files are written beside the old ones, which needs the same space again, and then replace them all at once. If the command
is killed, nothing is lost, and the next start or rekey undoes or finishes the change. The old files' content stays on the
disk until it is overwritten, as after every removal of a file. Backups keep the key with which they were made, so keep
that key as long as the backups. Files that were written elsewhere (trace --out, a student) do not change.

With --captures, captured exchanges get the new key while the gateway runs, one file after the other. The service still uses
the old key. Then stop the service and run the command without --captures. The second run changes the rest, which takes
seconds if captures are most of the data. Until then both keys open the captures, and DATA_KEY_FILE still names the old
key.

Usage: understudy rekey --to FILE [--captures] [--db FILE]

  --to FILE    the new key: 32 random bytes, raw, in hex or in base64, in a file that others cannot read; none: the data is
               not encrypted any more
  --captures   only captured exchanges, even while the gateway runs; only from one key to another
  --db FILE    capture database; default: DATA_DIR/capture.mdb

Examples:
  (umask 077; openssl rand -base64 32 > new.key)
  understudy rekey --to new.key                             # encrypt data that is not encrypted
  DATA_KEY_FILE=old.key understudy rekey --to new.key       # change the key
  DATA_KEY_FILE=old.key understudy rekey --to none          # decrypt it
  DATA_KEY_FILE=old.key understudy rekey --to new.key --captures
`;

/** Runs `understudy rekey`. @returns the exit status */
export async function runRekey(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { to: 'text', captures: 'switch', db: 'text' });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  if (values.to === undefined || values.to === '')
    throw new UsageError('name the file of the new key with --to FILE, or write --to none');
  const config = loadConfig({ listener: 'gateway', db: values.db });
  const to = readNewKey(values.to);
  if (sameKey(config.data_key, to))
    throw new UsageError(
      to === null
        ? 'the data is not encrypted (DATA_KEY_FILE is not set): --to none changes nothing'
        : 'the key of --to is the present key (DATA_KEY_FILE): name another file',
    );
  const progress = new Progress(io, Date.now);
  try {
    if (values.captures === true) {
      const { data_dir, data_key } = config;
      const options = { data_dir, capture_db: config.capture.db, data_key, decode: decodeExchange, to };
      const { after_bytes } = await rekeyCaptures(options, (name, done, of) => progress.tell(name, done, of));
      progress.clear();
      await io.out(describeCaptures(after_bytes, data_key, to, values.to));
      return EXIT.done;
    }
    const report = await rekeyData(
      {
        data_dir: config.data_dir,
        capture_db: config.capture.db,
        from: config.data_key,
        to,
        decode: decodeExchange,
      },
      (name, done, of) => progress.tell(name, done, of),
    );
    progress.clear();
    await io.out(describe(report, to, values.to));
    return EXIT.done;
  } catch (thrown) {
    progress.clear();
    if (!(thrown instanceof RekeyError || thrown instanceof RewriteError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

/** Reads the new key; null for `none`. @throws UsageError */
function readNewKey(file: string): Uint8Array | null {
  if (file === 'none') return null;
  try {
    return readKeyFile(resolve(file));
  } catch (thrown) {
    throw new UsageError(`--to ${makeHarmlessLine(file)}: ${(thrown as Error).message}`);
  }
}

function sameKey(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === null || b === null) return a === b;
  return Buffer.compare(a, b) === 0;
}

function describe(
  { files, bytes, damaged, was_finished }: RekeyReport,
  to: Uint8Array | null,
  file: string,
): string {
  const now = to === null ? 'Nothing is encrypted now' : `Encrypted under key ${new DataKey(to).id}`;
  const next =
    to === null
      ? 'Start without DATA_KEY_FILE.'
      : `Start with DATA_KEY_FILE=${makeHarmlessLine(resolve(file))} from now on.`;
  if (was_finished) return `${now}: an earlier change had been interrupted, and is finished now. ${next}\n`;
  const lost =
    damaged === 0 ? '' : `${countOf(damaged, 'value')} could not be read before, and cannot be read now.\n`;
  return `${now}: ${countOf(files, 'file')}, ${(bytes / 1e6).toFixed(1)} MB. ${next}\n${lost}`;
}

function describeCaptures(
  bytes: number,
  from: Uint8Array | null,
  to: Uint8Array | null,
  file: string,
): string {
  const name = makeHarmlessLine(resolve(file));
  return (
    `The captures (${(bytes / 1e6).toFixed(1)} MB) are encrypted under key ${new DataKey(to!).id} now. ` +
    `The rest is still under key ${new DataKey(from!).id}: leave DATA_KEY_FILE as it is until you have stopped the service ` +
    `and run understudy rekey --to ${name}.\n`
  );
}
