/**
 * DATA_KEY_FILE from the outside: the whole service under a key leaves nothing on the disk of what it was given, the commands
 * read it, and every one of them refuses another key, none, and one for what is not encrypted.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { WholeService } from '../fixtures/whole-service.ts';
import { readAllFiles } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';
import { runCli } from './child.ts';

const CANARY = 'Kanarienvogel-4711';

function writeKey(folder: string, name: string): string {
  const path = join(folder, name);
  writeFileSync(path, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  return path;
}

/** Texts that would give away what was sent. */
function expectNothing(folder: string, picture: Buffer): void {
  const needles = [
    Buffer.from(CANARY),
    Buffer.from(Buffer.from(CANARY).toString('base64').slice(0, 20)),
    Buffer.from('lorem ipsum lorem'),
    Buffer.from('unit tests'),
    Buffer.from('"role":"user"'),
    picture.subarray(0, 32),
  ];
  for (const { path, bytes } of readAllFiles(folder))
    for (const needle of needles) expect(bytes.includes(needle), `${needle} in ${path}`).toBe(false);
}

it('leaves nothing on the disk of what it was given, in no file and at no moment, and reads it again', async () => {
  const folder = makeFolder();
  const DATA_KEY_FILE = writeKey(folder, 'key');
  await using service = new WholeService(join(folder, 'data'), { DATA_KEY_FILE });
  await service.start();
  const picture = await service.use(CANARY);
  expectNothing(service.dir, picture);
  await service.kill();
  expectNothing(service.dir, picture);
  const names = readdirSync(service.dir, { recursive: true, encoding: 'utf8' });
  for (const name of [/^main\.mdb$/, /^runs\.1\.redo$/, /^capture\.\d+-\d+\.mdb$/, /\.files\/[0-9a-f]{64}$/])
    expect(
      names.some((one) => name.test(one)),
      String(name),
    ).toBe(true);
  expect(names.some((name) => name.startsWith('pattern-graphs'))).toBe(false);

  // What was promised before the end is there, and what was captured.
  await service.start();
  const listed = await service.run('inspect');
  expect(listed).toContain('run-a');
  expect(await service.run('inspect', '--run', 'run-a')).toContain(CANARY);
  expect(await service.run('inspect', '--exchange', '4', '--raw', 'request')).toContain(
    picture.toString('base64'),
  );
  expect(await service.run('trace')).toContain(CANARY);
  expect(await service.run('patterns', 'export', '--tier', 'e3', '-')).toContain('situation');
  expect(await service.run('feedback')).toContain(CANARY);
  const copy = join(folder, 'copy');
  await service.run('backup', '--out', copy);
  expect(await service.stop()).toBe(0);
  expectNothing(service.dir, picture);
  expectNothing(copy, picture);

  await using again = new WholeService(join(folder, 'restored'), { DATA_KEY_FILE });
  await again.run('restore', '--from', copy);
  expect(await again.run('inspect', '--run', 'run-a')).toContain(CANARY);
  await again.start();
  expect(await again.stop()).toBe(0);
});

it('is refused by every command under another key, under none, and where nothing is encrypted', async () => {
  const folder = makeFolder();
  const DATA_KEY_FILE = writeKey(folder, 'key');
  const other = { DATA_KEY_FILE: writeKey(folder, 'other') };
  const sealed = new WholeService(join(folder, 'sealed'), { DATA_KEY_FILE });
  const plain = new WholeService(join(folder, 'plain'));
  for (const service of [sealed, plain]) {
    await using running = service;
    await running.start();
    await running.use(CANARY);
    expect(await running.stop()).toBe(0);
  }
  const out = (name: string) => join(folder, name);
  const commands = [
    ['up', '--port', '0'],
    ['serve', '--port', '0'],
    ['gateway', '--port', '0'],
    ['inspect'],
    ['trace', '--out', out('traces')],
    ['distill', '--out', out('student')],
    ['loop', '--once', '--out', out('student')],
    ['backup', '--out', out('copy')],
    ['keys', 'list'],
    ['patterns', 'export', '--tier', 'e3', out('patterns')],
    ['feedback'],
  ];
  for (const command of commands) {
    for (const [dir, env, words] of [
      [
        sealed.dir,
        other,
        /^understudy: .*\.mdb is encrypted under another key \([0-9a-f]{16}\) than the one in DATA_KEY_FILE \([0-9a-f]{16}\)/,
      ],
      [sealed.dir, {}, /^understudy: .*\.mdb is encrypted: DATA_KEY_FILE must name the file of its key/],
      [plain.dir, other, /^understudy: .*\.mdb is not encrypted, and DATA_KEY_FILE is set: understudy rekey/],
    ] as const) {
      const ended = await runCli(command, { DATA_DIR: dir, PORT: '0', ...env });
      expect(ended, command.join(' ')).toMatchObject({ code: 1, stdout: '' });
      expect(ended.stderr).toMatch(words);
      expect(ended.stderr.trimEnd().split('\n'), command.join(' ')).toHaveLength(1);
    }
  }
  for (const name of ['traces', 'copy', 'patterns']) expect(existsSync(out(name)), name).toBe(false);
  // What would be found, were it there.
  expect(readAllFiles(plain.dir).some(({ bytes }) => bytes.includes(CANARY))).toBe(true);
});

it('says what is wrong with a key file, and not what is in it', async () => {
  const folder = makeFolder();
  const missing = await runCli(['inspect'], { DATA_DIR: folder, DATA_KEY_FILE: join(folder, 'none') });
  expect(missing).toMatchObject({
    code: 78,
    stderr: `understudy: DATA_KEY_FILE="${join(folder, 'none')}": there is no such file\n`,
  });
  const short = join(folder, 'short');
  writeFileSync(short, 'only-some-letters', { mode: 0o600 });
  const refused = await runCli(['up'], { DATA_DIR: folder, DATA_KEY_FILE: short });
  expect(refused.code).toBe(78);
  expect(refused.stderr).toContain('32 random bytes');
  expect(refused.stderr).not.toContain('only-some-letters');
});

it('is changed by rekey: for what was not encrypted, to another one, and back to none', async () => {
  const folder = makeFolder();
  const [first, second] = [writeKey(folder, 'first'), writeKey(folder, 'second')];
  const dir = join(folder, 'data');
  await using plain = new WholeService(dir);
  await plain.start();
  const picture = await plain.use(CANARY);
  expect(await plain.try('rekey', '--to', first)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^understudy: process \d+ serves from there: stop it first/),
  });
  expect(await plain.stop()).toBe(0);
  const rekey = (from: string | null, to: string) =>
    runCli(['rekey', '--to', to], { DATA_DIR: dir, ...(from === null ? {} : { DATA_KEY_FILE: from }) });
  for (const [from, to] of [
    [null, first],
    [first, second],
    [second, 'none'],
  ] as const) {
    const done = await rekey(from, to);
    expect(done, done.stderr).toMatchObject({ code: 0, stderr: '' });
    const words =
      to === 'none' ? 'Nothing is encrypted now: ' : /^Encrypted under key [0-9a-f]{16}: \d+ files, /;
    expect(done.stdout).toMatch(words);
    if (to !== 'none') expectNothing(dir, picture);
    await using service = new WholeService(dir, to === 'none' ? {} : { DATA_KEY_FILE: to });
    await service.start();
    expect(await service.run('inspect', '--run', 'run-a')).toContain(CANARY);
    expect(await service.run('inspect', '--exchange', '4', '--raw', 'request')).toContain(
      picture.toString('base64'),
    );
    expect(await service.run('feedback')).toContain(CANARY);
    expect(await service.stop()).toBe(0);
  }
  expect(await rekey(null, 'none')).toMatchObject({ code: 2 });
  expect(await rekey(null, join(folder, 'missing'))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('there is no such file'),
  });
}, 180_000);
