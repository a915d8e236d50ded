/** Messages for refusals of the file system. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeRefusal, isThere, namePlace } from '../../src/std/file-place.ts';
import { makeFolder as makeAll } from '../../src/std/folder.ts';
import { makeFolder } from '../storage/folder.ts';

function refusalOf(work: () => unknown): string | null {
  try {
    work();
  } catch (thrown) {
    return describeRefusal(thrown);
  }
  throw new Error('nothing was refused');
}

describe('a failed file operation', () => {
  it('names the part of the path that is wrong', () => {
    const root = makeFolder();
    const file = join(root, 'file');
    writeFileSync(file, '');
    for (const work of [
      () => mkdirSync(join(file, 'a')),
      () => makeAll(join(file, 'a/b')),
      () => makeAll(file),
      () => statSync(join(file, 'a/b')),
      () => readdirSync(file),
      () => rmSync(join(file, 'a'), { recursive: true, force: true }),
      () => renameSync(file, join(file, 'a')),
      () => isThere(join(file, 'a')),
    ])
      expect(refusalOf(work), String(work)).toBe(`${file} is not a folder`);
    expect(refusalOf(() => writeFileSync(root, ''))).toBe(`${root} is a folder, not a file`);
    expect(refusalOf(() => readFileSync(join(root, 'a/b')))).toBe(`there is no ${join(root, 'a')}`);
    expect(refusalOf(() => renameSync(file, join(root, 'a/b')))).toBe(`there is no ${join(root, 'a')}`);
    expect(refusalOf(() => makeAll('/proc/understudy/a'))).toBe('nothing can be made in /proc');
    expect(refusalOf(() => mkdirSync(join(root, 'x'.repeat(300))))).toMatch(/^the name .* is too long$/);
    expect(isThere(file)).toBe(true);
    expect(isThere(join(root, 'a/b'))).toBe(false);
  });

  it('names the user who lacks the right, or the place that has no space', () => {
    const of = (code: string, more: object) =>
      describeRefusal(Object.assign(new Error(code), { code, ...more }));
    expect(of('EACCES', { syscall: 'mkdir', path: '/a' })).toBe('this user may not make /a');
    expect(of('EPERM', { syscall: 'copyfile', path: '/a', dest: '/b' })).toBe(
      'this user may not copy /a to /b',
    );
    expect(of('EROFS', { syscall: 'open', path: '/a' })).toMatch(
      /^nothing can be written to \/a: .*read-only$/,
    );
    expect(of('ENOSPC', { syscall: 'write' })).toBe('no space is left');
    expect(of('ENOSPC', { syscall: 'copyfile', path: '/a', dest: '/b' })).toBe('no space is left for /b');
    expect(of('EDQUOT', { syscall: 'write', path: '/a' })).toBe("this user's quota leaves no space for /a");
    expect(of('EIO', { syscall: 'write', path: '/a' })).toMatch(/^the disk fails, or is full: \/a /);
    expect(of('EFBIG', { syscall: 'write', path: '/a' })).toBe('/a may become no larger');
  });

  it('gets the given path if the error names no path', () => {
    const of = (words: string, more: object) =>
      describeRefusal(namePlace(Object.assign(new Error(words), more), '/a'));
    expect(of('ENOSPC: no space left on device, write', { code: 'ENOSPC', syscall: 'write' })).toBe(
      'no space is left for /a',
    );
    // As LMDB reports it.
    expect(of('Input/output error', { code: 5 })).toMatch(/: \/a /);
    expect(of('No space left on device', {})).toBe('no space is left for /a');
    expect(of('MDB_MAP_FULL', { code: -30_792 })).toBeNull();
    const named = { code: 'ENOSPC', syscall: 'open', path: '/b' };
    expect(of('', named)).toBe('no space is left for /b');
    expect(of('', { code: 'ESECRET' })).toBeNull();
    expect(namePlace('x', '/a')).toBe('x');
  });

  it('is not changed otherwise', async () => {
    expect(describeRefusal(new TypeError('x'))).toBeNull();
    expect(describeRefusal('x')).toBeNull();
    const socket = createConnection(join(makeFolder(), 'none.sock'));
    const error = await new Promise((resolve) => {
      socket.once('error', resolve);
    });
    expect(describeRefusal(error)).toBeNull();
  });
});

it('a short write of LMDB is reported as a full disk or as an error of the disk', () => {
  const shortWrite = () => Object.assign(new Error('Input/output error'), { code: 5 });
  const folder = makeFolder();
  expect(namePlace(shortWrite(), join(folder, 'main.mdb'))).toMatchObject({ code: 'EIO' });
  // A file system that never has space; Linux has one everywhere.
  if (existsSync('/proc/self'))
    expect(namePlace(shortWrite(), '/proc/self/main.mdb')).toMatchObject({ code: 'ENOSPC' });
});
