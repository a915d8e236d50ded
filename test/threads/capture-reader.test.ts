/**
 * The capture reader's process from the outside: each request gets an answer or an error, even if the process ends; it
 * starts again after a pause, and ends when idle.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { indexVersion } from '../../src/captures/listed-run.ts';
import type { CaptureAnswer, CaptureQuestion } from '../../src/domain/captured-run.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createDeferred } from '../../src/std/deferred.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { RunIndex } from '../../src/storage/capture/run-index.ts';
import { databasePaths } from '../../src/storage/lmdb/stores.ts';
import { type CaptureReaderParts, CaptureReaderProcess } from '../../src/threads/capture-reader-process.ts';
import { makeExchange } from '../storage/captured.ts';

const ENTRY = new URL('../../src/threads/capture-reader-entry.ts', import.meta.url);
const RUNS: CaptureQuestion = { name: 'runs', limit: 10, after: null, query: { terms: [], sort: null } };

type Ended = Parameters<CaptureReaderParts['tell']>[0];

function openReader(parts: Partial<CaptureReaderParts> = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'understudy-reader-'));
  const db = join(dir, 'capture.mdb');
  const ended = createDeferred<Ended>();
  const reader = new CaptureReaderProcess({
    entry: ENTRY,
    options: {
      db,
      read_from: null,
      data_key: null,
      prices: {},
      databases: databasePaths(dir),
      owner: { org: null, emails: [], owner: null },
      student: null,
      wires: ['messages'],
      version: '1',
    },
    tell: (words) => ended.resolve(words),
    ...parts,
  });
  onTestFinished(async () => {
    await reader.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return { reader, db, ended: ended.promise };
}

function readJson(answer: CaptureAnswer): unknown {
  expect(answer.type).toBe('json');
  return answer.type === 'json' ? JSON.parse(Buffer.from(answer.json).toString()) : null;
}

async function isGone(pid: number): Promise<void> {
  await expect
    .poll(() => {
      try {
        process.kill(pid, 0);
        return false;
      } catch {
        return true;
      }
    })
    .toBe(true);
}

describe('the capture reader', () => {
  it('is started by the first question, and again after an unexpected end', {
    tags: 'long',
  }, async () => {
    const { reader, ended } = openReader();
    expect(reader.pid).toBeNull();
    expect(readJson(await reader.ask(RUNS))).toMatchObject({ runs: [], next_cursor: null });
    const first = reader.pid!;
    const answer = reader.ask(RUNS);
    // Ends the process as a damaged page would.
    process.kill(first, 'SIGSEGV');
    await Promise.allSettled([answer]);
    expect(await ended).toMatchObject({ pid: first, reason: 'SIGSEGV' });
    await expect.poll(() => reader.ask(RUNS).then(readJson, () => null)).toMatchObject({ runs: [] });
    expect(reader.pid).not.toBe(first);
  });

  it('tells waiting callers that it ended, also during the pause', async () => {
    // A program that ends before it answers.
    const { reader, ended } = openReader({
      entry: new URL('../fixtures/ending-reader.mjs', import.meta.url),
    });
    await expect(reader.ask(RUNS)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('ended (exit 7)'),
    });
    expect((await ended).restart_in_ms).toBeGreaterThan(0);
  });

  it('is given up if it does not answer in time', async () => {
    // A program that never answers.
    const { reader, ended } = openReader({
      entry: new URL('../fixtures/silent-reader.mjs', import.meta.url),
      deadline_ms: 50,
    });
    await expect(reader.ask(RUNS)).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect((await ended).reason).toBe('SIGKILL');
  });

  it('accepts a limited number of questions', async () => {
    const { reader } = openReader({ entry: new URL('../fixtures/silent-reader.mjs', import.meta.url) });
    const waiting = Array.from({ length: 32 }, () => reader.ask(RUNS));
    await expect(reader.ask(RUNS)).rejects.toMatchObject({ code: 'unavailable' });
    await reader.close();
    for (const result of await Promise.allSettled(waiting)) expect(result.status).toBe('rejected');
  });

  it('ends without questions, and starts again', { tags: 'long' }, async () => {
    const { reader } = openReader({ idle_ms: 1 });
    await reader.ask(RUNS);
    const [first] = [reader.pid];
    if (first !== null) await isGone(first);
    expect(readJson(await reader.ask(RUNS))).toMatchObject({ runs: [] });
  });

  it('reads while the file is written, and additions to a run count at once', async () => {
    const { reader, db } = openReader();
    const log = await CaptureLog.open({
      path: db,
      redact: false,
      max_decoded_bytes: 1 << 20,
      data_key: null,
      decode: decodeExchange,
    });
    onTestFinished(() => log.close());
    for (let turn = 1; turn <= 3; turn++) {
      await log.append([makeExchange({ run_id: 'r', seq: turn })]);
      await log.indexSome(decodeExchange, 1_000);
      expect(readJson(await reader.ask(RUNS))).toMatchObject({ runs: [{ run_id: 'r', exchanges: turn }] });
    }
    // Between questions, new exchanges are read, too.
    await log.append([makeExchange({ run_id: 'r', seq: 4 })]);
    await log.flush();
    const readTo = async (): Promise<number> => {
      const index = RunIndex.open(db, { data_key: null, version: indexVersion('1'), mode: 'read' });
      const last = index?.state == null ? 0 : (JSON.parse(index.state) as { last_id: number }).last_id;
      await index?.close();
      return last;
    };
    await expect.poll(readTo, { timeout: 10_000 }).toBe(4);
  });
});
