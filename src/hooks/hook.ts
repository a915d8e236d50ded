/**
 * `understudy hook CLIENT`: the client runs this command for each event, as a separate process. The agent waits for the
 * process, so it loads few modules and has a deadline. After any failure it exits with 0, and without output on
 * standard output. Command line.
 */
import { readEnvironment } from '../client/environment.ts';
import { parseExact } from '../std/exact-json.ts';
import { type HookEvent, isClient, readHookEvent } from './event.ts';
import { sweepJournals } from './run-journal.ts';
import { reportEvent } from './run-reporter.ts';

/** Maximum time from the start of the process to the last answer; `--timeout-ms` replaces it. */
const TIMEOUT_MS = 1_500;
/** Maximum time from the deadline to the exit. It is needed because a client may never close the input. */
const GRACE_MS = 1_000;
/** Maximum size of the input, which includes the results of tools. A larger input is ignored. */
const INPUT_BYTES_MAX = 32 * 1024 * 1024;
const BASE_URL = 'http://127.0.0.1:8000';

interface HookFlags {
  url: string | undefined;
  codebase: string;
  profile: string;
  timeout_ms: number;
  /** Whether errors are reported on standard error. */
  is_verbose: boolean;
}

/**
 * Handles the event on standard input, and ends the process.
 * @param argv the arguments after `understudy hook`
 */
export async function runHook([client, ...words]: readonly string[]): Promise<never> {
  const flags = readFlags(words);
  const deadline_ms = flags.timeout_ms;
  const giveUp = (thrown: unknown): never => {
    if (flags.is_verbose) process.stderr.write(`understudy hook: ${describe(thrown)}\n`);
    process.exit(0);
  };
  process.on('uncaughtException', giveUp);
  process.stdout.on('error', giveUp);
  setTimeout(
    giveUp,
    Math.max(0, deadline_ms + GRACE_MS - performance.now()),
    new Error('no answer before the deadline'),
  );
  try {
    if (!isClient(client)) throw new Error(`no client is called ${client}`);
    const event = readHookEvent(client, parseExact(await readInput()));
    const text = event === null ? null : await takeEvent(event, flags, deadline_ms);
    if (text !== null && event?.kind === 'step') await tellAgent(event.event_name, text);
  } catch (thrown) {
    giveUp(thrown);
  }
  process.exit(0);
}

async function takeEvent(event: HookEvent, flags: HookFlags, deadline_ms: number): Promise<string | null> {
  if (event.kind === 'session') {
    sweepJournals();
    return null;
  }
  const { apiKey, baseUrl } = readEnvironment();
  if (apiKey === undefined) throw new Error('SVC_API_KEY is not set');
  return reportEvent(event, {
    base_url: new URL(flags.url ?? baseUrl ?? BASE_URL),
    api_key: apiKey,
    codebase_id: flags.codebase,
    task_profile: flags.profile,
    deadline_ms,
  });
}

/**
 * Writes the answer of the hook with the text for the agent. Both clients insert the text before the model's next turn.
 */
function tellAgent(hookEventName: string, additionalContext: string): Promise<void> {
  const output = JSON.stringify({ hookSpecificOutput: { hookEventName, additionalContext } });
  return new Promise((resolve) => process.stdout.write(`${output}\n`, () => resolve()));
}

async function readInput(): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of process.stdin as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > INPUT_BYTES_MAX) throw new Error(`the input is longer than ${INPUT_BYTES_MAX} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Reads flags as `understudy hooks` writes them, without loading a library; unknown flags are ignored. */
function readFlags(words: readonly string[]): HookFlags {
  const find = (name: string) => {
    const at = words.indexOf(name);
    return at < 0 ? undefined : words[at + 1];
  };
  return {
    url: find('--url'),
    codebase: find('--codebase') ?? '',
    profile: find('--profile') ?? 'coding',
    timeout_ms: Number(find('--timeout-ms')) || TIMEOUT_MS,
    is_verbose: words.includes('--verbose'),
  };
}

function describe(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
