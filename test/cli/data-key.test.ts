/**
 * DATA_KEY_FILE: a service with a key leaves no plain text on the disk, and the commands can read its data. Commands
 * refuse a wrong key, a missing key, and a key for data that is not encrypted. Two services are filled once,
 * one with a key and one without. The tests depend on their order.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readKeyFile } from '../../src/std/key-file.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { readAllFiles } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';
import { runCli } from './child.ts';
import { runHere } from './here.ts';

const CANARY = 'Kanarienvogel-4711';

let folder: string;
let DATA_KEY_FILE: string;
let sealed: WholeService;
let plain: WholeService;
/** The content of an attachment that the service without a key has captured. */
let picture: Buffer;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-key-'));
  DATA_KEY_FILE = writeKey(folder, 'key');
  sealed = new WholeService(join(folder, 'sealed'), { DATA_KEY_FILE });
  plain = new WholeService(join(folder, 'plain'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function writeKey(folder: string, name: string): string {
  const path = join(folder, name);
  writeFileSync(path, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  return path;
}

/** Expects that no file contains a text that would reveal the data that was sent. */
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

it('a data key encrypts all data on the disk, while the service runs, after a kill and after a stop, and the data can be read again', {
  tags: 'long',
}, async () => {
  await using service = sealed;
  await service.start();
  const picture = await service.use(CANARY);
  expectNothing(service.dir, picture);
  await service.kill();
  expectNothing(service.dir, picture);
  const names = readdirSync(service.dir, { recursive: true, encoding: 'utf8' });
  for (const name of [/^main\.mdb$/, /^runs\.1\.redo$/, /^capture\.\d+-\d+\.mdb$/, /\.files\/[0-9a-f]{64}$/])
    expect(
      names.some((entry) => name.test(entry)),
      String(name),
    ).toBe(true);
  expect(names.some((name) => name.startsWith('pattern-graphs'))).toBe(false);

  // After a restart, all acknowledged and captured data can be read.
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

it('commands refuse another data key, a missing one, and a key for unencrypted data', {
  tags: 'long',
}, async () => {
  const other = { DATA_KEY_FILE: writeKey(folder, 'other') };
  await using unsealed = plain;
  await unsealed.start();
  picture = await unsealed.use(CANARY);
  expect(await unsealed.try('rekey', '--to', DATA_KEY_FILE)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^understudy: process \d+ uses the databases: stop that process first/),
  });
  expect(await unsealed.stop()).toBe(0);
  const out = (name: string) => join(folder, name);
  const commands = [
    ['up', '--port', '0'],
    ['serve', '--port', '0'],
    ['gateway', '--port', '0'],
    ['inspect'],
    ['trace', '--out', out('traces')],
    ['distill', '--out', out('student')],
    ['loop', '--once', '--out', out('student')],
    ['backup', '--out', out('refused')],
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
      // For each kind, one start and one guarded command run as a separate process.
      const isProcess = env === other && dir === sealed.dir && ['up', 'inspect'].includes(command[0]!);
      const run = isProcess ? runCli : runHere;
      const ended = await run(command, { DATA_DIR: dir, PORT: '0', ...env });
      expect(ended, command.join(' ')).toMatchObject({ code: 1, stdout: '' });
      expect(ended.stderr).toMatch(words);
      expect(ended.stderr.trimEnd().split('\n'), command.join(' ')).toHaveLength(1);
    }
  }
  for (const name of ['traces', 'refused', 'patterns']) expect(existsSync(out(name)), name).toBe(false);
  // In unencrypted data, the same search finds the words.
  expect(readAllFiles(plain.dir).some(({ bytes }) => bytes.includes(CANARY))).toBe(true);
});

it('an invalid key file is reported without its content', async () => {
  const missing = await runHere(['inspect'], { DATA_DIR: folder, DATA_KEY_FILE: join(folder, 'none') });
  expect(missing).toMatchObject({
    code: 78,
    stderr: `understudy: DATA_KEY_FILE="${join(folder, 'none')}": there is no such file\n`,
  });
  const short = join(folder, 'short');
  writeFileSync(short, 'only-some-letters', { mode: 0o600 });
  const refused = await runHere(['up'], { DATA_DIR: folder, DATA_KEY_FILE: short });
  expect(refused.code).toBe(78);
  expect(refused.stderr).toContain('32 random bytes');
  expect(refused.stderr).not.toContain('only-some-letters');
});

it('rekey --captures changes the key only for captures, and names both keys', async () => {
  const dir = makeFolder();
  const [first, second] = [writeKey(dir, 'first'), writeKey(dir, 'second')];
  const path = join(dir, 'capture.mdb');
  const rekey = (from: string | null, to: string) =>
    runHere(['rekey', '--captures', '--to', to], {
      DATA_DIR: dir,
      ...(from === null ? {} : { DATA_KEY_FILE: from }),
    });
  await (await CaptureLog.open({ path, redact: true, data_key: readKeyFile(first) })).close();
  expect(await rekey(first, 'none')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('stop the service'),
  });
  expect(await rekey(first, second)).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/under key [0-9a-f]{16} now\. The rest is still under key [0-9a-f]{16}: /),
  });
  for (const DATA_KEY_FILE of [first, second])
    expect(await runHere(['inspect'], { DATA_DIR: dir, DATA_KEY_FILE })).toMatchObject({ code: 0 });
});

it('rekey changes the key: from no encryption, to another key, and back to none', {
  tags: 'long',
}, async () => {
  const [first, second] = [writeKey(folder, 'first'), writeKey(folder, 'second')];
  const { dir } = plain;
  const rekey = (from: string | null, to: string) =>
    runHere(['rekey', '--to', to], { DATA_DIR: dir, ...(from === null ? {} : { DATA_KEY_FILE: from }) });
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
    // A service starts from the rewritten data, once with a key and once without.
    if (to !== second) await service.start();
    expect(await service.run('inspect', '--run', 'run-a')).toContain(CANARY);
    expect(await service.run('inspect', '--exchange', '4', '--raw', 'request')).toContain(
      picture.toString('base64'),
    );
    expect(await service.run('feedback')).toContain(CANARY);
    if (to !== second) expect(await service.stop()).toBe(0);
  }
  expect(await rekey(null, 'none')).toMatchObject({ code: 2 });
  expect(await rekey(null, join(folder, 'missing'))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('there is no such file'),
  });
});
