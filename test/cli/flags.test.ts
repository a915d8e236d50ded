/** Wrong flags: every command refuses them in the same words, which say what to do, with exit status 2. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runAlerts } from '../../src/cli/alerts.ts';
import { runBackup } from '../../src/cli/backup.ts';
import { runDistill } from '../../src/cli/distill.ts';
import { readFlags, readFlagsAndWords, refuseWords } from '../../src/cli/flags.ts';
import { runInspect } from '../../src/cli/inspect.ts';
import { type CliIo, EXIT, UsageError } from '../../src/cli/io.ts';
import { runFeedback, runKeys } from '../../src/cli/keys.ts';
import { runLoop } from '../../src/cli/loop.ts';
import { runPatterns } from '../../src/cli/patterns.ts';
import { runStart } from '../../src/cli/start.ts';
import { runToken } from '../../src/cli/token.ts';
import { runTrace } from '../../src/cli/trace.ts';
import { findNearestName } from '../../src/std/nearest-name.ts';
import { longFrom } from '../long-parts.ts';
import { runCli } from './child.ts';

const io: CliIo = { out: async () => {}, err: () => {}, is_terminal: false, has_color: false };

/** @returns the message after a wrong use */
async function refusalOf(act: () => unknown): Promise<string> {
  try {
    await act();
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(UsageError);
    expect((thrown as UsageError).exit_code).toBe(EXIT.usage);
    return (thrown as UsageError).message;
  }
  throw new Error('nothing was refused');
}

interface Entry {
  run: (argv: string[]) => Promise<number>;
  /** An option of the command that takes a value. */
  text: string;
  /** Words for the command, one more than it accepts. */
  words: string[];
}

const COMMANDS: Record<string, Entry> = {
  up: { run: (argv) => runStart('up', argv, io), text: '--note', words: ['extra'] },
  serve: { run: (argv) => runStart('serve', argv, io), text: '--port', words: ['extra'] },
  gateway: { run: (argv) => runStart('gateway', argv, io), text: '--db', words: ['extra'] },
  inspect: { run: (argv) => runInspect(argv, io), text: '--run', words: ['extra', '--limits'] },
  trace: { run: (argv) => runTrace(argv, io), text: '--out', words: ['extra'] },
  distill: { run: (argv) => runDistill(argv, io), text: '--tier', words: ['extra'] },
  loop: { run: (argv) => runLoop(argv, io), text: '--every', words: ['extra'] },
  token: { run: (argv) => runToken(argv, io), text: '--email', words: ['extra'] },
  'keys list': { run: (argv) => runKeys(argv, io), text: '--org', words: ['list', 'extra'] },
  'keys create': { run: (argv) => runKeys(argv, io), text: '--name', words: ['create', 'extra'] },
  'keys revoke': { run: (argv) => runKeys(argv, io), text: '--org', words: ['revoke', 'key_1', 'extra'] },
  alerts: { run: (argv) => runAlerts(argv, io), text: '--url', words: ['list', 'extra'] },
  feedback: { run: (argv) => runFeedback(argv, io), text: '--limit', words: ['extra'] },
  patterns: { run: (argv) => runPatterns(argv, io), text: '--tier', words: ['export', 'file', 'extra'] },
  backup: { run: (argv) => runBackup('backup', argv, io), text: '--out', words: ['extra'] },
  restore: { run: (argv) => runBackup('restore', argv, io), text: '--from', words: ['extra'] },
};

describe.each(Object.entries(COMMANDS))('understudy %s', (_name, { run, text, words }) => {
  it('refuses unknown options', async () => {
    expect(await refusalOf(() => run(['--bogus']))).toBe('there is no option --bogus');
    expect(await refusalOf(() => run(['--bogus=secret']))).toBe('there is no option --bogus');
    expect(await refusalOf(() => run(['-x']))).toBe('there is no option -x');
    expect(await refusalOf(() => run(['--hlep']))).toBe('there is no option --hlep; did you mean --help?');
  });

  it('requires a value only for options that take one', async () => {
    expect(await refusalOf(() => run([text]))).toBe(`${text} takes a value: write ${text} VALUE`);
    expect(await refusalOf(() => run([text, '--help']))).toBe(
      `${text} takes a value; if --help is that value, write ${text}=--help`,
    );
    expect(await refusalOf(() => run(['--help=yes']))).toBe('--help takes no value: write only --help');
  });

  it('refuses extra words', async () => {
    expect(await refusalOf(() => run(words))).toBe(
      'extra belongs to no option: leave the word out, or put its option in front',
    );
  });
});

it('commands refuse the options of other commands', async () => {
  const wrong: [string, string][] = [
    ['serve', '--note'],
    ['serve', '--db'],
    ['backup', '--from'],
    ['restore', '--out'],
    ['distill', '--once'],
  ];
  for (const [name, flag] of wrong)
    expect(await refusalOf(() => COMMANDS[name]!.run([flag, 'x']))).toMatch(`there is no option ${flag}`);
});

const misuses = [
  ['trace', '--nope'],
  ['token', '--email'],
  ['keys', 'list', 'extra'],
];
for (const [at, argv] of misuses.entries())
  it(
    `a process exits with 2 after one line that says where to read more: ${argv.join(' ')}`,
    longFrom(at, 1),
    async () => {
      const { code, stdout, stderr } = await runCli(argv);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toMatch(/^understudy: [^\n]+\nSee: understudy \w+ --help\n$/);
      expect(stderr).toContain(`See: understudy ${argv[0]} --help`);
    },
  );

const KINDS = { db: 'text', 'not-golden': 'switch' } as const;

describe('flags', () => {
  it('are read in any order and both forms, separately from words, and the last one counts', () => {
    const argv = ['--db', 'a', 'one', '--not-golden', '--db=--b', 'two', '--', '--db', '-'];
    expect(readFlagsAndWords(argv, KINDS)).toEqual({
      values: { db: '--b', 'not-golden': true },
      words: ['one', 'two', '--db', '-'],
    });
    expect(readFlags(['--db=', '-h'], KINDS)).toEqual({ db: '', help: true });
    expect(readFlags(['--db', '-'], KINDS)).toEqual({ db: '-' });
    expect(readFlags([], KINDS)).toEqual({});
  });

  it('are suggested for a near miss', async () => {
    const refusal = (flag: string) => refusalOf(() => readFlags([flag], KINDS));
    expect(await refusal('--golden')).toBe('there is no option --golden');
    expect(await refusal('--not-goldn')).toBe('there is no option --not-goldn; did you mean --not-golden?');
    expect(await refusal('-d')).toBe('there is no option -d; did you mean --db?');
    expect(await refusal('--xy')).toBe('there is no option --xy');
    expect(await refusal('--__proto__')).toBe('there is no option --__proto__');
    expect(await refusal('--toString')).toBe('there is no option --toString');
  });

  it('are refused in one bounded line without terminal control characters', () => {
    const word = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 300 }),
      fc.constantFrom(
        '--db',
        '--db=',
        '--not-golden',
        '--not-golden=1',
        '-h',
        '--',
        '-',
        '--\u001b[2J',
        '-\n',
      ),
    );
    const argvs = fc.array(
      fc.oneof(
        word,
        word.map((text) => `--${text}`),
      ),
      { maxLength: 5 },
    );
    fc.assert(
      fc.property(argvs, (argv) => {
        try {
          refuseWords(readFlagsAndWords(argv, KINDS).words);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(UsageError);
          const { message } = thrown as UsageError;
          expect(message).not.toMatch(/\p{Cc}/u);
          expect(message.length).toBeLessThan(2_000);
        }
      }),
    );
  });
});

it('a suggested name differs by at most two edits, and has something in common with the input', () => {
  const names = ['up', 'serve', 'inspect'];
  expect(findNearestName('inpsect', names)).toBe('inspect');
  expect(findNearestName('serv', names)).toBe('serve');
  expect(findNearestName('u', names)).toBe('up');
  expect(findNearestName('xy', names)).toBeNull();
  expect(findNearestName('insect pest', names)).toBeNull();
  expect(findNearestName('s'.repeat(1e6), names)).toBeNull();
  expect(findNearestName('up', [])).toBeNull();
});
