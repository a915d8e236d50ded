/**
 * The list of captured runs and its stored copy in the folder of the captures. The next reader continues from the copy
 * with the same results. The copy is removed with its captures, and is made again if it is damaged or belongs to other
 * captures.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CaptureFiles } from '../../src/captures/capture-files.ts';
import { CapturedRuns } from '../../src/captures/captured-runs.ts';
import type { ExchangeSource } from '../../src/captures/exchange-source.ts';
import { FigureCube, type KeptFigureParts } from '../../src/captures/figure-cube.ts';
import { RunList } from '../../src/captures/inspect.ts';
import { indexVersion, readListedRun } from '../../src/captures/listed-run.ts';
import { KeptIndex } from '../../src/cli/kept-index.ts';
import type { CapturedRunRow } from '../../src/domain/captured-run.ts';
import { parseRunQuery } from '../../src/domain/run-query/parse.ts';
import type { FigureDimension } from '../../src/domain/traffic-figures.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { CaptureExpiry } from '../../src/storage/capture/expiry.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { RunIndex, runIndexPath } from '../../src/storage/capture/run-index.ts';
import { eraseCaptured } from '../../src/storage/erasure.ts';
import { databasePaths } from '../../src/storage/lmdb/stores.ts';
import { rekeyData } from '../../src/storage/rekey.ts';
import { CaptureList } from '../../src/threads/capture-list.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';

const START_MS = Date.UTC(2026, 9, 1);
const DAY_MS = 86_400_000;
const PRICES = { 'claude-x': { input: 3, output: 15 } };
type Key = Buffer | null;

interface Made {
  words?: string;
  seq?: number | null;
  at_ms?: number;
  stop?: string;
  status?: number;
}

function turn(run_id: string, { words = `Words of ${run_id}.`, seq = null, at_ms, stop, status }: Made = {}) {
  const request = { model: 'claude-x', messages: [{ role: 'user', content: words }] };
  const answer = {
    id: 'msg',
    type: 'message',
    role: 'assistant',
    model: 'claude-x',
    content: [{ type: 'text', text: 'Done.' }],
    stop_reason: stop ?? 'end_turn',
    usage: { input_tokens: 100, output_tokens: 10 },
  };
  return makeExchange({
    run_id,
    seq,
    status: status ?? 200,
    started_at_ms: at_ms ?? START_MS,
    request_body: Buffer.from(JSON.stringify(request)),
    response_body: Buffer.from(status === undefined ? JSON.stringify(answer) : '{"type":"error"}'),
  });
}

/** A turn of an agent that changes the order of its tools, so that it reads nothing from the cache. */
function cachedTurn(run_id: string, at: number) {
  const tools = [{ name: 'Read' }, { name: 'Edit' }];
  const block = (text: string, isMarked = false) => ({
    type: 'text',
    text,
    ...(isMarked ? { cache_control: { type: 'ephemeral' } } : {}),
  });
  const first = { role: 'user', content: [block(`Words of ${run_id}.`, at === 0)] };
  const answer = { role: 'assistant', content: [block(`Done with ${run_id}.`)] };
  const request = {
    model: 'claude-x',
    tools: at % 2 === 0 ? tools : tools.toReversed(),
    system: [block('Mend code.', true)],
    messages: at === 0 ? [first] : [first, answer, { role: 'user', content: [block('More.', true)] }],
  };
  const usage = { input_tokens: 5, output_tokens: 5, cache_read_input_tokens: 0 };
  const response = {
    type: 'message',
    model: 'claude-x',
    stop_reason: 'end_turn',
    usage: { ...usage, cache_creation_input_tokens: 5_000 },
    ...answer,
  };
  return makeExchange({
    run_id,
    started_at_ms: START_MS + at * 60_000,
    request_body: Buffer.from(JSON.stringify(request)),
    response_body: Buffer.from(JSON.stringify(response)),
  });
}

class Captures {
  readonly folder = makeFolder();
  readonly db = join(this.folder, 'capture.mdb');
  key: Key;
  readonly #lists: CaptureList[] = [];
  readonly #files: FollowedFiles[] = [];

  constructor(key: Key = null) {
    this.key = key;
    onTestFinished(() => this.letGo());
  }

  /** Closes all readers. The writer cannot write the file while they are open in this process. */
  async letGo(): Promise<void> {
    for (const list of this.#lists.splice(0)) list.close();
    for (const files of this.#files.splice(0)) files.close();
    // The files are closed in a later turn of the loop.
    await nextTurn();
  }

  async log(): Promise<CaptureLog> {
    await this.letGo();
    return CaptureLog.open({ path: this.db, redact: true, decode: decodeExchange, data_key: this.key });
  }

  async append(...turns: Parameters<CaptureLog['append']>[0][number][]): Promise<void> {
    const log = await this.log();
    for (const turn of turns) await log.append([turn]);
    await log.close();
  }

  open(
    options: { version?: string; prices?: typeof PRICES; is_suspect?: boolean; reads_ahead?: boolean } = {},
    catchUp?: { ms: number; exchanges: number },
  ) {
    const { db, key: data_key } = this;
    const files = new FollowedFiles(db, { data_key });
    const start = {
      db,
      read_from: null,
      data_key,
      prices: PRICES,
      databases: databasePaths(dirname(db), data_key),
      owner: { org: null, emails: [], owner: null },
      student: null,
      wires: ['messages' as const],
      version: '1',
      is_suspect: false,
      reads_ahead: true,
      ...options,
    };
    const list = new CaptureList(files, start, null, catchUp);
    this.#lists.push(list);
    this.#files.push(files);
    list.look();
    return list;
  }

  /** The rows of a reader that makes the list and stores it, and the rows of the next reader. */
  async readTwice(): Promise<[CapturedRunRow[], CapturedRunRow[]]> {
    const first = await this.readAll();
    return [first, await this.readAll()];
  }

  async readAll(): Promise<CapturedRunRow[]> {
    const list = this.open();
    finish(list);
    const rows = show(list);
    await this.letGo();
    return rows;
  }

  get index(): string {
    return runIndexPath(this.db);
  }

  /** Ids of the stored runs. */
  listKept(): string[] {
    const index = RunIndex.open(this.db, {
      data_key: this.key,
      version: indexVersion('1'),
      mode: 'read',
    });
    const rows = index?.newest(1_000, 100) ?? [];
    void index?.close();
    return rows.map(({ value }) => readListedRun(value).tally.summary.run_id!);
  }
}

function finish(list: CaptureList): void {
  list.catchUp();
  while (list.goOn() !== null);
}

function show(list: CaptureList, q = ''): CapturedRunRow[] {
  list.look();
  list.catchUp();
  return list.page({ limit: 100, after: null, query: parseRunQuery(q), now_ms: START_MS }, () => true).runs;
}

const idsOf = (rows: readonly CapturedRunRow[]) => rows.map(({ run_id }) => run_id);

it('stored sums for commands equal the sums that the commands would compute', async () => {
  const captures = new Captures(randomBytes(32));
  const turns = Array.from({ length: 4_300 }, (_, at) =>
    at % 50 === 0
      ? turn('one', { at_ms: START_MS + at })
      : makeExchange({
          kind: 'other',
          shape: null,
          path: '/v1/models',
          started_at_ms: START_MS + (at % 3) * DAY_MS,
        }),
  );
  const log = await captures.log();
  for (let at = 0; at < turns.length; at += 256) await log.append(turns.slice(at, at + 256));
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
  await log.close();
  await captures.readAll();
  const kept = new KeptIndex(captures.db, captures.key, '1');
  const files = await CaptureFiles.open(captures.db, { data_key: captures.key });
  let read = 0;
  const source = {
    *summaries(filter?: { from_id?: number }) {
      for (const summary of files.summaries(filter)) {
        read += 1;
        yield summary;
      }
    },
  };
  const ask = (parts: KeptFigureParts | null, by: FigureDimension) => {
    read = 0;
    const question = { by, from_day: '2026-10-01', to_day: '2026-10-02', where: {} };
    return new FigureCube(PRICES, parts).ask(source, files.range(), question, () => true);
  };
  expect(kept.figureParts(files, { 'claude-x': { input: 4, output: 15 } })).toBeNull();
  for (const by of ['model', 'day', 'agent'] as const) {
    const anew = ask(null, by);
    expect([anew.scanned, anew.is_whole, read]).toEqual([2_896, true, 4_300]);
    expect(ask(kept.figureParts(files, PRICES), by)).toEqual(anew);
    expect(read).toBe(4_300 - 4_096);
  }
  await files.close();
  await kept.close();
});

describe.each<[string, () => Key]>([
  ['as it is', () => null],
  ['under a key', () => randomBytes(32)],
])('the kept list, %s', (_, makeKey) => {
  it('commands do not read the bodies of runs that did not continue', async () => {
    const captures = new Captures(makeKey());
    await captures.append(turn('one', { seq: 1 }), turn('two', { seq: 1 }), turn('one', { seq: 2 }));
    await captures.readAll();
    await captures.append(turn('two', { seq: 2 }));
    const kept = new KeptIndex(captures.db, captures.key, '1');
    const files = new FollowedFiles(captures.db, { data_key: captures.key });
    files.refresh();
    const read: number[] = [];
    const source: ExchangeSource = {
      summaries: (filter) => files.summaries(filter),
      exchange: (id) => files.exchange(id),
      body: (id, side) => files.body(id, side),
      copy: (id) => {
        read.push(id);
        return files.copy(id);
      },
    };
    const list = new RunList(kept.find);
    await list.addAll(source);
    const goldens: [string | null, boolean][] = [];
    for await (const { run_id, golden } of list.judge(source, new Map())) goldens.push([run_id, golden]);
    expect(goldens).toEqual([
      ['one', true],
      ['two', true],
    ]);
    expect(read).toEqual([2, 4]);
    read.length = 0;
    const runs = new CapturedRuns({ findStored: kept.findRun });
    for (const record of files.summaries()) runs.add(record);
    const rows = [...runs.all(source, { query: parseRunQuery(''), now_ms: START_MS }).rows];
    expect(rows.map(({ run_id, golden, task }) => [run_id, golden, task])).toEqual([
      ['two', true, 'Words of two.'],
      ['one', true, 'Words of one.'],
    ]);
    expect(new Set(read)).toEqual(new Set([2, 4]));
    files.close();
    await kept.close();
  });

  it('sums of cache misses include later turns; commands use no stored part of other prices, or one that is not full', async () => {
    const captures = new Captures(makeKey());
    await captures.append(cachedTurn('one', 0), cachedTurn('two', 0), cachedTurn('one', 1));
    const question = { from_day: '2026-10-01', to_day: '2026-10-02', agent: null };
    const list = captures.open();
    finish(list);
    const first = list.sumCache(question, () => true);
    // The second run begins like the first one, but reads nothing from the cache.
    expect(first).toMatchObject({ is_whole: true, turns: 3, misses: 2, days: 1 });
    expect(first.causes.map(({ cause, runs }) => [cause, runs])).toContainEqual(['tools_reordered', ['one']]);
    await captures.letGo();

    await captures.append(cachedTurn('two', 1));
    const next = captures.open();
    finish(next);
    const second = next.sumCache(question, () => true);
    expect(second.turns).toBe(4);
    expect(second.causes.find(({ cause }) => cause === 'tools_reordered')).toMatchObject({
      misses: 2,
      runs: ['one', 'two'],
    });
    await captures.letGo();
    const kept = new KeptIndex(captures.db, captures.key, '1');
    const files = new FollowedFiles(captures.db, { data_key: captures.key });
    files.refresh();
    // The part is not full, so it is not stored yet. With other prices the stored list is not used.
    expect([...(kept.cacheParts(files, PRICES)?.cacheParts() ?? [])]).toEqual([]);
    expect(kept.cacheParts(files, { 'claude-x': { input: 4, output: 15 } })).toBeNull();
    files.close();
    await kept.close();
  });

  it('the kept list has the same rows for the next reader, and follows new captures', async () => {
    const captures = new Captures(makeKey());
    await captures.append(
      turn('first', { seq: 1 }),
      turn('gap', { seq: 1 }),
      turn('first', { seq: 2 }),
      turn('gap', { seq: 4 }),
      turn('failed', { status: 529 }),
      turn('linked', { stop: 'tool_use' }),
    );
    const [first, second] = await captures.readTwice();
    expect(idsOf(first)).toEqual(['linked', 'failed', 'gap', 'first']);
    expect(first.map(({ golden }) => golden)).toEqual([false, false, false, true]);
    expect(first[3]).toMatchObject({ task: 'Words of first.', turns: 2, cost_usd: 0.0009 });
    expect(second).toEqual(first);
    // Runs continue, and their stored rows are extended.
    await captures.append(turn('new'), turn('gap', { seq: 3 }), turn('gap', { seq: 2 }), turn('failed'));
    const rows = show(captures.open());
    await captures.letGo();
    rmSync(captures.index);
    expect(rows).toEqual(await captures.readAll());
    expect(idsOf(rows)).toEqual(['new', 'linked', 'failed', 'gap', 'first']);
    expect(rows[3]).toMatchObject({ gaps: [], golden: true, turns: 4 });
  });

  it('the first question to a stored list may be about an old run, a filter or a sum', async () => {
    const captures = new Captures(makeKey());
    await captures.append(turn('a', { seq: 1 }), turn('b', { seq: 2 }), turn('c', { seq: 1 }));
    const [rows] = await captures.readTwice();
    const run = captures.open().listOf('b');
    expect(run.rangeOf('b')).toEqual({ first_id: 2, last_id: 2 });
    expect(idsOf(show(captures.open(), '-is:golden'))).toEqual(['b']);
    expect(idsOf(show(captures.open(), '"words of C"'))).toEqual(['c']);
    expect(captures.open().activity(START_MS, START_MS + 1)).toMatchObject({
      exchanges: 3,
      is_whole: true,
      golden: { golden: 2, not_golden: 1, not_judged: 0 },
    });
    const paged = captures.open();
    const { runs, next } = paged.page(
      { limit: 1, after: null, query: parseRunQuery(''), now_ms: START_MS },
      () => true,
    );
    expect(
      paged.page({ limit: 5, after: next, query: parseRunQuery(''), now_ms: START_MS }, () => true).runs,
    ).toEqual(rows.slice(1));
    expect(runs).toEqual(rows.slice(0, 1));
  });

  it('the kept list has no row of runs that expired or were erased, and stays the same under another key', async () => {
    const captures = new Captures(makeKey());
    await captures.append(turn('old', { words: 'CANARY one' }), turn('split', { words: 'CANARY two' }));
    const log = await captures.log();
    await log.rotate();
    await log.append([turn('split', { at_ms: START_MS + 9 * DAY_MS })]);
    await log.append([turn('young', { at_ms: START_MS + 9 * DAY_MS })]);
    await log.flush();
    await captures.readAll();
    expect(captures.listKept()).toEqual(['young', 'split', 'old']);
    const reader = captures.open();
    const expiry = new CaptureExpiry({
      path: captures.db,
      data_key: captures.key,
      days: 5,
      log,
      clock: createManualClock(START_MS + 9 * DAY_MS),
    });
    await expiry.pass();
    await log.close();
    expect(existsSync(captures.index)).toBe(false);
    // A reader that has it open keeps the remaining rows.
    const left = show(reader);
    expect(left).toMatchObject([
      { run_id: 'young' },
      { run_id: 'split', task: 'Words of split.', turns: 1, exchanges: 1 },
    ]);
    await captures.letGo();
    expect(captures.listKept()).toEqual(['young', 'split']);
    expect(readFileSync(captures.index).includes('CANARY')).toBe(false);
    expect(show(captures.open())).toEqual(left);
    await captures.letGo();
    await eraseCaptured(
      {
        data_dir: captures.folder,
        capture_db: captures.db,
        data_key: captures.key,
        decode: decodeExchange,
        target: { run_id: 'split' },
        is_dry: false,
      },
      () => {},
    );
    expect(existsSync(captures.index)).toBe(false);
    const [erased] = await captures.readTwice();
    expect(idsOf(erased)).toEqual(['young']);
    // The rest of an erased exchange does not count as a failed call.
    const counting = captures.open();
    finish(counting);
    const days = { from_day: '2026-01-01', to_day: '2027-01-01' };
    const { total } = counting.sumFigures({ by: 'model', ...days, where: {} }, () => true);
    const activity = counting.activity(Date.parse(days.from_day), Date.parse(days.to_day));
    for (const figures of [total, activity])
      expect(figures).toMatchObject({ exchanges: erased[0]!.exchanges, turns: erased[0]!.turns, errors: 0 });
    expect(counting.without_run).toBe(0);
    await captures.letGo();
    const to = randomBytes(32);
    const { folder: data_dir, db: capture_db, key: from } = captures;
    await rekeyData({ data_dir, capture_db, from, to, decode: decodeExchange }, () => {});
    expect(existsSync(captures.index)).toBe(false);
    captures.key = to;
    const [first, second] = await captures.readTwice();
    expect(first).toEqual(erased);
    expect(second).toEqual(erased);
    expect(readFileSync(captures.index).includes('Words of')).toBe(false);
  });

  it('the kept list is rebuilt if it is damaged, of another version, other prices or other captures', async () => {
    const captures = new Captures(makeKey());
    await captures.append(turn('a'), turn('b'));
    const rows = await captures.readAll();
    const whole = readFileSync(captures.index);
    // Values are checked when they are read. The test overwrites the file piece by piece, except for its heads.
    for (let at = 8_192; at < whole.length; at += 4_096) {
      const broken = Buffer.from(whole);
      const end = Math.min(at + 4_096, whole.length);
      for (let byte = at + 64; byte < end; byte++)
        broken[byte] = broken[byte]! ^ (broken[byte] === 0 ? 0 : 1);
      if (!isReadable(broken, at)) continue;
      writeFileSync(captures.index, broken);
      expect(await captures.readAll()).toEqual(rows);
    }
    writeFileSync(captures.index, 'no database');
    expect(await captures.readAll()).toEqual(rows);
    truncateSync(captures.index, 5_000);
    expect(await captures.readAll()).toEqual(rows);
    const other = captures.open({ version: '2', prices: { 'claude-x': { input: 6, output: 30 } } });
    expect(show(other).map(({ cost_usd }) => cost_usd)).toEqual([0.0009, 0.0009]);
    await captures.letGo();
    const suspect = captures.open({ is_suspect: true });
    expect(existsSync(captures.index)).toBe(true);
    expect(show(suspect)).toEqual(rows);
    await captures.letGo();
    rmSync(captures.db);
    await captures.append(turn('other', { at_ms: START_MS + 1 }), turn('captures'), turn('here'));
    expect(idsOf(await captures.readAll())).toEqual(['other', 'here', 'captures']);
  });
});

describe('a list without a question', () => {
  it('is read in advance, except by a reader that replaces one that crashed', async () => {
    const captures = new Captures();
    await captures.append(turn('a'));
    const told = (reads_ahead: boolean) => {
      const list = captures.open({ reads_ahead });
      finish(list);
      return list.page({ limit: 1, after: null, query: parseRunQuery(''), now_ms: START_MS }, () => false)
        .runs[0]?.task;
    };
    expect(told(false)).toBeNull();
    await captures.letGo();
    expect(told(true)).toBe('Words of a.');
  });
});

describe('the list while it is being read', () => {
  it('shows the newest runs and the progress, and ends with all', async () => {
    const captures = new Captures();
    await captures.append(turn('a'), turn('b'), turn('a'));
    const list = captures.open({}, { ms: 0, exchanges: 0 });
    expect(idsOf(show(list))).toEqual(['b', 'a']);
    expect(list.being_read).toEqual({ exchanges: 0, of: 3 });
    expect(list.listOf('a').rangeOf('a')).toEqual({ first_id: 1, last_id: 3 });
    while (list.goOn() !== null);
    expect(list.being_read).toBeNull();
    expect(show(list)).toMatchObject([
      { run_id: 'b', turns: 1 },
      { run_id: 'a', turns: 2 },
    ]);
  });

  it('is complete even if it cannot be stored', async () => {
    const captures = new Captures();
    await captures.append(turn('a'));
    // There is a folder at the path of the file, so the list cannot be stored.
    mkdirSync(captures.index);
    const list = captures.open();
    finish(list);
    expect(idsOf(show(list))).toEqual(['a']);
  });
});

/** Whether the page contains words of a run. LMDB trusts its own pages, so the test damages only pages of values. */
function isReadable(bytes: Buffer, at: number): boolean {
  return bytes.subarray(at, at + 4_096).includes('Words of');
}
