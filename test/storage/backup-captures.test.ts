/** A backup contains every captured exchange once, at any moment of a rotation. */
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { writeBackup } from '../../src/storage/backup.ts';
import { listSealed, sealedPath } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const random = createPrng(3);
const bodyOf = (n: number) =>
  `exchange ${n} `.repeat(1 + (n % 60)) + random.below(1e9).toString(36).repeat(200);

/** Appends exchanges and records their bodies by id. */
class Filled {
  readonly bodies = new Map<number, string>();
  readonly #log: CaptureLog;

  constructor(log: CaptureLog) {
    this.#log = log;
  }

  async append(count: number): Promise<void> {
    const texts = Array.from({ length: count }, (_, i) => bodyOf(this.bodies.size + i));
    const { last_id } = await this.#log.append(
      texts.map((text) => makeExchange({ request_body: Buffer.from(text) })),
    );
    for (const [i, text] of texts.entries()) this.bodies.set(last_id - count + 1 + i, text);
  }
}

/** Restores a backup, and reads the request of each exchange in each of its files. */
async function readRestored(copy: string): Promise<Map<number, string[]>> {
  const folder = makeFolder();
  const db = join(folder, 'capture.mdb');
  await restoreBackup(copy, { data_dir: folder, capture_db: db }, () => {});
  const found = new Map<number, string[]>();
  for (const path of [...listSealed(db).map((file) => file.path), db].filter((file) => existsSync(file))) {
    const reader = CaptureReader.open(path);
    for (const { id } of reader.exchanges())
      found.set(id, [...(found.get(id) ?? []), reader.body(id, 'request')!.toString()]);
    reader.close();
  }
  return found;
}

it.each([
  ['with compressed blocks', undefined],
  ['with blocks that wait in raw files', 1],
])('a backup contains a file whose sealing was interrupted, %s', async (_, pressed_rate) => {
  const folder = makeFolder();
  const db = join(folder, 'capture.mdb');
  const log = await CaptureLog.open({ path: db, redact: true, ...(pressed_rate ? { pressed_rate } : {}) });
  const filled = new Filled(log);
  await filled.append(80);
  await log.close();
  const moved = sealedPath(db, 1, 80, true);
  // The state after a kill in the middle of a rotation.
  renameSync(db, moved);
  await writeBackup({ data_dir: folder, capture_db: db }, join(folder, 'copy'), () => {}, 0);
  expect(existsSync(moved)).toBe(true);
  const expected = [...filled.bodies].map(([id, body]) => [id, [body]]);
  expect([...(await readRestored(join(folder, 'copy')))]).toEqual(expected);
});

it('backups during rotations contain each exchange once', { tags: 'long' }, async () => {
  const folder = makeFolder();
  const db = join(folder, 'capture.mdb');
  const log = await CaptureLog.open({ path: db, redact: true, pressed_rate: 1 });
  const filled = new Filled(log);
  for (let round = 0; round < 6; round++) {
    await filled.append(150);
    const before = new Map(filled.bodies);
    const copy = join(folder, `copy-${round}`);
    const rotated = log.rotate();
    // Each round makes the backup at another moment of the rotation.
    for (let turn = 0; turn < round * 3; turn++) await new Promise(setImmediate);
    const [backup] = await Promise.allSettled([
      writeBackup({ data_dir: folder, capture_db: db }, copy, () => {}, 0),
      rotated,
      filled.append(40),
    ]);
    expect(backup.status).toBe('fulfilled');
    const found = await readRestored(copy);
    for (const [id, body] of before) expect(found.get(id), `round ${round}, exchange ${id}`).toEqual([body]);
    for (const [id, bodies] of found) expect(bodies).toEqual([filled.bodies.get(id)]);
  }
  await log.close();
});
