/**
 * A process that changes the key of captures during its traffic is killed (kill -9) at each step. At that moment both
 * keys open all captures, and the next process finishes the change.
 */
import { randomBytes } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { describeKeyChange } from '../../src/storage/capture/capture-keys.ts';
import { openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { findRewriteOrder, giveRewriteOrder } from '../../src/storage/capture/rewrite-order.ts';
import { fillThree, readAll, Writer } from './erasing.ts';
import { makeFolder } from './folder.ts';

it('files are readable with either key after a rewrite was killed at any step, and the rewrite is finished later', async () => {
  const full = { path: join(makeFolder(), 'capture.mdb'), key: randomBytes(32) };
  const to = randomBytes(32);
  await fillThree(full, 'a secret', 24);
  const before = await readAll(full);
  const change = describeKeyChange(full.key, to);
  let killed = 0;
  for (let step = 1; ; step++) {
    const at = { ...full, path: join(makeFolder(), 'capture.mdb') };
    cpSync(join(full.path, '..'), join(at.path, '..'), { recursive: true });
    giveRewriteOrder(at.path, 'rekey', change);
    const writer = new Writer(at, step);
    const end = await Promise.race([writer.next('rewritten'), writer.ended.then(() => null)]);
    if (end === null) killed++;
    else await writer.kill();
    for (const key of [full.key, to]) {
      const after = await readAll({ ...at, key });
      for (const [id, was] of before) expect(after.get(id), `step ${step}, exchange ${id}`).toBe(was);
    }
    // Opens the log as the next start of the gateway does.
    const log = await CaptureLog.open({
      path: at.path,
      redact: true,
      data_key: at.key,
      decode: decodeExchange,
      has_text_index: true,
    });
    await log.rewriteOrdered();
    const { sealed } = log.stats();
    await log.close();
    expect(findRewriteOrder(at.path)).toBe(null);
    expect(sealed).toBeGreaterThanOrEqual(2);
    const env = openCaptureEnv(at.path, 'read', to);
    expect(env.sealing?.key.id).toBe(change.to);
    await env.root.close();
    const after = await readAll({ ...at, key: to });
    for (const [id, was] of before) expect(after.get(id), `step ${step}, exchange ${id}`).toBe(was);
    rmSync(join(at.path, '..'), { recursive: true, force: true });
    if (end !== null) break;
  }
  expect(killed).toBeGreaterThan(5);
}, 600_000);
