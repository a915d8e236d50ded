/**
 * `understudy relegation explain`: why the student did or did not serve a captured step. The same page as `inspect
 * --step`, for operators of relegation. Main thread of the command line; reads only.
 */

import { readFlagsAndWords } from './flags.ts';
import { runInspect } from './inspect.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';

const HELP = `Explains what relegation decided about a captured step.

Usage: understudy relegation explain EXCHANGE [--db FILE] [--dir DIR] [--json]

  --db FILE    capture database; default: DATA_DIR/capture.mdb
  --dir DIR    the student's directory; default: SVC_DISTILL_DIR
  --json       as JSON

It shows the decision and the version that made it; the student's rule that decides now, its score and threshold; the
nearest golden step, and what is new compared with golden steps; and the upstream's and the student's answers, if both are
known. It asks the version that decided, or the serving one if that version is not kept. understudy inspect lists runs, and
understudy inspect --run ID the exchanges of a run.

Example:
  understudy relegation explain 42

Exit status: 0 done, 1 failed, 2 wrong use.
`;

const FLAGS = { db: 'text', dir: 'text', json: 'switch' } as const;

/**
 * Runs the command.
 * @param argv arguments after `understudy relegation`
 * @returns the exit status; failures are reported on `io.err`
 * @throws UsageError for invalid arguments
 */
export async function runRelegation(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, FLAGS);
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action, id, ...more] = words;
  if (action !== 'explain') throw new UsageError('name the action: explain EXCHANGE');
  if (id === undefined || more.length > 0) throw new UsageError('explain takes the number of one exchange');
  const passed = ['db', 'dir'] as const;
  const flags = passed.flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [`--${name === 'dir' ? 'student' : name}=${value}`];
  });
  return runInspect([`--step=${id}`, ...flags, ...(values.json === true ? ['--json'] : [])], io);
}
