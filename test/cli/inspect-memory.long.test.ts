/** The memory of `understudy inspect` for exchanges that the writer has not indexed. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';

/** So many exchanges that they would exceed the heap below many times as objects. */
const EXCHANGES = 80_000;
const HEAP_MB = 40;

it('inspect reads a file without an index in a heap whose size does not depend on the file', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true });
  for (let at = 0; at < EXCHANGES; at += 1_000) {
    await log.append(
      Array.from({ length: 1_000 }, (_, i) =>
        makeExchange({
          kind: 'other',
          shape: null,
          path: `/v1/files/${at + i}`,
          run_id: `run-${at / 1_000}`,
          note: `number ${at + i}`,
        }),
      ),
    );
  }
  while ((await log.packSome(1_000)) > 0);
  expect(log.stats()).toMatchObject({ last_id: EXCHANGES, indexed_id: 0 });
  await log.close();
  await using inspect = new CliChild(['inspect', '--db', path], {
    env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` },
  });
  const { code, stderr, stdout } = await inspect.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('80,000 exchanges not indexed yet, and therefore in no run');
});
