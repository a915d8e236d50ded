/**
 * A process that erases exchanges during its traffic is killed (kill -9) at each step. The next process finishes the
 * erasure, no erased exchange comes back, and every other exchange reads as before.
 */
import { randomBytes } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { giveOrder, hasOrder, toRanges } from '../../src/storage/capture/erase-order.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { readAllFiles } from './captured.ts';
import { fillThree, readAll, Writer } from './erasing.ts';
import { makeFolder } from './folder.ts';

const SECRET = `secret${randomBytes(9).toString('hex')}`;

it('an erasure that was killed at any step is finished later', async () => {
  const full = { path: join(makeFolder(), 'capture.mdb'), key: randomBytes(32) };
  await fillThree(full, SECRET, 36);
  const before = await readAll(full);
  const gone = [...before.keys()].filter((id) => JSON.parse(before.get(id)!)[0] === 'gone');
  const order = {
    format: 'understudy_erase_v1' as const,
    ranges: toRanges(gone.sort((a, b) => a - b)),
    followers: [],
    run_ids: ['gone'],
    is_partial: false,
    attachments: [],
    marks: gone.map((id) => ({ id, started_at: new Date(1_760_000_000_000).toISOString() })),
    last_id: before.size,
  };
  let killed = 0;
  for (let step = 1; ; step++) {
    const at = { ...full, path: join(makeFolder(), 'capture.mdb') };
    cpSync(join(full.path, '..'), join(at.path, '..'), { recursive: true });
    giveOrder(at.path, order, at.key);
    const writer = new Writer(at, step);
    const end = await Promise.race([writer.next('erased'), writer.ended.then(() => null)]);
    if (end === null) killed++;
    else await writer.kill();
    // Opens the log as the next start of the gateway does.
    const log = await CaptureLog.open({
      path: at.path,
      redact: true,
      data_key: at.key,
      decode: decodeExchange,
      has_text_index: true,
    });
    await log.eraseOrdered();
    await log.close();
    expect(hasOrder(at.path)).toBe(false);
    const after = await readAll(at);
    for (const [id, was] of before) {
      if (!gone.includes(id)) expect(after.get(id), `step ${step}, exchange ${id}`).toBe(was);
      else expect(JSON.parse(after.get(id)!)[1], `step ${step}, exchange ${id}`).toBe('erased');
    }
    for (const { path, bytes } of readAllFiles(join(at.path, '..')))
      expect(bytes.includes(SECRET), path).toBe(false);
    rmSync(join(at.path, '..'), { recursive: true, force: true });
    if (end !== null) break;
  }
  expect(killed).toBeGreaterThan(10);
}, 600_000);
