/**
 * `backup --follow` runs during the erasure of a run and during traffic. Each point contains the run completely or not
 * at all. A point from before the erasure contains the run; a later point contains no byte of it.
 */
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BackupError } from '../../src/storage/backup-manifest.ts';
import { eraseOrderFile } from '../../src/storage/capture/erase-order.ts';
import { findAnywhere } from './captured.ts';
import { eraseGone, fillThree, readAll, Writer } from './erasing.ts';
import { makeFollowed, openFollower, pass, restoreTo } from './points.ts';

const SECRET = `secret${randomBytes(9).toString('hex')}`;

it('each point contains a run completely or not at all', async () => {
  const followed = makeFollowed();
  const at = { path: followed.source.capture_db, key: null };
  await fillThree(at, SECRET, 36);
  const before = await readAll(at);
  const gone = [...before].filter(([, row]) => JSON.parse(row)[0] === 'gone').map(([id]) => id);
  const follower = await openFollower(followed);
  const times = [await pass(followed, follower)];
  // No point is made while an erasure order exists.
  writeFileSync(eraseOrderFile(at.path).given, '');
  await expect(pass(followed, follower)).rejects.toThrow(/are being erased/);
  rmSync(eraseOrderFile(at.path).given);
  const writer = new Writer(at);
  try {
    await writer.next('append');
    let isErasing = true;
    const erasing = eraseGone(at).finally(() => {
      isErasing = false;
    });
    do {
      try {
        times.push(await pass(followed, follower));
      } catch (thrown) {
        if (!(thrown instanceof BackupError)) throw thrown;
      }
      await writer.next('append');
    } while (isErasing);
    expect(await erasing).toMatchObject({ exchanges: gone.length });
    times.push(await pass(followed, follower));
  } finally {
    await writer.kill();
    await follower.close();
  }
  const erased: boolean[] = [];
  for (const time of times) {
    const { data_dir, capture_db } = await restoreTo(followed, time);
    const after = await readAll({ path: capture_db, key: null });
    const states = new Set(gone.map((id) => JSON.parse(after.get(id)!)[1] === 'erased'));
    expect(states.size, new Date(time).toISOString()).toBe(1);
    const [isErased] = states;
    erased.push(isErased!);
    for (const [id, was] of before) if (!gone.includes(id)) expect(after.get(id), String(id)).toBe(was);
    if (isErased) expect(findAnywhere(data_dir, SECRET)).toEqual([]);
    else expect(after.get(gone[0]!)).toBe(before.get(gone[0]!));
    rmSync(join(data_dir, '..'), { recursive: true, force: true });
  }
  expect([erased[0], erased.at(-1)]).toEqual([false, true]);
});
