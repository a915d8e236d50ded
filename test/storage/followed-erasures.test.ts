/**
 * Readers that follow the capture files notice each completed erasure, also if files were rotated since they last
 * looked. Lists would otherwise keep the rows of erased runs.
 */
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { type EraseOrder, giveOrder } from '../../src/storage/capture/erase-order.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

async function follow() {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  const files = new FollowedFiles(path, { data_key: null });
  onTestFinished(async () => {
    files.close();
    await log.close();
  });
  const ids = new Map<string, number>();
  const store = async (...runs: string[]) => {
    const { first_id } = await log.append(runs.map((run_id) => makeExchange({ run_id, started_at_ms: 1 })));
    for (const [at, run] of runs.entries()) ids.set(run, first_id + at);
  };
  const erase = async (run: string) => {
    const id = ids.get(run)!;
    const order: EraseOrder = {
      format: 'understudy_erase_v1',
      ranges: [[id, id]],
      last_id: id,
      run_ids: [run],
      marks: [{ id, started_at: new Date(1).toISOString() }],
      followers: [],
      attachments: [],
      is_partial: false,
    };
    expect(giveOrder(path, order, null)).toBe(true);
    expect(await log.eraseOrdered()).toBe(true);
  };
  const countErasures = () => {
    files.refresh();
    return files.erasures;
  };
  return { log, store, erase, countErasures };
}

describe('the number of erasures that a reader sees', () => {
  it('grows with an erasure, and not with a rotation', async () => {
    const { log, store, erase, countErasures } = await follow();
    await store('a', 'b');
    expect(countErasures()).toBe(0);
    await erase('a');
    expect(countErasures()).toBe(1);
    await log.rotate();
    expect(countErasures()).toBe(1);
    await store('c');
    await log.rotate();
    expect(countErasures()).toBe(1);
  });

  it.each(['before', 'after'])(
    'grows with an erasure %s a rotation that was not seen either',
    async (order) => {
      const { log, store, erase, countErasures } = await follow();
      await store('a', 'b');
      await erase('a');
      expect(countErasures()).toBe(0);
      await store('c', 'd');
      if (order === 'before') await erase('b');
      await log.rotate();
      await store('e');
      if (order === 'after') await erase('b');
      expect(countErasures()).toBe(1);
      expect(countErasures()).toBe(1);
    },
  );

  it('grows with an erasure between two rotations that were not seen', async () => {
    const { log, store, erase, countErasures } = await follow();
    await store('a', 'b');
    expect(countErasures()).toBe(0);
    await log.rotate();
    await store('c');
    await erase('b');
    await log.rotate();
    await store('d');
    expect(countErasures()).toBe(1);
  });
});
