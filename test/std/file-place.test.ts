/** What the file system refuses, in words. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeRefusal, isThere } from '../../src/std/file-place.ts';
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

describe('a refusal', () => {
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

  it('says who may not, and where there is no room', () => {
    const of = (code: string, more: object) =>
      describeRefusal(Object.assign(new Error(code), { code, ...more }));
    expect(of('EACCES', { syscall: 'mkdir', path: '/a' })).toBe('this user may not make /a');
    expect(of('EPERM', { syscall: 'copyfile', path: '/a', dest: '/b' })).toBe(
      'this user may not copy /a to /b',
    );
    expect(of('EROFS', { syscall: 'open', path: '/a' })).toMatch(/^\/a .*read-only$/);
    expect(of('ENOSPC', { syscall: 'write' })).toBe('no space is left');
  });

  it('leaves all else alone', async () => {
    expect(describeRefusal(new TypeError('x'))).toBeNull();
    expect(describeRefusal('x')).toBeNull();
    const socket = createConnection(join(makeFolder(), 'none.sock'));
    const error = await new Promise((resolve) => {
      socket.once('error', resolve);
    });
    expect(describeRefusal(error)).toBeNull();
  });
});
