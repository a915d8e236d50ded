/**
 * `understudy replay`: serves a captured run to an agent from a local port, and continues it live from a turn on. Main thread
 * of the command line.
 */

import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { CaptureFiles } from '../captures/capture-files.ts';
import { childEnvironment, loadConfig } from '../config.ts';
import { RecordedRun } from '../replay/recorded-run.ts';
import { describeDifference, type ReplayEvent, ReplayServer } from '../replay/replay-server.ts';
import { countOf } from '../std/count-of.ts';
import { readFlagsAndWords } from './flags.ts';
import { type KeptFork, keepForkVerdict } from './fork-verdict.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Serves a captured run to an agent again, offline, to test the agent without a provider.

Usage: understudy replay RUN [options] [-- COMMAND [ARGUMENT ...]]

Each request gets the captured answer, byte for byte and with its timing. A request must repeat a captured one;
otherwise it gets 400, and the error says where it differs. COMMAND is the command line of the agent. The replay
starts it with variables that point to the replay (ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL), and
ends when the agent ends. Without COMMAND, it serves until Ctrl-C.

  --db FILE      capture database; default: DATA_DIR/capture.mdb
  --port N       listen on this port of 127.0.0.1; default: any free one
  --speed N      N times as fast as captured, 0 for no pauses; default: 1
  --loose        answer a request that differs with the next captured exchange, and say where it differs
  --from N       from model turn N on, requests go to a provider; earlier turns are replayed
  --to URL       with --from: the provider's address; default: the gateway of this machine, which captures the new run
  --model NAME   with --from: ask this model instead of the agent's
  --run ID       with --from: the id of the new run; default: RUN and a time
  --verify CMD   a shell command that judges the result after COMMAND has ended; its exit status becomes replay's. With
                 --from, the new run gets the tag verify:passed or verify:failed, and a note
  --json         the result as one JSON document, on standard output

Examples:
  understudy replay checkout-fix-17 --speed 0 -- node agent.mjs
  understudy replay checkout-fix-17 --from 5 --model claude-haiku-4-5 --verify 'npm test' -- node agent.mjs

Exit status: 0 every request got its captured answer and every captured exchange was requested; 1 otherwise, or
COMMAND failed; 2 wrong use. With --verify: the exit status of CMD.
`;

const FLAGS = {
  db: 'text',
  port: 'text',
  speed: 'text',
  loose: 'switch',
  from: 'text',
  to: 'text',
  model: 'text',
  run: 'text',
  verify: 'text',
  json: 'switch',
} as const;

interface ReplayFlags {
  run_id: string;
  command: string[];
  db: string;
  port: number;
  speed: number;
  is_loose: boolean;
  from_turn: number | null;
  to: string;
  model: string | null;
  new_run: string;
  verify: string | null;
  json: boolean;
}

/**
 * Runs the command.
 * @param argv what follows `understudy replay`
 * @returns the exit status
 * @throws UsageError on wrong use
 */
export async function runReplay(argv: string[], io: CliIo): Promise<number> {
  const flags = readReplayFlags(argv, Date.now());
  if (flags === 'help') {
    await io.out(HELP);
    return EXIT.done;
  }
  const { data_key } = loadConfig({ listener: 'gateway' });
  const files = await CaptureFiles.open(resolve(flags.db), { data_key });
  try {
    const run = RecordedRun.read(files, flags.run_id);
    if (run === null) {
      io.err(
        `understudy: the database has no run ${formatJson(flags.run_id, 0)}.\nTo list its runs: understudy inspect\n`,
      );
      return EXIT.failed;
    }
    // The turn after the last one continues the whole run.
    const next = run.turns + 1;
    if (flags.from_turn !== null && flags.from_turn > next)
      throw new UsageError(
        `--from ${flags.from_turn} is beyond the run's ${countOf(run.turns, 'turn')}; give a turn from 1 to ${next}`,
      );
    return await serve(run, flags, io);
  } finally {
    await files.close();
  }
}

async function serve(run: RecordedRun, flags: ReplayFlags, io: CliIo): Promise<number> {
  const { to, new_run, model, from_turn } = flags;
  const server = await ReplayServer.start(run, {
    port: flags.port,
    speed: flags.speed,
    is_loose: flags.is_loose,
    from_turn,
    live:
      from_turn === null
        ? null
        : { base_url: to, run_id: new_run, fork_of: { run_id: flags.run_id, turn: from_turn }, model },
    tell: (event) => io.err(`${tellEvent(event)}\n`),
  });
  try {
    io.err(
      `replaying ${countOf(run.exchanges.length, 'exchange')} of ${makeHarmlessLine(flags.run_id)} at ${server.url}\n`,
    );
    if (from_turn !== null)
      io.err(
        `from turn ${from_turn} on, ${makeHarmlessLine(to)} answers; the new run is ${makeHarmlessLine(new_run)}\n`,
      );
    const status =
      flags.command.length === 0 ? await untilSignal() : await runAgent(flags.command, server.url);
    const verdict = flags.verify === null ? null : await runShell(flags.verify);
    const fork = server.result.live === 0 ? null : await keepFork(flags, verdict);
    return await report(server, flags, { status, verdict, fork }, io);
  } finally {
    await server.close();
  }
}

/** How the agent and the `--verify` command ended, and the result of the live part; null: there was no such part. */
interface Ends {
  status: number | null;
  verdict: number | null;
  fork: KeptFork | null;
}

function keepFork(flags: ReplayFlags, verdict: number | null): Promise<KeptFork> {
  const { run_id, new_run, db, to, from_turn, model, verify } = flags;
  const how = `fork of ${run_id} from turn ${from_turn}${model === null ? '' : ` with ${model}`}`;
  const judged = verify === null || verdict === null ? null : { command: verify, status: verdict };
  return keepForkVerdict({ run_id, new_run, db, gateway: to, how, judged });
}

async function report(
  server: ReplayServer,
  flags: ReplayFlags,
  { status, verdict, fork }: Ends,
  io: CliIo,
): Promise<number> {
  const { unserved, ...counts } = server.result;
  const isSame = counts.differing + counts.unknown + counts.unplayable + unserved.length === 0;
  if (flags.json) {
    const left = unserved.map(({ id, turn, method, path }) => ({ exchange_id: id, turn, method, path }));
    const result = {
      run_id: flags.run_id,
      ...counts,
      unserved: left,
      command_status: status,
      verify_status: verdict,
    };
    await io.out(
      `${formatJson(flags.from_turn === null ? result : { ...result, new_run: flags.new_run, comparison: fork?.address ?? null }, 2)}\n`,
    );
  } else {
    const parts = [`${counts.served} of ${counts.exchanges} exchanges served`];
    if (counts.again > 0) parts.push(`${counts.again} again`);
    if (counts.live > 0) parts.push(`${counts.live} live`);
    if (counts.differing > 0) parts.push(`${counts.differing} differed`);
    if (counts.unknown > 0) parts.push(`${counts.unknown} not recorded`);
    if (counts.unplayable > 0) parts.push(`${counts.unplayable} could not be replayed`);
    if (unserved.length > 0) parts.push(`${unserved.length} not requested`);
    await io.out(`${parts.join(', ')}\n`);
    if (fork !== null) await io.out(`compare both: ${makeHarmlessLine(fork.address)}\n`);
  }
  if (fork !== null && fork.problem !== '') io.err(`understudy: ${makeHarmlessLine(fork.problem)}\n`);
  if (verdict !== null) return verdict;
  return isSame && (status ?? 0) === 0 ? EXIT.done : EXIT.failed;
}

function tellEvent(event: ReplayEvent): string {
  switch (event.type) {
    case 'served': {
      const { id, turn, method, path, status } = event.exchange;
      const name = turn === null ? `#${id}` : `#${id} turn ${turn}`;
      return `${name}  ${makeHarmlessLine(`${method} ${path}`)}  ${status}${event.is_again ? '  again' : ''}`;
    }
    case 'differs':
      return makeHarmlessLine(
        `${describeDifference(event.exchange, event.where)}${event.is_served ? ' (served anyway)' : ''}`,
      );
    case 'unknown':
      return makeHarmlessLine(`not recorded: ${event.where}`);
    case 'unplayable':
      return `#${event.exchange.id} cannot be replayed: ${event.exchange.problem}`;
    case 'live':
      return event.status === null
        ? makeHarmlessLine(`turn ${event.turn} live: ${event.problem}`)
        : `turn ${event.turn} live  ${event.status}`;
  }
}

function readReplayFlags(argv: string[], nowMs: number): ReplayFlags | 'help' {
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const { values, words } = readFlagsAndWords(own, FLAGS);
  if (values.help === true) return 'help';
  const [runId, ...more] = words;
  if (runId === undefined || runId === '') throw new UsageError('replay takes the id of a captured run');
  if (more.length > 0)
    throw new UsageError(
      `replay takes one run id, but found ${formatJson(more[0], 0)} as well; put the agent's command after "--"`,
    );
  const command = end < 0 ? [] : argv.slice(end + 1);
  if (end >= 0 && command.length === 0) throw new UsageError('after "--" the command of an agent is missing');
  for (const name of ['to', 'model', 'run'] as const)
    if (values[name] !== undefined && values.from === undefined)
      throw new UsageError(`--${name} requires --from N`);
  if (values.verify !== undefined && command.length === 0)
    throw new UsageError('--verify judges the work of a command: give the command after "--"');
  const { gateway, capture } = loadConfig({ listener: 'gateway' });
  const own_gateway = `http${gateway.tls === null ? '' : 's'}://127.0.0.1:${gateway.port}`;
  return {
    run_id: runId,
    command,
    db: values.db ?? capture.db,
    port: readNumber('--port', values.port ?? '0', 65_535),
    speed: readNumber('--speed', values.speed ?? '1', 1_000_000),
    is_loose: values.loose === true,
    from_turn: values.from === undefined ? null : Math.max(1, readNumber('--from', values.from, 1_000_000)),
    to: readUrl(values.to ?? own_gateway),
    model: values.model ?? null,
    new_run: values.run ?? `${runId}-${new Date(nowMs).toISOString().slice(0, 19).replace(/\D/g, '')}`,
    verify: values.verify ?? null,
    json: values.json === true,
  };
}

function readNumber(flag: string, text: string, most: number): number {
  const value = Number(text);
  if (!/^\d+(?:\.\d+)?$/.test(text) || value > most || (flag !== '--speed' && !Number.isInteger(value)))
    throw new UsageError(
      `${flag} takes a ${flag === '--speed' ? 'number' : 'whole number'} from 0 to ${most}, not ${formatJson(text, 0)}`,
    );
  return value;
}

function readUrl(text: string): string {
  if (URL.canParse(text) && /^https?:/.test(text)) return text;
  throw new UsageError(`--to takes an address such as http://127.0.0.1:8787, not ${formatJson(text, 0)}`);
}

function untilSignal(): Promise<null> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve(null));
  });
}

/** Starts the agent with the addresses of this server. @returns its exit status */
function runAgent([command = '', ...rest]: string[], url: string): Promise<number> {
  return runChild(command, rest, false, {
    ANTHROPIC_BASE_URL: url,
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_API_BASE: `${url}/v1`,
    GOOGLE_GEMINI_BASE_URL: url,
  });
}

function runShell(command: string): Promise<number> {
  return runChild(command, [], true, {});
}

function runChild(
  command: string,
  args: string[],
  shell: boolean,
  variables: Record<string, string>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: 'inherit',
      shell,
      env: childEnvironment(variables, AGENT_KEYS),
    });
    const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, forward);
    child.once('error', (error) =>
      reject(new UsageError(`${makeHarmlessLine(command)} cannot be started: ${error.message}`)),
    );
    child.once('close', (code) => {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, forward);
      resolve(code ?? EXIT.failed);
    });
  });
}

/** SDKs refuse to start without a key. The replay does not read it. */
const AGENT_KEYS = { ANTHROPIC_API_KEY: 'replay', OPENAI_API_KEY: 'replay', GEMINI_API_KEY: 'replay' };
