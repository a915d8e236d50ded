/**
 * The full-text index of a capture database. Stored texts are found, even after restarts, damage, rotation and
 * replacement. Erased or expired texts leave no word in any file.
 */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { openDataKey } from '../../src/std/data-key.ts';
import { CaptureExpiry } from '../../src/storage/capture/expiry.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { eraseCaptured } from '../../src/storage/erasure.ts';
import { rekeyData } from '../../src/storage/rekey.ts';
import { listSegments, textIndexFolder } from '../../src/storage/text-index/segment-files.ts';
import { parseTextQuery } from '../../src/storage/text-index/text-query.ts';
import { TextSearch } from '../../src/storage/text-index/text-search.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const START_MS = 1_760_000_000_000;
const DAY_MS = 86_400_000;

interface Said {
  run_id?: string | null;
  user: string[];
  answers: string[];
  system?: string;
}

let count = 0;

/** A turn: alternating messages of user and assistant, and the answer to the last message. */
function turn(
  { run_id = 'r', user, answers, system = 'You help.' }: Said,
  part: Partial<CapturedExchange> = {},
): CapturedExchange {
  const messages = user.flatMap((text, at) => [
    { role: 'user', content: text },
    ...(at < user.length - 1 ? [{ role: 'assistant', content: [{ type: 'text', text: answers[at]! }] }] : []),
  ]);
  const answer = {
    id: `msg_${count}`,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: answers.at(-1)! }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  return makeExchange({
    run_id,
    started_at_ms: START_MS + 1_000 * count++,
    request_body: Buffer.from(JSON.stringify({ model: 'm', max_tokens: 9, system, messages })),
    response_body: Buffer.from(JSON.stringify(answer)),
    ...part,
  });
}

class Indexed {
  readonly folder: string;
  readonly path: string;
  readonly key: Buffer | null;
  log!: CaptureLog;

  constructor(key: Buffer | null = null, folder = makeFolder()) {
    this.folder = folder;
    this.path = join(this.folder, 'capture.mdb');
    this.key = key;
  }

  async open(options: Partial<CaptureLogOptions> = {}): Promise<this> {
    const log = await CaptureLog.open({
      path: this.path,
      redact: true,
      decode: decodeExchange,
      data_key: this.key,
      has_text_index: true,
      ...options,
    });
    onTestFinished(() => log.close());
    this.log = log;
    return this;
  }

  async tidy(): Promise<void> {
    while ((await this.log.tidySome(decodeExchange, 1_000)).done > 0);
  }

  async store(...exchanges: CapturedExchange[]): Promise<void> {
    await this.log.append(exchanges);
    await this.tidy();
  }

  /** The exchanges at which runs are found, latest first. */
  find(query: string): number[] {
    const search = new TextSearch(this.path, openDataKey(this.key));
    search.refresh();
    const found = [...search.find(parseTextQuery(query)).newest()].map(({ id }) => id);
    search.close();
    return found;
  }

  get state() {
    return this.log.stats().text!;
  }

  get segments(): string[] {
    return listSegments(this.path).segments.map(({ path }) => path);
  }

  /** The content of the index, unpacked where it is packed. */
  readIndex(): Buffer[] {
    const folder = textIndexFolder(this.path);
    return readdirSync(folder).flatMap((name) => {
      const bytes = readFileSync(join(folder, name));
      const frames: Buffer[] = [bytes];
      const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
      for (let at = bytes.indexOf(magic); at >= 0; at = bytes.indexOf(magic, at + 1)) {
        try {
          frames.push(zstdDecompressSync(bytes.subarray(at)));
        } catch {
          // These four bytes only look like the beginning of a frame.
        }
      }
      return frames;
    });
  }

  holds(word: string): boolean {
    return this.readIndex().some((bytes) => bytes.includes(word));
  }
}

describe.each([
  ['without a key', null],
  ['with a key', Buffer.alloc(32, 9)],
])('the full-text index %s', (_name, key: Buffer | null) => {
  it('finds words of prompts, answers, systems and errors, and each new message once', async () => {
    const db = await new Indexed(key).open();
    await db.store(
      turn({ run_id: 'a', user: ['find the zebra'], answers: ['a giraffe'], system: 'systemword' }),
      turn({
        run_id: 'a',
        user: ['find the zebra', 'and the lion'],
        answers: ['a giraffe', 'an okapi'],
        system: 'systemword',
      }),
      turn(
        { run_id: 'b', user: ['find the zebra'], answers: [''] },
        {
          status: 529,
          response_body: Buffer.from(
            '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded heavily"}}',
          ),
        },
      ),
    );
    expect(db.find('zebra')).toEqual([3, 1]);
    expect(db.find('giraffe')).toEqual([1]);
    expect(db.find('LION')).toEqual([2]);
    expect(db.find('okapi lion zebra')).toEqual([2]);
    expect(db.find('systemword')).toEqual([1]);
    expect(db.find('heavily')).toEqual([3]);
    expect(db.find('gir*')).toEqual([1]);
    expect(db.find('missing')).toEqual([]);
    expect(db.find('zebra missing')).toEqual([]);
    expect(db.state).toMatchObject({ searched_id: 3, unsearched: 0, cut: 0 });
  });

  it('finds a run by words of different turns, and an exchange without a run by its own words', async () => {
    const db = await new Indexed(key).open();
    const body = Buffer.from('{"input":["alpha beta"]}');
    const embedding = {
      kind: 'other',
      shape: null,
      path: '/v1/x',
      request_body: body,
      response_body: body,
    } as const;
    await db.store(
      turn({ run_id: 'a', user: ['alpha'], answers: ['one'] }),
      turn({ run_id: 'b', user: ['alpha'], answers: ['two'] }),
      turn({ run_id: 'a', user: ['alpha', 'next'], answers: ['one', 'beta'] }),
      makeExchange({ ...embedding, run_id: null }),
    );
    expect(db.find('alpha')).toEqual([4, 2, 1]);
    expect(db.find('alpha beta')).toEqual([4, 3]);
  });

  it('keeps its content over a restart, and indexes what a killed process had stored but not indexed', async () => {
    const db = await new Indexed(key).open();
    await db.store(turn({ user: ['first'], answers: ['one'] }));
    await db.log.append([turn({ run_id: 's', user: ['second'], answers: ['two'] })]);
    // A killed process leaves this state: exchanges are stored, but not in the index.
    const copy = new Indexed(key);
    cpSync(db.folder, copy.folder, { recursive: true });
    await copy.open();
    expect(copy.state.unsearched).toBe(1);
    expect(copy.find('first second')).toEqual([]);
    await copy.tidy();
    expect(copy.state.unsearched).toBe(0);
    expect(copy.find('second')).toEqual([2]);
    await db.log.close();
    const again = await new Indexed(key, db.folder).open();
    expect(again.state.unsearched).toBe(0);
    expect(again.find('second')).toEqual([2]);
  });

  it('is built again if a segment is damaged, cut off, missing or not a segment', async () => {
    const db = await new Indexed(key).open();
    for (let at = 0; at < 6; at++)
      await db.store(turn({ run_id: `r${at}`, user: [`common word${at}`], answers: ['x'] }));
    await db.log.close();
    const [first, second, third, fourth] = db.segments;
    const bytes = readFileSync(first!);
    bytes[20]! ^= 1;
    writeFileSync(first!, bytes);
    writeFileSync(second!, readFileSync(second!).subarray(0, 50));
    rmSync(third!);
    writeFileSync(fourth!, 'nonsense');
    writeFileSync(join(textIndexFolder(db.path), '9-9.seg.part'), 'left');
    const again = await new Indexed(key, db.folder).open();
    await again.tidy();
    expect(again.find('common')).toEqual([6, 5, 4, 3, 2, 1]);
    expect(again.state.unsearched).toBe(0);
    expect(readdirSync(textIndexFolder(db.path)).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('tells a reader how many exchanges are not searchable after damage, and the writer builds it again', async () => {
    const db = await new Indexed(key).open();
    await db.store(turn({ run_id: 'a', user: ['common'], answers: ['x'] }));
    await db.store(turn({ run_id: 'b', user: ['common'], answers: ['y'] }));
    const [first] = db.segments;
    const bytes = readFileSync(first!);
    bytes[12]! ^= 1;
    writeFileSync(first!, bytes);
    const search = new TextSearch(db.path, openDataKey(key));
    search.refresh();
    const found = search.find(parseTextQuery('common'));
    expect([...found.newest()].map(({ id }) => id)).toEqual([2]);
    expect(found.missing.count(1, 2)).toBe(1);
    search.close();
    await db.log.close();
    const again = await new Indexed(key, db.folder).open();
    await again.tidy();
    expect(again.find('common')).toEqual([2, 1]);
  });

  it('contains nothing of an erased run, and still finds the rest', async () => {
    const db = await new Indexed(key).open();
    await db.store(turn({ run_id: 'keep', user: ['common keepsake'], answers: ['x'] }));
    await db.store(turn({ run_id: 'gone', user: ['common erasedword'], answers: ['x'] }));
    await db.log.rotate();
    await db.store(turn({ run_id: 'later', user: ['common'], answers: ['x'] }));
    expect(db.find('erasedword')).toEqual([2]);
    expect(db.holds('erasedword')).toBe(key === null);
    await db.log.close();
    const options = {
      data_dir: db.folder,
      capture_db: db.path,
      data_key: key,
      decode: decodeExchange,
      target: { run_id: 'gone' },
      is_dry: false,
    };
    await eraseCaptured(options, () => {});
    expect(db.holds('erasedword')).toBe(false);
    expect(db.find('erasedword')).toEqual([]);
    expect(db.find('common')).toEqual([3, 1]);
    const again = await new Indexed(key, db.folder).open();
    await again.tidy();
    expect(again.find('common')).toEqual([3, 1]);
    expect(again.find('erasedword')).toEqual([]);
    expect(again.holds('erasedword')).toBe(false);
    expect(again.state.unsearched).toBe(0);
  });

  it('contains no word of expired exchanges', async () => {
    const db = await new Indexed(key).open();
    await db.store(turn({ run_id: 'old', user: ['common expiredword'], answers: ['x'] }));
    await db.log.rotate();
    const young = { started_at_ms: START_MS + 40 * DAY_MS };
    await db.store(turn({ run_id: 'young', user: ['common'], answers: ['x'] }, young));
    expect(db.find('expiredword')).toEqual([1]);
    const clock = createManualClock(START_MS + 40 * DAY_MS + 1_000);
    await new CaptureExpiry({ path: db.path, data_key: key, days: 30, log: db.log, clock }).pass();
    expect(db.find('expiredword')).toEqual([]);
    expect(db.holds('expiredword')).toBe(false);
    expect(db.find('common')).toEqual([2]);
    expect(db.state.unsearched).toBe(0);
  });

  it('finds the same after a rotation, in merged segments, and in exchanges stored before', {
    tags: 'long',
  }, async () => {
    const db = await new Indexed(key).open({ has_text_index: false });
    const say = (at: number) => turn({ run_id: `r${at}`, user: [`common number${at}`], answers: ['x'] });
    for (let at = 1; at <= 20; at++) await db.store(say(at));
    await db.log.rotate();
    for (let at = 21; at <= 30; at++) await db.store(say(at));
    await db.log.close();
    const again = await new Indexed(key, db.folder).open();
    expect(again.state).toMatchObject({ searched_id: 0, unsearched: 30 });
    for (let at = 31; at <= 60; at++) {
      await again.store(say(at));
      if (at === 45) await again.log.rotate();
    }
    await again.tidy();
    expect(again.find('common')).toEqual(Array.from({ length: 60 }, (_, at) => 60 - at));
    for (let at = 1; at <= 60; at++) expect(again.find(`number${at}`)).toEqual([at]);
    expect(again.segments.length).toBeLessThan(25);
  });

  it('does not find the content of a former database at the same path', async () => {
    const db = await new Indexed(key).open();
    await db.store(turn({ run_id: 'a', user: ['formerword'], answers: ['x'] }));
    await db.log.close();
    for (const name of readdirSync(db.folder)) {
      if (name !== 'capture.mdb.text') rmSync(join(db.folder, name), { recursive: true });
    }
    const other = await new Indexed(key, db.folder).open();
    await other.store(turn({ run_id: 'b', user: ['latterword'], answers: ['x'] }));
    expect(other.find('formerword')).toEqual([]);
    expect(other.find('latterword')).toEqual([1]);
  });
});

it('the index contains no unencrypted word, and no word under the former key, after a change of the key', async () => {
  const db = await new Indexed().open();
  await db.store(turn({ run_id: 'a', user: ['rekeyedword'], answers: ['x'] }));
  await db.log.close();
  expect(db.holds('rekeyedword')).toBe(true);
  const to = Buffer.alloc(32, 5);
  await rekeyData(
    { data_dir: db.folder, capture_db: db.path, from: null, to, decode: decodeExchange },
    () => {},
  );
  expect(existsSync(textIndexFolder(db.path))).toBe(false);
  const again = await new Indexed(to, db.folder).open();
  await again.tidy();
  expect(again.find('rekeyedword')).toEqual([1]);
  expect(again.holds('rekeyedword')).toBe(false);
});

it('the index contains only masked text', async () => {
  const db = await new Indexed().open();
  const secret = `sk-ant-api03-${'Zq9x'.repeat(20)}AA`;
  await db.store(turn({ run_id: 'a', user: [`my key is ${secret} here`], answers: ['x'] }));
  expect(db.find('key here')).toEqual([1]);
  expect(db.holds('zq9x')).toBe(false);
  expect(db.find('zq9x*')).toEqual([]);
});

it('the index contains nothing of a failed append', async () => {
  let fails = false;
  const db = await new Indexed().open({
    fault: (point) => {
      if (fails && point === 'commit') throw Object.assign(new Error('no room'), { code: 'ENOSPC' });
    },
  });
  await db.store(turn({ run_id: 'a', user: ['kept'], answers: ['x'] }));
  fails = true;
  await expect(
    db.log.append([turn({ run_id: 'b', user: ['failedword'], answers: ['x'] })]),
  ).rejects.toThrow();
  fails = false;
  await db.store(turn({ run_id: 'c', user: ['laterword'], answers: ['x'] }));
  expect(db.find('failedword')).toEqual([]);
  expect(db.find('laterword')).toEqual([2]);
  expect(db.find('kept')).toEqual([1]);
  expect(db.state.unsearched).toBe(0);
});

it('the index finds exchanges that were stored under pressure, after a later pass has read them', async () => {
  const db = await new Indexed().open({ pressed_rate: 1 });
  const all = Array.from({ length: 200 }, (_, at) =>
    turn({ run_id: `r${at}`, user: [`common pressed${at}`], answers: ['x'] }),
  );
  await db.log.append(all.slice(0, 100));
  await db.log.append(all.slice(100));
  await db.tidy();
  expect(db.find('common').length).toBe(200);
  expect(db.find('pressed150')).toEqual([151]);
  expect(db.state.unsearched).toBe(0);
});
