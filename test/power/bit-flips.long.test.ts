/**
 * One changed bit anywhere in DATA_DIR: either nothing that is read changes, or an error names the file, and the
 * content of other files is unaffected. LMDB's own page structure has no checksum, so one draw in a thousand may hide
 * rows without an error. BIT_FLIPS=5000 SEED=7 makes more and other draws. A damaged capture file may end the process
 * that reads the file; the process that serves never reads it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import type { Content } from './content-reader.ts';

const FLIPS = Number(process.env.BIT_FLIPS ?? 1_000);
const SEED = Number(process.env.SEED ?? 1);
/** One in this many flips is tried with the whole service. */
const WHOLE_EVERY = 500;

const root = mkdtempSync(join(tmpdir(), 'understudy-flips-'));
const folder = join(root, 'data');
const state = join(root, 'state');
afterAll(() => rmSync(root, { recursive: true, force: true }));

beforeAll(async () => {
  await using service = new WholeService(folder);
  await service.start();
  for (const canary of ['first', 'second', 'third']) {
    for (let turn = 0; turn < 10; turn++)
      await service.capture(`run-${canary}`, { messages: [{ role: 'user', content: `${canary} ${turn}` }] });
  }
  await service.use('canary');
  expect(await service.stop()).toBe(0);
});

function listFiles(path: string): string[] {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const place = join(path, entry.name);
    return entry.isDirectory() ? listFiles(place) : [place];
  });
}

class Reader {
  #child: ChildProcess | null = null;
  #answers: AsyncIterator<string> | null = null;

  /** @returns null when the damage ended the process */
  async read(path: string): Promise<Content | null> {
    if (this.#child === null) {
      const entry = join(import.meta.dirname, 'content-reader.ts');
      this.#child = spawn(process.execPath, [...STRIPPED_FLAGS, entry], {
        stdio: ['pipe', 'pipe', 'ignore'],
      });
      this.#answers = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
    }
    this.#child.stdin!.write(`${path}\n`);
    const { value, done } = await this.#answers!.next();
    if (!done) return JSON.parse(value) as Content;
    this.#child = null;
    return null;
  }

  async close(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    child.stdin!.end();
    await once(child, 'exit');
  }
}

/** Whether the data of this place is in the file. */
function isOf(file: string, place: string): boolean {
  if (file.startsWith('main.mdb')) return place.startsWith('main ');
  if (file.startsWith('runs.')) return place.startsWith('runs ');
  if (file.startsWith('secrets')) return place === 'secret';
  return place.startsWith('exchange ');
}

it(`a flipped bit is harmless or reported, in ${FLIPS} draws`, async () => {
  const prng = createPrng(SEED);
  const reader = new Reader();
  const copy = () => {
    rmSync(state, { recursive: true, force: true });
    cpSync(folder, state, { recursive: true });
  };
  copy();
  const whole = (await reader.read(state))!;
  expect(whole.told).toEqual({});
  const files = listFiles(folder).filter((file) => !file.endsWith('-lock') && statSync(file).size > 0);
  const tally: Record<string, number> = {};
  const failures: string[] = [];
  for (let i = 0; i < FLIPS; i++) {
    const file = files[i % files.length]!;
    const name = relative(folder, file);
    copy();
    const bytes = readFileSync(file);
    const bit = prng.below(bytes.length * 8);
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    rmSync(join(state, name));
    writeFileSync(join(state, name), bytes);
    if (i % WHOLE_EVERY === 0) await serve(name);
    const verdict = judge(name, whole, await reader.read(state));
    tally[verdict] = (tally[verdict] ?? 0) + 1;
    if (!/^(harmless|told|ended capture)/.test(verdict)) failures.push(`${name}, bit ${bit}: ${verdict}`);
  }
  await reader.close();
  process.stdout.write(`${JSON.stringify(tally)}\n`);
  // The message contains the list if there are more.
  expect(failures.length <= Math.ceil(FLIPS / 1_000) ? [] : failures.slice(0, 20)).toEqual([]);
});

function judge(name: string, whole: Content, content: Content | null): string {
  if (content === null) return /^capture/.test(name) ? 'ended capture' : `ended the process`;
  const places = Object.keys({ ...whole.read, ...content.read });
  const changed = places.filter((place) => whole.read[place] !== content.read[place]);
  const told = Object.values(content.told).length > 0;
  if (changed.length === 0) return told ? 'told' : 'harmless';
  const elsewhere = changed.find((place) => !isOf(name, place));
  if (elsewhere !== undefined) return `changed ${elsewhere} of another file`;
  return told ? 'told' : `silently changed ${changed.length}: ${changed[0]}`;
}

/**
 * Starts the service with the damaged file. Expects that it captures traffic, or that its start fails with an error
 * that names the file.
 */
async function serve(name: string): Promise<void> {
  const served = join(root, 'served');
  rmSync(served, { recursive: true, force: true });
  cpSync(state, served, { recursive: true });
  await using service = new WholeService(served);
  const refused = await service.start().then(
    () => null,
    (thrown: Error) => thrown.message,
  );
  if (refused !== null) {
    expect(refused).toContain(name.split('/').at(-1)!);
    return;
  }
  await service.capture('after', { messages: [{ role: 'user', content: 'after the flip' }] });
  await service.stop();
}
