/** Merges the settings that make a client call Understudy's hooks into a user's settings. Pure; command line. */
import type { ClientName } from './event.ts';
import { addMember, findMember, readPlaces, removeMember } from './json-text.ts';

/** Where each client reads its settings; `~` is the user's home. */
export const SETTINGS_FILES: Readonly<Record<ClientName, string>> = {
  'claude-code': '.claude/settings.json',
  codex: '~/.codex/hooks.json',
};

/** The client kills a hook that takes longer; the hook exits before that. */
const TIMEOUT_S = 5;

const SHARED = ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'Stop', 'SubagentStop', 'SessionEnd'];
const EVENTS: Readonly<Record<ClientName, readonly string[]>> = {
  'claude-code': [...SHARED, 'PostToolUseFailure'],
  codex: SHARED,
};

/** Matches the command of Understudy's hooks, with any flags and any place of installation. */
const OWN_COMMAND = /understudy(\.mjs)?['"]? hook (claude-code|codex)( |$)/;

type Json = Record<string, unknown>;

/** The client could not read these settings. The message says why. */
export class SettingsFault extends Error {
  override readonly name = 'SettingsFault';
}

/**
 * Adds Understudy's hooks to settings, or removes them. Every other byte stays unchanged.
 * @param text content of the file; null if there is no file
 * @param command the command that the client's shell runs; null: removes Understudy's hooks
 * @returns the file's new text; the same text if nothing changes
 * @throws SettingsFault for a file that is not the client's and must not be overwritten
 */
export function mergeSettings(client: ClientName, text: string | null, command: string | null): string {
  // Editors on Windows write a byte order mark, which clients skip.
  const mark = text?.startsWith('\uFEFF') ? '\uFEFF' : '';
  const given = (text ?? '').slice(mark.length);
  if (given.trim() === '') return command === null ? (text ?? '') : mark + writeSettings(client, command);
  checkSettings(given);
  if (command !== null && hasOurs(client, given, command)) return text!;
  try {
    let edited = removeOurs(given, command !== null);
    if (command !== null) for (const event of EVENTS[client]) edited = addOurs(edited, event, command);
    return mark + edited;
  } catch (thrown) {
    if (thrown instanceof RangeError) throw new SettingsFault('the file is nested too deeply');
    throw thrown;
  }
}

function writeSettings(client: ClientName, command: string): string {
  const hooks = Object.fromEntries(EVENTS[client].map((event) => [event, [groupOf(command)]]));
  return `${JSON.stringify({ hooks }, null, 2)}\n`;
}

/** Checks the form of the settings. @throws SettingsFault for settings that the client could not read as hooks */
function checkSettings(text: string): void {
  const { hooks } = readObject(text);
  if (hooks === undefined) return;
  for (const [event, groups] of Object.entries(asObject(hooks, '"hooks"'))) {
    if (!Array.isArray(groups)) throw new SettingsFault(`"hooks.${event}" is not a list`);
    for (const group of groups) asObject(group, `an entry of "hooks.${event}"`);
  }
}

/** Whether Understudy's hooks in the text are already exactly those for this command. Other hooks are ignored. */
function hasOurs(client: ClientName, text: string, command: string): boolean {
  const hooks = (readObject(text).hooks ?? {}) as Record<string, { hooks?: unknown }[]>;
  const found = Object.entries(hooks).flatMap(([event, groups]) =>
    groups.flatMap((group) =>
      (Array.isArray(group.hooks) ? group.hooks : [])
        .filter(isOurs)
        .map((hook) => JSON.stringify([event, hook])),
    ),
  );
  const wanted = EVENTS[client].map((event) => JSON.stringify([event, groupOf(command).hooks[0]]));
  return found.length === wanted.length && wanted.every((name) => found.includes(name));
}

/**
 * Removes all hooks of Understudy.
 * @param keepsEvents whether events without hooks stay, because hooks are added to them again
 */
function removeOurs(text: string, keepsEvents: boolean): string {
  for (let edited = text; ; ) {
    const next = removeOne(edited, keepsEvents);
    if (next === null) return edited;
    edited = next;
  }
}

/**
 * Removes one hook of Understudy, and what becomes empty by that.
 * @returns null if the text has no more of these hooks
 */
function removeOne(text: string, keepsEvents: boolean): string | null {
  const root = readPlaces(text);
  const hooks = findMember(root, 'hooks');
  for (const event of hooks?.value.members ?? []) {
    for (const group of event.value.members) {
      const list = findMember(group.value, 'hooks')?.value;
      const ours = list?.members.find(({ value }) => isOurs(JSON.parse(text.slice(value.start, value.end))));
      if (list === undefined || ours === undefined) continue;
      // A list or an object that becomes empty is also removed.
      if (list.members.length > 1) return removeMember(text, list, ours);
      if (event.value.members.length > 1 || keepsEvents) return removeMember(text, event.value, group);
      if (hooks!.value.members.length > 1) return removeMember(text, hooks!.value, event);
      return removeMember(text, root, hooks!);
    }
  }
  return null;
}

function addOurs(text: string, event: string, command: string): string {
  const root = readPlaces(text);
  const unit = findIndent(text);
  const hooks = findMember(root, 'hooks');
  if (hooks === undefined) return addMember(text, root, 'hooks', { [event]: [groupOf(command)] }, unit);
  const groups = findMember(hooks.value, event);
  if (groups === undefined) return addMember(text, hooks.value, event, [groupOf(command)], unit);
  return addMember(text, groups.value, null, groupOf(command), unit);
}

function groupOf(command: string): { hooks: Json[] } {
  return { hooks: [{ type: 'command', command, timeout: TIMEOUT_S }] };
}

function isOurs(hook: unknown): boolean {
  const { command } = (hook ?? {}) as { command?: unknown };
  return typeof command === 'string' && OWN_COMMAND.test(command);
}

function readObject(text: string): Json {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (thrown) {
    throw new SettingsFault(`it is not valid JSON (${(thrown as Error).message})`);
  }
  return asObject(parsed, 'it');
}

function asObject(value: unknown, what: string): Json {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json;
  throw new SettingsFault(`${what} is not an object`);
}

/** Finds the file's indentation; two spaces if it cannot be determined. */
function findIndent(text: string): string {
  return /^\s*\{\r?\n([ \t]+)"/.exec(text)?.[1] ?? '  ';
}
