/**
 * Capture files are rewritten while a process stores exchanges: under another key, or without unused space. All
 * exchanges read as before. rewrite-kill.long.test.ts ends the process at each step.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { writeBackup } from '../../src/storage/backup.ts';
import { keysPath } from '../../src/storage/capture/capture-keys.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { listSealed, openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { SEAL_LIMITS, sealWhenDue } from '../../src/storage/capture/live-sealing.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { compactCaptures, RewriteError, rekeyCaptures } from '../../src/storage/ordered-rewrite.ts';
import { rekeyData } from '../../src/storage/rekey.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { makeExchange } from './captured.ts';
import { eraseGone, type Filled, fillThree, readAll, Writer } from './erasing.ts';
import { makeFolder } from './folder.ts';
import { makeFollowed, openFollower, pass, restoreTo } from './points.ts';

const place = ({ path, key }: Filled) => ({
  data_dir: join(path, '..'),
  capture_db: path,
  data_key: key,
  decode: decodeExchange,
});

/** The ids of the keys of all capture files. */
async function listKeyIds({ path, key }: Filled): Promise<Set<string | undefined>> {
  const ids = new Set<string | undefined>();
  const folder = join(path, '..');
  for (const name of readdirSync(folder)) {
    if (!/^capture(\.\d+-\d+)?\.mdb$/.test(name)) continue;
    const env = openCaptureEnv(join(folder, name), 'read', key);
    ids.add(env.sealing?.key.id);
    await env.root.close();
  }
  return ids;
}

function expectSame(after: Map<number, string>, before: Map<number, string>): void {
  for (const [id, was] of before) expect(after.get(id), String(id)).toBe(was);
  expect([...after.keys()].sort((a, b) => a - b)).toEqual(
    Array.from({ length: after.size }, (_, at) => at + 1),
  );
}

describe('a change of the key of captures during traffic', () => {
  it('keeps everything under the old or the new key; the rest is changed when the service is stopped', {
    tags: 'long',
  }, async () => {
    const old = { path: join(makeFolder(), 'capture.mdb'), key: randomBytes(32) };
    const next = { ...old, key: randomBytes(32) };
    await fillThree(old, 'a secret', 36);
    const before = await readAll(old);
    const pictures = readdirSync(`${old.path}.files`).length;
    const followed = new FollowedFiles(old.path, { data_key: old.key });
    const writer = new Writer(old);
    try {
      await writer.next('append');
      followed.refresh();
      const body = Buffer.from(followed.body(1, 'request')!).toString('latin1');
      const from = writer.lines.length;
      await rekeyCaptures({ ...place(old), to: next.key }, () => {});
      expect(writer.lines.slice(from).filter((line) => line.startsWith('append')).length).toBeGreaterThan(1);
      await writer.next('append');
      // A reader that has the files open continues with the old key.
      followed.refresh();
      expect(Buffer.from(followed.body(1, 'request')!).toString('latin1')).toBe(body);
      // A second order has no more work to do.
      await rekeyCaptures({ ...place(old), to: next.key }, () => {});
      await expect(rekeyCaptures({ ...place(old), to: randomBytes(32) }, () => {})).rejects.toThrow(
        RewriteError,
      );
    } finally {
      await writer.kill();
      followed.close();
    }
    expect((await listKeyIds(old)).size).toBe(1);
    const all = await readAll(old);
    expectSame(all, before);
    expectSame(await readAll(next), all);
    expect(readdirSync(`${old.path}.files`)).toHaveLength(2 * pictures);
    // A backup contains the files for both keys.
    const copy = { path: join(makeFolder(), 'capture.mdb'), key: old.key };
    const backup = join(makeFolder(), 'backup');
    await writeBackup(place(old), backup, () => {}, Date.now());
    await restoreBackup(backup, place(copy), () => {});
    expectSame(await readAll(copy), all);

    const rekeying = { data_dir: join(old.path, '..'), capture_db: old.path, decode: decodeExchange };
    await expect(rekeyData({ ...rekeying, from: old.key, to: randomBytes(32) }, () => {})).rejects.toThrow(
      /was changed to key/,
    );
    await rekeyData({ ...rekeying, from: old.key, to: next.key }, () => {});
    expect(existsSync(keysPath(old.path))).toBe(false);
    expectSame(await readAll(next), all);
    await expect(readAll(old)).rejects.toThrow(/under another key/);
    expect(readdirSync(`${old.path}.files`)).toHaveLength(pictures);
  });

  it('changes an empty database, and a point in time has both keys', async () => {
    const followed = makeFollowed(randomBytes(32));
    const at: Filled = { path: followed.source.capture_db, key: followed.source.data_key as Buffer };
    const to = randomBytes(32);
    await (await CaptureLog.open({ path: at.path, redact: true, data_key: at.key })).close();
    await rekeyCaptures({ ...place(at), to }, () => {});
    const log = await CaptureLog.open({ path: at.path, redact: true, data_key: at.key, pressed_rate: 0 });
    const bodies = Array.from({ length: 3 }, () => Buffer.from(randomBytes(90_000).toString('hex')));
    await log.append(bodies.map((request_body) => makeExchange({ run_id: 'r', request_body })));
    await log.flush();
    const follower = await openFollower(followed);
    await pass(followed, follower);
    await follower.close();
    await log.close();
    const { capture_db, lost_blocks } = await restoreTo(followed, null);
    expect(lost_blocks).toBe(0);
    const again = await CaptureLog.open({ path: capture_db, redact: true, data_key: at.key });
    expect(again.stats().last_id).toBe(3);
    await again.close();
    expect((await listKeyIds({ path: capture_db, key: to })).size).toBe(1);
  });

  it('is refused if there is no old or no new key', async () => {
    const at = { path: join(makeFolder(), 'capture.mdb'), key: null };
    await (await CaptureLog.open({ path: at.path, redact: true })).close();
    await expect(rekeyCaptures({ ...place(at), to: randomBytes(32) }, () => {})).rejects.toThrow(
      /stop the service/,
    );
  });
});

describe('unused space of capture files', () => {
  /** Makes a sealed file and a live file, in which one run has most exchanges. */
  async function fillMostly(at: Filled, each: number): Promise<void> {
    const log = await CaptureLog.open({ path: at.path, redact: true, decode: decodeExchange });
    const body = (bytes: number) => Buffer.from(randomBytes(bytes).toString('hex'));
    for (const isLast of [false, true]) {
      for (let n = 0; n < each; n++) {
        const [run_id, bytes] = n % 4 === 0 ? ['keep', 500] : ['gone', 20_000];
        await log.append([makeExchange({ run_id, request_body: body(bytes) })]);
      }
      await log.flush();
      if (!isLast) await log.rotate();
    }
    await log.close();
  }

  it('of a small live file is freed when half of it is unused', async () => {
    const at = { path: join(makeFolder(), 'capture.mdb'), key: null };
    await fillMostly(at, 12);
    await eraseGone(at);
    const log = await CaptureLog.open({ path: at.path, redact: true });
    const limits = { ...SEAL_LIMITS, wasteful_bytes: statSync(at.path).size };
    expect(await sealWhenDue(log, { ...limits, wasteful_bytes: limits.wasteful_bytes + 1 })).toBe(false);
    expect(await sealWhenDue(log, limits)).toBe(true);
    const { bytes, sealed } = log.stats();
    await log.close();
    expect(sealed).toBe(2);
    const file = join(at.path, '..', 'capture.13-24.mdb');
    expect(bytes + statSync(file).size).toBeLessThan(limits.wasteful_bytes / 2);
  });

  it('is freed after an erasure, and on request, while exchanges are stored', {
    tags: 'long',
  }, async () => {
    const at = { path: join(makeFolder(), 'capture.mdb'), key: null };
    await fillMostly(at, 40);
    const before = await readAll(at);
    const sealed = join(at.path, '..', 'capture.1-40.mdb');
    const bytes = { sealed: statSync(sealed).size, live: statSync(at.path).size };
    await eraseGone(at);
    expect(statSync(sealed).size).toBeLessThan(bytes.sealed / 4);
    expect(statSync(at.path).size).toBeGreaterThanOrEqual(bytes.live);
    const writer = new Writer(at);
    try {
      await writer.next('append');
      const { before_bytes } = await compactCaptures(place(at), () => {});
      // The new live file grows meanwhile, by an amount that depends on the machine.
      const kept_bytes = listSealed(at.path).map(({ path }) => statSync(path).size);
      expect(kept_bytes).toHaveLength(2);
      expect(kept_bytes[0]! + kept_bytes[1]!).toBeLessThan(before_bytes / 4);
      await writer.next('append');
    } finally {
      await writer.kill();
    }
    const after = await readAll(at);
    for (const [id, was] of before)
      if (JSON.parse(was)[0] === 'keep') expect(after.get(id), String(id)).toBe(was);
      else expect(JSON.parse(after.get(id)!)[1], String(id)).toBe('erased');
    expect(readdirSync(join(at.path, '..')).filter((name) => /compact/.test(name))).toEqual([]);
  });
});
