/** The settings with which a client calls our hooks, put into settings that hold somebody's own. Pure; command line. */
import type { ClientName } from './event.ts';

/** Where each client looks for them; `~` is the user's home. */
export const SETTINGS_FILES: Readonly<Record<ClientName, string>> = {
  'claude-code': '.claude/settings.json',
  codex: '~/.codex/hooks.json',
};

/** The client ends a hook that takes longer; the hook itself ends before. */
const TIMEOUT_S = 5;

const SHARED = ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'Stop', 'SubagentStop', 'SessionEnd'];
const EVENTS: Readonly<Record<ClientName, readonly string[]>> = {
  'claude-code': [...SHARED, 'PostToolUseFailure'],
  codex: SHARED,
};

/** Ours, whatever its flags and wherever it lay when it was installed. */
const OWN_COMMAND = /understudy(\.mjs)?['"]? hook (claude-code|codex)( |$)/;

type Json = Record<string, unknown>;

/** Settings that are not what the client would read; the message says what of them. */
export class SettingsFault extends Error {
  override readonly name = 'SettingsFault';
}

/**
 * @param text the file's; null: there is none
 * @param command what the client's shell runs; null takes ours away
 * @returns the file's new text; the same one when nothing is to be changed
 * @throws SettingsFault for a file that is not the client's, which nobody should write over
 */
export function mergeSettings(client: ClientName, text: string | null, command: string | null): string {
  const settings = text === null || text.trim() === '' ? {} : readObject(text);
  const hooks = settings.hooks === undefined ? {} : asObject(settings.hooks, '"hooks"');
  const merged: Json = {};
  for (const [event, groups] of Object.entries(hooks)) {
    const others = withoutOurs(groups, event);
    if (others.length > 0 || !isOurEvent(client, event)) merged[event] = others;
  }
  if (command !== null) {
    for (const event of EVENTS[client])
      merged[event] = [...((merged[event] as Json[] | undefined) ?? []), groupOf(command)];
  }
  if (JSON.stringify(merged) === JSON.stringify(hooks)) return text ?? '';
  const { hooks: _, ...rest } = settings;
  // In its old place where it had one.
  const whole =
    Object.keys(merged).length === 0
      ? rest
      : 'hooks' in settings
        ? { ...settings, hooks: merged }
        : { ...rest, hooks: merged };
  return `${JSON.stringify(whole, null, findIndent(text ?? ''))}\n`;
}

function groupOf(command: string): Json {
  return { hooks: [{ type: 'command', command, timeout: TIMEOUT_S }] };
}

function isOurEvent(client: ClientName, event: string): boolean {
  return EVENTS[client].includes(event);
}

function withoutOurs(groups: unknown, event: string): unknown[] {
  if (!Array.isArray(groups)) throw new SettingsFault(`"hooks.${event}" is no list`);
  return groups.flatMap((group: unknown) => {
    const { hooks } = asObject(group, `an entry of "hooks.${event}"`);
    if (!Array.isArray(hooks)) return [group];
    const others = hooks.filter((hook: unknown) => !isOurs(hook));
    if (others.length === hooks.length) return [group];
    return others.length === 0 ? [] : [{ ...(group as Json), hooks: others }];
  });
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
  throw new SettingsFault(`${what} is no object`);
}

/** As the file has it; two blanks where nobody can tell. */
function findIndent(text: string): string {
  return /^\s*\{\r?\n([ \t]+)"/.exec(text)?.[1] ?? '  ';
}
