/**
 * After an erasure, no file contains any part of the erased exchanges. Every other exchange stays byte for byte the
 * same, even if its base was erased.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { ErasureError, type ErasureTarget, eraseCaptured } from '../../src/storage/erasure.ts';
import { readHeads } from '../../src/storage/lmdb/file-head.ts';
import { walkUsedPages } from '../../src/storage/lmdb/used-pages.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';
import { findAnywhere, makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

type Key = Buffer | null;

/** This text occurs in everything that is to be erased, and nowhere else. */
const CANARY = `canary-${randomBytes(12).toString('hex')}`;
const START_MS = 1_760_000_000_000;

const erase = (folder: string, target: ErasureTarget, data_key: Key = null, is_dry = false) =>
  eraseCaptured(
    {
      data_dir: folder,
      capture_db: join(folder, 'capture.mdb'),
      data_key,
      decode: decodeExchange,
      target,
      is_dry,
      accept_ms: 100,
    },
    () => {},
  );

/** An exchange of the run after this many turns. Its request begins with the previous request. */
function turn(run_id: string | null, turns: number, secret = ''): Partial<CapturedExchange> {
  const messages = Array.from({ length: turns }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: `${secret} ${run_id} says ${at}: ${'the same long words of a task '.repeat(60)}`,
  }));
  return {
    run_id,
    request_body: Buffer.from(JSON.stringify({ model: 'm', system: 'be brief '.repeat(200), messages })),
    response_body: Buffer.from(
      JSON.stringify({ id: `msg_${run_id}_${turns}`, content: [{ type: 'text', text: `${secret} answer` }] }),
    ),
  };
}

function picture(words: string): Partial<CapturedExchange> {
  const data = Buffer.from(`${words} `.repeat(400)).toString('base64');
  const source = { type: 'base64', media_type: 'image/png', data };
  return {
    request_body: Buffer.from(JSON.stringify({ messages: [{ content: [{ type: 'image', source }] }] })),
  };
}

class Captured {
  readonly folder = makeFolder();
  readonly #key: Key;
  readonly #pressedRate: number | undefined;
  #log: CaptureLog | null = null;
  #count = 0;

  constructor(key: Key = null, pressedRate?: number) {
    this.#key = key;
    this.#pressedRate = pressedRate;
  }

  async log(): Promise<CaptureLog> {
    this.#log ??= await CaptureLog.open({
      path: join(this.folder, 'capture.mdb'),
      redact: false,
      data_key: this.#key,
      decode: decodeExchange,
      ...(this.#pressedRate === undefined ? {} : { pressed_rate: this.#pressedRate }),
    });
    return this.#log;
  }

  async append(...parts: Partial<CapturedExchange>[]): Promise<void> {
    const batch = parts.map((part) =>
      makeExchange({ started_at_ms: START_MS + 1_000 * this.#count++, ...part }),
    );
    await (await this.log()).append(batch);
  }

  async close(): Promise<void> {
    while (((await this.#log?.indexSome(decodeExchange, 1_000)) ?? 0) > 0);
    await this.#log?.close();
    this.#log = null;
  }

  /** Reads the two bodies and the facts of each exchange, by id. */
  async read(): Promise<
    Map<number, { request: string; response: string; facts: string; run_id: string | null }>
  > {
    const all = new Map();
    for (const name of readdirSync(this.folder)) {
      if (!/^capture(\.\d+-\d+)?\.mdb$/.test(name)) continue;
      const reader = CaptureReader.open(join(this.folder, name), { data_key: this.#key });
      for (const { id, run_id, provider, started_at } of reader.summaries()) {
        const [request, response] = (['request', 'response'] as const).map((side) =>
          Buffer.from(reader.body(id, side)!).toString('latin1'),
        );
        all.set(id, { request, response, facts: `${provider} ${started_at}`, run_id });
      }
      await reader.close();
    }
    return all;
  }
}

describe('an erased run', () => {
  it.each<[string, Key, number | undefined]>([
    ['plain', null, undefined],
    ['encrypted', randomBytes(32), undefined],
    ['raw under pressure', null, 0],
  ])('is in no file, and all other runs are unchanged, %s', async (_what, key, pressed) => {
    const captured = new Captured(key, pressed);
    await captured.append(turn('stays', 1));
    for (let n = 1; n <= 6; n++) {
      await captured.append(turn(CANARY, n, CANARY));
      // This exchange is stored as a difference to the previous one, which is erased.
      await captured.append(turn('stays', n));
    }
    await captured.append({ ...picture(CANARY), run_id: CANARY });
    await captured.append(
      { ...picture('for both'), run_id: CANARY },
      { ...picture('for both'), run_id: 'stays' },
    );
    const batch = Array.from({ length: 40 }, (_, n) =>
      n % 3 === 0 ? turn(CANARY, 8, CANARY) : turn(`other-${n % 2}`, 1 + (n % 5)),
    );
    await captured.append(...batch);
    await (await captured.log()).rotate();
    // This run has no label, and is identified by its conversation.
    await captured.append(turn(null, 1), turn('stays', 7), turn(CANARY, 9, CANARY), turn(null, 3));
    await captured.close();
    const before = await captured.read();
    const meant = [...before].filter(([, { run_id }]) => run_id === CANARY).map(([id]) => id);
    expect(meant.length).toBeGreaterThan(20);
    const attachments = () => readdirSync(join(captured.folder, 'capture.mdb.files')).length;
    expect(attachments()).toBe(2);
    if (key === null) expect(findAnywhere(captured.folder, CANARY)).not.toEqual([]);

    expect((await erase(captured.folder, { run_id: CANARY }, key, true)).exchanges).toBe(meant.length);
    expect(await captured.read()).toEqual(before);
    const report = await erase(captured.folder, { run_id: CANARY }, key);
    expect(report).toEqual({
      exchanges: meant.length,
      run_ids: expect.any(Array),
      files: 2,
      attachments: 1,
      unreadable: 0,
      set_aside: [],
    });

    const after = await captured.read();
    expect(after.size).toBe(before.size);
    for (const [id, was] of before) {
      if (!meant.includes(id)) expect(after.get(id), String(id)).toEqual(was);
      else {
        const facts = was.facts.replace('anthropic', 'erased');
        expect(after.get(id)).toEqual({ request: '', response: '', facts, run_id: null });
      }
    }
    expect(findAnywhere(captured.folder, CANARY)).toEqual([]);
    expect(attachments()).toBe(1);
    expect(existsSync(join(captured.folder, 'rekey.json'))).toBe(false);
    expect(await erase(captured.folder, { run_id: CANARY }, key)).toMatchObject({ exchanges: 0, files: 0 });
    // New exchanges are stored as before, and ids continue.
    await captured.append(turn('stays', 8));
    await captured.close();
    expect((await captured.read()).get(before.size + 1)!.request).toContain('stays says 7');
  });

  it('leaves the bytes of the exchanges of all other runs unchanged', {
    tags: 'long',
  }, async () => {
    const step = fc.record({
      run: fc.nat({ max: 3 }),
      turns: fc.integer({ min: 1, max: 7 }),
      batch: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 3, maxLength: 30 }),
        fc.nat({ max: 3 }),
        async (list, gone) => {
          const captured = new Captured();
          let waiting: Partial<CapturedExchange>[] = [];
          for (const { run, turns, batch } of list) {
            waiting.push(turn(`run-${run}`, turns, `word-${run}`));
            if (batch) continue;
            await captured.append(...waiting);
            waiting = [];
          }
          await captured.append(...waiting, turn('run-4', 2));
          await captured.close();
          const before = await captured.read();
          await erase(captured.folder, { run_id: `run-${gone}` });
          const after = await captured.read();
          for (const [id, was] of before) {
            if (was.run_id !== `run-${gone}`) expect(after.get(id)).toEqual(was);
            else expect(after.get(id)).toMatchObject({ request: '', response: '', run_id: null });
          }
        },
      ),
      { numRuns: 12 },
    );
  });
});

describe('a sealed file', () => {
  it('has no bytes of earlier states within its pages, so an erasure need not overwrite them', async () => {
    const captured = new Captured();
    for (let n = 0; n < 40; n++)
      await captured.append(turn(`run-${n}`, 2, randomBytes(300).toString('hex')), turn(`run-${n}`, 3));
    await (await captured.log()).rotate();
    await captured.close();
    const name = readdirSync(captured.folder).find((found) => found.endsWith('.1-80.mdb'))!;
    const bytes = readFileSync(join(captured.folder, name));
    const file = openSync(join(captured.folder, name), 'r');
    let unused = 0;
    for (const { first, unused_from, unused_to } of walkUsedPages(
      file,
      readHeads(file, name)[0],
      () => true,
    )) {
      const at = first * 4_096;
      unused += unused_to - unused_from;
      expect(bytes.subarray(at + unused_from, at + unused_to).some((byte) => byte !== 0)).toBe(false);
    }
    closeSync(file);
    expect(unused).toBeGreaterThan(10_000);
  });
});

describe('the selection of an erasure', () => {
  it('is a session with the runs that it began, in every file', async () => {
    const session = '6f1c2a34-5b6d-4e7f-8a9b-0c1d2e3f4a5b';
    const from = (id: string, ...more: string[]): Partial<CapturedExchange> => ({
      ...turn(null, 1, id === session ? CANARY : ''),
      request_headers: ['host', 'api.example', 'x-claude-code-session-id', id, ...more],
    });
    const captured = new Captured();
    await captured.append(from(session, 'x-claude-code-agent-id', 'a69baf915666a168d'));
    await (await captured.log()).rotate();
    await captured.append(from(session), from('7a1c2a34-5b6d-4e7f-8a9b-0c1d2e3f4a5b'));
    await captured.close();
    expect((await captured.read()).get(1)!.run_id).toBe(`${session}:a69baf915666a168d:side_call`);
    expect(await erase(captured.folder, { run_id: session })).toMatchObject({ exchanges: 2, files: 2 });
    expect(findAnywhere(captured.folder, CANARY)).toEqual([]);
    const left = [...(await captured.read()).values()].map(({ facts }) => facts.split(' ')[0]);
    expect(left).toEqual(['erased', 'erased', 'anthropic']);
  });

  it('is everything that began before a time', async () => {
    const captured = new Captured();
    for (let n = 0; n < 6; n++) await captured.append(turn('r', n + 1, n < 3 ? CANARY : ''));
    await captured.close();
    const report = await erase(captured.folder, { before_ms: START_MS + 3_000 });
    expect(report).toMatchObject({ exchanges: 3, files: 1 });
    const after = [...(await captured.read()).values()];
    expect(after.map(({ run_id }) => run_id)).toEqual([null, null, null, 'r', 'r', 'r']);
    expect(after[3]!.request).toContain('r says 3');
    expect(findAnywhere(captured.folder, CANARY)).toEqual([]);
  });

  it('is everything that contains a credential, plain, escaped or encoded, in a body, address or header', async () => {
    const credential = 'p4ss/word+of"the\\customer=';
    const captured = new Captured();
    const said = (words: string) => ({
      request_body: Buffer.from(words),
      kind: 'other' as const,
      shape: null,
    });
    await captured.append(
      said('{"nothing":"of it"}'),
      said(JSON.stringify({ says: credential })),
      said(`in base64: ${Buffer.from(credential).toString('base64')}`),
      { ...said('{}'), query: `where=${encodeURIComponent(credential)}` },
      { ...said('{}'), response_headers: ['x-note', credential] },
    );
    await captured.close();
    const report = await erase(captured.folder, { credential });
    expect(report.exchanges).toBe(4);
    expect([...(await captured.read()).values()].map(({ facts }) => facts.split(' ')[0])).toEqual([
      'anthropic',
      ...Array(4).fill('erased'),
    ]);
  });
});

describe('an erasure', () => {
  it('is refused, and changes nothing, while a process that accepts no orders writes to the database', async () => {
    const captured = new Captured();
    await captured.append(turn('r', 1));
    await captured.close();
    const before = await captured.read();
    const claim = await claimWriter(join(captured.folder, 'capture.mdb'), { patience_ms: 0 });
    await expect(erase(captured.folder, { run_id: 'r' })).rejects.toThrow(ErasureError);
    await claim.release();
    expect(await captured.read()).toEqual(before);
    expect(readdirSync(captured.folder).filter((name) => name.includes('eras'))).toEqual([]);
  });

  it('reports a missing database', async () => {
    await expect(erase(makeFolder(), { run_id: 'r' })).rejects.toThrow('no such capture database');
  });
});
