/**
 * Raw files that are made and removed during a batch that needs more than one of them, and a disk that gets full in the
 * middle of a file.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { RawFiles, readRawBlock, type StagedBlock } from '../../src/storage/capture/raw-files.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeFolder } from './folder.ts';

/** Two of these blocks fill a file. */
const large = Buffer.alloc(40 << 20, 'large');

/** Stages a block as the log does: a full file is written before the next one is begun. */
async function stage(files: RawFiles, body: Buffer): Promise<StagedBlock> {
  if (files.isFull) await files.write();
  return files.stage([Buffer.from('head'), body])!;
}

function readBody(folder: string, { place }: StagedBlock): Buffer {
  return readRawBlock(folder, place).subarray('head'.length);
}

it('a batch is complete although a raw file to which it was written is packed meanwhile', async () => {
  const folder = makeFolder();
  const files = new RawFiles(folder, []);
  const first = await stage(files, large);
  await files.finish();
  files.commit();
  const second = await stage(files, large);
  await files.write();
  const third = await stage(files, Buffer.from('small'));
  expect([second.place.file, third.place.file]).toEqual([first.place.file, first.place.file + 1]);
  // The sealing of a renamed file may release its raw files at any time.
  files.release(first.place.file);
  await files.finish();
  files.commit();
  expect(readBody(folder, second).equals(large)).toBe(true);
  expect(readBody(folder, third).toString()).toBe('small');
  const written = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  expect(files.bytes).toBe(written);
  await files.sync();
  files.release(second.place.file);
  files.release(third.place.file);
  expect(readdirSync(folder)).toEqual([]);
});

it('a batch that is given up leaves no file', async () => {
  const folder = makeFolder();
  const files = new RawFiles(folder, []);
  for (const body of [large, large, Buffer.from('small')]) await stage(files, body);
  expect(readdirSync(folder)).toHaveLength(2);
  await files.abandon();
  expect(readdirSync(folder)).toEqual([]);
  await files.sync();
});

const RAW_FILES = fileURLToPath(new URL('../../src/storage/capture/raw-files.ts', import.meta.url));
const LOG = fileURLToPath(new URL('../../src/storage/capture/log.ts', import.meta.url));
const CAPTURED = fileURLToPath(new URL('./captured.ts', import.meta.url));

/** Runs a program in which every file ends at 6 MiB, as on a full disk. @returns the JSON that it prints */
function runOnFullDisk(program: string, env: NodeJS.ProcessEnv = {}): unknown {
  const { stdout, stderr, status } = spawnSync(
    'bash',
    ['-c', 'trap "" XFSZ; ulimit -f 6144; exec "$0" --input-type=module -e "$1"', process.execPath, program],
    { encoding: 'utf8', env: { ...process.env, ...env } },
  );
  expect(stderr).toBe('');
  expect(status).toBe(0);
  return JSON.parse(stdout);
}

it.skipIf(process.platform !== 'linux')(
  'a write that fails before the log waits for it still fails the batch',
  () => {
    const folder = makeFolder();
    const program = `
      import { stat } from 'node:fs/promises';
      import { RawFiles, readRawBlock } from ${JSON.stringify(RAW_FILES)};
      const files = new RawFiles(${JSON.stringify(folder)}, []);
      const told = [];
      files.stage([Buffer.from('head'), Buffer.alloc(8 << 20, 'large')]);
      await files.write();
      // One thread does all work on files. When it has answered these calls, the write has failed after its first part.
      for (let i = 0; i < 5; i++) await stat('/');
      await files.finish().catch((error) => told.push(error.code));
      await files.abandon();
      const { place } = files.stage([Buffer.from('head'), Buffer.alloc(1 << 20, 'small')]);
      await files.finish();
      files.commit();
      told.push(readRawBlock(${JSON.stringify(folder)}, place).toString('latin1', 0, 9));
      console.log(JSON.stringify(told));`;
    expect(runOnFullDisk(program, { UV_THREADPOOL_SIZE: '1' })).toEqual(['EFBIG', 'headsmall']);
  },
);

it.skipIf(process.platform !== 'linux')(
  'a disk that fills during a write fails the batch as a whole, and the next one is stored',
  { tags: 'long' },
  () => {
    const path = join(makeFolder(), 'capture.mdb');
    // Every file ends at 6 MiB. The second write of a large batch begins before this limit and ends after it.
    const program = `
      import { randomBytes } from 'node:crypto';
      import { existsSync, readdirSync } from 'node:fs';
      import { CaptureLog } from ${JSON.stringify(LOG)};
      import { makeExchange } from ${JSON.stringify(CAPTURED)};
      const path = ${JSON.stringify(path)};
      const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
      const shared = new Uint8Array(new SharedArrayBuffer(32 << 20));
      const makeBatch = (value, count) => Array.from({ length: count }, (_, i) => {
        const body = Buffer.from(shared.buffer, i * 1_100_000, 1_000_000).fill(randomBytes(750).toString('base64'));
        body.write('number ' + value + ' ' + i);
        return makeExchange({ request_body: body, response_body: Buffer.from('answer ' + value + ' ' + i) });
      });
      const told = [];
      const append = async (value, count) => {
        try {
          told.push(await log.append(makeBatch(value, count)));
        } catch (error) {
          told.push(error.code);
        }
        // Memory that was passed on is reused as soon as the answer arrives.
        shared.fill(120);
      };
      await append(1, 3);
      for (let i = 0; i < 3; i++) await append(2, 12);
      await append(3, 3);
      await log.flush();
      const files = readdirSync(path + '.raw').length;
      console.log(JSON.stringify({ told, files }));
      await log.close();`;
    const { told, files } = runOnFullDisk(program) as { told: unknown[]; files: number };
    expect(told).toEqual([
      { first_id: 1, last_id: 3 },
      'EFBIG',
      'EFBIG',
      'EFBIG',
      { first_id: 4, last_id: 6 },
    ]);
    // These are the file of the first batch, in which other batches were abandoned, and the file of the last batch.
    expect(files).toBe(2);
    const reader = CaptureReader.open(path);
    for (let id = 1; id <= 6; id++) {
      const name = `${id <= 3 ? 1 : 3} ${(id - 1) % 3}`;
      const request = Buffer.from(reader.body(id, 'request')!);
      expect(request.toString('latin1', 0, 10)).toBe(`number ${name}`);
      expect(request.length).toBe(1_000_000);
      expect(Buffer.from(reader.body(id, 'response')!).toString()).toBe(`answer ${name}`);
    }
    expect(reader.body(7, 'request')).toBeUndefined();
    reader.close();
  },
);
