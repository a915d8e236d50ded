/**
 * `understudy erase` under kill -9: if it is killed at any moment, it has erased nothing or everything, and every other
 * exchange is unchanged to the byte. At the end the test searches the whole data directory for erased content.
 */
import { randomBytes } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { makeExchange, readAllFiles } from '../storage/captured.ts';
import { CliChild } from './child.ts';

const root = mkdtempSync(join(tmpdir(), 'understudy-erase-kill-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const prng = createPrng(Number(process.env.SEED ?? 5));

const SECRET = `never-to-be-found-${randomBytes(12).toString('hex')}`;
const ROUNDS = 10;
const RUNS = ['keep-a', 'gone', 'keep-b'];

/** Stores three conversations in three files. One of them will be erased. @returns each body by its id */
async function fill(dir: string): Promise<Map<number, { run: string; body: Buffer }>> {
  const made = new Map<number, { run: string; body: Buffer }>();
  const log = await CaptureLog.open({
    path: join(dir, 'capture.mdb'),
    redact: false,
    decode: decodeExchange,
  });
  const talks = RUNS.map((run) => `${run === 'gone' ? SECRET : run} ${randomBytes(800).toString('hex')}`);
  for (let turn = 0; turn < 120; turn++) {
    const at = turn % RUNS.length;
    const run = RUNS[at]!;
    talks[at] += ` ${run === 'gone' ? SECRET : ''} ${randomBytes(900).toString('base64')}`;
    const image = turn % 10 === 0 ? `","data":"${Buffer.alloc(4_000, run).toString('base64')}` : '';
    const body = Buffer.from(`{"text":"${talks[at]}${image}"}`);
    const exchange = makeExchange({ run_id: run, request_body: body, response_body: body });
    const { last_id } = await log.append([exchange]);
    made.set(last_id, { run, body });
    if (turn === 40 || turn === 80) await log.rotate();
  }
  await log.close();
  return made;
}

it('a kill during an erasure leaves all or nothing erased, and other data unchanged', async () => {
  const full = join(root, 'full');
  mkdirSync(full);
  const made = await fill(full);
  const gone = [...made].filter(([, { run }]) => run === 'gone').map(([id]) => id);
  const startErase = (dir: string) => new CliChild(['erase', '--run', 'gone'], { env: { DATA_DIR: dir } });

  // The duration of an undisturbed erasure, measured from its first read of the files.
  const dir = join(root, 'whole');
  cpSync(full, dir, { recursive: true });
  const begun = performance.now();
  expect((await startErase(dir).ended).code).toBe(0);
  const took = performance.now() - begun;

  let killed = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const at = join(root, `round-${round}`);
    cpSync(full, at, { recursive: true });
    const child = startErase(at);
    // The kill comes at a random time, often during the writes near the end of the erasure.
    const wait = took * (0.35 + (0.65 * prng.below(1_000)) / 1_000);
    const timer = setTimeout(() => child.process.kill('SIGKILL'), wait);
    const { signal } = await child.ended;
    clearTimeout(timer);
    if (signal === 'SIGKILL') killed++;
    // The next process undoes or finishes the interrupted erasure. Here it erases an unknown run.
    const settled = new CliChild(['erase', '--run', 'unknown'], { env: { DATA_DIR: at } });
    expect((await settled.ended).code).toBe(0);
    const stored = await readCaptured(join(at, 'capture.mdb'));
    expect(stored.map(({ record }) => record.id)).toEqual([...made.keys()]);
    const erased = stored.filter(({ record }) => record.provider === 'erased').map(({ record }) => record.id);
    expect([[], gone], `round ${round}`).toContainEqual(erased);
    for (const { record, request, response } of stored) {
      if (erased.includes(record.id)) continue;
      const { body, run } = made.get(record.id)!;
      expect(record.run_id).toBe(run);
      expect(Buffer.compare(request, body), `request ${record.id}`).toBe(0);
      expect(Buffer.compare(response, body), `response ${record.id}`).toBe(0);
    }
    expect(readdirSync(at).filter((name) => /\.erase|plan/.test(name))).toEqual([]);
    if (erased.length === 0) expect((await startErase(at).ended).code).toBe(0);
    for (const { path, bytes } of readAllFiles(at)) expect(bytes.includes(SECRET), path).toBe(false);
    const image = Buffer.alloc(4_000, 'gone');
    for (const { path, bytes } of readAllFiles(at)) expect(bytes.equals(image), path).toBe(false);
    expect(existsSync(join(at, 'capture.mdb'))).toBe(true);
    rmSync(at, { recursive: true, force: true });
  }
  expect(killed).toBeGreaterThan(0);
}, 600_000);
