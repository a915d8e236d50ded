/**
 * `understudy completion`: prints a script with which a shell completes commands, their words and their options. The
 * script is made from the commands' `--help`, so both always agree. Main thread.
 */

import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';

const HELP = `Prints a script with which a shell completes commands, their words and their options.

Usage: understudy completion bash|zsh|fish

The script completes the names understudy and understudy-gateway. If only npx finds the command, define a shell function:
understudy() { npx understudy-gateway "$@"; }

Examples:
  understudy completion bash > ~/.local/share/bash-completion/completions/understudy
  understudy completion zsh > ~/.zfunc/_understudy     # a folder of fpath, before compinit
  understudy completion fish > ~/.config/fish/completions/understudy.fish
`;

/** A command: its name, its line in `understudy --help`, and the text that its `--help` prints. */
interface CommandHelp {
  name: string;
  summary: string;
  help: string;
}

interface Option {
  /** The option's name with both dashes. */
  name: string;
  /** The option's description in the help; '' without one. */
  summary: string;
  takes_value: boolean;
}

/** What can be completed after one command. */
interface Completion {
  /** The command's name. */
  name: string;
  /** The command's line in `understudy --help`. */
  summary: string;
  /** The words that may follow the command's name directly, such as `list` in `understudy keys list`. */
  words: string[];
  options: Option[];
}

/** Names under which the command is installed. */
const NAMES = ['understudy', 'understudy-gateway'] as const;
const GENERAL = ['--help', '--version'] as const;

const SCRIPTS: Readonly<Record<string, (commands: readonly Completion[]) => string>> = {
  bash: writeBash,
  zsh: writeZsh,
  fish: writeFish,
};

/**
 * Prints the script for the shell that `argv` names.
 * @param readHelps reads the help of every command, in the order of `understudy --help`
 * @returns the exit status
 * @throws UsageError for another shell, or for further words
 */
export async function runCompletion(
  argv: string[],
  io: CliIo,
  readHelps: () => Promise<CommandHelp[]>,
): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, {});
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [shell = '', ...rest] = words;
  refuseWords(rest);
  const write = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
  if (write === undefined) throw new UsageError(`name the shell: ${Object.keys(SCRIPTS).join(', ')}`);
  await io.out(write((await readHelps()).map(readCompletion)));
  return EXIT.done;
}

/** Reads from a command's help what can be completed: from the usage lines, and from the lines that describe options. */
function readCompletion({ name, summary, help }: CommandHelp): Completion {
  const options = new Map<string, Option>();
  for (const [, option = '', value, about = ''] of help.matchAll(
    /^ {2}(--[\w-]+)( [A-Z]\w*)?(?: {2,}(.*))?$/gm,
  ))
    options.set(option, { name: option, summary: about, takes_value: value !== undefined });
  const words = new Set<string>();
  for (const [, usage = ''] of help.matchAll(/^(?:Usage:| {6}) understudy ([^\n]*)$/gm)) {
    const [, word = ''] = /^[\w-]+ +([a-z][a-z-]*(?:\|[a-z][a-z-]*)*)(?= |$)/.exec(usage) ?? [];
    for (const noun of word.split('|')) if (noun !== '') words.add(noun);
    for (const [, option = '', value] of usage.matchAll(/(--[\w-]+)( [A-Za-z]\S*)?/g))
      if (!options.has(option))
        options.set(option, { name: option, summary: '', takes_value: value !== undefined });
  }
  options.set('--help', { name: '--help', summary: 'show the options, with examples', takes_value: false });
  return { name, summary, words: [...words], options: [...options.values()] };
}

/** Puts a text in single quotes, as these shells read them. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

const namesOf = (options: readonly Option[]) => options.map(({ name }) => name);
const withValue = (options: readonly Option[]) =>
  options.filter(({ takes_value }) => takes_value).map(({ name }) => name);

/** Writes the script for bash. If the script offers no word, bash completes names of files (`-o default`). */
function writeBash(commands: readonly Completion[]): string {
  const cases = commands.map(
    ({ name, words, options }) =>
      `    ${name}) words=${quote(words.join(' '))} options=${quote(namesOf(options).join(' '))} values=${quote(withValue(options).join(' '))} ;;`,
  );
  return `# bash completion of understudy
_understudy() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} words= options= values=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quote([...commands.map(({ name }) => name), ...GENERAL].join(' '))} -- "$current"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
  case " $values = " in *" $before "*) return ;; esac
  [ "$current" = = ] && return
  [ "$COMP_CWORD" -eq 2 ] && options="$words $options"
  COMPREPLY=($(compgen -W "$options" -- "$current"))
}
complete -o default -F _understudy ${NAMES.join(' ')}
`;
}

/** Writes the script for zsh, which works both as a file in a folder of fpath and when a shell sources it. */
function writeZsh(commands: readonly Completion[]): string {
  const described = (all: readonly { name: string; summary: string }[]) =>
    all.map(({ name, summary }) => quote(summary === '' ? name : `${name}:${summary}`)).join(' ');
  const cases = commands.map(
    ({ name, words, options }) =>
      `    ${name}) nouns=(${words.join(' ')}) options=(${described(options)}) values=(${withValue(options).join(' ')}) ;;`,
  );
  return `#compdef ${NAMES.join(' ')}
_understudy() {
  local -a commands nouns options values
  commands=(${described(commands)})
  if (( CURRENT == 2 )); then
    _describe command commands
    compadd -- ${GENERAL.join(' ')}
    return
  fi
  case $words[2] in
${cases.join('\n')}
  esac
  if (( \${values[(Ie)$words[CURRENT-1]]} )); then
    _files
    return
  fi
  (( CURRENT == 3 && $#nouns )) && compadd -- $nouns
  if [[ $words[CURRENT] == -* ]]; then _describe option options; elif (( CURRENT > 3 || ! $#nouns )); then _files; fi
}
if [[ $funcstack[1] == _understudy ]]; then _understudy "$@"; else compdef _understudy ${NAMES.join(' ')}; fi
`;
}

function writeFish(commands: readonly Completion[]): string {
  const lines = commands.flatMap(({ name, summary, words, options }) => [
    `complete -c understudy -f -n 'test (count (commandline -opc)) -eq 1' -a ${name} -d ${quoteForFish(summary)}`,
    ...(words.length === 0
      ? []
      : [
          `complete -c understudy -f -n '__understudy_is ${name}; and test (count (commandline -opc)) -eq 2' -a ${quote(words.join(' '))}`,
        ]),
    ...options.map(
      (option) =>
        `complete -c understudy -n '__understudy_is ${name}' -l ${option.name.slice(2)}${option.takes_value ? ' -r' : ''} -d ${quoteForFish(option.summary)}`,
    ),
  ]);
  return `# fish completion of understudy
function __understudy_is
    set -l given (commandline -opc)
    test (count $given) -ge 2; and test $given[2] = $argv[1]
end
complete -c understudy -f -n 'test (count (commandline -opc)) -eq 1' -a ${quote(GENERAL.join(' '))}
${lines.join('\n')}
${NAMES.slice(1)
  .map((name) => `complete -c ${name} -w understudy`)
  .join('\n')}
`;
}

/** Puts a text in single quotes for fish, in which a quote and a backslash need a backslash before them. */
function quoteForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
