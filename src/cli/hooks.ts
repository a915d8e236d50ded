/**
 * `understudy hooks`: prints or installs the settings with which an agent's client reports to the service. Main thread.
 */

import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
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

const HELP = `Makes Claude Code or Codex report each tool call as a step of a run, and read what the monitors say if a run goes
wrong. Each session of the client is a run. At its events, the client calls \`understudy hook CLIENT\`, which never fails
and waits at most 1.5 s for the service. If the service does not answer in that time, the command prints nothing, and
hooks do not call the service for half a minute.

Usage: understudy hooks ${CLIENTS.join('|')} [--write | --remove] [--file FILE] [--url URL] [--codebase ID] [--profile NAME]

  --write           add the hooks to the client's settings; the rest of the file does not change
  --remove          remove them again
  --file FILE       the settings; default: ${SETTINGS_FILES['claude-code']} for Claude Code, ${SETTINGS_FILES.codex} for Codex
  --url URL         address of the API; default: SVC_BASE_URL, otherwise http://127.0.0.1:8000
  --codebase ID     the code base on which the agent works, such as owner/name
  --profile NAME    the task profile; default: coding

The settings are printed if neither --write nor --remove is given. They do not contain the API key: set SVC_API_KEY
where the agent starts. Codex asks once whether these hooks may run.
`;

const KINDS = {
  write: 'switch',
  remove: 'switch',
  file: 'text',
  url: 'text',
  codebase: 'text',
  profile: 'text',
} as const;

/** Runs `understudy hooks`. @returns the exit status */
export async function runHooks(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, KINDS);
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [client, ...others] = words;
  if (!isClient(client)) throw new UsageError(`name the client: ${CLIENTS.join(' or ')}`);
  refuseWords(others);
  if (values.write && values.remove) throw new UsageError('--write and --remove cannot be combined');
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
  let found: FoundSettings;
  let merged: string;
  try {
    found = readSettings(file);
    merged = mergeSettings(client, found.text, command);
  } catch (thrown) {
    if (!(thrown instanceof SettingsFault)) throw thrown;
    const fault = makeHarmlessLine(thrown.message);
    io.err(`understudy: ${shown} was not changed: ${fault}. Correct the file, or name another with --file\n`);
    return EXIT.failed;
  }
  if (merged === (found.text ?? '')) {
    await io.out(
      command === null ? `${shown} has no hooks of Understudy\n` : `${shown} already has the hooks\n`,
    );
    return EXIT.done;
  }
  if (!replaceFile(file, found, merged)) {
    io.err(
      `understudy: ${shown} was not changed: another program changed the file at the same time. Run the command again\n`,
    );
    return EXIT.failed;
  }
  await io.out(command === null ? `Removed from ${shown}\n` : `Written to ${shown}\n`);
  if (command !== null)
    io.err('Set SVC_API_KEY where the agent starts; without the key, the hooks do nothing.\n');
  return EXIT.done;
}

/** The current settings. */
interface FoundSettings {
  /** null when there is no file. */
  text: string | null;
  stat: Stats | null;
}

/** Maximum size of a settings file, larger than any real one. */
const FILE_BYTES_MAX = 16 << 20;

/** Reads a settings file. @throws SettingsFault for anything but a text file, and for a dangling link; a file system error */
function readSettings(file: string): FoundSettings {
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return { text: null, stat: null };
  let descriptor: number;
  try {
    // Opening a named pipe would wait for a writer.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new SettingsFault('the path is a link to a missing file');
    // The file is a socket, or a device without a driver.
    if (code === 'ENXIO') throw new SettingsFault('the path is not a regular file');
    throw thrown;
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw new SettingsFault('the path is not a regular file');
    if (stat.size > FILE_BYTES_MAX)
      throw new SettingsFault(`the file is larger than ${FILE_BYTES_MAX} bytes`);
    return { text: decodeText(readFileSync(descriptor)), stat };
  } finally {
    closeSync(descriptor);
  }
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new SettingsFault('the file is not UTF-8');
  }
}

/**
 * Replaces the content of the file that was read. The file has either the old or the new text at every moment, even if
 * the path is a link. The file keeps its permissions, and also its owner and group if this user is root.
 * @returns false if another program changed the file after it was read
 */
function replaceFile(file: string, { stat }: FoundSettings, text: string): boolean {
  makeFolder(dirname(file));
  const target = stat === null ? file : realpathSync(file);
  const partial = join(dirname(target), `.${process.pid}.understudy.partial`);
  try {
    const handle = openSync(partial, 'wx', 0o600);
    try {
      writeFileSync(handle, text);
      if (stat !== null) {
        if (process.getuid?.() === 0) fchownSync(handle, stat.uid, stat.gid);
        fchmodSync(handle, stat.mode & 0o777);
      }
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    if (!isAsRead(target, stat)) {
      rmSync(partial, { force: true });
      return false;
    }
    renameSync(partial, target);
    return true;
  } catch (thrown) {
    rmSync(partial, { force: true });
    throw thrown;
  }
}

function isAsRead(target: string, stat: Stats | null): boolean {
  const now = lstatSync(target, { throwIfNoEntry: false });
  if (stat === null || now === undefined) return stat === null && now === undefined;
  return (
    now.ino === stat.ino && now.dev === stat.dev && now.size === stat.size && now.mtimeMs === stat.mtimeMs
  );
}
