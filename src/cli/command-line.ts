/**
 * The command line: finds the command, runs it, and turns an exception into one line and an exit status. Main thread.
 */

import { resolve, sep } from 'node:path';
import { ConfigError } from '../config/config-error.ts';
import { loadConfig, readVersion, silenceModelRuntime } from '../config.ts';
import { describeRefusal, isFull } from '../std/file-place.ts';
import { findNearestName } from '../std/nearest-name.ts';
import { type GuardedEnd, IN_PROCESS, runGuarded } from './guard.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { runStart, START_SUMMARIES, type StartCommand } from './start.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

interface Command {
  summary: string;
  /**
   * The command reads capture files, so it runs in a separate process (guard.ts). `once`: only with `--once`. Without
   * `--once`, the command starts such processes itself.
   */
  is_guarded?: true | 'once';
  /** `--db` may be a bucket. `each`: the command runs once for each gateway in the bucket. */
  reads_bucket?: 'one' | 'each';
  /** What to do when a signal ends the separate process. */
  ends?: (argv: string[]) => Promise<GuardedEnd & { what?: string | undefined }>;
  /** Runs the command with the words after its name. @returns the exit status */
  run(argv: string[], io: CliIo): Promise<number>;
}

function startCommand(name: StartCommand): Command {
  return { summary: START_SUMMARIES[name], run: (argv, io) => runStart(name, argv, io) };
}

const COMMANDS: Record<string, Command> = {
  up: startCommand('up'),
  serve: startCommand('serve'),
  gateway: startCommand('gateway'),
  proxy: startCommand('proxy'),
  inspect: {
    summary: 'show what a capture database holds: runs, turns, gaps, bodies',
    is_guarded: true,
    reads_bucket: 'each',
    ends: async () => ({ interrupted: 'the output is incomplete' }),
    run: async (argv, io) => (await import('./inspect.ts')).runInspect(argv, io),
  },
  trace: {
    summary: 'write the runs of a capture database as JSON lines, turns in one form for all providers',
    is_guarded: true,
    reads_bucket: 'one',
    ends: async () => ({
      interrupted: 'the output is incomplete; with --out, the same command continues it',
    }),
    run: async (argv, io) => (await import('./trace.ts')).runTrace(argv, io),
  },
  replay: {
    summary: 'serve a captured run to an agent again, offline, or continue it live from a turn on',
    is_guarded: true,
    reads_bucket: 'one',
    ends: async () => ({ interrupted: 'the replay was not finished' }),
    run: async (argv, io) => (await import('./replay.ts')).runReplay(argv, io),
  },
  runs: {
    summary: 'mark a captured run as good or bad',
    is_guarded: true,
    run: async (argv, io) => (await import('./runs.ts')).runRuns(argv, io),
  },
  alerts: {
    summary: 'list, make, test, switch and delete alerts of a running service',
    run: async (argv, io) => (await import('./alerts.ts')).runAlerts(argv, io),
  },
  distill: {
    summary: 'make patterns and a student from the golden runs in a capture database',
    is_guarded: true,
    reads_bucket: 'one',
    run: async (argv, io) => (await import('./distill.ts')).runDistill(argv, io),
  },
  loop: {
    summary:
      'repeat distill, and publish the student if it is good enough and not worse than the published one',
    is_guarded: 'once',
    reads_bucket: 'one',
    run: async (argv, io) => (await import('./loop.ts')).runLoop(argv, io),
  },
  student: {
    summary: 'list, publish, roll back, suspend and resume students',
    run: async (argv, io) => (await import('./student.ts')).runStudent(argv, io),
  },
  relegation: {
    summary: 'explain why the student served a captured step, or did not',
    is_guarded: true,
    ends: async () => ({ interrupted: 'nothing was explained' }),
    run: async (argv, io) => (await import('./relegation.ts')).runRelegation(argv, io),
  },
  token: {
    summary: 'print a token with which a person signs in if there is no identity provider',
    run: async (argv, io) => (await import('./token.ts')).runToken(argv, io),
  },
  keys: {
    summary: 'make, list and revoke API keys, as the operator',
    run: async (argv, io) => (await import('./keys.ts')).runKeys(argv, io),
  },
  patterns: {
    summary: 'import patterns from a file, or export them to a file',
    run: async (argv, io) => (await import('./patterns.ts')).runPatterns(argv, io),
  },
  mcp: {
    summary: 'give an agent tools over the Model Context Protocol, on standard input and output',
    run: async (argv, io) => (await import('./mcp.ts')).runMcp(argv, io),
  },
  hooks: {
    summary: 'have Claude Code or Codex report each tool call, and tell them what goes wrong',
    run: async (argv, io) => (await import('./hooks.ts')).runHooks(argv, io),
  },
  feedback: {
    summary: 'show what users said about the product',
    run: async (argv, io) => (await import('./keys.ts')).runFeedback(argv, io),
  },
  backup: {
    summary: 'copy every database, sealed file and secret, while the process runs',
    is_guarded: true,
    run: async (argv, io) => (await import('./backup.ts')).runBackup('backup', argv, io),
  },
  rekey: {
    summary: 'encrypt the stored data with a new key, or decrypt it',
    run: async (argv, io) => (await import('./rekey.ts')).runRekey(argv, io),
  },
  erase: {
    summary: 'erase captured exchanges: those of a run, from before a time, or with a credential in them',
    is_guarded: true,
    run: async (argv, io) => (await import('./erase.ts')).runErase(argv, io),
  },
  retention: {
    summary: 'show the clock for deletion by age, and confirm it after a jump',
    run: async (argv, io) => (await import('./retention.ts')).runRetention(argv, io),
  },
  compact: {
    summary: 'rewrite the databases without deleted data',
    run: async (argv, io) => (await import('./compact.ts')).runCompact(argv, io),
  },
  migrate: {
    summary: 'make the tables of a PostgreSQL database that several boxes share',
    run: async (argv, io) => (await import('./migrate.ts')).runMigrate(argv, io),
  },
  move: {
    summary: 'move the main database into PostgreSQL, or back',
    run: async (argv, io) => (await import('./move.ts')).runMove(argv, io),
  },
  completion: {
    summary: 'print a script with which bash, zsh or fish completes commands and options',
    run: async (argv, io) => (await import('./completion.ts')).runCompletion(argv, io, readHelps),
  },
  restore: {
    summary: 'put a backup into a DATA_DIR without databases, and check every file',
    is_guarded: true,
    ends: async (argv) => (await import('./backup.ts')).endRestore(argv),
    run: async (argv, io) => (await import('./backup.ts')).runBackup('restore', argv, io),
  },
};

const HELP = `Understudy: one process between your agents and their model providers.

Usage: understudy COMMAND [options]

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`)
  .join('\n')}

  understudy COMMAND --help    the options of a command, with examples
  understudy --version         only the version

Exit status: 0 done, 1 failed, 2 wrong use, 78 a bad variable or flag value.
`;

/** Runs each command with `--help`, and returns the help texts. */
async function readHelps(): Promise<{ name: string; summary: string; help: string }[]> {
  const helps = [];
  for (const [name, { summary, run }] of Object.entries(COMMANDS)) {
    let help = '';
    const out = async (data: string | Uint8Array) => {
      help += data;
    };
    await run(['--help'], { out, err: () => {}, is_terminal: false, has_color: false });
    helps.push({ name, summary, help });
  }
  return helps;
}

/**
 * Runs the command line.
 * @param argv what follows `understudy`
 * @returns the exit status; failures are already reported on `given.err`
 */
export async function runUnderstudy(argv: string[], given: CliIo): Promise<number> {
  silenceModelRuntime();
  const isInProcess = argv[0] === IN_PROCESS.quiet || argv[0] === IN_PROCESS.progress;
  const io = isInProcess ? { ...given, shows_progress: argv[0] === IN_PROCESS.progress } : given;
  const [name = '', ...rest] = isInProcess ? argv.slice(1) : argv;
  try {
    if (name === '--help' || name === '-h' || name === 'help') {
      await io.out(HELP);
      return EXIT.done;
    }
    if (name === '--version' || name === '-v') {
      await io.out(`${readVersion()}\n`);
      return EXIT.done;
    }
    if (name === '') {
      io.err(HELP);
      return EXIT.usage;
    }
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command === undefined) {
      const meant = findNearestName(name, Object.keys(COMMANDS));
      const suggestion = meant === null ? '' : `; did you mean ${meant}?`;
      throw new UsageError(`there is no command ${formatJson(name, 0)}${suggestion}`);
    }
    const isGuarded =
      command.is_guarded === true || (command.is_guarded === 'once' && rest.includes('--once'));
    const isApart = isGuarded && !isInProcess && !rest.includes('--help') && !rest.includes('-h');
    const run = (words: string[]): Promise<number> =>
      isApart ? runApart(command, name, words, io) : command.run(words, io);
    return await runOverBucket(command, rest, io, run);
  } catch (thrown) {
    return reportFailure(thrown, name, rest, io);
  }
}

/**
 * Runs a command. If the command may read a bucket and `--db` names one, it runs over a copy of the captures in the
 * bucket. With several gateways in the bucket, it runs for each of them in turn.
 * @returns the highest exit status
 * @throws UsageError if there are several gateways, and the command or its flags allow only one
 */
async function runOverBucket(
  { reads_bucket, is_guarded }: Command,
  argv: string[],
  io: CliIo,
  run: (argv: string[]) => Promise<number>,
): Promise<number> {
  // A loop runs each round in a separate process, which copies the captures from the bucket itself.
  const isLoop = is_guarded === 'once' && !argv.includes('--once');
  if (reads_bucket === undefined || isLoop) return run(argv);
  const { bringCaptures, findPlace } = await import('./remote-captures.ts');
  const place = findPlace(argv);
  if (place === null) return run(argv);
  const commands = await bringCaptures(argv, place, loadConfig({ listener: 'api' }));
  const isList = !argv.some((word) => /^--(?:run|exchange|step|json|export)(?:=|$)/.test(word));
  if (commands.length > 1 && !(reads_bucket === 'each' && isList)) {
    const names = commands.map(({ captures }) => captures.gateway).join(', ');
    throw new UsageError(
      `the bucket of --db has several gateways (${names}): add gateway=NAME to the query of its address`,
    );
  }
  let status: number = EXIT.done;
  for (const { captures, argv: words } of commands) {
    const { gateway, written_at } = captures;
    if (commands.length > 1) await io.out(`\nGateway ${gateway}, as of ${written_at}\n`);
    status = Math.max(status, await run(words));
  }
  return status;
}

/** Runs a guarded command in a separate process. */
async function runApart(command: Command, name: string, argv: string[], io: CliIo): Promise<number> {
  const { what = nameDatabase(argv), ...end } = (await command.ends?.(argv)) ?? {};
  return runGuarded([name, ...argv], io, what, undefined, end);
}

/** The database that the flags of a command name, for messages; `the capture database` if they name none. */
function nameDatabase(argv: string[]): string {
  const at = argv.findIndex((word) => word === '--db' || word.startsWith('--db='));
  const named = at < 0 ? undefined : argv[at] === '--db' ? argv[at + 1] : argv[at]!.slice('--db='.length);
  return makeHarmlessLine(named ?? 'the capture database');
}

function reportFailure(thrown: unknown, name: string, argv: readonly string[], io: CliIo): number {
  if (thrown instanceof ConfigError) {
    io.err(`understudy: ${thrown.message}\n`);
    return thrown.exit_code;
  }
  if (thrown instanceof UsageError) {
    const known = Object.hasOwn(COMMANDS, name) ? `understudy ${name} --help` : 'understudy --help';
    io.err(`understudy: ${thrown.message}\nSee: ${known}\n`);
    return thrown.exit_code;
  }
  if (thrown instanceof Error && thrown.name === 'StoreError') {
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
  const refusal = describeRefusal(thrown);
  if (refusal !== null) {
    const { code, path, dest } = thrown as NodeJS.ErrnoException & { dest?: string };
    const place = isFull(code) ? (dest ?? path) : path;
    io.err(`understudy: ${makeHarmlessLine(refusal)}${adviseOn(place, argv)}\n`);
    return EXIT.failed;
  }
  // Other system errors, such as a port in use, are shown by their message. Any other error is a
  // bug and is shown with its stack.
  const isSystemError = thrown instanceof Error && 'code' in thrown;
  const text = thrown instanceof Error ? (isSystemError ? thrown.message : thrown.stack) : String(thrown);
  io.err(`understudy: ${text}\n`);
  return EXIT.failed;
}

/**
 * Advises on a bad path: to name another path if a flag names the bad one, or to correct DATA_DIR if the path is in
 * that folder.
 * @returns the advice; '' for any other path
 */
function adviseOn(path: string | undefined, argv: readonly string[]): string {
  if (path === undefined) return '';
  const full = resolve(path);
  // Commands append `.partial` and similar suffixes to a path that a flag names, and create its parent folders.
  const isOf = (place: string): boolean =>
    full === place ||
    full.startsWith(`${place}${sep}`) ||
    full.startsWith(`${place}.`) ||
    place.startsWith(`${full}${sep}`);
  const named = argv.map((word) => word.replace(/^--\w+=/, '')).some((word) => isOf(resolve(word)));
  if (named) return ': name another path';
  const { data_dir } = loadConfig({ listener: 'api' });
  return isOf(data_dir)
    ? `: correct the path, or set another DATA_DIR (now ${makeHarmlessLine(data_dir)})`
    : '';
}
