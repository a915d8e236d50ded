/** A change of the data key that is killed at each of its steps. */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { settlePlan } from '../../src/storage/rekey-plan.ts';
import { makeFolder } from './folder.ts';
import { check, fill, leftOver, NEW, OLD, rekey, rekeyKilled } from './rekeyed.ts';

it('a kill during a change of the data key loses nothing: the next process undoes or finishes the change', async () => {
  const full = makeFolder();
  const stored = await fill(full, OLD);
  const whole = makeFolder();
  cpSync(full, whole, { recursive: true });
  const { steps } = rekeyKilled(whole, OLD, -1);
  expect(steps).toBeGreaterThan(25);
  const endings = new Set<string>();
  for (let at = 1; at <= steps; at++) {
    const folder = makeFolder();
    cpSync(full, folder, { recursive: true });
    expect(rekeyKilled(folder, OLD, at).signal, `step ${at}`).toBe('SIGKILL');
    const settled = await settlePlan({ data_dir: folder, capture_db: join(folder, 'capture.mdb') });
    endings.add(settled?.done ?? 'nothing');
    const isNew = settled?.done === 'finished';
    await check(folder, isNew ? NEW : OLD, stored);
    expect(leftOver(folder), `step ${at}`).toEqual([]);
    if (isNew) continue;
    await rekey(folder, OLD, NEW);
    await check(folder, NEW, stored);
  }
  expect([...endings].sort()).toEqual(['finished', 'nothing', 'undone']);
});
