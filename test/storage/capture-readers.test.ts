/**
 * Readers of captures do not harm the writer. Their transactions end with each call, even if the readers compute for a
 * long time.
 */
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

it('calls of a reader leave no transaction open, and a listing holds no transaction between exchanges', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  onTestFinished(() => log.close());
  const body = (n: number) =>
    Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `${n} says more` }] }));
  for (let n = 0; n < 5; n++)
    await log.append(Array.from({ length: 40 }, (_, i) => makeExchange({ request_body: body(n * 40 + i) })));
  await log.flush();
  const watcher = openCaptureEnv(path, 'read');
  onTestFinished(() => watcher.root.close());
  // A reader without a transaction has a dash in the last column.
  const listHeld = (): string[] =>
    (watcher.root as unknown as { readerList(): string })
      .readerList()
      .split('\n')
      .filter((line) => /^\s*\d+\s+\S+\s+\d+\s*$/.test(line));
  // The writer holds one transaction for its last checkpoint. Transactions that began while the file was opened end
  // with the next turn of the loop.
  await vi.waitFor(() => expect(listHeld()).toHaveLength(1));

  const reader = CaptureReader.open(path);
  onTestFinished(() => reader.close());
  reader.range();
  expect(listHeld()).toHaveLength(1);
  let seen = 0;
  for (const { id } of reader.summaries()) {
    expect(listHeld()).toHaveLength(1);
    reader.exchange(id);
    reader.body(id, 'request');
    reader.copy(id);
    reader.moves(0);
    expect(listHeld()).toHaveLength(1);
    seen += 1;
  }
  for (const _ of reader.summaries({ run_id: 'conv_150' })) expect(listHeld()).toHaveLength(1);
  expect(seen).toBe(200);
});
