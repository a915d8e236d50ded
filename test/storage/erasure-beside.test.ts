/**
 * Exchanges are erased while a process stores others: no byte of them is left, all others read as before, and a process
 * that has the files open does not see them either.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openDataKey } from '../../src/std/data-key.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { parseTextQuery } from '../../src/storage/text-index/text-query.ts';
import { TextSearch } from '../../src/storage/text-index/text-search.ts';
import { findAnywhere } from './captured.ts';
import { BATCH, eraseGone, type Filled, fillThree, readAll, Writer } from './erasing.ts';
import { makeFolder } from './folder.ts';

const SECRET = `secret${randomBytes(9).toString('hex')}`;

function search({ path, key }: Filled, words: string): number[] {
  const texts = new TextSearch(path, openDataKey(key));
  texts.refresh();
  const ids = [...texts.find(parseTextQuery(words)).newest()].map(({ id }) => id);
  texts.close();
  return ids;
}

describe('an erasure during traffic', () => {
  it.each([
    ['plain', null],
    ['encrypted', randomBytes(32)],
  ])('removes the whole run and nothing of other runs, %s', { tags: 'long' }, async (_what, key) => {
    const filled = { path: join(makeFolder(), 'capture.mdb'), key };
    await fillThree(filled, SECRET);
    const before = await readAll(filled);
    expect(search(filled, 'word3')).not.toEqual([]);
    if (key === null) expect(findAnywhere(join(filled.path, '..'), SECRET)).not.toEqual([]);
    const followed = new FollowedFiles(filled.path, { data_key: key });
    const writer = new Writer(filled);
    try {
      await writer.next('append');
      followed.refresh();
      const gone = [...before.keys()].filter((id) => JSON.parse(before.get(id)!)[0] === 'gone');
      const bodies = gone.map((id) => Buffer.from(followed.body(id, 'request')!).toString());
      expect(bodies.every((body) => body.includes(SECRET))).toBe(true);
      const { epoch } = followed;

      const from = writer.lines.length;
      const report = await eraseGone(filled);
      expect(report).toMatchObject({ exchanges: gone.length, files: 3, attachments: 1, unreadable: 0 });
      expect(writer.lines.slice(from).filter((line) => line.startsWith('append')).length).toBeGreaterThan(1);
      // A reader that has the files open drops its cached blocks.
      followed.refresh();
      expect(followed.epoch).not.toBe(epoch);
      for (const id of gone) {
        expect(followed.body(id, 'request')).toHaveLength(0);
        expect(followed.exchange(id)).toMatchObject({ provider: 'erased', run_id: null });
      }
      await writer.next('append');
    } finally {
      await writer.kill();
      followed.close();
    }
    const after = await readAll(filled);
    for (const [id, was] of before) {
      const [run, , request] = JSON.parse(after.get(id)!);
      if (JSON.parse(was)[0] === 'gone') expect([run, request], String(id)).toEqual([null, '']);
      else expect(after.get(id), String(id)).toBe(was);
    }
    expect([...after.keys()].sort((a, b) => a - b)).toEqual(
      Array.from({ length: after.size }, (_, at) => at + 1),
    );
    expect(search(filled, 'word3')).not.toEqual([]);
    expect(search(filled, SECRET)).toEqual([]);
    expect(findAnywhere(join(filled.path, '..'), SECRET)).toEqual([]);
    expect(readdirSync(`${filled.path}.files`)).toHaveLength(2);
    for (const suffix of ['erase-order', 'erasing', 'erasing-failed', 'runs'])
      expect(existsSync(`${filled.path}.${suffix}`), suffix).toBe(false);
  });

  it('is finished by the command when the process ends', async () => {
    const filled = { path: join(makeFolder(), 'capture.mdb'), key: null };
    await fillThree(filled, SECRET, 30);
    const writer = new Writer(filled, 6);
    await writer.next('append');
    expect(await eraseGone(filled)).toMatchObject({ exchanges: 10 + BATCH, files: 3 });
    expect(await writer.ended).toBe('SIGKILL');
    expect([...(await readAll(filled)).values()].filter((row) => row.includes('"erased"'))).toHaveLength(
      10 + BATCH,
    );
    expect(findAnywhere(join(filled.path, '..'), SECRET)).toEqual([]);
  });
});
