/** `understudy hooks`: its output, and its changes to a user's own settings. */

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { mergeSettings } from '../../src/hooks/settings.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-settings-'));
  file = join(folder, '.claude', 'settings.json');
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
});

const hooks = (...words: string[]) => runHere(['hooks', ...words], { HOME: folder });
const write = (...words: string[]) => hooks('claude-code', '--write', '--file', file, ...words);
const read = () => JSON.parse(readFileSync(file, 'utf8'));

function put(text: string): void {
  mkdirSync(join(folder, '.claude'), { recursive: true });
  writeFileSync(file, text);
}

const EVENTS = ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'Stop', 'SubagentStop', 'SessionEnd'];

describe('printed settings', () => {
  it.each([
    ['claude-code', [...EVENTS, 'PostToolUseFailure']],
    ['codex', EVENTS],
  ])('of %s call the hook at its events', async (client, events) => {
    const { code, stdout, stderr } = await hooks(client, '--codebase', "it's mine", '--url', 'http://u:8000');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const settings = JSON.parse(stdout);
    expect(Object.keys(settings)).toEqual(['hooks']);
    expect(Object.keys(settings.hooks)).toEqual(events);
    const commands = new Set<string>();
    for (const groups of Object.values<{ hooks: { type: string; command: string; timeout: number }[] }[]>(
      settings.hooks,
    )) {
      const [{ type, command, timeout }] = groups[0]!.hooks as [
        { type: string; command: string; timeout: number },
      ];
      expect({ type, timeout }).toEqual({ type: 'command', timeout: 5 });
      expect(command).toContain(` hook ${client} --url http://u:8000 --codebase 'it'\\''s mine'`);
      commands.add(command);
    }
    // The written command runs, and succeeds without a key.
    for (const command of commands)
      expect(spawnSync('sh', ['-c', command], { input: '{}', encoding: 'utf8' })).toMatchObject({
        status: 0,
        stdout: '',
        stderr: '',
      });
  });

  it.each([
    ['no client', [], 'name the client: claude-code or codex'],
    ['another client', ['cursor'], 'name the client'],
    ['a word too many', ['codex', 'please'], '"please"'],
    ['both', ['codex', '--write', '--remove'], 'cannot be combined'],
    ['a flag that there is not', ['codex', '--wirte'], 'did you mean --write?'],
  ])('are refused for %s', async (_, words, told) => {
    const { code, stdout, stderr } = await hooks(...words);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr.replaceAll('please belongs', '"please" belongs')).toContain(told);
  });
});

describe('installed settings', () => {
  it('are created once if the file has no hooks', async () => {
    expect(await write()).toMatchObject({ code: 0, stdout: `Written to ${file}\n` });
    const first = readFileSync(file, 'utf8');
    expect(Object.keys(read().hooks)).toContain('PostToolUse');
    expect(await write()).toMatchObject({ code: 0, stdout: `${file} already has the hooks\n` });
    expect(readFileSync(file, 'utf8')).toBe(first);
    expect(readdirSync(join(folder, '.claude'))).toEqual(['settings.json']);
  });

  it('keep the existing hooks, and replace an old command', async () => {
    const own = { matcher: 'Bash', hooks: [{ type: 'command', command: './lint.sh' }] };
    const before = {
      model: 'opus',
      hooks: { PostToolUse: [own], PreToolUse: [own], Notification: [] },
      permissions: { allow: ['Bash(npm test)'] },
    };
    put(JSON.stringify(before, null, '\t'));
    await write();
    const after = read();
    expect(Object.keys(after)).toEqual(['model', 'hooks', 'permissions']);
    expect(after).toMatchObject({ model: 'opus', permissions: before.permissions });
    expect(after.hooks.PreToolUse).toEqual([own]);
    expect(after.hooks.PostToolUse).toEqual([own, expect.anything()]);
    expect(readFileSync(file, 'utf8')).toContain('\n\t"model"');
    await write('--codebase', 'owner/name');
    expect(read().hooks.PostToolUse).toEqual([
      own,
      { hooks: [expect.objectContaining({ command: expect.stringContaining('owner/name') })] },
    ]);
    expect(await hooks('claude-code', '--remove', '--file', file)).toMatchObject({
      code: 0,
      stdout: `Removed from ${file}\n`,
    });
    expect(read()).toEqual({ ...before, hooks: { PostToolUse: [own], PreToolUse: [own], Notification: [] } });
    expect(await hooks('claude-code', '--remove', '--file', file)).toMatchObject({
      stdout: `${file} has no hooks of Understudy\n`,
    });
  });

  it('do not change the rest of a group that contains our hook', async () => {
    await write();
    const settings = read();
    const other = { type: 'command', command: 'true' };
    settings.hooks.Stop[0].hooks.unshift(other);
    put(JSON.stringify(settings));
    await hooks('claude-code', '--remove', '--file', file);
    expect(read()).toEqual({ hooks: { Stop: [{ hooks: [other] }] } });
  });

  it.each([
    ['no JSON', '{"model": "opus",}', 'not valid JSON'],
    ['with comments', '{\n  // mine\n  "model": "opus"\n}', 'not valid JSON'],
    ['a list', '[]', 'it is not an object'],
    ['with hooks that are a text', '{"hooks":"all"}', '"hooks" is not an object'],
    ['with an event that is not a list', '{"hooks":{"Stop":{}}}', '"hooks.Stop" is not a list'],
    [
      'with an entry that is a text',
      '{"hooks":{"Stop":["run"]}}',
      'an entry of "hooks.Stop" is not an object',
    ],
  ])('refuse a file that is %s, and leave it as it is', async (_, text, fault) => {
    put(text);
    const { code, stdout, stderr } = await write();
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`${file} was not changed: `);
    expect(stderr).toContain(fault);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  it('accept an empty file like a missing one', async () => {
    put('');
    await write();
    expect(Object.keys(read())).toEqual(['hooks']);
  });

  it('leave a symbolic link and the permissions of the file as they are', async () => {
    mkdirSync(join(folder, '.claude'));
    const kept = join(folder, 'dotfiles.json');
    writeFileSync(kept, '{}');
    chmodSync(kept, 0o640);
    symlinkSync(kept, file);
    await write();
    expect(lstatSync(file).isSymbolicLink()).toBe(true);
    expect(statSync(kept).mode & 0o777).toBe(0o640);
    expect(Object.keys(JSON.parse(readFileSync(kept, 'utf8')))).toEqual(['hooks']);
  });

  it.each<[string, (path: string) => void, string]>([
    ['a named pipe', (path) => spawnSync('mkfifo', [path]), 'not a regular file'],
    ['a folder', (path) => mkdirSync(path), 'not a regular file'],
    ['a link to a device', (path) => symlinkSync('/dev/null', path), 'not a regular file'],
    ['a link to an endless device', (path) => symlinkSync('/dev/zero', path), 'not a regular file'],
    ['a dangling link', (path) => symlinkSync('/nowhere/settings.json', path), 'a missing file'],
    ['bytes that are no text', (path) => writeFileSync(path, Buffer.from([0x7b, 0xff, 0x7d])), 'not UTF-8'],
  ])('refuse %s, and leave it as it is', async (_, make, fault) => {
    mkdirSync(join(folder, '.claude'));
    make(file);
    const before = lstatSync(file);
    for (const flag of ['--write', '--remove']) {
      const { code, stdout, stderr } = await hooks('claude-code', flag, '--file', file);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain(`${file} was not changed: `);
      expect(stderr).toContain(fault);
    }
    expect(lstatSync(file)).toMatchObject({ ino: before.ino, mode: before.mode, size: before.size });
    expect(readdirSync(join(folder, '.claude'))).toEqual(['settings.json']);
  });

  it.each([
    ['large integers', '{"id": 2512292042121000001,\n "n": 1.0, "e": 1E400, "z": -0}\n'],
    ['escapes and doubled keys', '{ "a\\u0041" : "\\/\\u00e9" , "a": 1, "a": 2 }'],
    [
      'lines of Windows',
      '{\r\n\t"hooks": {\r\n\t\t"Stop": [{ "hooks": [{ "command": "true" }] }]\r\n\t}\r\n}\r\n',
    ],
    ['a byte order mark', '\uFEFF{"model":"opus"}'],
    ['odd blanks', '\n\n  {  "hooks"  :  { "PreToolUse":[ ] ,"x":[{"hooks":[]}]  }   }  \n\n'],
    ['a key that is a number', '{"b":1,"1":2,"__proto__":{"a":1}}'],
  ])('change no byte of others: %s', async (_, text) => {
    put(text);
    expect(await write()).toMatchObject({ code: 0 });
    const written = readFileSync(file, 'utf8');
    expect(Object.keys(JSON.parse(written.replace(/^\uFEFF/, '')).hooks)).toEqual(
      expect.arrayContaining(EVENTS),
    );
    // All of the old text still exists, in the same order.
    let at = 0;
    for (const character of text) {
      at = written.indexOf(character, at) + 1;
      expect(at, character).toBeGreaterThan(0);
    }
    expect(await hooks('claude-code', '--remove', '--file', file)).toMatchObject({ code: 0 });
    const removed = readFileSync(file, 'utf8');
    expect(removed.replaceAll(/\s|,?"hooks":\{\}|,?"Stop":\[\]/g, '')).toBe(
      text.replaceAll(/\s|,?"hooks":\{\}|,?"Stop":\[\]/g, ''),
    );
  });

  it('are written to the file that the client reads if no file is named', async () => {
    const claude = new CliChild(['hooks', 'claude-code', '--write'], {
      cwd: folder,
      env: { HOME: '/nowhere' },
    });
    expect(await claude.ended).toMatchObject({ code: 0 });
    expect(Object.keys(read())).toEqual(['hooks']);
    const codex = new CliChild(['hooks', 'codex', '--write'], { cwd: '/', env: { HOME: folder } });
    expect(await codex.ended).toMatchObject({ code: 0 });
    expect(Object.keys(JSON.parse(readFileSync(join(folder, '.codex', 'hooks.json'), 'utf8')))).toEqual([
      'hooks',
    ]);
  });
});

describe('settings of any shape', () => {
  const command = fc.constantFrom('./lint.sh', 'echo "understudy hook"', 'understudy status', 'true');
  const hook = fc.record(
    { type: fc.constant('command'), command, timeout: fc.nat() },
    { requiredKeys: ['command'] },
  );
  const group = fc.record(
    { matcher: fc.constantFrom('Bash', '*', ''), hooks: fc.array(hook, { minLength: 1, maxLength: 3 }) },
    { requiredKeys: ['hooks'] },
  );
  const event = fc.constantFrom('PreToolUse', 'PostToolUse', 'Stop', 'Notification', 'SessionEnd');
  const groups = fc.array(group, { minLength: 1, maxLength: 3 });
  // JSON.parse puts numeric names first, wherever they were.
  const name = fc.string().filter((text) => !/^\d+$/.test(text) && text !== '__proto__' && text !== 'hooks');
  const settings = fc
    .tuple(
      fc.dictionary(name, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
      fc.option(fc.dictionary(event, groups, { minKeys: 1, maxKeys: 4 })),
      fc.boolean(),
    )
    .map(([others, hooks, first]) =>
      hooks === null ? others : first ? { hooks, ...others } : { ...others, hooks },
    );
  const OURS = '/usr/bin/node /opt/understudy.mjs hook claude-code';

  it('keep all existing content in order, and are as before when our hook is removed', () => {
    fc.assert(
      fc.property(settings, fc.constantFrom('claude-code' as const, 'codex' as const), (before, client) => {
        const text = `${JSON.stringify(before, null, 2)}\n`;
        const written = mergeSettings(client, text, OURS);
        expect(mergeSettings(client, written, OURS)).toBe(written);
        expect(mergeSettings(client, written, `${OURS} --url http://u:1`)).toBe(
          written.replaceAll(OURS, `${OURS} --url http://u:1`),
        );
        expect(mergeSettings(client, written, null)).toBe(text);
      }),
    );
  });
});
