/**
 * `understudy runs`: records a person's judgement of a captured run. The mark is kept in DATA_DIR/main.mdb; the service
 * may run meanwhile. Main thread of the command line.
 */
import { resolve } from 'node:path';
import { loadConfig } from '../config.ts';
import type { RunMark } from '../domain/run-mark.ts';
import { markRun } from '../storage/accounts/run-marks.ts';
import { databasePaths, openMain } from '../storage/lmdb/stores.ts';
import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { OPERATOR } from './keys.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Says how a captured run went. A mark overrules what Understudy found out about that: a run marked bad is never golden;
of one marked good, failed calls, an unfinished end, a reported failure and monitors do not count. It stays not golden
where its copy is incomplete or was read wrongly.

Usage: understudy runs mark RUN good|bad|clear [--db FILE] [--json]

  RUN          id of the run, as understudy inspect shows it; clear takes its mark away
  --db FILE    capture database; DATA_DIR/capture.mdb when not given. The mark is kept in DATA_DIR
  --json       the mark, as JSON

Examples:
  understudy runs mark checkout-fix-17 bad
  understudy inspect --not-golden --json | jq -r '.runs[].run_id' | xargs -I{} understudy runs mark {} good
`;

const MARKS: Readonly<Record<string, RunMark | null>> = { good: 'good', bad: 'bad', clear: null };

/** @returns the exit status */
export async function runRuns(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, { db: 'text', json: 'switch' });
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action, runId, word, ...more] = words;
  if (action !== 'mark') throw new UsageError('name the action: mark');
  if (runId === undefined || word === undefined || !Object.hasOwn(MARKS, word))
    throw new UsageError('name the run and how it went: understudy runs mark RUN good|bad|clear');
  refuseWords(more);
  const { capture, data_dir, data_key, operators } = loadConfig({ listener: 'gateway', db: values.db });
  if (!(await isCaptured(resolve(capture.db), runId, data_key))) {
    io.err(
      `understudy: the database has no run ${formatJson(runId, 0)}.\nWhich runs it has: understudy inspect\n`,
    );
    return EXIT.failed;
  }
  const main = openMain(databasePaths(data_dir, data_key));
  try {
    const about = { run_id: runId, mark: MARKS[word]!, org_id: operators.org ?? '' };
    const row = await main.transact((tx) => markRun(tx, OPERATOR, Date.now(), about));
    const { mark = null, marked_at = null } = row ?? {};
    const told = mark === null ? 'has no mark' : `is marked ${mark}`;
    await io.out(
      values.json === true
        ? `${formatJson({ run_id: runId, mark, marked_at }, 2)}\n`
        : `${makeHarmlessLine(runId)} ${told}\n`,
    );
    return EXIT.done;
  } finally {
    await main.close();
  }
}

async function isCaptured(db: string, runId: string, data_key: Uint8Array | null): Promise<boolean> {
  const { CaptureFiles } = await import('../captures/capture-files.ts');
  const files = await CaptureFiles.open(db, { data_key });
  try {
    for (const _ of files.summaries({ run_id: runId })) return true;
    return false;
  } finally {
    await files.close();
  }
}
