/** Capture files that are sealed on their own thread. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureFileError, listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { sealOnThread } from '../../src/threads/sealing-thread.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';

const KEY = Buffer.alloc(32, 7);

/** Turns of one conversation each, large enough to be stored raw. */
function makeTurns(count: number): CapturedExchange[] {
  return Array.from({ length: count }, (_, at) => {
    const content = `task ${at} `.repeat(400);
    const answer = { id: `msg_${at}`, role: 'assistant', content: [{ type: 'text', text: `done ${at}` }] };
    return makeExchange({
      request_body: Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] })),
      response_body: Buffer.from(JSON.stringify({ type: 'message', model: 'm', ...answer })),
    });
  });
}

async function fillUnderPressure(path: string, data_key: Uint8Array | null): Promise<CapturedExchange[]> {
  // Without a decoder, nothing is indexed.
  const log = await CaptureLog.open({ path, redact: false, data_key, pressed_rate: 1 });
  const exchanges = makeTurns(100);
  await log.append(exchanges);
  expect(log.stats().packing).toMatchObject({ unindexed: 100 });
  expect(log.stats().packing.waiting_blocks).toBeGreaterThan(0);
  await log.close();
  return exchanges;
}

it.each([
  ['without a data key', null],
  ['with a data key', KEY],
])('the sealing thread packs and indexes the file, and removes its raw files, %s', async (_how, data_key) => {
  const path = join(makeFolder(), 'capture.mdb');
  const exchanges = await fillUnderPressure(path, data_key);
  const log = await CaptureLog.open({
    path,
    redact: false,
    data_key,
    decode: decodeExchange,
    seal: sealOnThread,
  });
  onTestFinished(() => log.close());
  const { sealed } = await log.rotate();
  expect(listSealed(path).map((file) => file.path)).toEqual([sealed]);
  expect(readdirSync(`${path}.raw`)).toEqual([]);
  expect(log.stats().packing).toMatchObject({ unindexed: 0, waiting_blocks: 0 });
  const reader = CaptureReader.open(sealed!, { data_key });
  onTestFinished(() => reader.close());
  expect(reader.range()).toEqual({ first_id: 1, last_id: 100, indexed_id: 100 });
  for (const [at, { request_body }] of exchanges.entries())
    expect(Buffer.compare(reader.body(at + 1, 'request')!, request_body)).toBe(0);
});

it('an interrupted seal leaves the file as it was, and the next start seals it', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  await fillUnderPressure(path, null);
  const interruption = new AbortController();
  const interrupted = await CaptureLog.open({
    path,
    redact: false,
    decode: decodeExchange,
    seal: (job, events) => {
      // The seal is interrupted before the thread has loaded.
      const sealed = sealOnThread(job, events, interruption.signal);
      interruption.abort(new Error('the test interrupts the seal'));
      return sealed;
    },
  });
  await expect(interrupted.rotate()).rejects.toThrow('the test interrupts the seal');
  expect(listSealed(path)).toMatchObject([{ sealing: true, first_id: 1, last_id: 100 }]);
  await interrupted.close();

  const log = await CaptureLog.open({ path, redact: false, decode: decodeExchange, seal: sealOnThread });
  onTestFinished(() => log.close());
  await expect.poll(() => listSealed(path)).toMatchObject([{ sealing: false, first_id: 1, last_id: 100 }]);
});

it('closing the log interrupts the sealing', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  await fillUnderPressure(path, null);
  const log = await CaptureLog.open({ path, redact: false, decode: decodeExchange, seal: sealOnThread });
  const rotated = log.rotate();
  rotated.catch(() => {});
  await expect.poll(() => log.stats().sealed).toBe(1);
  await log.close();
  // On a fast machine, the file may be sealed already.
  if (listSealed(path)[0]!.sealing) await expect(rotated).rejects.toThrow('interrupted');
  else await rotated;
});

it('a failure of the sealing thread keeps its class and code', async () => {
  const job = {
    path: join(makeFolder(), 'missing.mdb'),
    target: join(makeFolder(), 'sealed.mdb'),
    data_key: null,
    completes_index: true,
  };
  const events = { released: () => {}, indexed: () => {} };
  const failure = await sealOnThread(job, events, new AbortController().signal).catch(
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(CaptureFileError);
  expect(failure).toMatchObject({ code: 'missing', path: job.path });
  expect((failure as Error).message).toBe(`${job.path}: no such capture database`);
  expect(existsSync(job.target)).toBe(false);
});
