/** The library of the embedding model leaves no identifier on the machine. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';

it('the model’s library writes no device id in a service', async () => {
  const HOME = makeFolder();
  await using api = new ApiChild({ HOME });
  await api.start();
  // By the time of an answer, the library would have created its device id under HOME.
  const { status } = await api.post('/v1/findings/shop/recall', { query: 'the parser' });
  expect(status).toBe(200);
  expect(readdirSync(HOME)).toEqual([]);
});

it('the model’s library writes no device id in an evaluation', async () => {
  const HOME = makeFolder();
  const entry = fileURLToPath(new URL('../../bench/eval/run.ts', import.meta.url));
  const argv = ['retrieval', '--sets', makeFolder(), '--no-save'];
  const { code, stdout } = await new CliChild(argv, { env: { HOME }, entry }).ended;
  expect(code).toBe(0);
  expect(stdout).toContain('one text of 200 characters');
  expect(readdirSync(HOME)).toEqual([]);
});
