/**
 * Pages of a live capture database are damaged, before the start and under load. LMDB may answer with an error, an
 * assertion or SIGSEGV. Traffic is not affected, a damaged file is set aside, and capture continues. SEED=N draws
 * other pages. The load is on the test thread; the gateway and the capture process are separate processes.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { runCli } from '../cli/child.ts';
import { findCaptureProcess, type Spoiling, spoilPages } from '../fixtures/capture-child.ts';
import {
  flush,
  type GatewayProcess,
  readStats,
  type Stats,
  startGatewayProcess,
  stopGatewayProcess,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { answerCall, driveRuns, findCall, makeCall, tagOf } from '../fixtures/capture-traffic.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { longFrom } from '../long-parts.ts';
import { makeFolder } from '../storage/folder.ts';

const SEED = Number(process.env.SEED ?? 7);
const SPOILINGS: Spoiling[] = ['bits', 'zeros', 'ones', 'other page'];

let upstream: RawUpstream;
let folder: string;
let db: string;
beforeAll(async () => {
  upstream = await startRawUpstream({ onRequest: answerCall });
  upstream.keep_requests = false;
});
afterAll(() => upstream.close());
beforeEach(() => {
  folder = makeFolder();
  db = join(folder, 'capture.mdb');
});

const start = () => startGatewayProcess(upstream.url, folder);

/** Repeats calls until they are answered correctly and stored. */
async function capture(started: GatewayProcess, name: string, count: number): Promise<string[]> {
  const tags: string[] = [];
  for (let n = 0; n < count; n++) {
    const call = { run: `${name}-${n}`, seq: 1 + (n % 3), stream: n % 2 === 0 };
    await makeCall(started.port, call);
    tags.push(tagOf(call));
  }
  return tags;
}

const listAside = () => readdirSync(folder).filter((name) => /^capture\.damaged-\d+T\d+\.mdb$/.test(name));

/** The exchanges of an undamaged file, by id. */
async function readFile(path: string): Promise<Map<number, string>> {
  const reader = CaptureReader.open(path);
  const tags = new Map<number, string>();
  try {
    for (const { id } of reader.exchanges())
      tags.set(id, tagOf(findCall(Buffer.from(reader.body(id, 'request')!))!));
  } finally {
    await reader.close();
  }
  return tags;
}

describe('pages damaged under load', () => {
  for (const how of SPOILINGS)
    it(`by ${how}: traffic continues, and so does capture, in a sound file`, {
      tags: 'long',
    }, async () => {
      await using started = await start();
      const prng = createPrng(SEED);
      await capture(started, 'first', 40);
      await flush(started.url);
      const { answered, end } = driveRuns(started.port, 'load', 6, 5);
      // The chosen pages may never be read, so their number doubles until one is. The file that replaces the damaged
      // one is not touched.
      const file = openSync(db, 'r+');
      for (let count = 6; listAside().length === 0; count *= 2) {
        spoilPages(file, prng, Math.min(count, 10_000), how);
        const target = answered.size + 40;
        await expect.poll(() => answered.size).toBeGreaterThan(target);
      }
      closeSync(file);
      await end();
      // All exchanges are settled when none waits any more; those with an unknown outcome count as dropped.
      const isSettled = ({ exchanges }: Stats) => exchanges.in_flight === 0;
      const settled = await waitForStats(started.url, isSettled);
      const { attempted, captured, dropped } = settled.exchanges;
      expect({ attempted, sum: captured + dropped }).toEqual({
        attempted: 40 + answered.size,
        sum: attempted,
      });
      expect(settled.db.damaged).toBe(1);
      const last = await capture(started, 'last', 10);
      const after = await waitForStats(started.url, isSettled);
      expect(after.exchanges).toMatchObject({ captured: captured + 10, dropped });
      const stderr = await stopGatewayProcess(started);
      expect(stderr.match(/database was set aside/g)).toHaveLength(1);
      const aside = listAside();
      expect(aside).toHaveLength(1);
      const found = await readFile(db);
      for (const tag of last) expect([...found.values()]).toContain(tag);
      const [first = 0] = found.keys();
      expect([...found.keys()]).toEqual([...found.keys()].map((_, at) => first + at));
      const { code, stderr: said } = await runCli(['inspect', '--db', join(folder, aside[0]!)], {
        DATA_DIR: folder,
      });
      expect([0, 1]).toContain(code);
      if (code === 1) expect(said.trimEnd().split('\n')).toHaveLength(1);
    });
});

describe('a file damaged before the start', () => {
  let whole: string;
  let ids: number;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'understudy-damage-'));
    db = join(folder, 'capture.mdb');
    await using started = await start();
    ids = (await capture(started, 'before', 60)).length;
    await stopGatewayProcess(started);
    whole = folder;
  });
  afterAll(() => rmSync(whole, { recursive: true, force: true }));

  /** A copy of the same database in a new folder. */
  function copy(): void {
    for (const name of ['capture.mdb', 'capture.mdb.last-id'])
      copyFileSync(join(whole, name), join(folder, name));
  }

  const starts = [...SPOILINGS.map((how) => [how, '', 2] as const), ['zeros', ', its heads too', 0] as const];
  for (const [at, [how, heads, from]] of starts.entries())
    it(`by ${how}${heads}: the start succeeds, and ids continue`, longFrom(at, 1), async () => {
      let goneOn = 0;
      // If the damage has no effect, other pages are chosen.
      for (let round = 0; goneOn === 0; round++) {
        folder = makeFolder();
        db = join(folder, 'capture.mdb');
        copy();
        const file = openSync(db, 'r+');
        spoilPages(file, createPrng(SEED + 100 * round), 1_000, how, from);
        closeSync(file);
        const before = readFileSync(db);
        await using started = await start();
        const tags = await capture(started, `round-${round}`, 5);
        await waitForStats(started.url, ({ exchanges }) => exchanges.captured === 5);
        const aside = listAside();
        expect((await readStats(started.url)).db.damaged).toBe(aside.length);
        await stopGatewayProcess(started);
        if (aside.length === 0) continue;
        // The first exchanges may have been stored in the damaged file before the damage was noticed.
        const found = await readFile(db);
        const expected = tags.map((tag, at) => [ids + 1 + at, tag]);
        expect([...found.entries()]).toEqual(expected.slice(expected.length - found.size));
        goneOn += found.size;
        if (aside.length === 1) expect(readFileSync(join(folder, aside[0]!)).length).toBe(before.length);
      }
    });

  it('by truncation: the service sets it aside at once, and inspect refuses it with one line', {
    tags: 'long',
  }, async () => {
    copy();
    truncateSync(db, 20_000);
    await using started = await start();
    const metrics = await (await fetch(`${started.url}/__gw/stats`)).json();
    expect(metrics).toMatchObject({
      status: 'degraded',
      reasons: [{ reason: 'set_aside' }],
      db: { damaged: 1 },
    });
    expect(started.child.stderr).toMatch(
      /"reason":"[^"]*cut off[^"]*","msg":"the damaged capture database was set aside/,
    );
    const [tag] = await capture(started, 'after', 1);
    await flush(started.url);
    await stopGatewayProcess(started);
    expect([...(await readFile(db)).entries()]).toEqual([[ids + 1, tag]]);
    const inspected = await runCli(['inspect', '--db', join(folder, listAside()[0]!)], { DATA_DIR: folder });
    expect(inspected.code).toBe(1);
    expect(inspected.stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('does not change sealed files, and ids continue', { tags: 'long' }, async () => {
    const first = await start();
    await capture(first, 'sealed', 3);
    await flush(first.url);
    const { sealed } = (await (await fetch(`${first.url}/__gw/rotate`, { method: 'POST' })).json()) as {
      sealed: string;
    };
    await capture(first, 'live', 2);
    await stopGatewayProcess(first);
    const bytes = readFileSync(sealed);
    truncateSync(db, 20_000);
    await using second = await start();
    await capture(second, 'after', 2);
    await stopGatewayProcess(second);
    expect(readFileSync(sealed).equals(bytes)).toBe(true);
    expect([...(await readFile(db)).keys()]).toEqual([6, 7]);
    expect(listAside()).toHaveLength(1);
    expect(existsSync(join(folder, `${listAside()[0]}-lock`))).toBe(false);
  });

  it('that ends its process three times: it is set aside, and each restart waits twice as long as the one before', {
    tags: 'long',
  }, async () => {
    copy();
    await using started = await start();
    let pid = 0;
    for (let round = 0; round < 3; round++) {
      pid = await findCaptureProcess(started.url, pid);
      process.kill(pid, 'SIGSEGV');
    }
    pid = await findCaptureProcess(started.url, pid);
    await capture(started, 'after', 3);
    await waitForStats(started.url, ({ exchanges }) => exchanges.captured === 3);
    // The first file was set aside after two ends in a row, and perhaps its replacement after the third.
    expect(listAside().length).toBeGreaterThanOrEqual(1);
    const stderr = await stopGatewayProcess(started);
    const waits = [...stderr.matchAll(/"restart_in_ms":(\d+)/g)].map(([, ms]) => Number(ms));
    expect(waits).toEqual([100, 200, 400]);
  });
});
