/** Making folders, including the errors in places where that is impossible. */
import { statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeFolder } from '../../src/std/folder.ts';
import { makeFolder as makeTemporary } from '../storage/folder.ts';

describe('makeFolder', () => {
  it('creates missing folders, returns the topmost one, and accepts existing ones', () => {
    const top = makeTemporary();
    const deep = join(top, 'a', 'b', 'c');
    expect(makeFolder(deep, 0o700)).toBe(join(top, 'a'));
    for (const name of ['a', 'a/b', 'a/b/c']) expect(statSync(join(top, name)).mode & 0o777).toBe(0o700);
    expect(makeFolder(deep)).toBeUndefined();
    expect(makeFolder(join(deep, 'd'))).toBe(join(deep, 'd'));
    expect(makeFolder('.')).toBeUndefined();
    symlinkSync(deep, join(top, 'link'));
    expect(makeFolder(join(top, 'link', 'e'))).toBe(join(top, 'link', 'e'));
  });

  it('reports a place where no folder can exist', () => {
    const top = makeTemporary();
    writeFileSync(join(top, 'file'), '');
    symlinkSync(join(top, 'nowhere'), join(top, 'dangling'));
    expect(() => makeFolder(join(top, 'file'))).toThrow(/ENOTDIR.*file/);
    expect(() => makeFolder(join(top, 'file', 'below', 'deeper'))).toThrow(/ENOTDIR/);
    expect(() => makeFolder(join(top, 'dangling'))).toThrow(/ENOENT/);
    expect(() => makeFolder('/proc/understudy/a/b')).toThrow(/E(NOENT|ACCES|PERM|ROFS)/);
  });
});
