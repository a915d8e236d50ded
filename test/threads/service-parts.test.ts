/** Parts of a service stop in the reverse order of their start, even if the start was interrupted. */

import { expect, it } from 'vitest';
import { ServiceParts } from '../../src/threads/service-parts.ts';

function startNamed(parts: ServiceParts, name: string, told: string[]): Promise<string> {
  return parts.start({
    start: () => name,
    stop: async (started) => {
      await Promise.resolve();
      told.push(started);
    },
  });
}

it('each part is stopped once, after the parts that were started later', async () => {
  const parts = new ServiceParts();
  const told: string[] = [];
  for (const name of ['first', 'second', 'third']) expect(await startNamed(parts, name, told)).toBe(name);
  await parts.stop();
  expect(told).toEqual(['third', 'second', 'first']);
  await parts.stop();
  expect(told).toHaveLength(3);
});

it('a part whose start failed is not stopped', async () => {
  const parts = new ServiceParts();
  const told: string[] = [];
  await startNamed(parts, 'before', told);
  const failing = parts.start({
    start: () => {
      throw new Error('refused');
    },
    stop: () => told.push('failed'),
  });
  await expect(failing).rejects.toThrow('refused');
  await parts.stop();
  expect(told).toEqual(['before']);
});

it('a part whose start ends after the stop is stopped by the next one', async () => {
  const parts = new ServiceParts();
  const told: string[] = [];
  const slow = Promise.withResolvers<string>();
  const late = parts.start({ start: () => slow.promise, stop: (started) => told.push(started) });
  await parts.stop();
  slow.resolve('late');
  await late;
  expect(told).toEqual([]);
  await parts.stop();
  expect(told).toEqual(['late']);
});
