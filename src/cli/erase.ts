/**
 * `understudy erase`: removes captured exchanges from every file for good. Main thread, in a separate process
 * (guard.ts).
 */

import { existsSync, readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { readCaptureOwner } from '../auth/owner.ts';
import { type Config, loadConfig } from '../config.ts';
import { decodeExchange } from '../providers/decode.ts';
import { countOf } from '../std/count-of.ts';
import { speaksOfCaptures } from '../storage/accounts/capture-owner.ts';
import { TableAccounts } from '../storage/accounts/table-accounts.ts';
import { ErasureError, type ErasureReport, type ErasureTarget, eraseCaptured } from '../storage/erasure.ts';
import { databasePaths, openMain } from '../storage/lmdb/stores.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Erases captured exchanges from the capture database: from the live file, the sealed files, the full-text index, and the
attachments that no other exchange has. Their bytes are overwritten in each of these files.

The gateway may run meanwhile. In that case, the gateway does the erasure. The erasure covers the exchanges that are
stored when the command begins. An erasure that has begun is always finished: after a kill, the next start of the
gateway or the next erase finishes it. The id and the time of an erased exchange stay, and the ids of other exchanges
do not change. A later request that repeats the erased words is a separate exchange: erase its run too. For runs and
traces of the API use DELETE. You have to remove backups yourself.

Usage: understudy erase (--run ID | --before TIME | --credential FILE) [--dry-run] [--db FILE]

  --run ID            the exchanges of a run and of its child runs, by its label or the id that inspect shows (conv_12),
                      with their marks (understudy runs mark)
  --before TIME       exchanges that began before: 2026-01-31 or 2026-01-31T12:00:00Z
  --credential FILE   exchanges that contain the credential in the first line of the file; - reads standard input
  --dry-run           only print the number of exchanges that would be erased
  --db FILE           capture database; default: DATA_DIR/capture.mdb

Examples:
  understudy erase --run invoice-4711
  understudy erase --before 2026-01-01 --dry-run
  pass show old-key | understudy erase --credential -
`;

/** Longest credential that is searched for. */
const CREDENTIAL_CHARACTERS = 8_192;
/** Minimum length of a credential. A shorter text would match everywhere. */
const CREDENTIAL_CHARACTERS_MIN = 8;

/** Runs `understudy erase`. @returns the exit status */
export async function runErase(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, {
    run: 'text',
    before: 'text',
    credential: 'text',
    'dry-run': 'switch',
    db: 'text',
  });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const named = [values.run, values.before, values.credential].filter((value) => value !== undefined);
  if (named.length !== 1)
    throw new UsageError('name what to erase with one of --run, --before and --credential');
  const target = await readTarget(values);
  const config = loadConfig({ listener: 'gateway', db: values.db });
  if (config.capture.read_from !== null && values.db === undefined)
    throw new UsageError(
      'CAPTURE_READ_URL is set, so these captures belong to other machines: run the command on the gateway that captured them',
    );
  const is_dry = values['dry-run'] === true;
  const progress = new Progress(io, Date.now);
  try {
    const report = await eraseCaptured(
      {
        data_dir: config.data_dir,
        capture_db: config.capture.db,
        data_key: config.data_key,
        decode: decodeExchange,
        target,
        is_dry,
      },
      (name, done, of) => progress.tell(name, done, of),
    );
    progress.clear();
    if (!is_dry) await eraseMarks(config, report.run_ids);
    await io.out(describe(report, is_dry));
    return EXIT.done;
  } catch (thrown) {
    progress.clear();
    if (!(thrown instanceof ErasureError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

/** Erases the marks of the erased runs in the organizations whose marks count for captures. */
async function eraseMarks(config: Config, runIds: readonly string[]): Promise<void> {
  const paths = databasePaths(config.data_dir, config.data_key);
  if (runIds.length === 0 || !existsSync(paths.main)) return;
  const main = openMain(paths);
  try {
    const owner = readCaptureOwner(config);
    await new TableAccounts(main).transact((tx) =>
      tx.marks.removeErased(runIds, (org_id) => speaksOfCaptures(tx, owner, org_id)),
    );
  } finally {
    await main.close();
  }
}

/** Reads the flags that say what is erased. @throws UsageError */
async function readTarget(values: {
  readonly run?: string;
  readonly before?: string;
  readonly credential?: string;
}): Promise<ErasureTarget> {
  if (values.run !== undefined) {
    if (values.run === '') throw new UsageError('--run takes the id of a run');
    return { run_id: values.run };
  }
  if (values.before !== undefined) {
    const before_ms = Date.parse(values.before);
    if (Number.isNaN(before_ms) || !/^\d{4}-\d{2}-\d{2}/.test(values.before))
      throw new UsageError(
        `--before ${makeHarmlessLine(values.before)}: must be a time like 2026-01-31 or 2026-01-31T12:00:00Z`,
      );
    return { before_ms };
  }
  const credential = (await readCredential(values.credential!)).split(/\r?\n/)[0]!;
  if (credential.length < CREDENTIAL_CHARACTERS_MIN || credential.length > CREDENTIAL_CHARACTERS)
    throw new UsageError(
      `--credential: the first line must have ${CREDENTIAL_CHARACTERS_MIN} to ${CREDENTIAL_CHARACTERS} characters`,
    );
  return { credential };
}

/** Reads a credential from a file, or from standard input for `-`. @throws UsageError */
async function readCredential(file: string): Promise<string> {
  try {
    return file === '-' ? await text(process.stdin) : readFileSync(file, 'utf8');
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    throw new UsageError(`--credential ${makeHarmlessLine(file)} cannot be read: ${code}`);
  }
}

function describe(report: ErasureReport, isDry: boolean): string {
  const { exchanges, files, attachments, unreadable, set_aside } = report;
  const done = isDry
    ? `${countOf(exchanges, 'exchange')} would be erased.\n`
    : exchanges === 0
      ? 'There is nothing to erase.\n'
      : `Erased ${countOf(exchanges, 'exchange')} and ${countOf(attachments, 'attachment')}; ${countOf(files, 'file')} changed.\n`;
  const lost =
    unreadable === 0
      ? ''
      : `${countOf(unreadable, 'exchange')} could not be read. They may belong to the selection, and were not erased.\n`;
  const aside = set_aside.map(
    (path) =>
      `${makeHarmlessLine(path)} was set aside as damaged and may contain exchanges of the selection: remove it yourself.\n`,
  );
  return done + lost + aside.join('');
}
