/** Files that are no capture database, cut off, damaged or too new: a clear error, never a crash. */
import { copyFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import { describe, expect, it } from 'vitest';
import { CaptureFileError, OFFLOADED_FORMAT, openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

async function makeDatabase(folder: string): Promise<string> {
  const path = join(folder, 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true });
  for (let i = 0; i < 20; i++) {
    const body = Buffer.from(Array.from({ length: 400 }, (_, n) => `${i} ${n * i}`).join(','));
    await log.append([makeExchange({ request_body: body })]);
  }
  await log.close();
  return path;
}

/** Opens a file and reads all of it. @returns the code of the error */
async function readCode(path: string): Promise<string> {
  try {
    const reader = CaptureReader.open(path);
    try {
      for (const record of reader.exchanges()) reader.body(record.id, 'request');
    } finally {
      await reader.close();
    }
    return 'fine';
  } catch (error) {
    expect(error).toBeInstanceOf(CaptureFileError);
    expect((error as Error).message).toContain(path);
    return (error as CaptureFileError).code;
  }
}

describe('a reader', () => {
  it('says what is wrong with a file', async () => {
    const folder = makeFolder();
    const path = await makeDatabase(folder);
    expect(await readCode(path)).toBe('fine');
    expect(await readCode(join(folder, 'none.mdb'))).toBe('missing');
    expect(await readCode(folder)).toBe('not_a_capture');
    const text = join(folder, 'text.mdb');
    writeFileSync(text, 'not a database '.repeat(1_000));
    expect(await readCode(text)).toBe('not_a_capture');
    writeFileSync(text, '');
    expect(await readCode(text)).toBe('not_a_capture');
    for (const part of [0.2, 0.5, 0.9]) {
      const cut = join(folder, `cut-${part}.mdb`);
      copyFileSync(path, cut);
      truncateSync(cut, Math.floor(statSync(path).size * part));
      expect(await readCode(cut)).toBe('truncated');
      await expect(CaptureLog.open({ path: cut, redact: true })).rejects.toMatchObject({ code: 'truncated' });
    }
    const other = join(folder, 'other.mdb');
    const foreign = open({ path: other });
    await foreign.put('a', 1);
    await foreign.close();
    expect(await readCode(other)).toBe('not_a_capture');
    const before = readFileSync(other);
    await expect(CaptureLog.open({ path: other, redact: true })).rejects.toMatchObject({
      code: 'not_a_capture',
    });
    expect(readFileSync(other).equals(before)).toBe(true);
  });

  it('refuses a newer format', async () => {
    const path = await makeDatabase(makeFolder());
    const env = openCaptureEnv(path, 'write');
    env.root.transactionSync(() => env.meta.putSync('format', Buffer.from(String(OFFLOADED_FORMAT + 1))));
    await env.root.close();
    expect(await readCode(path)).toBe('newer_format');
    await expect(CaptureLog.open({ path, redact: true })).rejects.toMatchObject({ code: 'newer_format' });
  });

  it('detects a flipped bit in an exchange', async () => {
    const folder = makeFolder();
    const path = await makeDatabase(folder);
    // The position of the stored block in the file.
    const env = openCaptureEnv(path, 'read');
    const value = Buffer.from(env.blocks.get(1)!);
    await env.root.close();
    const bytes = readFileSync(path);
    let flipped = 0;
    for (let at = bytes.indexOf(value); at >= 0; at = bytes.indexOf(value, at + 1)) {
      bytes[at + value.length - 2]! ^= 1;
      flipped++;
    }
    expect(flipped).toBeGreaterThan(0);
    writeFileSync(join(folder, 'flipped.mdb'), bytes);
    expect(await readCode(join(folder, 'flipped.mdb'))).toBe('damaged');
  });
});
