/**
 * Power cuts. A service runs under load while a preloaded library records its writes, syncs and renames. The test
 * derives from that record the states that a cut at any moment could have left on the disk. Each state can be opened,
 * and contains what the table in docs/threat-model.md promises.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { checkpointPath, encodeSlot, readCheckpoint } from '../../src/storage/lmdb/checkpoint.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import type { Promised, State, Verdict } from './checker.ts';
import { encodeNote, FATES, PowerRecord } from './record.ts';

const CUTS = Number(process.env.POWER_CUTS ?? 2_000);
const SEED = Number(process.env.SEED ?? 1);
/** One in this many cuts is tried with the whole service. */
const WHOLE_EVERY = 200;
const ANOTHER_BOOT = '00000000-0000-0000-0000-000000000000';

const root = mkdtempSync(join(tmpdir(), 'understudy-power-'));
const folder = join(root, 'data');
const recordPath = join(root, 'record');
const library = join(root, 'recorder.so');

afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Acknowledged data, as noted in the record. */
type Note = Promised | { captured: number };

const note = (what: Note) => appendFileSync(recordPath, encodeNote(JSON.stringify(what)));

beforeAll(async () => {
  const source = join(import.meta.dirname, 'recorder.c');
  const compiled = spawnSync('g++', ['-x', 'c', '-shared', '-fPIC', '-O2', '-o', library, source, '-ldl']);
  expect(compiled.status, String(compiled.stderr)).toBe(0);
  mkdirSync(folder, { mode: 0o700 });
  await using service = new WholeService(folder, {
    LD_PRELOAD: library,
    POWER_FOLDER: folder,
    POWER_RECORD: recordPath,
  });
  await service.start();
  await load(service);
  expect(await service.stop()).toBe(0);
});

/** Uses each feature that stores data, one after the other, and notes the acknowledged data. */
async function load(service: WholeService): Promise<void> {
  const token = (await service.run('token', '--email', 'ann@example.com')).trim();
  const post = async (path: string, credential: string, body: object) => {
    const response = await fetch(service.api + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${credential}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(response.status, path).toBeLessThan(300);
    return (await response.json()) as Record<string, string>;
  };
  const { raw_key: key = '' } = await post('/api-keys/', token, { name: 'ci' });
  const gateway = (path: string) =>
    fetch(service.gateway + path, { method: 'POST' }).then((answer) => answer.json()) as Promise<{
      written: number;
    }>;

  const control = async () => {
    for (let i = 0; i < 60; i++) {
      const { id } = await post('/api-keys/', token, { name: `key ${i}` });
      note({ store: 'main', table: 'api_keys', text: id! });
      await post('/v1/findings/code', key, { finding_type: 'architecture', content: `finding ${i}.` });
      note({ store: 'main', table: 'findings', text: `finding ${i}.` });
    }
  };
  const runs = async (worker: number) => {
    for (let run = 0; run < 12; run++) {
      const run_id = `run-${worker}-${run}`;
      await post('/v1/monitor/runs', key, { run_id, task: 'fix it' });
      note({ store: 'runs', table: 'runs', text: `"${run_id}"` });
      for (let step_index = 0; step_index < 12; step_index++) {
        await post(`/v1/monitor/runs/${run_id}/steps`, key, { step_index, action: `act ${step_index}` });
        note({ store: 'runs', table: 'run_steps', text: `"${run_id}",${step_index}]` });
      }
      await post(`/v1/monitor/runs/${run_id}/finish`, key, { outcome: 'success' });
    }
  };
  const captures = async () => {
    for (let turn = 0; turn < 120; turn++) {
      const text = `turn ${turn} ${'lorem ipsum '.repeat((turn * 37) % 3_000)}`;
      await service.capture(`agent-${turn % 7}`, { messages: [{ role: 'user', content: text }] });
      if (turn % 5 === 4) note({ captured: (await gateway('/__gw/flush')).written });
      if (turn % 40 === 39) await gateway('/__gw/rotate');
    }
  };
  await Promise.all([control(), runs(1), runs(2), captures()]);
}

/** Changes the checkpoints in a state so that they name an earlier start of the machine. */
function startMachine(state: string): void {
  for (const name of ['runs.mdb', 'capture.mdb']) {
    const path = join(state, name);
    const slot = statSync(path, { throwIfNoEntry: false }) === undefined ? null : readCheckpoint(path);
    if (slot === null) continue;
    const inode = statSync(path, { bigint: true }).ino;
    // Only the newer slot is written, because both slots would belong to the same file.
    writeFileSync(checkpointPath(path), encodeSlot({ ...slot, inode, boot_id: ANOTHER_BOOT }));
  }
}

/**
 * The data that must survive a cut. It is all acknowledged data of `main.mdb` and of flushed captures. From `runs.mdb`
 * it is the data that was acknowledged before the end of the last checkpoint but one, because the last checkpoint began
 * after that.
 */
function listPromised(record: PowerRecord, cut: number): Omit<State, 'folder'> {
  const checkpoints = record.syncsOf('runs.mdb-safe', cut);
  const sure = checkpoints.at(-2) ?? 0;
  const promised: Promised[] = [];
  let captured = 0;
  for (const { step, text } of record.notes(cut)) {
    const told = JSON.parse(text) as Note;
    if ('captured' in told) captured = told.captured;
    else if (told.store === 'main' || step < sure) promised.push(told);
  }
  return { promised, captured };
}

class Checker {
  #child: ChildProcess | null = null;
  #answers: AsyncIterator<string> | null = null;

  async check(state: State): Promise<Verdict> {
    if (this.#child === null) {
      const child = spawn(process.execPath, [...STRIPPED_FLAGS, join(import.meta.dirname, 'checker.ts')], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      this.#child = child;
      this.#answers = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    }
    this.#child.stdin!.write(`${JSON.stringify(state)}\n`);
    const { value, done } = await this.#answers!.next();
    if (!done) return JSON.parse(value) as Verdict;
    const child = this.#child;
    this.#child = null;
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    return { problems: [`it ended the process: ${child.signalCode ?? child.exitCode}`] };
  }

  async close(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    child.stdin!.end();
    await once(child, 'exit');
  }
}

it(`none of ${CUTS} power cuts loses anything acknowledged`, async () => {
  const record = new PowerRecord(recordPath, folder);
  const prng = createPrng(SEED);
  const checker = new Checker();
  const state = join(root, 'state');
  const failures: string[] = [];
  for (let i = 0; i < CUTS && failures.length < 5; i++) {
    const cut = 1 + prng.below(record.length);
    const fate = FATES[i % FATES.length]!;
    record.build(cut, fate, state, (end) => prng.below(end));
    startMachine(state);
    const { problems } = await checker.check({ folder: state, ...listPromised(record, cut) });
    if (problems.length > 0)
      failures.push(`cut ${cut}, ${fate} (seed ${SEED}): ${problems.slice(0, 3).join('; ')}`);
    if (i % WHOLE_EVERY === 0 && problems.length === 0) await startWhole(state);
  }
  await checker.close();
  expect(failures).toEqual([]);
});

/** Starts the service on a state, and expects that it serves requests. */
async function startWhole(state: string): Promise<void> {
  await using service = new WholeService(state);
  await service.start();
  expect((await fetch(`${service.api}/ready`)).status).toBe(200);
  await service.capture('after', { messages: [{ role: 'user', content: 'after the cut' }] });
  expect(await service.stop()).toBe(0);
  expect(service.stderr).not.toMatch(/damaged/);
}

it('the record of writes is complete: it recreates the files', () => {
  const record = new PowerRecord(recordPath, folder);
  const state = join(root, 'whole');
  record.build(record.length, 'everything', state, () => 0);
  for (const name of ['main.mdb', 'runs.mdb', 'capture.mdb', 'runs.mdb-safe'])
    expect(readFileSync(join(state, name)).equals(readFileSync(join(folder, name))), name).toBe(true);
});
