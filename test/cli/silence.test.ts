/** Nothing that the process loads reports its use to anybody, or leaves a mark on the machine to be told by. */
import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { makeFolder } from '../storage/folder.ts';

it('keeps the model’s library silent', async () => {
  const HOME = makeFolder();
  await using api = new ApiChild({ HOME });
  await api.start();
  // The library has answered by then, and would have made its device id under HOME.
  const { status } = await api.post('/v1/findings/shop/recall', { query: 'the parser' });
  expect(status).toBe(200);
  expect(readdirSync(HOME)).toEqual([]);
});
