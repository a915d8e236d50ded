/** A change of the data key: everything is there afterwards, under the new key alone, whatever ends it in the middle. */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { databasePaths, openStores } from '../../src/storage/lmdb/stores.ts';
import { RekeyError, rekeyData } from '../../src/storage/rekey.ts';
import { settlePlan } from '../../src/storage/rekey-plan.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';
import { makeExchange, readAllFiles } from './captured.ts';
import { makeFolder } from './folder.ts';

type Key = Buffer | null;
const OLD = randomBytes(32);
const NEW = randomBytes(32);
const CANARY = 'canary-of-the-customer';
const PICTURE = Buffer.concat(Array.from({ length: 200 }, () => Buffer.from(CANARY)));
const ROWS = 1_500;

const text = (n: number) => Buffer.from(JSON.stringify({ n, messages: [{ content: `${CANARY} ${n}` }] }));
const picture = Buffer.from(
  JSON.stringify({ source: { type: 'base64', media_type: 'image/png', data: PICTURE.toString('base64') } }),
);
const random = () => Buffer.from(JSON.stringify({ text: CANARY + randomBytes(90_000).toString('hex') }));

/** @returns the stored requests by id */
async function fill(folder: string, key: Key): Promise<Buffer[]> {
  const { main, runs } = openStores(databasePaths(folder, key));
  await main.transact((tx) => {
    for (let n = 0; n < ROWS; n++) tx.write({ op: 'put', table: 't', row: [n], value: `${CANARY} ${n}` });
  });
  await runs.transact((tx) => tx.write({ op: 'put', table: 'runs', row: ['r'], value: CANARY }));
  await Promise.all([main.close(), runs.close()]);
  const path = join(folder, 'capture.mdb');
  const options = { path, redact: true, data_key: key, decode: decodeExchange };
  let log = await CaptureLog.open(options);
  const stored: Buffer[] = [];
  const append = async (bodies: Buffer[]) => {
    stored.push(...bodies);
    await log.append(bodies.map((request_body) => makeExchange({ run_id: 'r', request_body })));
  };
  await append([text(1)]);
  await append([picture, random()]);
  await append(Array.from({ length: 70 }, (_, n) => text(n)));
  while ((await log.indexSome(decodeExchange, 100)) > 0);
  await log.rotate();
  await append([text(2), picture]);
  await log.close();
  log = await CaptureLog.open({ ...options, pressed_rate: 0 });
  await append([random(), random(), random()]);
  await log.close();
  return stored;
}

async function check(folder: string, key: Key, stored: readonly Buffer[]): Promise<void> {
  const { main, runs } = openStores(databasePaths(folder, key));
  const values = [...main.range<string>('t', { prefix: [] })].map(({ value }) => value);
  expect(values).toEqual(Array.from({ length: ROWS }, (_, n) => `${CANARY} ${n}`));
  expect(runs.get('runs', ['r'])).toBe(CANARY);
  await Promise.all([main.close(), runs.close()]);
  const files = readdirSync(folder).filter((name) => /^capture(\.\d+-\d+)?\.mdb$/.test(name));
  expect(files.length).toBe(2);
  const found = new Map<number, Buffer>();
  for (const name of files) {
    const reader = CaptureReader.open(join(folder, name), { data_key: key, decode: decodeExchange });
    for (const { id, run_id } of reader.summaries()) {
      expect(run_id).toBe('r');
      found.set(id, Buffer.from(reader.body(id, 'request')!));
    }
    await reader.close();
  }
  expect(found.size).toBe(stored.length);
  for (const [at, body] of stored.entries())
    expect(found.get(at + 1)!.equals(body), String(at + 1)).toBe(true);
  const isVisible = readAllFiles(folder).some(({ bytes }) => bytes.includes(CANARY));
  expect(isVisible).toBe(key === null);
}

const rekey = (folder: string, from: Key, to: Key) =>
  rekeyData(
    { data_dir: folder, capture_db: join(folder, 'capture.mdb'), from, to, decode: decodeExchange },
    () => {},
  );

const leftOver = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('rekey'));

const hex = (key: Key) => key?.toString('hex') ?? 'none';

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
    // It is written to as ever.
    const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true, data_key: to });
    await log.append([makeExchange({ run_id: 'r', request_body: picture })]);
    await log.close();
    expect(readdirSync(join(folder, 'capture.mdb.files'))).toHaveLength(1);
    await check(folder, to, [...stored, picture]);
  });

  it('that is killed at any step loses nothing: it is undone or finished by whoever comes next', async () => {
    const full = makeFolder();
    const stored = await fill(full, OLD);
    const run = (folder: string, at: number) =>
      spawnSync(
        process.execPath,
        [join(import.meta.dirname, 'killed-rekey.ts'), folder, hex(OLD), hex(NEW), String(at)],
        { encoding: 'utf8' },
      );
    const whole = makeFolder();
    cpSync(full, whole, { recursive: true });
    const { stdout, stderr } = run(whole, -1);
    const steps = Number(stdout);
    expect(steps, stderr).toBeGreaterThan(25);
    const endings = new Set<string>();
    for (let at = 1; at <= steps; at++) {
      const folder = makeFolder();
      cpSync(full, folder, { recursive: true });
      expect(run(folder, at).signal, `step ${at}`).toBe('SIGKILL');
      const settled = await settlePlan(folder);
      endings.add(settled?.done ?? 'nothing');
      const isNew = settled?.done === 'finished';
      await check(folder, isNew ? NEW : OLD, stored);
      expect(leftOver(folder), `step ${at}`).toEqual([]);
      if (isNew) continue;
      await rekey(folder, OLD, NEW);
      await check(folder, NEW, stored);
    }
    expect([...endings].sort()).toEqual(['finished', 'nothing', 'undone']);
  }, 600_000);

  it('goes on where it was cut short, when it is asked for again', async () => {
    const folder = makeFolder();
    const stored = await fill(folder, null);
    const at = (step: number) =>
      spawnSync(
        process.execPath,
        [join(import.meta.dirname, 'killed-rekey.ts'), folder, 'none', hex(NEW), String(step)],
        { encoding: 'utf8' },
      );
    // In the middle of putting things in place: the last steps are removals and the plan itself.
    const counted = makeFolder();
    cpSync(folder, counted, { recursive: true });
    const count = spawnSync(
      process.execPath,
      [join(import.meta.dirname, 'killed-rekey.ts'), counted, 'none', hex(NEW), '-1'],
      { encoding: 'utf8' },
    );
    expect(at(Number(count.stdout) - 10).signal).toBe('SIGKILL');
    expect(existsSync(join(folder, 'rekey.json'))).toBe(true);
    expect(await rekey(folder, null, NEW)).toMatchObject({ was_finished: true });
    await check(folder, NEW, stored);
  });

  it('is refused while a process serves from there, and changes nothing', async () => {
    const folder = makeFolder();
    const stored = await fill(folder, OLD);
    for (const name of ['main.mdb', 'capture.mdb']) {
      const claim = await claimWriter(join(folder, name), { patience_ms: 0 });
      // This process holds it itself; to the command that is another one.
      await expect(rekey(folder, OLD, NEW)).rejects.toThrow(RekeyError);
      await claim.release();
    }
    await expect(rekey(folder, NEW, OLD)).rejects.toThrow(/under another key/);
    await expect(rekey(folder, null, NEW)).rejects.toThrow(/is encrypted/);
    await expect(rekey(makeFolder(), null, NEW)).rejects.toThrow(/holds nothing/);
    await check(folder, OLD, stored);
    expect(leftOver(folder)).toEqual([]);
  });

  it('takes a damaged block along as damaged, leaves out a damaged attachment, and counts both', async () => {
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
