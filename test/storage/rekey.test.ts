/**
 * A change of the data key. Afterwards all data exists, and only the new key opens it. rekey-kill.long.test.ts kills
 * the change at each of its steps.
 */

import { randomBytes } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { RekeyError } from '../../src/storage/rekey.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';
import { CANARY, check, fill, type Key, leftOver, NEW, OLD, picture, rekey, rekeyKilled } from './rekeyed.ts';

describe('a change of the data key', () => {
  it.each<[string, Key, Key]>([
    ['from plain to encrypted', null, NEW],
    ['to another key', OLD, NEW],
    ['from encrypted to plain', OLD, null],
  ])('%s keeps everything', async (_what, from, to) => {
    const folder = makeFolder();
    const stored = await fill(folder, from);
    writeFileSync(join(folder, 'runs.3.redo'), Buffer.concat([Buffer.alloc(24), Buffer.from(CANARY)]));
    const report = await rekey(folder, from, to);
    expect(report).toMatchObject({ files: 5, damaged: 0, was_finished: false });
    await check(folder, to, stored);
    expect(leftOver(folder)).toEqual([]);
    expect(statSync(join(folder, 'capture.1-73.mdb')).mode & 0o777).toBe(0o400);
    // New data is written as before.
    const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true, data_key: to });
    await log.append([makeExchange({ run_id: 'r', request_body: picture })]);
    await log.close();
    expect(readdirSync(join(folder, 'capture.mdb.files'))).toHaveLength(1);
    await check(folder, to, [...stored, picture]);
  });

  it('continues after an interruption, when it is requested again', { tags: 'long' }, async () => {
    const folder = makeFolder();
    const stored = await fill(folder, null);
    const counted = makeFolder();
    cpSync(folder, counted, { recursive: true });
    const { steps } = rekeyKilled(counted, null, -1);
    // The change is killed in the middle of the copies. No file has been replaced, so the next change starts over.
    expect(rekeyKilled(folder, null, Math.floor(steps / 3)).signal).toBe('SIGKILL');
    expect(leftOver(folder)).not.toEqual([]);
    // The change is killed in the middle of the replacements. The last steps after these remove old files and the plan.
    expect(rekeyKilled(folder, null, steps - 10).signal).toBe('SIGKILL');
    expect(existsSync(join(folder, 'rekey.json'))).toBe(true);
    expect(await rekey(folder, null, NEW)).toMatchObject({ was_finished: true });
    await check(folder, NEW, stored);
  });

  it('first finishes a sealing that a killed process left, and keeps its raw blocks', async () => {
    const folder = makeFolder();
    const path = join(folder, 'capture.mdb');
    const log = await CaptureLog.open({
      path,
      redact: true,
      data_key: OLD,
      pressed_rate: 0,
      // The sealing ends before it has packed a block.
      seal: async () => {
        throw new Error('killed');
      },
    });
    const bodies = Array.from({ length: 400 }, () => randomBytes(45_000));
    for (let at = 0; at < bodies.length; at += 50)
      await log.append(
        bodies.slice(at, at + 50).map((request_body) => makeExchange({ run_id: 'r', request_body })),
      );
    await expect(log.rotate()).rejects.toThrow('killed');
    await log.append([makeExchange({ run_id: 'r', request_body: picture })]);
    await log.close();
    expect(readdirSync(join(folder, 'capture.mdb.raw'))).not.toEqual([]);
    expect(await rekey(folder, OLD, NEW)).toMatchObject({ damaged: 0 });
    const reader = CaptureReader.open(join(folder, 'capture.1-400.mdb'), { data_key: NEW });
    for (const [at, body] of bodies.entries())
      expect(body.equals(reader.body(at + 1, 'request')!), String(at + 1)).toBe(true);
    await reader.close();
  });

  it('is refused while a process serves from the folder, and with a wrong key, and changes nothing', async () => {
    const folder = makeFolder();
    const stored = await fill(folder, OLD);
    for (const name of ['main.mdb', 'capture.mdb']) {
      const claim = await claimWriter(join(folder, name), { patience_ms: 0 });
      // This process holds the claim. For the command, it is another process.
      await expect(rekey(folder, OLD, NEW)).rejects.toThrow(RekeyError);
      await claim.release();
    }
    await expect(rekey(folder, NEW, OLD)).rejects.toThrow(/under another key/);
    await expect(rekey(folder, null, NEW)).rejects.toThrow(/is encrypted/);
    await expect(rekey(makeFolder(), null, NEW)).rejects.toThrow(/holds nothing/);
    await check(folder, OLD, stored);
    expect(leftOver(folder)).toEqual([]);
  });

  it('copies a damaged block unchanged, leaves out a damaged attachment, and counts both', async () => {
    const folder = makeFolder();
    await fill(folder, OLD);
    const [name] = readdirSync(join(folder, 'capture.mdb.files'));
    const file = join(folder, 'capture.mdb.files', name!);
    const bytes = readFileSync(file);
    bytes[50]! ^= 1;
    writeFileSync(file, bytes);
    const { openCaptureEnv } = await import('../../src/storage/capture/layout.ts');
    const path = join(folder, 'capture.mdb');
    const env = openCaptureEnv(path, 'write', OLD);
    const value = Buffer.from(env.blocks.get(74)!);
    value[value.length - 1]! ^= 1;
    env.blocks.putSync(74, value);
    await env.root.close();
    for (const [from, to] of [
      [OLD, NEW],
      [NEW, null],
    ] as const) {
      expect(await rekey(folder, from, to)).toMatchObject({ damaged: from === OLD ? 2 : 1 });
      const reader = CaptureReader.open(path, { data_key: to });
      expect(() => reader.body(74, 'request')).toThrow(/exchange 74/);
      expect(Buffer.from(reader.body(77, 'request')!).includes(CANARY)).toBe(true);
      await reader.close();
      const sealed = CaptureReader.open(join(folder, 'capture.1-73.mdb'), { data_key: to });
      expect(() => sealed.body(2, 'request')).toThrow(/attachment .* is missing/);
      expect(Buffer.from(sealed.body(3, 'request')!).includes(CANARY)).toBe(true);
      await sealed.close();
    }
  });
});
