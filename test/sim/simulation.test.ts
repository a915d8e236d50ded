/** The simulation with dozens of seeds, and a proof that it finds broken code. */

import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import type { ActorHost } from '../../src/runtime/host.ts';
import { longFrom } from '../long-parts.ts';
import { type SimulationOptions, simulate } from './simulation.ts';
import { SimulationFailure } from './world.ts';

const RUNTIME = new URL('../../src/runtime/', import.meta.url);
/** The source files of a host. */
const HOST_FILES = ['host.ts', ...globSync('host/*.ts', { cwd: fileURLToPath(RUNTIME) })];
const folder = mkdtempSync(join(tmpdir(), 'mutants-'));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs seeds until one fails. */
async function findFailure(
  options: Omit<SimulationOptions, 'seed'>,
  seeds: number,
): Promise<SimulationFailure | null> {
  for (let seed = 1; seed <= seeds; seed++) {
    try {
      await simulate({ ...options, seed });
    } catch (thrown) {
      if (thrown instanceof SimulationFailure) return thrown;
      throw thrown;
    }
  }
  return null;
}

/** The host with one change in its source. */
async function mutateHost(name: string, from: string, to: string): Promise<typeof ActorHost> {
  const sources = HOST_FILES.map((file) => [new URL(file, RUNTIME), join(folder, name, file)] as const);
  const mutants = new Map(sources.map(([original, mutant]) => [original.href, pathToFileURL(mutant).href]));
  const msgpackr = pathToFileURL(createRequire(import.meta.url).resolve('msgpackr')).href;
  let places = 0;
  for (const [original, mutant] of sources) {
    const source = readFileSync(original, 'utf8');
    places += source.split(from).length - 1;
    const text = source
      .replace(from, () => to)
      .replace(/from '(\.{1,2}\/[^']+)'/g, (_, path: string) => {
        const { href } = new URL(path, original);
        return `from '${mutants.get(href) ?? href}'`;
      })
      .replace("from 'msgpackr'", `from '${msgpackr}'`);
    mkdirSync(dirname(mutant), { recursive: true });
    writeFileSync(mutant, text);
  }
  expect(places, `"${from}" stands once in what a host is made of`).toBe(1);
  const host = mutants.get(new URL('host.ts', RUNTIME).href)!;
  return ((await import(/* @vite-ignore */ host)) as { ActorHost: typeof ActorHost }).ActorHost;
}

describe('the simulated runtime', () => {
  for (let at = 0; at < 40; at++) {
    const seed = 7919 * at + 1;
    it(`keeps its guarantees with seed ${seed}`, longFrom(at, 4), async () => {
      const { asked, acknowledged, durable, handled } = await simulate({ seed });
      expect(asked).toBeGreaterThan(300);
      expect(Math.min(acknowledged, durable, handled)).toBeGreaterThan(20);
    });
  }

  it.each([
    { actors: 3, servers: 0 },
    { actors: 1, servers: 5 },
    { actors: 3, servers: 2 },
  ])('moves actors between hosts: %j', async (layout) => {
    let moved = 0;
    for (let seed = 2; seed <= 10; seed += 2) moved += (await simulate({ seed, layout })).moves;
    expect(moved).toBeGreaterThan(20);
  });

  it.each([1, 2, 5])('keeps its guarantees with %i server hosts and 1 and 3 actor hosts', async (servers) => {
    for (const actors of [1, 3]) {
      for (const moving of [true, false]) {
        for (let seed = 100; seed < 103; seed++)
          await simulate({ seed, moving, layout: { actors, servers } });
      }
    }
  });

  it('runs the same for the same seed, and differently for another', async () => {
    const [first, again, other] = await Promise.all(
      [11, 11, 12].map((seed) => simulate({ seed, steps: 300 })),
    );
    expect(again).toEqual(first);
    expect(other!.hash).not.toBe(first!.hash);
  });
});

describe('the simulator detects', () => {
  it.each([
    [
      'a journal that acknowledges before it has written',
      { journal_fault: 'acknowledges_early' },
      /before it is durable|reveals/,
    ],
    ['a journal that loses writes', { journal_fault: 'loses_writes' }, /./],
    ['links that change the order', { link_fault: 'reorders' }, /after/],
    ['links that deliver twice', { link_fault: 'duplicates' }, /a second time|settled twice/],
  ] as const)('%s', async (_name, options, what) => {
    const failure = await findFailure(options, 10);
    expect(failure?.message).toMatch(/^seed \d+: /);
    expect(failure?.message).toMatch(what);
    expect(failure?.trail.at(-1)).toContain('VIOLATION');
  });

  it.each([
    [
      'no output gate',
      'cell.gate_ticket > this.#journal.decidedTicket',
      'false as boolean',
      /before it is durable|reveals/,
    ],
    [
      'handling messages before all of a commit is released',
      '    this.#running = true;\n    try {\n      if (error === null)',
      '    try {\n      if (error === null)',
      /after/,
    ],
    ['an outcome for a later life', 'const { life } = effect;', 'const { life } = cell;', /./],
    [
      'a restart before the journal has decided',
      'if (journal.isWriting(cell)) {',
      'if (false as boolean) {',
      /./,
    ],
    [
      'a failed commit that keeps what was recorded after it',
      '!unstored.has(addressText(write))',
      'true',
      /./,
    ],
    [
      'an actor that moves before all of it is stored',
      'if (!journal.pending && journal.settle()) {',
      'if (true as boolean) {',
      /./,
    ],
    ['mailboxes without a bound', 'if (isOverfull(cell, delivery)) {', 'if (false as boolean) {', /wait for/],
  ])('%s', async (name, from, to, what) => {
    const Host = await mutateHost(name.replaceAll(' ', '-'), from, to);
    const failure = await findFailure({ Host }, 60);
    expect(failure?.message).toMatch(what);
  });
});
