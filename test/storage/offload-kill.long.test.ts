/**
 * A process that sends sealed files to a bucket during its traffic is killed (kill -9) at each step, and so is a
 * process that erases them there. At that moment everything reads as before, and the next process finishes the work.
 */
import { randomBytes } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { giveOrder, hasOrder, toRanges } from '../../src/storage/capture/erase-order.ts';
import { readAllFiles } from './captured.ts';
import { fillThree, readAll, Writer } from './erasing.ts';
import { makeFolder } from './folder.ts';
import {
  AT_ONCE,
  expectNoOthers,
  fillWithImages,
  listAttachments,
  type Offloaded,
  open,
  passAll,
} from './offloaded.ts';

const SECRET = `secret${randomBytes(9).toString('hex')}`;

async function fill(key: Buffer | null, turns: number): Promise<Offloaded> {
  const folder = makeFolder();
  const full = { path: join(folder, 'data', 'capture.mdb'), key, place: join(folder, 'bucket') };
  await fillThree(full, SECRET, turns);
  return full;
}

const urlOf = ({ place }: Offloaded): string => pathToFileURL(place).href;
const folderOf = ({ path }: Offloaded): string => join(path, '..', '..');

/** Replaces a folder's databases and bucket by those of another folder. */
function copyTo(target: Offloaded, full: Offloaded): void {
  rmSync(folderOf(target), { recursive: true, force: true });
  cpSync(folderOf(full), folderOf(target), { recursive: true, preserveTimestamps: true });
}

/**
 * Runs a writer until it kills itself at the step. A writer that prints a line which begins with `line` is killed here.
 * @returns whether the writer killed itself
 */
async function runUntil(at: Offloaded, step: number, line: string): Promise<boolean> {
  const writer = new Writer(at, step, urlOf(at));
  const end = await Promise.race([writer.next(line), writer.ended.then(() => null)]);
  if (end !== null) await writer.kill();
  expect(writer.lines.filter((said) => said.startsWith('failed'))).toEqual([]);
  return end === null;
}

/** Makes images that only sealed files refer to, so that they leave the disk with these files. */
async function fillImages(): Promise<Offloaded> {
  const folder = makeFolder();
  const full = { path: join(folder, 'data', 'capture.mdb'), key: null, place: join(folder, 'bucket') };
  const shared = randomBytes(2_000);
  await fillWithImages(full, [
    [['a', shared]],
    [
      ['b', shared],
      ['b', randomBytes(2_000)],
    ],
  ]);
  return full;
}

it.each([
  ['with turns, encrypted', () => fill(randomBytes(32), 24), false],
  ['with images', fillImages, true],
])(
  'sending continues after a kill at any step, %s',
  async (_words, make, leaves) => {
    const full = await make();
    const before = await readAll(full);
    let killed = 0;
    for (let step = 1, isMore = true; isMore; step++) {
      const folder = makeFolder();
      const at = { ...full, path: join(folder, 'data', 'capture.mdb'), place: join(folder, 'bucket') };
      copyTo(at, full);
      isMore = await runUntil(at, step, 'offloaded');
      if (isMore) killed++;
      const then = await readAll(at);
      for (const [id, was] of before) expect(then.get(id), `step ${step}, exchange ${id}`).toBe(was);
      const next = await open(at, AT_ONCE);
      await passAll(next);
      await passAll(next);
      expect(next.stats().bucket, String(step)).toMatchObject({
        waiting_files: 0,
        offloaded_files: 2,
        removing: 0,
      });
      await next.close();
      expectNoOthers(at);
      if (leaves) expect(listAttachments(at.path), String(step)).toEqual([]);
      expect(await readAll(at), String(step)).toEqual(then);
      rmSync(folder, { recursive: true, force: true });
    }
    expect(killed).toBeGreaterThan(8);
  },
  600_000,
);

it('an erasure of files in the bucket is finished after a kill at any step', async () => {
  const full = await fill(null, 36);
  const before = await readAll(full);
  const log = await open(full, AT_ONCE);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({ offloaded_files: 2 });
  await log.close();
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
  giveOrder(full.path, order, full.key);
  const kept = makeFolder();
  const template = { ...full, path: join(kept, 'data', 'capture.mdb'), place: join(kept, 'bucket') };
  copyTo(template, full);
  let killed = 0;
  // The first steps are tried one by one, later steps with growing gaps.
  for (let step = 1, isMore = true; isMore; step += Math.ceil(step / 4)) {
    // The copy uses the same path for the bucket, because the files contain this path.
    copyTo(full, template);
    isMore = await runUntil(full, step, 'erased');
    if (isMore) killed++;
    const next = await open(full, AT_ONCE);
    await next.eraseOrdered();
    expect(hasOrder(full.path)).toBe(false);
    for (const { path, bytes } of readAllFiles(folderOf(full)))
      expect(bytes.includes(SECRET), `step ${step}, ${path}`).toBe(false);
    await passAll(next);
    await next.close();
    expectNoOthers(full);
    const after = await readAll(full);
    for (const [id, was] of before) {
      if (!gone.includes(id)) expect(after.get(id), `step ${step}, exchange ${id}`).toBe(was);
      else expect(JSON.parse(after.get(id)!)[1], `step ${step}, exchange ${id}`).toBe('erased');
    }
  }
  expect(killed).toBeGreaterThan(8);
}, 600_000);
