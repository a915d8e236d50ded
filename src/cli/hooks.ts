/** `understudy hooks`: prints the settings with which an agent's client reports to the service, or installs them. Main thread. */

import {
  chmodSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { CLIENTS, type ClientName, isClient } from '../hooks/event.ts';
import { mergeSettings, SETTINGS_FILES, SettingsFault } from '../hooks/settings.ts';
import { makeFolder } from '../std/folder.ts';
import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { renderOwnCommand } from './own-command.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Has Claude Code or Codex report each tool call as a step of a run, and read what the monitors say when a run goes wrong.
The session is the run. The client calls \`understudy hook CLIENT\` at its events, which never fails or holds up the agent: when the
service does not answer within 1.5 s it says nothing, and does not ask again for half a minute.

Usage: understudy hooks ${CLIENTS.join('|')} [--write | --remove] [--file FILE] [--url URL] [--codebase ID] [--profile NAME]

  --write           put them into the client's settings; what is there stays
  --remove          take them out again
  --file FILE       the settings; when not given ${SETTINGS_FILES['claude-code']} for Claude Code, ${SETTINGS_FILES.codex} for Codex
  --url URL         where the API is; when not given SVC_BASE_URL, else http://127.0.0.1:8000
  --codebase ID     the code base that is worked on, such as owner/name
  --profile NAME    the task profile; coding when not given

Without --write or --remove the settings are printed. The API key is not among them: set SVC_API_KEY where the agent starts. Codex
asks once whether these hooks may run.
`;

const KINDS = {
  write: 'switch',
  remove: 'switch',
  file: 'text',
  url: 'text',
  codebase: 'text',
  profile: 'text',
} as const;

/** @returns the exit status */
export async function runHooks(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, KINDS);
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [client, ...others] = words;
  if (!isClient(client)) throw new UsageError(`say for which client: ${CLIENTS.join(' or ')}`);
  refuseWords(others);
  if (values.write && values.remove) throw new UsageError('--write and --remove are one or the other');
  const flags = (['url', 'codebase', 'profile'] as const).flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [`--${name}`, value];
  });
  const command = values.remove ? null : renderOwnCommand(['hook', client, ...flags]);
  if (!values.write && !values.remove) {
    await io.out(mergeSettings(client, null, command));
    return EXIT.done;
  }
  const file = values.file ?? SETTINGS_FILES[client].replace(/^~/, () => homedir());
  return install(client, resolve(file), command, io);
}

async function install(client: ClientName, file: string, command: string | null, io: CliIo): Promise<number> {
  const shown = makeHarmlessLine(file);
  const text = readSettings(file);
  let merged: string;
  try {
    merged = mergeSettings(client, text, command);
  } catch (thrown) {
    if (!(thrown instanceof SettingsFault)) throw thrown;
    const fault = makeHarmlessLine(thrown.message);
    io.err(`understudy: ${shown} stays as it is: ${fault}. Mend it, or name another file with --file\n`);
    return EXIT.failed;
  }
  if (merged === (text ?? '')) {
    await io.out(command === null ? `${shown} has no hooks of ours\n` : `${shown} has them already\n`);
    return EXIT.done;
  }
  replaceFile(file, merged);
  await io.out(command === null ? `Taken out of ${shown}\n` : `Written to ${shown}\n`);
  if (command !== null) io.err('Set SVC_API_KEY where the agent starts; without it the hooks do nothing.\n');
  return EXIT.done;
}

/** @returns null where there is none */
function readSettings(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
}

/** The old text or the new one is there at each moment, also where the file is a link to one elsewhere. */
function replaceFile(file: string, text: string): void {
  makeFolder(dirname(file));
  const there = statSync(file, { throwIfNoEntry: false });
  const target = there === undefined ? file : realpathSync(file);
  const partial = join(dirname(target), `.${process.pid}.understudy.partial`);
  try {
    writeFileSync(partial, text, { mode: 0o600, flag: 'wx' });
    if (there !== undefined) chmodSync(partial, there.mode & 0o777);
    const handle = openSync(partial, 'r');
    fsyncSync(handle);
    closeSync(handle);
    renameSync(partial, target);
  } catch (thrown) {
    rmSync(partial, { force: true });
    throw thrown;
  }
}
