/** Sealing under a data key, and the files that hold one. */

import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DataKey, SEAL_BYTES, SealError } from '../../src/std/data-key.ts';
import { readKeyFile } from '../../src/std/key-file.ts';
import { makeFolder } from './folder.ts';

const bytes = randomBytes(32);
const place = Buffer.from('here');

describe('a sealed value', () => {
  it('opens in its place with the key', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5_000 }), fc.uint8Array(), fc.nat(9), (plain, at, room) => {
        const sealed = new DataKey(bytes).sealer('rows').seal(plain, at, room).subarray(room);
        expect(sealed.length).toBe(plain.length + SEAL_BYTES);
        expect(new DataKey(bytes).sealer('rows').open(sealed, at)).toEqual(Buffer.from(plain));
      }),
    );
  });

  it('does not open with one bit changed, or cut off anywhere', () => {
    const sealer = new DataKey(bytes).sealer('rows');
    const sealed = sealer.seal(Buffer.from('a secret'), place);
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const changed = Buffer.from(sealed);
      changed[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => sealer.open(changed, place)).toThrow(SealError);
    }
    for (let end = 0; end < sealed.length; end++)
      expect(() => sealer.open(sealed.subarray(0, end), place)).toThrow(SealError);
  });

  it('does not open elsewhere, for another purpose, or under another key', () => {
    const sealed = new DataKey(bytes).sealer('rows').seal(Buffer.from('a secret'), place);
    const refused = [
      () => new DataKey(bytes).sealer('rows').open(sealed, Buffer.from('there')),
      () => new DataKey(bytes).sealer('redo').open(sealed, place),
      () => new DataKey(randomBytes(32)).sealer('rows').open(sealed, place),
    ];
    for (const open of refused) expect(open).toThrow(SealError);
  });

  it('of the same content always begins with other bytes, whichever sealer makes it', () => {
    const heads = new Set<string>();
    for (let start = 0; start < 20; start++) {
      const sealer = new DataKey(bytes).sealer('rows');
      for (let i = 0; i < 50; i++) heads.add(sealer.seal(place, place).toString('hex', 0, 16));
    }
    expect(heads.size).toBe(1_000);
  });

  it('opens with any of many sealers of the key', { tags: 'long' }, () => {
    const reader = new DataKey(bytes).sealer('rows');
    const others = Array.from({ length: 600 }, () => new DataKey(bytes).sealer('rows'));
    const sealed = others.map((other, i) => other.seal(Buffer.from(String(i)), place));
    for (const round of [0, 1])
      for (const [i, each] of sealed.entries()) {
        expect(reader.open(each, place).toString(), `${round}`).toBe(String(i));
        expect(reader.open(reader.seal(place, place), place)).toEqual(place);
      }
  });
});

it('the name of a text is always the same under one key, and differs between keys', () => {
  const name = new DataKey(bytes).nameOf('attachment', 'abc');
  expect(name).toMatch(/^[0-9a-f]{64}$/);
  expect(new DataKey(bytes).nameOf('attachment', 'abc')).toBe(name);
  expect(new DataKey(randomBytes(32)).nameOf('attachment', 'abc')).not.toBe(name);
  expect(new DataKey(bytes).id).toMatch(/^[0-9a-f]{16}$/);
});

describe('a key file', () => {
  const write = (content: string | Uint8Array, mode = 0o600): string => {
    const path = join(makeFolder(), 'key');
    writeFileSync(path, content);
    chmodSync(path, mode);
    return path;
  };

  it.each([
    ['bytes', bytes],
    ['hex', `${bytes.toString('hex')}\n`],
    ['base64', `${bytes.toString('base64')}\n`],
    ['base64url', bytes.toString('base64url')],
  ])('may contain the key as %s', (_form, content) => {
    expect(Buffer.from(readKeyFile(write(content)))).toEqual(bytes);
  });

  it('may be readable for its group, as mounted secrets are', () => {
    expect(Buffer.from(readKeyFile(write(bytes, 0o440)))).toEqual(bytes);
  });

  it.each([
    ['nothing', '', /32 random bytes/],
    ['too few', bytes.subarray(1), /32 random bytes/],
    ['too many', Buffer.concat([bytes, bytes]), /32 random bytes/],
    ['half of the hex', bytes.toString('hex').slice(32), /32 random bytes/],
    ['a password', 'correct horse battery staple and', /32 random bytes/],
    ['zeros', Buffer.alloc(32), /not random/],
    ['a large file', Buffer.alloc(100_000), /100000/],
  ])('is refused with %s', (_what, content, words) => {
    expect(() => readKeyFile(write(content))).toThrow(words);
  });

  it.each([0o604, 0o644, 0o620, 0o602])('is refused with rights %o', (mode) => {
    expect(() => readKeyFile(write(bytes, mode))).toThrow(/chmod 600/);
  });

  it('is refused if the file is missing', () => {
    const folder = makeFolder();
    expect(() => readKeyFile(join(folder, 'none'))).toThrow('there is no such file');
    mkdirSync(join(folder, 'sub'), { mode: 0o700 });
    expect(() => readKeyFile(join(folder, 'sub'))).toThrow(/not a file/);
  });

  it('is never shown in messages about it', () => {
    const text = bytes.toString('hex').slice(1);
    expect(() => readKeyFile(write(text))).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining(text) }),
    );
  });
});
