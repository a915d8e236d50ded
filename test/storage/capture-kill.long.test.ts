/**
 * The writing process is killed (kill -9) under load three times. No acknowledged exchange is lost, and no id is
 * missing.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeFolder } from './folder.ts';

/** Runs a writer until it has reported `count` more ids, kills it, and returns the last reported id. */
function killAfter(path: string, count: number, key: Buffer | null): Promise<number> {
  return new Promise((resolve, reject) => {
    const argv = [join(import.meta.dirname, 'killed-writer.ts'), path];
    if (key !== null) argv.push(key.toString('hex'));
    const child = spawn(process.execPath, argv, {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (part: Buffer) => {
      said += part.toString('latin1');
      if (said.split('\n').length > count) child.kill('SIGKILL');
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (signal !== 'SIGKILL') reject(new Error(`the writer ended by itself: ${code}`));
      else resolve(Number(said.split('\n').at(-2)));
    });
  });
}

describe('kill -9 of the writer', () => {
  it.each([
    ['', null],
    [' under a data key', randomBytes(32)],
  ])('loses nothing acknowledged, three times in a row%s', async (_where, data_key) => {
    const path = join(makeFolder(), 'capture.mdb');
    let acknowledged = 0;
    for (const count of [40, 90, 65]) {
      const last = await killAfter(path, count, data_key);
      expect(last).toBeGreaterThan(acknowledged);
      acknowledged = last;
      const reader = CaptureReader.open(path, { data_key });
      const range = reader.range();
      expect(range.first_id).toBe(1);
      expect(range.last_id).toBeGreaterThanOrEqual(acknowledged);
      let next = 1;
      for (const record of reader.exchanges()) {
        expect(record.id).toBe(next);
        expect(record.seq).toBe(next);
        const body = JSON.parse(Buffer.from(reader.body(next, 'request')!).toString()) as { id: number };
        expect(body.id).toBe(next);
        expect(Buffer.from(reader.body(next, 'response')!).toString()).toBe(`answer ${next}`);
        next++;
      }
      expect(next - 1).toBe(range.last_id);
      await reader.close();
    }
    const log = await CaptureLog.open({ path, redact: true, data_key, decode: decodeExchange });
    expect(log.stats().last_id).toBeGreaterThanOrEqual(acknowledged);
    await log.close();
  });
});
