/** Runs the simulation with dozens of seeds, and proves that it detects broken code. */

import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import type { ActorHost } from '../../src/runtime/host.ts';
import { drawsOf, longFrom } from '../long-parts.ts';
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

/** Makes a host with one change in its source. */
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
        for (let seed = 100; seed < 100 + drawsOf(3).numRuns; seed++)
          await simulate({ seed, moving, layout: { actors, servers } });
      }
    }
  });

  it('has the same trace for the same seed, and another trace for another seed', async () => {
    const [first, again, other] = await Promise.all(
      [11, 11, 12].map((seed) => simulate({ seed, steps: 300 })),
    );
    expect(again).toEqual(first);
    expect(other!.hash).not.toBe(first!.hash);
  });
});

describe('several boxes with one store', () => {
  for (let at = 0; at < 40; at++) {
    const [seed, boxes] = [104_729 * at + 1, 2 + (at % 2)];
    it(`keep their guarantees with seed ${seed}`, longFrom(at, 4), async () => {
      const { asked, acknowledged, durable, takeovers } = await simulate({ seed, boxes });
      expect(asked).toBeGreaterThan(300);
      expect(Math.min(acknowledged, durable, takeovers)).toBeGreaterThan(20);
    });
  }

  it.each([2, 3])('all make progress when %i of them use the same actor', async (boxes) => {
    for (let seed = 1; seed <= 5; seed++) {
      const { takeovers, losses, acknowledged_by } = await simulate({ seed, boxes, ledgers: 1 });
      expect(takeovers).toBeGreaterThan(20);
      expect(losses).toBeGreaterThan(2);
      expect(Math.min(...acknowledged_by)).toBeGreaterThan(20);
    }
  });

  it('have the same trace for the same seed', async () => {
    const [first, again] = await Promise.all([11, 11].map((seed) => simulate({ seed, boxes: 3 })));
    expect(again).toEqual(first);
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
    [
      'a store that accepts former owners',
      { boxes: 2, store_fault: 'accepts_former_owners' },
      /writes event|reveals/,
    ],
    ['a store that hides losses', { boxes: 2, store_fault: 'hides_losses' }, /before it is durable|reveals/],
    ['a store that drops the rest', { boxes: 2, store_fault: 'drops_the_rest' }, /durable|reveals|writes/],
    ['a store that repeats terms', { boxes: 2, store_fault: 'repeats_terms' }, /./],
    ['a store that repeats commits', { boxes: 2, store_fault: 'repeats_commits' }, /writes event/],
  ] as const)('%s', async (_name, options, what) => {
    const failure = await findFailure(options, 10);
    expect(failure?.message).toMatch(/^seed \d+: /);
    expect(failure?.message).toMatch(what);
    expect(failure?.trail.join('\n')).toContain('VIOLATION');
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

  it.each([
    [
      'a host that releases the effects of a lost actor',
      'this.#withdraw(cell, item.output, code);',
      "if (code === 'actor_moved') this.#release(cell, item.output);\n      else this.#withdraw(cell, item.output, code);",
      /before it is durable|reveals/,
    ],
    [
      'a host that keeps a lost actor',
      "this.#withdraw(cell, 'actor_moved');\n      this.#lifecycle.lose(cell);",
      "this.#withdraw(cell, 'actor_moved');",
      /./,
    ],
    [
      'a host that stores what a lost actor has recorded since',
      'else if (lost.length > 0) this.#dropNext(lost);',
      '',
      /./,
    ],
    [
      'a host that does not hear of new owners',
      'if (!this.#closed) lose(addresses);',
      '',
      /is read in term \d+, its box knows/,
    ],
    [
      'a host that starts from what it read before the loss',
      "if (cell.load === 'stale') return this.#loadIfAsked(cell);",
      '',
      /is read in term \d+, its box knows/,
    ],
    [
      'an asker who is told that nothing was stored, although something was',
      "code === 'actor_moved' && kept ? 'actor_restarted' : code",
      'code',
      /refused with actor_moved/,
    ],
    ['a load before the last write', 'if (journal.isWriting(cell)) {', 'if (false as boolean) {', /./],
    [
      'a load before the last snapshot is decided',
      'this.#parts.journal.leave(cell);\n    this.#parts.tenure.end(cell.self);\n    cell.kind.stats.passivations++;',
      'this.#parts.tenure.end(cell.self);\n    cell.kind.stats.passivations++;',
      /is loaded before its last write/,
    ],
    [
      'an unreachable store that counts as a failure of the actor',
      'if (thrown instanceof JournalUnavailableError) {',
      'if (false as boolean) {',
      /because the store is away/,
    ],
  ])('%s', async (name, from, to, what) => {
    const Host = await mutateHost(name.replaceAll(' ', '-'), from, to);
    const failure = await findFailure({ Host, boxes: 2 }, 60);
    expect(failure?.message).toMatch(what);
  });
});
