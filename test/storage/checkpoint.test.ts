/** After a power cut a file without syncs has the state of its last checkpoint. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import { describe, expect, it } from 'vitest';
import {
  Checkpoints,
  checkpointPath,
  encodeSlot,
  needsRestore,
  readBootId,
  readCheckpoint,
  restoreCheckpoint,
} from '../../src/storage/lmdb/checkpoint.ts';
import { makeFolder } from './folder.ts';

const ANOTHER_BOOT = '00000000-0000-0000-0000-000000000000';

function openFile(path: string) {
  return open<number, string>({ path, noSubdir: true, overlappingSync: false, noSync: true, cache: false });
}

describe('a checkpoint', () => {
  it('is the state to which the file returns after a restart of the machine', async () => {
    const path = join(makeFolder(), 'a.mdb');
    const root = openFile(path);
    const checkpoints = new Checkpoints(path);
    const write = (round: number) =>
      root.transactionSync(() => {
        for (let i = 0; i < 200; i++) root.putSync(`key ${i}`, round);
      });
    write(1);
    await checkpoints.write();
    // So many commits would reuse pages of the checkpoint if these pages were not protected.
    for (let round = 2; round < 40; round++) write(round);
    await new Promise(setImmediate);
    for (let round = 40; round < 80; round++) write(round);
    await checkpoints.close();
    await root.close();

    expect(restoreCheckpoint(path)).toBe(false);
    expect(needsRestore(path)).toBe(false);
    expect(needsRestore(path, ANOTHER_BOOT)).toBe(true);
    expect(restoreCheckpoint(path, ANOTHER_BOOT)).toBe(true);
    expect(needsRestore(path, ANOTHER_BOOT)).toBe(false);
    const restored = openFile(path);
    const values = new Set([...restored.getRange()].map(({ value }) => value));
    expect([...values]).toEqual([1]);
    restored.putSync('key 0', 100);
    expect(restored.get('key 0')).toBe(100);
    await restored.close();
  });

  it('advances with commits, and not without', async () => {
    const path = join(makeFolder(), 'a.mdb');
    const root = openFile(path);
    const checkpoints = new Checkpoints(path);
    const first = readCheckpoint(path)!;
    await checkpoints.write();
    expect(readCheckpoint(path)).toEqual(first);
    for (let round = 1; round <= 5; round++) {
      root.putSync('key', round);
      await checkpoints.write();
      expect(readCheckpoint(path)!.number).toBe(first.number + round);
    }
    await checkpoints.close();
    await root.close();
    expect(restoreCheckpoint(path, ANOTHER_BOOT)).toBe(true);
    const restored = openFile(path);
    expect(restored.get('key')).toBe(5);
    await restored.close();
  });

  it('survives a torn slot', async () => {
    const path = join(makeFolder(), 'a.mdb');
    const root = openFile(path);
    const checkpoints = new Checkpoints(path);
    root.putSync('key', 1);
    await checkpoints.write();
    const whole = readCheckpoint(path)!;
    root.putSync('key', 2);
    await checkpoints.write();
    await checkpoints.close();
    await root.close();
    const slots = readFileSync(checkpointPath(path));
    const torn = readCheckpoint(path)!.number % 2;
    slots.fill(0x5a, torn * 512 + 100, torn * 512 + 200);
    writeFileSync(checkpointPath(path), slots);
    expect(readCheckpoint(path)).toEqual(whole);
  });

  it('is not applied to another file at the same path', async () => {
    const folder = makeFolder();
    const path = join(folder, 'a.mdb');
    const root = openFile(path);
    root.putSync('key', 1);
    const checkpoints = new Checkpoints(path);
    await checkpoints.close();
    await root.close();
    copyFileSync(path, join(folder, 'b.mdb'));
    copyFileSync(checkpointPath(path), checkpointPath(join(folder, 'b.mdb')));
    expect(restoreCheckpoint(join(folder, 'b.mdb'), ANOTHER_BOOT)).toBe(false);
  });

  it('is written as it is read', () => {
    const head = { page_size: 4096, bytes: Buffer.alloc(152, 7) };
    const slot = { number: 9, inode: 2n ** 40n, boot_id: readBootId(), head };
    const path = join(makeFolder(), 'a.mdb');
    writeFileSync(checkpointPath(path), Buffer.concat([Buffer.alloc(512), encodeSlot(slot)]));
    expect(readCheckpoint(path)).toEqual(slot);
  });
});
