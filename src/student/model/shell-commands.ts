/**
 * Commands of a shell: which of them only look, and which have the same effect. Knows the usual programs; in doubt, a
 * command changes something and equals no other command. Pure; teaching and the student's thread.
 */

import { basename } from 'node:path';
import type { StudentBlock } from './decision.ts';
import { isObject } from './json-values.ts';

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

/** A command that is a pipeline of programs with plain words. */
interface ShellCommand {
  /** Name of the argument. */
  key: string;
  /** The words of each program; its first word is the program. */
  stages: readonly (readonly string[])[];
  /** The file that the output replaces; null: none. */
  into: string | null;
  /** Whether the first program runs with `sudo`. */
  isSudo: boolean;
}

/** Names of tools that run a command, and of the argument. */
const SHELLS =
  /^(?:(?:local_?)?(?:bash|shell|terminal|sh|zsh)(?:_?(?:command|tool|exec))?|(?:run|exec|execute)_?(?:bash|shell|terminal|command|cmd|in_terminal))$/i;
const COMMAND_KEYS = ['command', 'cmd'];
const COMMAND_CHARACTERS = 2_000;

/** Programs that only look, whatever their operands are. */
const READERS = new Set(
  'cat cut df du egrep fgrep file free grep head id less ls lsof more netstat nl ps pwd sort ss stat tail tree uname uptime wc which whoami'.split(
    ' ',
  ),
);
/** Programs whose second word decides whether they only look. */
const LOOKING_SUBCOMMANDS: Readonly<Record<string, readonly string[]>> = {
  systemctl: [
    'status',
    'is-active',
    'is-enabled',
    'is-failed',
    'list-units',
    'list-unit-files',
    'show',
    'cat',
  ],
  git: ['status', 'log', 'diff', 'show', 'blame', 'ls-files', 'shortlog'],
  docker: ['ps', 'logs', 'inspect', 'images', 'top'],
  podman: ['ps', 'logs', 'inspect', 'images', 'top'],
  kubectl: ['get', 'describe', 'logs', 'top'],
};
const SUBCOMMANDS = new Set([...Object.keys(LOOKING_SUBCOMMANDS), 'service', 'npm', 'pip', 'apt', 'apt-get']);
/** Options with which a program that otherwise only looks may change something: write a file, or delete old logs. */
const WRITING =
  /^(?:-[A-Za-z]*[oOK]|--output|--vacuum|--rotate|--flush|--sync|--relinquish|--setup-keys|--cursor-file|--ext-diff)/;

/** Options that change nothing in what a program shows when its output is no terminal. */
const WITHOUT_EFFECT: Readonly<Record<string, RegExp>> = {
  grep: /^--colou?r(?:=(?:auto|never))?$/,
  ls: /^(?:-1|--colou?r(?:=(?:auto|never))?)$/,
  'systemctl status': /^--no-pager$/,
  journalctl: /^--no-pager$/,
  'git log': /^--no-color$/,
  'git diff': /^--no-color$/,
  'git show': /^--no-color$/,
};
/** Programs whose option `-n 20`, `-20`, `-n20` or `--lines=20` is a number of lines. */
const LINES = new Set(['systemctl status', 'journalctl', 'git log', 'head', 'tail']);
const LINES_OPTION = /^(?:-n|--lines|--max-count)$/;
const LINES_WRITTEN = /^(?:-n?|--lines=|--max-count=)(\d+)$/;
/** Programs that pass on the output of another program unchanged. */
const PAGERS = new Set(['less', 'more', 'cat']);

/** Whether a tool runs commands, by its name. */
export function isShell(tool: string): boolean {
  return SHELLS.test(tool);
}

/**
 * Reads the command of a shell's call.
 * @returns null for another tool, and for a command that is more than a pipeline of plain words, or too long
 */
export function readShellCommand({ name, input }: CallBlock): ShellCommand | null {
  if (!isShell(name) || !isObject(input)) return null;
  const key = COMMAND_KEYS.find((each) => typeof input[each] === 'string');
  if (key === undefined) return null;
  const command = input[key] as string;
  return command.length > COMMAND_CHARACTERS ? null : readPipeline(key, command);
}

/** Characters that mean more to a shell than a part of a word. */
const SPECIAL = /[;&<>$()`\\\n#{}!]/;

function readPipeline(key: string, command: string): ShellCommand | null {
  // Drop redirections of messages, but only at the end. Elsewhere they may be part of a quoted text.
  let text = command.trim().replace(/(?: ?(?:\d?>&\d|[12&]?> ?\/dev\/null))+$/, '');
  const into = /^([^'"]*?)\s*(?<![\d>&])>\s*([\w./-]+)$/.exec(text);
  if (into !== null) text = into[1]!;
  const stages: string[][] = [[]];
  const token = /[ \t]+|\|(?!\|)|(?:'[^']*'|"[^"$`\\]*"|[^ \t'"|])+/y;
  for (let at = 0; at < text.length; at = token.lastIndex) {
    token.lastIndex = at;
    const found = token.exec(text)?.[0];
    if (found === undefined) return null;
    if (found === '|') stages.push([]);
    else if (found.trim() !== '') {
      if (SPECIAL.test(found.replaceAll(/'[^']*'|"[^"]*"/g, ''))) return null;
      stages
        .at(-1)!
        .push(found.replaceAll(/'([^']*)'|"([^"]*)"/g, (_, a?: string, b?: string) => a ?? b ?? ''));
    }
  }
  const [first] = stages as [string[], ...string[][]];
  const isSudo = first[0] === 'sudo' && first[1]?.startsWith('-') === false;
  if (isSudo) first.shift();
  if (into === null && stages.some((words) => words.length === 0)) return null;
  return { key, stages, into: into?.[2] ?? null, isSudo };
}

/** A program with its subcommand: `df`, `systemctl restart`. */
function nameProgram(words: readonly string[]): string {
  const program = basename(words[0] ?? '');
  const [second] = words.slice(1).filter((word) => word !== '--no-pager');
  return SUBCOMMANDS.has(program) && second !== undefined ? `${program} ${second}` : program;
}

/**
 * Names the first program of a command; `write` if the output replaces a file; null if the command is not understood.
 */
export function programOf(call: CallBlock): string | null {
  const command = readShellCommand(call);
  if (command === null) return null;
  return command.into === null ? nameProgram(command.stages[0]!) : 'write';
}

/** Whether a command of a shell changes nothing. */
export function isShellLook(call: CallBlock): boolean {
  const command = readShellCommand(call);
  return command !== null && command.into === null && command.stages.every(isLooking);
}

function isLooking(words: readonly string[]): boolean {
  const [program, subcommand] = nameProgram(words).split(' ') as [string, string?];
  if (words.some((word) => WRITING.test(word))) return false;
  if (READERS.has(program) || program === 'journalctl') return true;
  return subcommand !== undefined && LOOKING_SUBCOMMANDS[program]?.includes(subcommand) === true;
}

/**
 * Whether two commands only look, and one has all operands of the other: `df` and `df /`. The programs are not compared.
 */
export function isWiderLook(a: CallBlock, b: CallBlock): boolean {
  if (!isShellLook(a) || !isShellLook(b)) return false;
  const [own, other] = [listOperands(a), listOperands(b)];
  return own.every((word) => other.includes(word)) || other.every((word) => own.includes(word));
}

function listOperands(call: CallBlock): string[] {
  const stages = readShellCommand(call)?.stages ?? [];
  return stages.flatMap((words) => words.slice(1).filter((word) => !word.startsWith('-')));
}

/**
 * Writes commands in the same way if they have the same effect and the same output. Options without effect are left
 * out.
 */
export function spellCommands(content: readonly StudentBlock[]): readonly StudentBlock[] {
  return content.map((block) => {
    const command = block.type === 'tool_call' ? readShellCommand(block) : null;
    if (block.type !== 'tool_call' || command === null) return block;
    const spelled = `${command.isSudo ? 'sudo ' : ''}${spellCommand(command)}`;
    return { ...block, input: { ...(block.input as object), [command.key]: spelled } };
  });
}

function spellCommand({ stages, into }: ShellCommand): string {
  const shown = stages.map(spellOptions);
  if (into !== null) {
    const isEmpty = shown.length === 1 && /^(?::|true|cat \/dev\/null|)$/.test(shown[0]!.join(' '));
    return isEmpty ? write([['truncate', '-s', '0', into]]) : `${write(shown)} > ${JSON.stringify(into)}`;
  }
  while (shown.length > 1 && PAGERS.has(shown.at(-1)![0]!) && shown.at(-1)!.length === 1) shown.pop();
  return write(countLines(shown).map(spellStage));
}

function write(stages: readonly (readonly string[])[]): string {
  return stages.map((words) => words.map((word) => JSON.stringify(word)).join(' ')).join(' | ');
}

/** Leaves out a lookup's options without effect, and writes its number of lines as `-n 20`. */
function spellOptions(words: readonly string[]): string[] {
  if (!isLooking(words)) return [...words];
  const name = nameProgram(words);
  const kept: string[] = [basename(words[0]!)];
  for (let at = 1; at < words.length; at++) {
    const word = words[at]!;
    if (WITHOUT_EFFECT[name]?.test(word) === true || (name.startsWith('git ') && word === '--no-pager'))
      continue;
    const lines = LINES_OPTION.test(word) ? words[at + 1] : LINES_WRITTEN.exec(word)?.[1];
    if (LINES.has(name) && lines !== undefined && /^\d+$/.test(lines)) {
      if (LINES_OPTION.test(word)) at++;
      kept.push('-n', lines);
    } else kept.push(word);
  }
  return kept;
}

/** `grep X FILE | wc -l` as `grep -c X FILE`. */
function countLines(stages: string[][]): string[][] {
  const [grep, wc] = stages as [string[], string[]?];
  const isCounted = stages.length === 2 && wc!.join(' ') === 'wc -l' && grep[0] === 'grep';
  const [, pattern, file, more] = grep;
  if (!isCounted || file === undefined || more !== undefined) return stages;
  return pattern!.startsWith('-') || file.startsWith('-') ? stages : [['grep', '-c', pattern!, file]];
}

/** Writes a changing command in one way if it has several: `kill -15 8` becomes `kill 8`. */
function spellStage(words: readonly string[]): readonly string[] {
  const text = words.join(' ');
  const killed = /^kill (?:-(?:SIG)?TERM|-15|-s (?:SIG)?TERM) (\d+)$/.exec(text);
  if (killed !== null) return ['kill', killed[1]!];
  const emptied = /^truncate (?:-s ?0|--size[= ]0) ([\w./-]+)$/.exec(text);
  return emptied === null ? words : ['truncate', '-s', '0', emptied[1]!];
}
