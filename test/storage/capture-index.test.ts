/** Facts and runs: found off the hot path, kept across restart and rotation, and the same when a reader finds them. */
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { CapturedExchange, ExchangeRecord } from '../../src/domain/exchange.ts';
import type { DecodeExchange } from '../../src/storage/capture/exchange-index.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

/** Conversations are words; a prefix's hash is the words so far. The answer is one more word. */
const decode: DecodeExchange = (copy) => {
  const words = Buffer.from(copy.request_body)
    .toString()
    .split(' ')
    .filter((word) => word !== '');
  const answer = Buffer.from(copy.response_body).toString();
  return {
    model: words[0] ?? null,
    usage: {
      input_tokens: words.length,
      output_tokens: 1,
      cache_read_tokens: null,
      cache_write_tokens: null,
    },
    stop_reason: copy.status === 200 ? 'end_turn' : null,
    undecodable: words[0] === 'broken',
    reason: '',
    conversation: words[0] === 'broken' ? [] : words.map((_, i) => words.slice(0, i + 1).join(' ')),
    answered: answer === '' ? null : [...words, answer].join(' '),
  };
};

function ask(words: string, answer = '', part: Partial<CapturedExchange> = {}): CapturedExchange {
  return makeExchange({ request_body: Buffer.from(words), response_body: Buffer.from(answer), ...part });
}

async function openLog(folder: string): Promise<CaptureLog> {
  const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true, decode });
  onTestFinished(() => log.close());
  return log;
}

async function indexAll(log: CaptureLog): Promise<void> {
  while ((await log.indexSome(decode, 1_000)) > 0);
}

function readAll(path: string, withDecode: boolean): ExchangeRecord[] {
  const reader = CaptureReader.open(path, withDecode ? { decode } : {});
  onTestFinished(() => reader.close());
  return [...reader.exchanges()];
}

const runs = (records: ExchangeRecord[]): (string | null)[] => records.map((record) => record.run_id);

describe('runs without a label', () => {
  it('are found by their conversation', async () => {
    const log = await openLog(makeFolder());
    await log.append([
      ask('a', 'x'), // 1 starts a run
      ask('a x b', 'y'), // 2 goes on
      ask('q', 'w'), // 3 another run
      ask('a x b y c', '', { status: 529 }), // 4 fails
      ask('a x b y c', 'z'), // 5 the retry
      ask('a', 'x'), // 6 the same first message again: a new run
      ask('a x b', 'y2'), // 7 could be of 2's run or of 6's: the latest that it extends
      ask('a x b y c z d', 'v'), // 8 goes on from 5: the longest prefix wins over 6 and 7
      ask('l1', 'm', { run_id: 'mine' }), // 9 labelled
      ask('l1 m n', 'o'), // 10 the label got lost
      ask('a x', '', { kind: 'other', shape: null }), // 11 no turn
      ask('broken'), // 12 unreadable: a run of its own
      ask('f', '', { status: 0, aborted: true }), // 13 aborted at once
      ask('f', 'g'), // 14 again
    ]);
    await indexAll(log);
    expect(log.stats().indexed_id).toBe(14);
    const records = readAll(log.stats().path, false);
    expect(runs(records)).toEqual([
      'conv_1',
      'conv_1',
      'conv_3',
      'conv_1',
      'conv_1',
      'conv_6',
      'conv_6',
      'conv_1',
      'mine',
      'mine',
      null,
      'conv_12',
      'conv_13',
      'conv_13',
    ]);
    expect(records[1]).toMatchObject({
      model: 'a',
      stop_reason: 'end_turn',
      usage: { input_tokens: 3 },
      undecodable: false,
    });
    expect(records[11]).toMatchObject({ undecodable: true });
    expect(records[10]).toMatchObject({ model: null, usage: { input_tokens: null } });
    expect(records[1]!.request.headers[0]).toEqual(['host', 'api.example']);
    const reader = CaptureReader.open(log.stats().path);
    expect([...reader.exchanges({ run_id: 'conv_1' })].map((record) => record.id)).toEqual([1, 2, 4, 5, 8]);
    expect([...reader.summaries({ run_id: 'mine', from_id: 10 })].map((summary) => summary.id)).toEqual([10]);
    await reader.close();
  });

  it('go on after a restart and in the next file', async () => {
    const folder = makeFolder();
    const first = await openLog(folder);
    await first.append([ask('a', 'x'), ask('l', 'm', { run_id: 'mine' })]);
    await indexAll(first);
    await first.close();
    const second = await openLog(folder);
    await second.append([ask('a x b', 'y')]);
    // Rotation finishes the index of the file that it seals.
    const { sealed } = await second.rotate();
    await second.append([ask('a x b y c', 'z'), ask('l m n')]);
    await second.rotate();
    await second.append([ask('a x b y c z d'), ask('new')]);
    await indexAll(second);
    expect(runs(readAll(sealed!, false))).toEqual(['conv_1', 'mine', 'conv_1']);
    expect(runs(readAll(join(folder, 'capture.4-5.mdb'), false))).toEqual(['conv_1', 'mine']);
    expect(runs(readAll(join(folder, 'capture.mdb'), false))).toEqual(['conv_1', 'conv_7']);
  });

  it('are the same whoever finds them, and whenever', async () => {
    const word = fc.constantFrom('a', 'b');
    const exchange = fc.record({
      words: fc.array(word, { minLength: 1, maxLength: 5 }),
      answer: fc.constantFrom('', 'a', 'b'),
      run_id: fc.constantFrom(null, null, null, 'mine'),
      status: fc.constantFrom(200, 200, 500),
      index: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(exchange, { maxLength: 150 }), async (exchanges) => {
        const folder = makeFolder();
        const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true });
        const reader = CaptureReader.open(join(folder, 'capture.mdb'), { decode });
        const found: (string | null)[] = [];
        for (const { words, answer, index, ...part } of exchanges) {
          const { last_id } = await log.append([ask(words.join(' '), answer, part)]);
          if (index) await indexAll(log);
          found.push(reader.exchange(last_id)!.run_id);
        }
        const early = runs([...reader.exchanges()]);
        await indexAll(log);
        const indexed = CaptureReader.open(log.stats().path);
        expect(runs([...indexed.exchanges()])).toEqual(found);
        expect(early).toEqual(found);
        expect(runs([...reader.exchanges()])).toEqual(found);
        await indexed.close();
        await reader.close();
        await log.close();
      }),
      { numRuns: 25 },
    );
  });

  it('are not looked for where one exchange says all of itself', async () => {
    const folder = makeFolder();
    const log = await openLog(folder);
    await log.append([
      ask('a', 'x'), // 1
      ask('l', 'm', { run_id: 'mine' }), // 2 labelled
      ask('none', 'm', { shape: null, kind: 'other' }), // 3 nothing to decode
      ask('broken', '', { run_id: 'mine', status: 500 }), // 4 labelled, cannot be read
      ask('page', 'y', { path: '/v1/embeddings', kind: 'other' }), // 5 no turn
      ask('side', 'z'), // 6 no turn, as its bodies tell
      ask('a x b', 'y'), // 7 only those before it tell
    ]);
    const asked: string[] = [];
    const counting: DecodeExchange = (copy) => {
      asked.push(Buffer.from(copy.request_body).toString());
      const facts = decode(copy);
      return facts.model === 'side' ? { ...facts, is_turn: false } : facts;
    };
    const read = (id: number): { record: ExchangeRecord | undefined; decoded: string[] } => {
      const reader = CaptureReader.open(log.stats().path, { decode: counting });
      onTestFinished(() => reader.close());
      asked.length = 0;
      return { record: reader.exchange(id), decoded: [...asked] };
    };
    const alone = [2, 3, 4, 5, 6].map(read);
    expect(alone.map(({ decoded }) => decoded)).toEqual([['l'], ['none'], ['broken'], ['page'], ['side']]);
    expect(read(7)).toMatchObject({ record: { run_id: 'conv_1' } });
    expect(read(8)).toEqual({ record: undefined, decoded: [] });
    while ((await log.indexSome(counting, 1_000)) > 0);
    expect(alone.map(({ record }) => record)).toEqual(readAll(log.stats().path, false).slice(1, 6));
    expect(alone.map(({ record }) => record?.run_id)).toEqual(['mine', null, 'mine', null, null]);
  });

  it('are found once by a reader that is closed and opened again, whatever the writer indexes meanwhile', async () => {
    const log = await openLog(makeFolder());
    const count = 300;
    const said = (turn: number): string => `run${turn % 7}${' again x'.repeat(Math.floor(turn / 7))}`;
    for (let at = 0; at < count; at += 50)
      await log.append(Array.from({ length: 50 }, (_, i) => ask(said(at + i), 'x')));
    let decoded = 0;
    const counting: DecodeExchange = (copy) => {
      decoded += 1;
      return decode(copy);
    };
    const first = CaptureReader.open(log.stats().path, { decode: counting });
    const found = [...first.summaries()];
    expect(decoded).toBe(count);
    await first.close();
    const second = first.openAgain();
    expect([...second.summaries()]).toEqual(found);
    expect([...second.summaries({ from_id: 130 })]).toEqual(found.slice(129));
    expect(decoded).toBe(count);
    await second.close();
    await log.append([ask(said(count), 'x')]);
    // A part of it: what was found beyond stays, and goes on with runs found before.
    expect(await log.indexSome(decode, 1_000)).toBe(256);
    const third = second.openAgain();
    onTestFinished(() => third.close());
    const all = [...third.summaries()];
    expect(decoded).toBe(count + 1);
    expect(all.slice(0, count)).toEqual(found);
    await indexAll(log);
    expect([...third.summaries()]).toEqual(all);
    expect(all).toEqual([...CaptureReader.open(log.stats().path).summaries()]);
    expect(new Set(all.map((one) => one.run_id)).size).toBe(7);
  });

  it('of one run are found without the rest, in a file that is indexed in part', async () => {
    const log = await openLog(makeFolder());
    const named = (count: number, seed: number): CapturedExchange[] =>
      Array.from({ length: count }, (_, i) => {
        const at = (i * 7919 + seed) % 1_000;
        const run_id = at < 5 ? `rare "${at}"` : at < 300 ? null : `run-${at % 50}`;
        return ask(`say ${seed} ${i}`, 'x', { run_id });
      });
    await log.append(named(700, 1));
    await indexAll(log);
    await log.append(named(300, 2));
    const reader = CaptureReader.open(log.stats().path, { decode });
    onTestFinished(() => reader.close());
    const all = [...reader.summaries()];
    const unpacked = vi.spyOn(JSON, 'parse');
    for (const run of new Set(all.map((one) => one.run_id))) {
      if (run === null) continue;
      const expected = all.filter((one) => one.run_id === run);
      expect([...reader.summaries({ run_id: run })]).toEqual(expected);
      for (const from_id of [2, 65, 701])
        expect([...reader.summaries({ run_id: run, from_id })]).toEqual(
          expected.filter((one) => one.id >= from_id),
        );
    }
    unpacked.mockClear();
    expect([...reader.summaries({ run_id: 'nobody' })]).toEqual([]);
    // Those beyond the index, five blocks of them; not one of the eleven in the file.
    expect(unpacked.mock.calls.length).toBeLessThan(6);
    unpacked.mockRestore();
  });

  it('are found under a data key by a reader that is opened again, too', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const data_key = Buffer.alloc(32, 3);
    const log = await CaptureLog.open({ path, redact: true, data_key });
    onTestFinished(() => log.close());
    await log.append([ask('a', 'x'), ask('a x b')]);
    const first = CaptureReader.open(path, { decode, data_key });
    const found = [...first.summaries()];
    await first.close();
    const second = first.openAgain();
    onTestFinished(() => second.close());
    expect([...second.summaries()]).toEqual(found);
    expect(second.body(2, 'request')).toEqual(ask('a x b').request_body);
  });

  it('go past an exchange that the decoder fails on', async () => {
    const log = await openLog(makeFolder());
    await log.append([ask('a', 'x'), ask('a x b')]);
    const failing: DecodeExchange = (copy) => {
      if (Buffer.from(copy.request_body).toString() === 'a') throw new Error('oops');
      return decode(copy);
    };
    while ((await log.indexSome(failing, 1_000)) > 0);
    const records = readAll(log.stats().path, false);
    expect(records.map((record) => record.undecodable)).toEqual([true, false]);
    expect(runs(records)).toEqual(['conv_1', 'conv_2']);
  });

  it('try again after a failed write', async () => {
    const folder = makeFolder();
    let failing = true;
    const log = await CaptureLog.open({
      path: join(folder, 'capture.mdb'),
      redact: true,
      fault: (point) => {
        if (failing && point === 'index') throw new Error('disk full');
      },
    });
    await log.append([ask('a', 'x'), ask('a x b')]);
    await expect(log.indexSome(decode, 1_000)).rejects.toThrow('disk full');
    failing = false;
    await indexAll(log);
    await log.close();
    expect(runs(readAll(join(folder, 'capture.mdb'), false))).toEqual(['conv_1', 'conv_1']);
  });
});
