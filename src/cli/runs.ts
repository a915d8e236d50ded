/**
 * `understudy runs`: stores a person's marks of a run in DATA_DIR/main.mdb; the service may run meanwhile.
 * Main thread of the command line.
 */
import { loadConfig } from '../config.ts';
import { maskSecrets } from '../domain/patterns/text.ts';
import {
  cleanTags,
  RUN_NOTE_CHARACTERS,
  RUN_TAGS,
  type RunMark,
  type RunMarkChange,
  type RunMarks,
  readMarks,
  TAG_PATTERN,
} from '../domain/run-mark.ts';
import { TableAccounts } from '../storage/accounts/table-accounts.ts';
import { databasePaths, openMain } from '../storage/lmdb/stores.ts';
import { type FlagKinds, type FlagValues, readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { OPERATOR } from './keys.ts';
import { findMarkedRun } from './marked-run.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Says how a run went: good or bad, tags, a note, a feedback score. A mark overrules Understudy's own verdict: a run marked
bad is never golden; for a run marked good, failed calls, an unfinished end, a reported failure and monitors do not count.
A marked run is still not golden if its copy is incomplete or was misread.

Usage: understudy runs mark RUN [good|bad|clear] [--tag TAG]… [--untag TAG]… [--note TEXT] [--score N] [--db FILE] [--json]

  RUN          id of the run, as understudy inspect shows it; clear removes the mark good or bad
  --tag TAG    adds a tag, at most ${RUN_TAGS.count} of ${RUN_TAGS.characters} characters each
  --untag TAG  removes a tag
  --note TEXT  a note, which replaces the earlier one; empty removes it
  --score N    feedback, from 0 to 1; none removes it
  --db FILE    capture database; default: DATA_DIR/capture.mdb. Marks are stored in DATA_DIR
  --json       all marks of the run, as JSON

Examples:
  understudy runs mark checkout-fix-17 bad --tag regression --note "deleted the wrong file"
  understudy inspect tag:regression
  understudy inspect --not-golden --json | jq -r '.runs[].run_id' | xargs -I{} understudy runs mark {} good
`;

const MARK_WORDS: Readonly<Record<string, RunMark | null>> = { good: 'good', bad: 'bad', clear: null };
const FLAGS = {
  tag: 'list',
  untag: 'list',
  note: 'text',
  score: 'text',
  db: 'text',
  json: 'switch',
} as const satisfies FlagKinds;

/** Runs `understudy runs`. @returns the exit status */
export async function runRuns(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, FLAGS);
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action, runId, ...more] = words;
  if (action !== 'mark') throw new UsageError('name the action: mark');
  if (runId === undefined) throw new UsageError('name the run: understudy runs mark RUN good|bad|clear');
  const change = readChange(values, more);
  const config = loadConfig({ listener: 'gateway', db: values.db });
  const run = await findMarkedRun(config, runId);
  if (run === null) {
    io.err(
      `understudy: the database has no run ${formatJson(runId, 0)}.\nTo list its runs: understudy inspect\n`,
    );
    return EXIT.failed;
  }
  const main = openMain(databasePaths(config.data_dir, config.data_key));
  try {
    const about = { ...run, log_org: run.org_id };
    const row = await new TableAccounts(main).transact((tx) =>
      tx.marks.change(OPERATOR, Date.now(), about, change),
    );
    const { marked_at = null } = row ?? {};
    const marks = readMarks(row ?? undefined);
    await io.out(
      values.json === true
        ? `${formatJson({ run_id: runId, ...marks, marked_at }, 2)}\n`
        : `${makeHarmlessLine(runId)} ${tellMarks(marks)}\n`,
    );
    return EXIT.done;
  } catch (thrown) {
    if (thrown instanceof RangeError) throw new UsageError(thrown.message);
    throw thrown;
  } finally {
    await main.close();
  }
}

/** Reads the change of a run's marks from the command line. @throws UsageError */
function readChange(values: FlagValues<typeof FLAGS>, words: readonly string[]): RunMarkChange {
  const [word, ...more] = words;
  if (word !== undefined && !Object.hasOwn(MARK_WORDS, word))
    throw new UsageError(`the mark must be good, bad or clear, not ${makeHarmlessLine(word)}`);
  refuseWords(more);
  const { tag, untag, note, score } = values;
  if (word === undefined && [tag, untag, note, score].every((value) => value === undefined))
    throw new UsageError('name a change: good, bad, clear, --tag, --untag, --note or --score');
  if (note !== undefined && note.length > RUN_NOTE_CHARACTERS)
    throw new UsageError(`--note: at most ${RUN_NOTE_CHARACTERS} characters`);
  return {
    mark: word === undefined ? undefined : MARK_WORDS[word]!,
    add_tags: readTags('--tag', tag),
    remove_tags: readTags('--untag', untag),
    note: note === undefined ? undefined : maskSecrets(note),
    feedback_score: readScore(score),
  };
}

function readTags(flag: string, text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  const tags = cleanTags(text.split(','));
  const unfit = tags.find((tag) => tag.length > RUN_TAGS.characters || !TAG_PATTERN.test(tag));
  if (unfit !== undefined)
    throw new UsageError(`${flag}: a tag has at most ${RUN_TAGS.characters} characters, all of them visible`);
  return tags.map(maskSecrets);
}

function readScore(text: string | undefined): number | null | undefined {
  if (text === undefined) return undefined;
  if (text === 'none') return null;
  const score = Number(text);
  if (text.trim() === '' || !(score >= 0 && score <= 1))
    throw new UsageError('--score: must be a number from 0 to 1, or none');
  return score;
}

function tellMarks({ mark, tags, note, feedback_score }: RunMarks): string {
  const told = [
    mark === null ? 'has no mark' : `is marked ${mark}`,
    ...(tags.length === 0 ? [] : [`tags: ${tags.map(makeHarmlessLine).join(', ')}`]),
    ...(note === '' ? [] : [`note: ${makeHarmlessLine(note)}`]),
    ...(feedback_score === null ? [] : [`score: ${feedback_score}`]),
  ];
  return told.join('; ');
}
