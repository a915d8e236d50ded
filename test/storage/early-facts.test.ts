/**
 * Facts that storing has read while earlier exchanges were not indexed: they wait in the file, are used once, and give
 * the same index as without a backlog. Without them the exchanges are read again.
 */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { CapturedExchange, ExchangeRecord } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { compressZstd, decompressZstd } from '../../src/std/zstd.ts';
import { EarlyFacts } from '../../src/storage/capture/early-facts.ts';
import { giveOrder } from '../../src/storage/capture/erase-order.ts';
import { closeEnv, openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import type { DecodeExchange } from '../../src/storage/capture/stored-copy.ts';
import { findAnywhere, makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';
import { leftOver, NEW, rekey } from './rekeyed.ts';

/** Number of exchanges in a burst: so many arrive too fast to be compressed. */
const BURST = 1_024;
/** A request that is not decoded. */
const GET = { method: 'GET', path: '/v1/models', kind: 'other', shape: null } as const;
const burst = (): CapturedExchange[] =>
  Array.from({ length: BURST }, (_, i) => makeExchange({ ...GET, seq: i }));

let stamp = 0;

/** A turn of a conversation without a label. `said` are the user's words so far. */
function turn(said: readonly string[], part: Partial<CapturedExchange> = {}): CapturedExchange {
  const answer = (words: string) => [
    { type: 'text', text: `An answer of some length to the words "${words}".` },
  ];
  const messages = said.flatMap((content, i) =>
    i === 0
      ? [{ role: 'user', content }]
      : [
          { role: 'assistant', content: answer(said[i - 1]!) },
          { role: 'user', content },
        ],
  );
  const system = 'You are an agent that answers every question with a sentence.';
  const response = {
    type: 'message',
    role: 'assistant',
    model: 'claude-x',
    content: answer(said.at(-1)!),
    stop_reason: 'end_turn',
    usage: { input_tokens: said.length, output_tokens: 3 },
  };
  stamp += 1;
  return makeExchange({
    request_body: Buffer.from(JSON.stringify({ model: 'claude-x', system, messages })),
    response_body: Buffer.from(JSON.stringify(response)),
    started_at_ms: 1_760_000_000_000 + stamp,
    arrival: stamp,
    ...part,
  });
}

/** Agents whose turns alternate, one of them stored late, one failed and repeated, one with a label. */
function traffic(): CapturedExchange[][] {
  const late = turn(['b1', 'b2'], { note: 'late' });
  return [
    [turn(['a1']), turn(['b1']), turn(['a1', 'a2'])],
    [turn(['b1', 'b2', 'b3']), late, makeExchange(GET)],
    [turn(['a1', 'a2', 'a3'], { status: 529 }), turn(['a1', 'a2', 'a3'])],
    [turn(['c1'], { run_id: 'mine' }), turn(['c1', 'c2']), turn(['b1', 'b2', 'b3', 'b4'])],
  ];
}

class Log {
  readonly folder: string;
  readonly path: string;
  readonly key: Buffer | null;
  log!: CaptureLog;
  decoded = 0;
  readonly decode: DecodeExchange = (copy) => {
    this.decoded += 1;
    return decodeExchange(copy);
  };

  constructor(folder = makeFolder(), key: Buffer | null = null) {
    this.folder = folder;
    this.path = join(folder, 'capture.mdb');
    this.key = key;
  }

  async open(): Promise<this> {
    this.log = await CaptureLog.open({
      path: this.path,
      redact: true,
      data_key: this.key,
      decode: this.decode,
    });
    const { log } = this;
    onTestFinished(() => log.close());
    return this;
  }

  /** Stores a burst without facts, as while the gateway's queue is full, and then traffic. */
  async fill(batches: readonly CapturedExchange[][]): Promise<this> {
    await this.log.append(burst(), 1);
    for (const batch of batches) await this.log.append(batch);
    return this;
  }

  async index(): Promise<void> {
    while ((await this.log.indexSome(this.decode, 1_000)) > 0);
  }

  /** What the index has of each exchange after the burst. */
  read(path = this.path): ExchangeRecord[] {
    const reader = CaptureReader.open(path, { data_key: this.key });
    try {
      return [...reader.exchanges()].filter(({ id }) => id > BURST);
    } finally {
      void reader.close();
    }
  }

  /** The rows of early facts, as they are stored. */
  async rows(
    path = this.path,
    change: (key: number, value: Buffer) => Buffer | null = () => null,
  ): Promise<number[]> {
    const env = openCaptureEnv(path, 'write', this.key);
    try {
      const rows = [...env.early!.getRange({})].map(({ key, value }) => ({ key, value: Buffer.from(value) }));
      for (const { key, value } of rows) {
        const changed = change(key, value);
        if (changed !== null) env.early!.putSync(key, changed);
      }
      return rows.map(({ key }) => key);
    } finally {
      await closeEnv(env);
    }
  }

  /** Copies the folder, as a process would find it that starts after this one was killed. */
  async copy(): Promise<Log> {
    const folder = makeFolder();
    cpSync(this.folder, folder, { recursive: true });
    return new Log(folder, this.key);
  }
}

/** The index of the traffic if every batch is indexed while it is stored. */
async function indexAtOnce(batches: readonly CapturedExchange[][]): Promise<ExchangeRecord[]> {
  const log = await new Log().open();
  const small = burst();
  while (small.length > 0) await log.log.append(small.splice(0, 256));
  for (const batch of batches) await log.log.append(batch);
  await log.log.flush();
  return log.read();
}

const count = (batches: readonly CapturedExchange[][]): number =>
  batches.flat().filter(({ method }) => method === 'POST').length;

describe('facts of exchanges whose turn in the index has not come', () => {
  it.each([
    ['', null],
    [' under a data key', NEW],
  ])('are used instead of a second reading, with the same result%s', async (_where, key) => {
    const batches = traffic();
    const log = await (await new Log(makeFolder(), key).open()).fill(batches);
    expect(log.decoded).toBe(count(batches));
    await log.index();
    expect(log.decoded).toBe(count(batches));
    expect(log.read()).toEqual(await indexAtOnce(batches));
    // Conversations are found as if nothing had waited: the last turn follows the one before it.
    expect(log.read().at(-1)).toMatchObject({ run_id: expect.stringMatching(/^conv_/), follows: BURST + 4 });
    await log.log.close();
    expect(await log.rows()).toEqual([]);
  });

  it('survive the end of the process, also in the middle of a row', async () => {
    const batches = traffic();
    const log = await (await new Log().open()).fill(batches);
    const killed = await (await log.copy()).open();
    // One exchange at a time, as a busy machine does.
    while (killed.log.stats().indexed_id < BURST + 2) await killed.log.indexSome(killed.decode, 0);
    const again = await (await killed.copy()).open();
    await again.index();
    expect(killed.decoded + again.decoded).toBe(0);
    expect(again.read()).toEqual(await indexAtOnce(batches));
    // What is stored afterwards is indexed at once.
    await again.log.append([turn(['d1'])]);
    await again.log.flush();
    expect(again.log.stats().indexed_id).toBe(again.log.stats().last_id);
  });

  it('are ignored if another version wrote them, or if they are damaged', async () => {
    const batches = traffic();
    const log = await (await new Log().open()).fill(batches);
    await log.log.close();
    const later = new Log(log.folder);
    const keys = await later.rows(later.path, (key, value) => {
      if (key === BURST + 1)
        return compressZstd(Buffer.from(`[0,${decompressZstd(value).toString().slice(3)}`));
      return key === BURST + 4 ? value.subarray(0, value.length / 2) : null;
    });
    expect(keys).toEqual([1, 4, 7, 9].map((at) => BURST + at));
    await later.open();
    await later.index();
    expect(later.decoded).toBe(count(batches.slice(0, 2)));
    expect(later.read()).toEqual(await indexAtOnce(batches));
    await later.log.close();
    expect(await later.rows()).toEqual([]);
  });

  it('are not read if there is no room for them', async () => {
    const batches = traffic();
    const log = await (await new Log().open()).fill(batches.slice(0, 1));
    const full = vi.spyOn(EarlyFacts.prototype, 'isFull', 'get').mockReturnValue(true);
    onTestFinished(() => full.mockRestore());
    for (const batch of batches.slice(1, 3)) await log.log.append(batch);
    expect(log.decoded).toBe(count(batches.slice(0, 1)));
    full.mockRestore();
    await log.log.append(batches[3]!);
    await log.index();
    expect(log.decoded).toBe(count(batches));
    expect(log.read()).toEqual(await indexAtOnce(batches));
  });

  it('take a limited part of the file', async () => {
    const log = await (await new Log().open()).fill(traffic());
    await log.log.close();
    const env = openCaptureEnv(log.path, 'write');
    expect(new EarlyFacts(env.early!).isFull).toBe(false);
    expect(new EarlyFacts(env.early!, 4_096).isFull).toBe(true);
    await closeEnv(env);
  });

  it('are not stored if the exchanges are not', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    let fails = false;
    const fault = (point: string) => {
      if (point === 'commit' && fails) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    };
    const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange, fault });
    await log.append(burst());
    fails = true;
    await expect(log.append([turn(['gone'])])).rejects.toThrow('full');
    fails = false;
    await log.append([turn(['kept'])]);
    while ((await log.indexSome(decodeExchange, 1_000)) > 0);
    await log.close();
    const reader = CaptureReader.open(path);
    expect(reader.exchange(BURST + 1)).toMatchObject({ kind: 'turn', usage: { input_tokens: 1 } });
    await reader.close();
  });
});

describe('a file with facts of exchanges that are not indexed', () => {
  it('is sealed without them, and uses them for its index', async () => {
    const batches = traffic();
    const log = await (await new Log().open()).fill(batches);
    const { sealed } = await log.log.rotate();
    expect(log.decoded).toBe(count(batches));
    expect(log.read(sealed!)).toEqual(await indexAtOnce(batches));
    expect(findAnywhere(log.folder, '"client_run"')).toEqual([]);
    const env = openCaptureEnv(sealed!, 'read');
    expect([...env.root.getKeys({})]).toContain('early');
    expect(env.root.openDB({ name: 'early', keyEncoding: 'uint32', encoding: 'binary' }).getKeysCount()).toBe(
      0,
    );
    await env.root.close();
  });

  it('has none of erased exchanges after an erasure, and the others are read again', async () => {
    const log = await new Log().open();
    const batch = [turn(['x1'], { run_id: 'gone-run', note: 'gone-note' }), turn(['y1']), turn(['z1'])];
    await log.fill([batch]);
    await log.log.close();
    expect(findAnywhere(log.folder, 'gone-note')).not.toEqual([]);
    // The process that erases cannot index, so nothing has used the row.
    const blind = await CaptureLog.open({ path: log.path, redact: true });
    onTestFinished(() => blind.close());
    const order = {
      format: 'understudy_erase_v1' as const,
      ranges: [[BURST + 1, BURST + 1]] as [number, number][],
      last_id: BURST + 1,
      run_ids: ['gone-run'],
      marks: [{ id: BURST + 1, started_at: new Date(batch[0]!.started_at_ms).toISOString() }],
      followers: [],
      attachments: [],
      is_partial: false,
    };
    expect(giveOrder(log.path, order, null)).toBe(true);
    expect(await blind.eraseOrdered()).toBe(true);
    await blind.close();
    for (const words of ['gone-note', 'gone-run']) expect(findAnywhere(log.folder, words)).toEqual([]);
    const later = await new Log(log.folder).open();
    await later.index();
    expect(later.decoded).toBe(2);
    expect(later.read().map(({ run_id }) => run_id)).toEqual([
      null,
      `conv_${BURST + 2}`,
      `conv_${BURST + 3}`,
    ]);
  });

  it('has none under the old key after a rekey', async () => {
    const batches = traffic();
    batches[0]![0] = turn(['a1'], { note: 'telling-note' });
    const log = await (await new Log().open()).fill(batches);
    await log.log.close();
    expect(findAnywhere(log.folder, 'telling-note')).not.toEqual([]);
    await rekey(log.folder, null, NEW);
    expect(findAnywhere(log.folder, 'telling-note')).toEqual([]);
    expect(leftOver(log.folder)).toEqual([]);
    const later = await new Log(log.folder, NEW).open();
    await later.index();
    expect(later.read()).toEqual(await indexAtOnce(batches));
  });
});
