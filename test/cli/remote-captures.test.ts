/** `--db` with a bucket: the runs of all its gateways, and their bodies, on a machine that captured none of them. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { readNote } from '../../src/storage/offload/offload-note.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';
import { runHere } from './here.ts';

/** Sends one run to the bucket, as a gateway does. @returns the name of the gateway in the bucket */
async function sendRun(place: string, run_id: string, dataKey: Buffer | null = null): Promise<string> {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({
    path,
    redact: false,
    data_key: dataKey,
    decode: decodeExchange,
    bucket: { place, keep: 'all' },
  });
  const request_body = Buffer.from(
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `I am ${run_id}` }] }),
  );
  await log.append([makeExchange({ run_id, request_body })]);
  await log.rotate();
  await log.offloadSome();
  await log.close();
  return readNote(path)!.gateway;
}

it('inspect lists the runs of all gateways, and reads the bodies of one', { tags: 'long' }, async () => {
  const place = pathToFileURL(join(makeFolder(), 'bucket')).href;
  const env = { DATA_DIR: makeFolder() };
  const first = await sendRun(place, 'run-of-a');
  const all = await runHere(['inspect', '--db', place], env);
  expect(all, all.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('run-of-a') });
  const second = await sendRun(place, 'run-of-b');
  const both = await runHere(['inspect', '--db', place], env);
  expect(both.code, both.stderr).toBe(0);
  for (const word of ['run-of-a', 'run-of-b', `Gateway ${first}, as of 2`, `Gateway ${second}, as of 2`])
    expect(both.stdout).toContain(word);
  const body = await runHere(
    ['inspect', '--db', `${place}?gateway=${second}`, '--exchange', '1', '--raw', 'request'],
    env,
  );
  expect(body).toMatchObject({ code: 0, stdout: expect.stringContaining('I am run-of-b') });

  const unsaid = await runHere(['inspect', '--exchange', '1', `--db=${place}`], env);
  expect(unsaid).toMatchObject({ code: 2, stderr: expect.stringContaining('add gateway=NAME to the query') });
  const unknown = await runHere(['trace', '--db', `${place}?gateway=other`], env);
  expect(unknown).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/has no gateway other; it has .+, .+\n$/),
  });
  const empty = await runHere(['inspect', '--db', pathToFileURL(makeFolder()).href], env);
  expect(empty).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^understudy: .* has no captures: .*\n$/),
  });
});

it('inspect says that captures are encrypted', async () => {
  const place = pathToFileURL(join(makeFolder(), 'bucket')).href;
  await sendRun(place, 'run-of-a', Buffer.alloc(32, 9));
  const read = await runHere(['inspect', '--db', place], { DATA_DIR: makeFolder() });
  expect(read).toMatchObject({ code: 1, stderr: expect.stringContaining('encrypted (set DATA_KEY_FILE)') });
});
