/**
 * Content that was deleted through the API leaves the files of DATA_DIR while the service runs, as soon as it is
 * idle. A real service stores it and deletes it.
 */
import { expect, it, vi } from 'vitest';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';
import { filesWithCanary, fillService, KEPT } from './deleted-content.ts';

const PATIENCE = { timeout: 60_000, interval: 200 };
const countWipes = (service: WholeService, file: string) =>
  service.stderr
    .split('\n')
    .filter((line) => line.includes('deleted content was overwritten') && line.includes(file)).length;

it('deleted data disappears from all files of an idle service', async () => {
  const folder = makeFolder();
  await using service = new WholeService(folder);
  await service.start();
  const { ann, org_id, key, pattern, finding } = await fillService(service);
  expect(filesWithCanary(folder)).toEqual(expect.arrayContaining(['main.mdb', 'runs.mdb']));

  await key.send('DELETE', '/v1/monitor/runs/gone');
  await key.send('DELETE', '/v1/traces/gone');
  await key.send('DELETE', `/v1/patterns/${pattern}`);
  await key.send('DELETE', `/v1/findings/base/${finding}`);
  await ann.send('DELETE', `/organizations/${org_id}`);
  await vi.waitFor(() => {
    expect(countWipes(service, 'main.mdb')).toBeGreaterThan(0);
    expect(countWipes(service, 'runs.mdb')).toBeGreaterThan(0);
    expect(filesWithCanary(folder)).toEqual([]);
  }, PATIENCE);
  expect(JSON.stringify(await key.send('GET', '/v1/monitor/runs/kept'))).toContain(KEPT);

  // The mark is gone at the next start.
  expect(await service.stop()).toBe(0);
  expect(filesWithCanary(folder)).toEqual([]);
  await service.start();
  expect(service.stderr).not.toContain('the database file was rewritten');
  expect(JSON.stringify(await key.send('GET', '/v1/monitor/runs/kept'))).toContain(KEPT);
});
