/**
 * The index has facts and runs. It finds them while exchanges are stored or later, with the same result, and keeps them
 * across restart and rotation.
 */
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { CapturedExchange, ExchangeRecord } from '../../src/domain/exchange.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { LEAST_SHARE } from '../../src/storage/capture/packing-share.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import type { DecodeExchange } from '../../src/storage/capture/stored-copy.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

/**
 * A decoder for the tests. A conversation is a list of words, and the hash of a prefix is the prefix itself. The answer
 * is one more word.
 */
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
      cache_write_1h_tokens: null,
      ...(words[0] === 'q' ? { tier: 'flex' } : {}),
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

/** @param reads whether exchanges are indexed while they are stored; false: only by `indexAll` */
async function openLog(folder: string, reads = true): Promise<CaptureLog> {
  const options = reads ? { decode } : {};
  const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true, ...options });
  onTestFinished(() => log.close());
  return log;
}

async function indexAll(log: CaptureLog): Promise<void> {
  while ((await log.indexSome(decode, 1_000)) > 0);
}

function readAll(path: string): ExchangeRecord[] {
  const reader = CaptureReader.open(path);
  onTestFinished(() => reader.close());
  return [...reader.exchanges()];
}

const runs = (records: ExchangeRecord[]): (string | null)[] => records.map((record) => record.run_id);

describe('runs without a label', () => {
  it('of different credentials join only if one repeats an answer of the other', async () => {
    const folder = makeFolder();
    const log = await openLog(folder);
    const by = (key: string, words: string, answer = '', part: Partial<CapturedExchange> = {}) =>
      ask(words, answer, { ...part, request_headers: ['authorization', `Bearer credential-of-${key}`] });
    const refused = { status: 529 };
    await log.append([
      by('ann', 'f', '', refused), // 1 fails
      by('bob', 'f', '', refused), // 2 of another client
      by('ann', 'f', 'x'), // 3 retries 1
      by('bob', 'f', 'y'), // 4 retries 2
      by('cem', 'f changed c', 'z'), // 5 begins like 1 to 4, but repeats no answer
      by('ann', 'f changed c', 'z'), // 6 continues 3 with a changed answer
      ask('f', '', refused), // 7 without a credential
      by('ann', 'f', 'w'), // 8 does not retry 7
      ask('f', 'v'), // 9 retries 7
    ]);
    // Ann has a new token, and repeats an answer that only she can know.
    await log.append([by('ann-later', 'f x d', 'u')]); // 10
    await indexAll(log);
    const expected = [1, 2, 1, 2, 5, 1, 7, 8, 7, 1].map((id) => `conv_${id}`);
    expect(runs(readAll(log.stats().path))).toEqual(expected);
    await log.close();
    // The credentials are stored with the turns.
    const again = await openLog(folder);
    await again.append([by('ann', 'g', '', refused)]); // 11
    await again.append([by('ann', 'h', '', { status: 401 })]); // 12: the token has expired
    await again.close();
    const last = await openLog(folder);
    await last.append([by('bob', 'g', 'y'), by('ann', 'g', 'x')]); // 13, 14
    await last.append([by('ann-later', 'h', 'x')]); // 15 retries 12
    await indexAll(last);
    const later = [11, 12, 13, 11, 12].map((id) => `conv_${id}`);
    expect(runs(readAll(last.stats().path)).slice(10)).toEqual(later);
  });

  it('are found by their conversation', async () => {
    const log = await openLog(makeFolder());
    await log.append([
      ask('a', 'x'), // 1 starts a run
      ask('a x b', 'y'), // 2 continues
      ask('q', 'w'), // 3 another run
      ask('a x b y c', '', { status: 529 }), // 4 fails
      ask('a x b y c', 'z'), // 5 the retry
      ask('a', 'x'), // 6 the same first message again: a new run
      ask('a x b', 'y2'), // 7 could belong to 2's run or to 6's: the latest turn that it extends counts
      ask('a x b y c z d', 'v'), // 8 continues 5: the longest prefix counts, before 6 and 7
      ask('l1', 'm', { run_id: 'mine' }), // 9 labelled
      ask('l1 m n', 'o'), // 10 the label got lost
      ask('a x', '', { kind: 'other', shape: null }), // 11 no turn
      ask('broken'), // 12 unreadable: a separate run
      ask('f', '', { status: 0, aborted: true }), // 13 aborted at once
      ask('f', 'g'), // 14 again
    ]);
    await indexAll(log);
    expect(log.stats().indexed_id).toBe(14);
    const records = readAll(log.stats().path);
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
    expect(records[2]!.usage.tier).toBe('flex');
    expect(records[1]!.usage).not.toHaveProperty('tier');
    expect(records[11]).toMatchObject({ undecodable: true });
    expect(records[10]).toMatchObject({ model: null, usage: { input_tokens: null } });
    expect(records[1]!.request.headers[0]).toEqual(['host', 'api.example']);
    const reader = CaptureReader.open(log.stats().path);
    expect([...reader.exchanges({ run_id: 'conv_1' })].map((record) => record.id)).toEqual([1, 2, 4, 5, 8]);
    expect([...reader.summaries({ run_id: 'mine', from_id: 10 })].map((summary) => summary.id)).toEqual([10]);
    await reader.close();
  });

  it('continue after a restart and in the next file', async () => {
    const folder = makeFolder();
    const first = await openLog(folder);
    await first.append([ask('a', 'x'), ask('l', 'm', { run_id: 'mine' })]);
    await indexAll(first);
    await first.close();
    const second = await openLog(folder);
    await second.append([ask('a x b', 'y')]);
    // A rotation completes the index of the file that it seals.
    const { sealed } = await second.rotate();
    await second.append([ask('a x b y c', 'z'), ask('l m n')]);
    await second.rotate();
    await second.append([ask('a x b y c z d'), ask('new')]);
    await indexAll(second);
    expect(runs(readAll(sealed!))).toEqual(['conv_1', 'mine', 'conv_1']);
    expect(runs(readAll(join(folder, 'capture.4-5.mdb')))).toEqual(['conv_1', 'mine']);
    expect(runs(readAll(join(folder, 'capture.mdb')))).toEqual(['conv_1', 'conv_7']);
  });

  it('are the same if they are found while exchanges are stored, later, or some now and some later', {
    tags: 'long',
  }, async () => {
    const word = fc.constantFrom('a', 'b');
    const exchange = fc.record({
      words: fc.array(word, { minLength: 1, maxLength: 5 }),
      answer: fc.constantFrom('', 'a', 'b'),
      run_id: fc.constantFrom(null, null, null, 'mine'),
      status: fc.constantFrom(200, 200, 500),
      index: fc.boolean(),
      reopen: fc.nat(9),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(exchange, { maxLength: 150 }), async (exchanges) => {
        const made = exchanges.map(({ words, answer, run_id, status }) =>
          ask(words.join(' '), answer, { run_id, status }),
        );
        const later = await openLog(makeFolder(), false);
        for (const exchange of made) await later.append([exchange]);
        await indexAll(later);
        const folder = makeFolder();
        let log = await openLog(folder);
        for (const [at, exchange] of made.entries()) {
          await log.append([exchange]);
          if (exchanges[at]!.index) await indexAll(log);
          if (exchanges[at]!.reopen > 0) continue;
          await log.close();
          log = await openLog(folder, exchanges[at]!.index);
        }
        await indexAll(log);
        const summaries = (path: string) => [...CaptureReader.open(path).summaries()];
        expect(summaries(log.stats().path)).toEqual(summaries(later.stats().path));
        expect(readAll(log.stats().path)).toEqual(readAll(later.stats().path));
      }),
      { numRuns: 25 },
    );
  });

  it('are found by decoding an exchange once, in memory, with its attachments and with masked secrets', async () => {
    const secret = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789';
    const image = Buffer.from('an image of some length '.repeat(400)).toString('base64');
    const body = `{"key":"${secret}","image":"${image}"}`;
    const seen: string[] = [];
    const noting: DecodeExchange = (copy) => {
      seen.push(Buffer.from(copy.request_body).toString());
      return decode(copy);
    };
    const options = { path: join(makeFolder(), 'capture.mdb'), redact: true };
    const log = await CaptureLog.open({ ...options, decode: noting });
    onTestFinished(() => log.close());
    const headers = ['content-type', 'application/json', 'x-api-key', secret];
    await log.append([makeExchange({ request_body: Buffer.from(body), request_headers: headers })]);
    expect(seen.length).toBe(1);
    await log.flush();
    expect(await log.indexSome(noting, 1_000)).toBe(0);
    const reader = CaptureReader.open(options.path);
    onTestFinished(() => reader.close());
    expect(seen).toEqual([Buffer.from(reader.body(1, 'request')!).toString()]);
    expect(seen[0]).toContain(image);
    expect(seen[0]).not.toContain(secret);
  });

  it('are not found by a reader, which shows the record of an unindexed exchange with a mark', async () => {
    const log = await openLog(makeFolder(), false);
    await log.append([ask('a', 'x'), ask('a x b', 'y', { run_id: 'mine' })]);
    const reader = CaptureReader.open(log.stats().path);
    onTestFinished(() => reader.close());
    expect(reader.range()).toEqual({ first_id: 1, last_id: 2, indexed_id: 0 });
    const told = [
      { id: 1, run_id: null, model: null, status: 200, request_bytes: 1, not_indexed: true },
      { id: 2, run_id: 'mine', model: null, status: 200, request_bytes: 5, not_indexed: true },
    ];
    expect([...reader.summaries()]).toMatchObject(told);
    expect([...reader.summaries({ run_id: 'mine' })]).toMatchObject(told.slice(1));
    expect(reader.exchange(2)).toMatchObject({ run_id: 'mine', not_indexed: true });
    expect(reader.body(1, 'request')).toEqual(Buffer.from('a'));
    await indexAll(log);
    expect(reader.range().indexed_id).toBe(2);
    expect(reader.exchange(1)).toMatchObject({ run_id: 'conv_1', model: 'a' });
    for (const summary of reader.summaries()) expect(summary).not.toHaveProperty('not_indexed');
  });

  it('wait for exchanges that were stored undecoded; the later ones are not decoded again', async () => {
    const folder = makeFolder();
    const unread = await openLog(folder, false);
    await unread.append([ask('a', 'x')]);
    await unread.close();
    let decoded = 0;
    const counting: DecodeExchange = (copy) => {
      decoded += 1;
      return decode(copy);
    };
    const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true, decode: counting });
    onTestFinished(() => log.close());
    await log.append([ask('a x b', 'y'), ask('q')]);
    expect(decoded).toBe(2);
    expect(log.stats().packing.unindexed).toBe(3);
    expect(await log.indexSome(counting, 1_000)).toBe(3);
    expect(decoded).toBe(3);
    expect(runs(readAll(log.stats().path))).toEqual(['conv_1', 'conv_1', 'conv_3']);
  });

  it.each([
    ['while exchanges are stored', true],
    ['later', false],
  ])('of a late turn and its continuation in one batch are found %s', async (_when, reads) => {
    const log = await openLog(makeFolder(), reads);
    // The client changed the answer, so only the first message shows which run the request continues.
    await log.append([ask('a changed b', 'y', { arrival: 2 }), ask('a', 'x', { arrival: 1 })]);
    await indexAll(log);
    expect(runs(readAll(log.stats().path))).toEqual(['conv_1', 'conv_1']);
  });

  it('are found while exchanges are stored, even raw ones, unless further batches wait', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const log = await CaptureLog.open({ path, redact: true, decode, pressed_rate: 1 });
    onTestFinished(() => log.close());
    const long = 'x'.repeat(80_000);
    await log.append([ask(`a ${long}`, 'y'), ask(`a ${long} y b`, 'z')]);
    const { waiting_blocks, unindexed } = log.stats().packing;
    expect({ waiting_blocks, unindexed }).toEqual({ waiting_blocks: 1, unindexed: 0 });
    const turns = Array.from({ length: 12 }, (_, i) => ask(`q${i} ${long}`));
    await Promise.all(turns.map((turn) => log.append([turn])));
    // Only the last two batches are stored while fewer than two others wait.
    expect(log.stats().packing.unindexed).toBe(12);
    let decoded = 0;
    const counting: DecodeExchange = (copy) => {
      decoded += 1;
      return decode(copy);
    };
    expect(await log.indexSome(counting, 1_000)).toBe(12);
    expect(decoded).toBe(10);
  });

  it('are found later while the gateway’s queue is filling, and packing then comes first', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const log = await CaptureLog.open({ path, redact: true, decode, pressed_rate: 1 });
    onTestFinished(() => log.close());
    const append = (turn: string, queueFill: number) =>
      log.append([ask(turn.repeat(80_000), 'y')], queueFill);
    await append('a', 0.29);
    expect(log.stats().packing).toMatchObject({ waiting_blocks: 1, unindexed: 0 });
    await append('b', 0.3);
    await append('c', 0.9);
    expect(log.stats().packing).toMatchObject({ waiting_blocks: 3, unindexed: 2 });
    // A pass packs all blocks, and leaves the index to later passes.
    expect(await log.tidySome(decode, 1_000)).toMatchObject({ done: 3, share: LEAST_SHARE });
    expect(log.stats().packing).toMatchObject({ waiting_blocks: 0, unindexed: 2 });
    await append('d', 0);
    await log.tidySome(decode, 1_000);
    await log.tidySome(decode, 1_000);
    expect(log.stats().packing).toMatchObject({ waiting_blocks: 0, unindexed: 0 });
  });

  it('are read by run in a partly indexed file; an unknown run is sought only in blocks without an index', {
    tags: 'long',
  }, async () => {
    const log = await openLog(makeFolder(), false);
    const named = (count: number, seed: number): CapturedExchange[] =>
      Array.from({ length: count }, (_, i) => {
        const at = (i * 7919 + seed) % 1_000;
        const run_id = at < 5 ? `rare "${at}"` : at < 300 ? null : `run-${at % 50}`;
        return ask(`say ${seed} ${i}`, 'x', { run_id });
      });
    await log.append(named(700, 1));
    await indexAll(log);
    await log.append(named(300, 2));
    const reader = CaptureReader.open(log.stats().path);
    onTestFinished(() => reader.close());
    const all = [...reader.summaries()];
    const unpacked = vi.spyOn(JSON, 'parse');
    for (const run of new Set(all.map((summary) => summary.run_id))) {
      if (run === null) continue;
      const expected = all.filter((summary) => summary.run_id === run);
      expect([...reader.summaries({ run_id: run })]).toEqual(expected);
      for (const from_id of [2, 65, 701])
        expect([...reader.summaries({ run_id: run, from_id })]).toEqual(
          expected.filter((summary) => summary.id >= from_id),
        );
    }
    unpacked.mockClear();
    expect([...reader.summaries({ run_id: 'unknown' })]).toEqual([]);
    // Only the five blocks that the index lacks are read, and none of the eleven indexed ones.
    expect(unpacked.mock.calls.length).toBeLessThan(6);
    unpacked.mockRestore();
  });

  it('are completed in slices before a rotation, and other calls run between the slices', async () => {
    const folder = makeFolder();
    const unread = await openLog(folder, false);
    await unread.append(Array.from({ length: 600 }, (_, i) => ask(`say ${i}`, 'x')));
    await unread.close();
    let decoded = 0;
    const slow: DecodeExchange = (copy) => {
      decoded += 1;
      const until = performance.now() + 1;
      while (performance.now() < until);
      return decode(copy);
    };
    const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true, decode: slow });
    onTestFinished(() => log.close());
    const between = new Promise<number>((resolve) => setImmediate(() => resolve(decoded)));
    const rotated = log.rotate();
    // A slice of 20 ms reads at most 20 of the 100 that a rotation waits for.
    expect(await between).toBeLessThan(100);
    expect(log.stats().packing.unindexed).toBeGreaterThan(500);
    const { sealed } = await rotated;
    expect(decoded).toBe(600);
    expect(log.stats().packing.unindexed).toBe(0);
    expect(readAll(sealed!)).toHaveLength(600);
  });

  it('of a file that is being sealed count as missing until its index is complete', {
    tags: 'long',
  }, async () => {
    const folder = makeFolder();
    const unread = await openLog(folder, false);
    await unread.append(Array.from({ length: 400 }, (_, i) => ask(`say ${i}`, 'x')));
    await unread.close();
    const log = await CaptureLog.open({
      path: join(folder, 'capture.mdb'),
      redact: true,
      decode: (copy) => {
        const until = performance.now() + 8;
        while (performance.now() < until);
        return decode(copy);
      },
    });
    onTestFinished(() => log.close());
    const rotated = log.rotate();
    await vi.waitFor(() => {
      const { sealed, packing } = log.stats();
      expect(sealed).toBe(1);
      expect(packing.unindexed).toBeGreaterThan(0);
    }, 10_000);
    expect(log.stats().packing.unindexed_s).toBeGreaterThan(0);
    await rotated;
    expect(log.stats().packing).toMatchObject({ unindexed: 0, unindexed_s: 0 });
  });

  it('skip an exchange on which the decoder fails', async () => {
    const log = await openLog(makeFolder(), false);
    await log.append([ask('a', 'x'), ask('a x b')]);
    const failing: DecodeExchange = (copy) => {
      if (Buffer.from(copy.request_body).toString() === 'a') throw new Error('oops');
      return decode(copy);
    };
    while ((await log.indexSome(failing, 1_000)) > 0);
    const records = readAll(log.stats().path);
    expect(records.map((record) => record.undecodable)).toEqual([true, false]);
    expect(runs(records)).toEqual(['conv_1', 'conv_2']);
  });

  it('are written again after a failed write', async () => {
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
    expect(runs(readAll(join(folder, 'capture.mdb')))).toEqual(['conv_1', 'conv_1']);
  });
});
