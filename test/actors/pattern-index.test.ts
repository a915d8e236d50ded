/** The pattern store over tables in memory and on the disk, and the pattern index's decisions without threads. */

import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { PATTERN_STORE_ADAPTER, patternIndex } from '../../actors/pattern-index/behaviour.ts';
import type { AddedPattern, RetrieveRequest } from '../../actors/pattern-index/protocol.ts';
import { SharedSearch } from '../../actors/pattern-index/shared-search.ts';
import { PatternStore } from '../../actors/pattern-index/store.ts';
import type { StoreParts } from '../../actors/pattern-index/store-parts.ts';
import { type FoundPattern, readFound } from '../../src/api/retrieve.ts';
import { makeAuditEntry } from '../../src/domain/audit-rows.ts';
import type { PatternScope } from '../../src/domain/pattern.ts';
import {
  decodeVector,
  digest,
  encodeVector,
  isUnpackedVector,
  PATTERN_SETTINGS,
  PATTERN_VECTORS,
  PATTERNS,
  putPattern,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import { NO_UNLOCK } from '../../src/domain/patterns/wording.ts';
import { formerSituationVectorsId, situationVectorsId } from '../../src/domain/situation-vectors.ts';
import { ActorKit } from '../../src/runtime/kit.ts';
import { GraphFolder } from '../../src/search/graph-folder.ts';
import { openCatalog, SharedIndexes } from '../../src/search/index-catalog.ts';
import { chooseIndex } from '../../src/search/open-index.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { createUlidSource } from '../../src/std/id.ts';
import { TablePatternReads } from '../../src/storage/accounts/patterns.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import type { Tables } from '../../src/storage/tables.ts';
import { HashedWords } from '../fixtures/hashed-words.ts';
import { makeFolder } from '../storage/folder.ts';

const ALICE: PatternScope = { tier: 'e1', org_id: 'alice', project_id: 'web' };
const ALICE_COMMONS: PatternScope = { tier: 'e2', org_id: 'alice', project_id: '' };
const BOB: PatternScope = { tier: 'e1', org_id: 'bob', project_id: 'web' };
const UNIVERSAL: PatternScope = { tier: 'e3', org_id: '', project_id: '' };

const FLAKY = 'flaky integration test times out while postgres container starts';
const ROUTER = 'react router navigation loses query parameters after redirect';
const BORROW = 'rust borrow checker rejects mutable reference inside closure';

const opened: PatternStore[] = [];
const tablesOf = new WeakMap<PatternStore, Tables>();
/** The shared index in which a server thread searches. */
const searchOf = new WeakMap<PatternStore, SharedSearch>();
/** How many searches a server thread answered without the store. */
let foundNear = 0;

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

afterAll(() => {
  // Otherwise no answer of a server thread was compared with one of the store.
  expect(foundNear).toBeGreaterThan(0);
});

interface World {
  tables: Tables;
  embedder: HashedWords;
  logged: string[];
}

function createWorld(tables: Tables = new MemoryTables()): World {
  return { tables, embedder: new HashedWords(), logged: [] };
}

async function openStore(world: World, parts: Partial<StoreParts> = {}): Promise<PatternStore> {
  const store = await openUnsettled(world, parts);
  await store.whenSettled();
  return store;
}

/** Opens a store, which may still be waiting for its embedder. */
async function openUnsettled(world: World, parts: Partial<StoreParts>): Promise<PatternStore> {
  const clock = createManualClock(Date.parse('2026-11-21T10:00:00Z'));
  const note = (_facts: object, message: string) => void world.logged.push(message);
  const catalog = randomUUID();
  const store = new PatternStore({
    tables: world.tables,
    embedder: world.embedder,
    makeIndex: chooseIndex(() => {}),
    catalog: openCatalog(catalog),
    clock,
    newId: createUlidSource(clock),
    log: { info: note, warn: note },
    starters: [],
    ...parts,
  });
  opened.push(store);
  tablesOf.set(store, world.tables);
  const { embedder } = world;
  // Tests count the texts that the store embeds, so the texts of searches are subtracted.
  const embed = async (texts: readonly string[]) => {
    const vectors = await embedder.embed(texts);
    embedder.embedded -= texts.length;
    return vectors;
  };
  const counting = { id: embedder.id, embed };
  const indexes = new SharedIndexes(catalog, situationVectorsId(counting));
  searchOf.set(store, new SharedSearch({ indexes, embedder: counting, index: store }));
  await store.whenLoaded();
  return store;
}

/** Searches as the API does. @returns what the store finds, with its texts; a server thread must find the same */
async function find(store: PatternStore, request: RetrieveRequest): Promise<FoundPattern[]> {
  const matches = await store.retrieve(request);
  const near = searchOf.get(store);
  if (near === undefined)
    return readFound(new TablePatternReads(tablesOf.get(store)!), matches, request.top_k);
  const { searched } = near.counts;
  const found = await near.retrieve(request);
  expect(found).toEqual(matches);
  if (near.counts.searched > searched) foundNear++;
  return readFound(new TablePatternReads(tablesOf.get(store)!), matches, request.top_k);
}

function pattern(situation: string, more: Partial<AddedPattern> = {}): AddedPattern {
  return {
    situation,
    dead_ends: `tried: ${situation}`,
    unlock: `did: ${situation}`,
    model: '',
    failure_type: '',
    source_trace_id: null,
    ...more,
  };
}

function ask(context: string, more: Partial<RetrieveRequest> = {}): RetrieveRequest {
  return {
    org_id: 'alice',
    project_id: 'web',
    tier: null,
    context,
    top_k: 5,
    min_similarity: 0.35,
    failure_type: null,
    model: null,
    ...more,
  };
}

describe.each(['memory', 'lmdb'] as const)('the pattern store on %s', (kind) => {
  function makeTables(): Tables {
    return kind === 'memory' ? new MemoryTables() : new LmdbTables(`${makeFolder()}/main.mdb`, 'disk');
  }

  it('finds what was added, with its texts and its similarity', async () => {
    const store = await openStore(createWorld(makeTables()));
    const [added] = await store.add(ALICE, [pattern(FLAKY), pattern(ROUTER)]);
    expect(added).toMatchObject({ created: true });
    expect(added!.pattern_id).toMatch(/^pat_[0-9A-HJKMNP-TV-Z]{26}$/);
    const found = await find(store, ask(FLAKY));
    expect(found).toEqual([
      {
        tier: 'e1',
        pattern_id: added!.pattern_id,
        similarity: 1,
        fields: { situation: FLAKY, dead_ends: `tried: ${FLAKY}`, unlock: `did: ${FLAKY}` },
      },
    ]);
    expect(await find(store, ask('knitting patterns for winter socks'))).toEqual([]);
  });

  it('is the same after a restart, without new embeddings', async () => {
    const world = createWorld(makeTables());
    const first = await openStore(world);
    await first.add(ALICE, [pattern(FLAKY), pattern(ROUTER)]);
    await first.add(UNIVERSAL, [pattern(BORROW)]);
    const before = await find(first, ask(`${FLAKY} ${BORROW}`));
    await first.close();
    const embedded = world.embedder.embedded;
    const second = await openStore(world);
    expect(world.embedder.embedded).toBe(embedded);
    expect(second.state()).toMatchObject({ is_loaded: true, patterns: 3, unembedded: 0, scopes: 2 });
    expect(await find(second, ask(`${FLAKY} ${BORROW}`))).toEqual(before);
    expect(before.length).toBe(2);
  });

  it('stores all of an import or nothing', async () => {
    const world = createWorld(makeTables());
    const store = await openStore(world);
    await store.add(ALICE, [pattern(FLAKY)]);
    const { transact } = world.tables;
    world.tables.transact = () => Promise.reject(new Error('the disk is full'));
    await expect(store.add(ALICE, [pattern(ROUTER), pattern(FLAKY)])).rejects.toMatchObject({
      code: 'unavailable',
    });
    world.tables.transact = transact;
    expect(await find(store, ask(ROUTER))).toEqual([]);
    expect(store.state().patterns).toBe(1);
    expect(await store.add(ALICE, [pattern(ROUTER)])).toMatchObject([{ created: true }]);
    expect((await find(store, ask(ROUTER))).length).toBe(1);
  });
});

describe('a pattern is visible', () => {
  async function fillAll(): Promise<PatternStore> {
    const store = await openStore(createWorld());
    await store.add(ALICE, [pattern(`${FLAKY} one`)]);
    await store.add({ ...ALICE, project_id: 'app' }, [pattern(`${FLAKY} two`)]);
    await store.add(ALICE_COMMONS, [pattern(`${FLAKY} three`)]);
    await store.add(BOB, [pattern(`${FLAKY} four`)]);
    await store.add({ tier: 'e2', org_id: 'bob', project_id: '' }, [pattern(`${FLAKY} five`)]);
    await store.add(UNIVERSAL, [pattern(`${FLAKY} six`)]);
    return store;
  }

  const see = async (store: PatternStore, more: Partial<RetrieveRequest>) =>
    (await find(store, ask(FLAKY, more)))
      .map(({ tier, fields }) => `${tier} ${fields.situation.split(' ').at(-1)}`)
      .sort();

  it('to its project, its organization, or everyone, and to no other tenant', async () => {
    const store = await fillAll();
    expect(await see(store, {})).toEqual(['e1 one', 'e2 three', 'e3 six']);
    expect(await see(store, { project_id: 'app' })).toEqual(['e1 two', 'e2 three', 'e3 six']);
    expect(await see(store, { project_id: null })).toEqual(['e1 one', 'e1 two', 'e2 three', 'e3 six']);
    expect(await see(store, { org_id: 'bob' })).toEqual(['e1 four', 'e2 five', 'e3 six']);
    expect(await see(store, { org_id: 'carol', project_id: null })).toEqual(['e3 six']);
    expect(await see(store, { org_id: '', project_id: '' })).toEqual(['e3 six']);
  });

  it('within the requested tier', async () => {
    const store = await fillAll();
    expect(await see(store, { tier: 'e1' })).toEqual(['e1 one']);
    expect(await see(store, { tier: 'e1', project_id: null })).toEqual(['e1 one', 'e1 two']);
    expect(await see(store, { tier: 'e2' })).toEqual(['e2 three']);
    expect(await see(store, { tier: 'e3' })).toEqual(['e3 six']);
  });

  it('to no tenant whose name contains separators and another name', async () => {
    const store = await openStore(createWorld());
    await store.add({ tier: 'e1', org_id: 'a', project_id: 'b","c' }, [pattern(FLAKY)]);
    await store.add({ tier: 'e1', org_id: 'a\0b', project_id: 'c' }, [pattern(FLAKY)]);
    expect(await find(store, ask(FLAKY, { org_id: 'a","b', project_id: 'c' }))).toEqual([]);
    expect(await find(store, ask(FLAKY, { org_id: 'a', project_id: 'b' }))).toEqual([]);
    expect(await find(store, ask(FLAKY, { org_id: 'a', project_id: 'b\0c' }))).toEqual([]);
  });
});

describe('a search', () => {
  it('finds the most similar patterns of all tiers first', async () => {
    const store = await openStore(createWorld());
    await store.add(ALICE, [pattern(`${FLAKY} with many further words that make it less alike`)]);
    await store.add(UNIVERSAL, [pattern(FLAKY)]);
    await store.add(ALICE_COMMONS, [pattern(`${FLAKY} sometimes`)]);
    const found = await find(store, ask(FLAKY));
    expect(found.map(({ tier }) => tier)).toEqual(['e3', 'e2', 'e1']);
    const similarities = found.map(({ similarity }) => similarity);
    expect(similarities).toEqual([...similarities].sort((a, b) => b - a));
  });

  it('finds at most top_k, and nothing below the floor', async () => {
    const store = await openStore(createWorld());
    const words = 'amber birch cedar delta ember fjord grove heath islet jetty'.split(' ');
    await store.add(
      ALICE,
      words.map((word) => pattern(`${word} ${word}s problem with cache key`)),
    );
    expect(await find(store, ask('problem with cache key', { top_k: 3 }))).toHaveLength(3);
    expect(await find(store, ask('problem with cache key', { top_k: 50 }))).toHaveLength(10);
    expect(await find(store, ask('problem with cache key', { min_similarity: 1 }))).toEqual([]);
    expect(await find(store, ask('amber', { top_k: 50, min_similarity: 0 }))).not.toEqual([]);
  });

  it('uses the whole situation, whichever sentence comes first', async () => {
    const world = createWorld();
    const store = await openStore(world);
    await store.add(ALICE, [pattern(`Can you help? ${FLAKY}. Goal then: read the logs.`), pattern(ROUTER)]);
    const [question, situation] = await world.embedder.embed([
      FLAKY,
      `Can you help? ${FLAKY}. Goal then: read the logs.`,
    ]);
    const [first] = await find(store, ask(FLAKY));
    expect(first!.similarity).toBeCloseTo(
      question!.reduce((sum, value, at) => sum + value * situation![at]!, 0),
      4,
    );
  });

  it('finds exactly the requested failure type, as many as there are', async () => {
    const store = await openStore(createWorld());
    const many = Array.from({ length: 120 }, (_, at) =>
      pattern(`cache key ${'abcdefghij'[at % 10]}${at} trouble number${at} n${at}`, {
        failure_type: at % 40 === 0 ? 'infinite_loop' : at % 2 === 0 ? 'semantic_loop' : '',
      }),
    );
    await store.add(ALICE, many);
    const request = ask('cache key trouble', { min_similarity: 0, top_k: 50, failure_type: 'infinite_loop' });
    const found = await find(store, request);
    expect(found).toHaveLength(3);
    expect(await find(store, { ...request, failure_type: 'semantic' })).toEqual([]);
    expect(await find(store, { ...request, failure_type: 'semantic_loop' })).toHaveLength(50);
  });

  it('reads enough patterns to replace those without a text on the disk, and no more', async () => {
    const world = createWorld();
    const store = await openStore(world);
    const projects = Array.from({ length: 40 }, (_, n) => ({ ...ALICE, project_id: `p${n}` }));
    const added = [];
    for (const scope of projects)
      added.push(...(await store.add(scope, [pattern(`${FLAKY} ${scope.project_id}`)])));
    const request = ask(FLAKY, { project_id: null, top_k: 3 });
    const { scopes, matches } = await store.retrieve(request);
    expect(matches.length).toBeGreaterThan(3);
    expect(matches.length).toBeLessThan(20);
    expect(scopes.length).toBe(matches.length);
    const best = (await find(store, request)).map(({ pattern_id }) => pattern_id);
    for (const pattern_id of best) {
      const row = [...world.tables.range(PATTERNS, { prefix: [] })].find(
        ({ row }) => row[3] === pattern_id,
      )!.row;
      await world.tables.transact(({ write }) => write({ op: 'remove', table: PATTERNS, row }));
    }
    const next = (await find(store, request)).map(({ pattern_id }) => pattern_id);
    expect(next).toHaveLength(3);
    expect(best.some((id) => next.includes(id))).toBe(false);
    const known = added.map(({ pattern_id }) => pattern_id);
    expect(next.every((id) => known.includes(id))).toBe(true);
  });

  it('prefers the model’s family among similar scores, and drops nothing for it', async () => {
    const world = createWorld();
    world.embedder = new HashedWords(1_024);
    const store = await openStore(world);
    const [nearer, near] = [`${FLAKY} under podman`, `${FLAKY} within github runners`];
    await store.add(ALICE, [
      pattern(nearer, { model: 'gpt-4o' }),
      pattern(near, { model: 'claude-sonnet-4-5' }),
      pattern(ROUTER, { model: 'claude-sonnet-4-5' }),
    ]);
    const findFor = async (model: string | null, top_k = 5) =>
      (await find(store, ask(FLAKY, { min_similarity: 0, top_k, model }))).map(
        (found) => found.fields.situation,
      );
    const similarities = (await find(store, ask(FLAKY))).map(({ similarity }) => similarity);
    expect(similarities[0]! - similarities[1]!).toBeGreaterThan(0.005);
    expect(similarities[0]! - similarities[1]!).toBeLessThan(0.05);
    expect(await findFor(null)).toEqual([nearer, near, ROUTER]);
    expect(await findFor('claude-3-5-sonnet-20241022')).toEqual([near, nearer, ROUTER]);
    expect(await findFor('claude-3-5-sonnet-20241022', 1)).toEqual([near]);
    expect(await findFor('gpt-4o-mini')).toEqual([nearer, near, ROUTER]);
    expect(await findFor('unknown-model')).toEqual([nearer, near, ROUTER]);
  });

  it('returns no secret that was in an imported text', async () => {
    const world = createWorld();
    const store = await openStore(world);
    const key = `sk-ant-api03-${'abcDEF123456'.repeat(4)}`;
    await store.add(ALICE, [
      {
        ...pattern(`${FLAKY} with ${key}`),
        dead_ends: `export KEY=${key}`,
        unlock: `password: hunter22secret`,
        model: key,
      },
    ]);
    const stored = JSON.stringify([...world.tables.range(PATTERNS, { prefix: [] })]);
    expect(stored).not.toContain(key);
    expect(stored).not.toContain('hunter22secret');
    expect((await find(store, ask(FLAKY))).length).toBe(1);
  });
});

describe('a near-duplicate', () => {
  const supportOf = (world: World) =>
    [...world.tables.range<{ support: number; sources: string[] }>(PATTERNS, { prefix: [] })].map(
      ({ value }) => ({
        support: value.support,
        sources: value.sources,
      }),
    );

  it('raises the support of the existing pattern, also within one import', async () => {
    const world = createWorld();
    const store = await openStore(world);
    const outcomes = await store.add(ALICE, [pattern(FLAKY), pattern(FLAKY.toUpperCase()), pattern(ROUTER)]);
    expect(outcomes.map(({ created }) => created)).toEqual([true, false, true]);
    expect(outcomes[1]!.pattern_id).toBe(outcomes[0]!.pattern_id);
    const again = await store.add(ALICE, [pattern(FLAKY)]);
    expect(again).toEqual([{ pattern_id: outcomes[0]!.pattern_id, created: false }]);
    expect(
      supportOf(world)
        .map(({ support }) => support)
        .sort(),
    ).toEqual([1, 3]);
    expect(store.state().patterns).toBe(2);
  });

  it('is looked for only in its own scope', async () => {
    const store = await openStore(createWorld());
    const [first] = await store.add(ALICE, [pattern(FLAKY)]);
    for (const scope of [ALICE_COMMONS, BOB, UNIVERSAL]) {
      const [other] = await store.add(scope, [pattern(FLAKY)]);
      expect(other).toMatchObject({ created: true });
      expect(other!.pattern_id).not.toBe(first!.pattern_id);
    }
  });

  it('from the same trace gets the same answer and counts once', async () => {
    const world = createWorld();
    const store = await openStore(world);
    const patterns = [
      pattern(FLAKY, { source_trace_id: 'trace-1' }),
      pattern(ROUTER, { source_trace_id: 'trace-1' }),
    ];
    const first = await store.add(ALICE, patterns);
    expect(await store.add(ALICE, patterns)).toEqual(first);
    expect(supportOf(world)).toEqual([
      { support: 1, sources: ['trace-1'] },
      { support: 1, sources: ['trace-1'] },
    ]);
    const other = await store.add(ALICE, [pattern(FLAKY, { source_trace_id: 'trace-2' })]);
    expect(other).toEqual([{ pattern_id: first[0]!.pattern_id, created: false }]);
    const all = supportOf(world);
    expect(all).toContainEqual({ support: 2, sources: ['trace-1', 'trace-2'] });
    await store.close();
    const later = await openStore(world);
    expect(await later.add(ALICE, patterns)).toEqual(first);
  });
});

describe('patterns of traces that teach the same', () => {
  const UNLOCK = 'What worked: `pay` with `card` = the card listed by get_user instead of a card.';
  const stored = (world: World) => [
    ...world.tables.range<{ support: number; unlock: string; dead_ends: string; situation: string }>(
      PATTERNS,
      {
        prefix: [],
      },
    ),
  ];

  it('become one in similar situations, with the support and the dead ends of both', async () => {
    const world = createWorld();
    const store = await openStore(world);
    const [first] = await store.add(ALICE, [
      pattern('pay the open order of a customer with the other card that is on file', {
        unlock: UNLOCK,
        dead_ends: '- `pay(card=a card)` → declined',
        source_trace_id: 'trace-1',
      }),
    ]);
    const [second] = await store.add(ALICE, [
      pattern('pay the late order of a customer with the second card that is on file', {
        unlock: UNLOCK,
        dead_ends: '- `pay(card=a card)` → expired',
        source_trace_id: 'trace-2',
      }),
    ]);
    expect(second).toEqual({ pattern_id: first!.pattern_id, created: false });
    const [row, ...others] = stored(world);
    expect(others).toEqual([]);
    expect(row!.value.support).toBe(2);
    expect(row!.value.dead_ends).toBe('- `pay(card=a card)` → declined\n- `pay(card=a card)` → expired');
    // A different solution of a similar situation is a separate pattern.
    const [third] = await store.add(ALICE, [
      pattern('pay the old order of a customer with the second card that is on file', {
        unlock: 'What worked: `ask_support`, which lifted the limit of the account.',
        source_trace_id: 'trace-3',
      }),
    ]);
    expect(third!.created).toBe(true);
  });

  it('have the solution of the run that succeeded', async () => {
    const world = createWorld();
    const store = await openStore(world);
    await store.add(ALICE, [pattern(FLAKY, { unlock: NO_UNLOCK, source_trace_id: 'lost' })]);
    await store.add(ALICE, [pattern(FLAKY, { unlock: UNLOCK, source_trace_id: 'won' })]);
    await store.add(ALICE, [pattern(FLAKY, { unlock: NO_UNLOCK, source_trace_id: 'lost again' })]);
    expect(stored(world).map(({ value }) => [value.support, value.unlock])).toEqual([[3, UNLOCK]]);
  });

  it('contain no value of a run, even if an earlier version of the pattern maker left one in', async () => {
    const world = createWorld();
    const store = await openStore(world);
    await store.add(ALICE, [
      pattern('Pay order #W2611340 for Yusuf Rossi.', { source_trace_id: 'trace-1' }),
      // An imported pattern in the form that the pattern maker writes.
      pattern('Pay it. Stuck at `pay`, which failed: no card 95138 of Mei Kovács.', {
        dead_ends: '- `pay(order="#W7766554")` → no card',
      }),
      // An imported pattern in a person's own words.
      pattern('Ask Ms Okonkwo about order #W5553331'),
    ]);
    const texts = JSON.stringify(stored(world));
    expect(texts).not.toMatch(/W2611340|Yusuf|Rossi|95138|Mei|Kov|W7766554/);
    expect(texts).toContain('Ask Ms Okonkwo about order #W5553331');
  });
});

describe('patterns of an earlier version', () => {
  const CASE = { unlock: 'What worked: `pay` with `card` = "card_7777001" instead of "card_7777002".' };
  const FRAME = 'Stuck at `pay`, which failed: Error: declined.';

  /** Stores patterns with their vectors as the earlier version did, which left values of runs in them. */
  async function plant(world: World, patterns: readonly AddedPattern[]): Promise<void> {
    const clock = createManualClock(Date.parse('2026-11-20T10:00:00Z'));
    const newId = createUlidSource(clock);
    const vectors = await world.embedder.embed(patterns.map(({ situation }) => situation));
    await world.tables.transact((transaction) => {
      for (const [at, { source_trace_id, ...texts }] of patterns.entries()) {
        const at_ = '2026-11-20T10:00:00.000Z';
        const sources = source_trace_id === null ? [] : [source_trace_id];
        const planted = {
          ...texts,
          ...ALICE,
          pattern_id: `pat_${newId()}`,
          support: 2,
          sources,
          created_at: at_,
          updated_at: at_,
        };
        transaction.write(putPattern(planted));
        const row = vectorKey(situationVectorsId(world.embedder), ALICE, planted.pattern_id);
        transaction.write({ op: 'put', table: PATTERN_VECTORS, row, value: encodeVector(vectors[at]!) });
      }
    });
  }

  const stored = (world: World) =>
    [...world.tables.range<{ support: number; sources: string[] }>(PATTERNS, { prefix: [] })].map(
      ({ value }) => value,
    );
  const isChecked = (world: World) =>
    (world.tables.get(PATTERN_SETTINGS, ['rule']) as { is_done?: boolean })?.is_done;

  it('are repaired, merged or retired once at the next start; the log says how many', async () => {
    const world = createWorld(new LmdbTables(`${makeFolder()}/main.mdb`, 'disk'));
    await plant(world, [
      pattern(`Pay the open order #W1000001 of Yusuf Rossi with his card. ${FRAME}`, {
        ...CASE,
        source_trace_id: 'a',
      }),
      pattern(`Pay the open order #W1000002 of Mei Kovács with his card. ${FRAME}`, {
        ...CASE,
        source_trace_id: 'b',
      }),
      pattern('Ngozi Okonkwo 19122', { unlock: '#W1000003 12.50', source_trace_id: 'c' }),
      pattern(ROUTER, { source_trace_id: 'd' }),
      pattern('Ask Ms Okonkwo about order #W5553331', { unlock: 'She knows W5553331' }),
    ]);
    const logged: [object, string][] = [];
    const note = (facts: object, message: string) => void logged.push([facts, message]);
    const store = await openUnsettled(world, { log: { info: note, warn: note } });
    await expect.poll(() => isChecked(world)).toBe(true);
    expect(logged.filter(([, message]) => message.includes('single runs'))).toEqual([
      [
        { checked: 5, repaired: 1, merged: 1, retired: 1 },
        'stored patterns hold no values of single runs any more',
      ],
    ]);
    const left = stored(world);
    expect(left).toHaveLength(3);
    expect(JSON.stringify(left)).not.toMatch(/W100000|Yusuf|Rossi|Mei|Kov|Ngozi|19122|card_7777/);
    // Patterns that people wrote are unchanged.
    expect(JSON.stringify(left)).toContain('Ask Ms Okonkwo about order #W5553331');
    expect(left.map(({ support }) => support).sort()).toEqual([2, 2, 4]);
    expect(left.find(({ support }) => support === 4)!.sources.sort()).toEqual(['a', 'b']);
    const [found] = await find(store, ask('pay the open order of a name with his card'));
    expect(found!.fields.unlock).toContain('What worked: `pay` with `card` =');
    expect(store.state()).toMatchObject({ patterns: 3, unembedded: 0 });
    await store.close();
    const before = stored(world);
    const embedded = world.embedder.embedded;
    const again = await openStore(world);
    expect(again.state().patterns).toBe(3);
    expect(world.embedder.embedded).toBe(embedded);
    expect(stored(world)).toEqual(before);
  });

  it('are processed after a restart from the point of the interruption', async () => {
    const world = createWorld(new LmdbTables(`${makeFolder()}/main.mdb`, 'disk'));
    const spell = (n: number) => String(n).replace(/\d/g, (digit) => 'abcdefghij'.charAt(Number(digit)));
    await plant(
      world,
      Array.from({ length: 80 }, (_, at) =>
        pattern(`kind${spell(at)} sort${spell(at)} of trouble for order #W${1_000_000 + at}`, {
          unlock: `did ${spell(at)} about the trouble of the order`,
          source_trace_id: `t${at}`,
        }),
      ),
    );
    // The disk refuses writes after forty repairs.
    const { transact } = world.tables;
    let left = 40;
    world.tables.transact = async (work) => {
      if (left-- <= 0) throw new Error('the disk is full');
      return transact.call(world.tables, work) as never;
    };
    const first = await openUnsettled(world, {});
    await expect.poll(() => world.logged).toContain('stored patterns cannot be checked now');
    await first.close();
    world.tables.transact = transact;
    const wrong = () => stored(world).filter((row) => /#W1/.test(JSON.stringify(row))).length;
    expect(wrong()).toBeGreaterThan(20);
    expect(wrong()).toBeLessThan(60);
    await openUnsettled(world, {});
    await expect.poll(() => isChecked(world)).toBe(true);
    expect(wrong()).toBe(0);
    expect(stored(world)).toHaveLength(80);
  });
});

describe('a changed embedder', () => {
  it('embeds everything again, and deletes the old vectors', async () => {
    const world = createWorld();
    const first = await openStore(world);
    await first.add(
      ALICE,
      Array.from({ length: 80 }, (_, at) => pattern(`topic${at} thing${at} matter${at}`)),
    );
    await first.add(UNIVERSAL, [pattern(ROUTER)]);
    await first.close();
    world.embedder = new HashedWords(64, 7);
    const second = await openStore(world);
    expect(world.embedder.embedded).toBe(81);
    expect(second.state()).toMatchObject({ patterns: 81, unembedded: 0 });
    expect(await find(second, ask('topic41 thing41 matter41'))).toMatchObject([
      { similarity: 1, fields: { situation: 'topic41 thing41 matter41' } },
    ]);
    expect(world.logged).toContain('every pattern is embedded anew');
    await expect.poll(() => [...world.tables.range(PATTERN_VECTORS, { prefix: [] })].length).toBe(81);
    await second.close();
    const third = await openStore(world);
    expect(world.embedder.embedded).toBe(81 + 1);
    expect(third.state().unembedded).toBe(0);
  });

  /** Leaves a closed store of the former embedder, and a new embedder that is down and therefore embeds nothing. */
  async function changeEmbedder(world: World, situations: readonly string[]) {
    const source = { kind: 'onnx', dir: '/models/old' } as const;
    const former = world.embedder;
    const first = await openStore(world, { embedder_source: source });
    await first.add(
      ALICE,
      situations.map((situation) => pattern(situation)),
    );
    await expect
      .poll(() => world.tables.get(PATTERN_SETTINGS, ['embedder']))
      .toEqual({ id: former.id, source });
    await first.close();
    world.embedder = new HashedWords(64, 7);
    world.embedder.isDown = true;
    return { former, record: { id: former.id, source } };
  }

  it('searches the existing vectors with the former embedder until the new vectors are made', {
    tags: 'long',
  }, async () => {
    const world = createWorld();
    const { former, record } = await changeEmbedder(world, [FLAKY, ROUTER]);
    const before = former.embedded;
    const asked: unknown[] = [];
    const store = await openUnsettled(world, {
      listFormer: (given) => {
        asked.push(given);
        return [async () => former];
      },
    });
    await expect.poll(() => store.state().formerly_embedded).toBe(2);
    expect(asked).toEqual([record]);
    // The new embedder is down. The former one suffices for the search.
    expect(await find(store, ask(FLAKY))).toMatchObject([{ similarity: 1, fields: { situation: FLAKY } }]);
    expect(await find(store, ask(FLAKY, { org_id: 'bob' }))).toEqual([]);
    expect(former.embedded).toBe(before + 1);
    world.embedder.isDown = false;
    await store.whenSettled();
    expect(store.state()).toMatchObject({ unembedded: 0, formerly_embedded: 0 });
    expect(await find(store, ask(ROUTER))).toMatchObject([{ similarity: 1 }]);
    expect(former.embedded).toBe(before + 1);
  });

  it('finds patterns with and without new vectors while they are embedded again', async () => {
    const world = createWorld();
    const { former } = await changeEmbedder(world, [FLAKY, ROUTER]);
    world.embedder.isDown = false;
    // The new embedder embeds added texts and refuses stored ones, so its first batch fails.
    const embed = world.embedder.embed.bind(world.embedder);
    world.embedder.embed = (texts) =>
      texts.includes(ROUTER) ? Promise.reject(new Error('not now')) : embed(texts);
    const store = await openUnsettled(world, { listFormer: () => [async () => former] });
    await expect.poll(() => store.state().formerly_embedded).toBe(2);
    await store.add(ALICE, [pattern(`${FLAKY} again and again`)]);
    const found = await find(store, ask(FLAKY));
    expect(found.map(({ fields }) => fields.situation)).toEqual([FLAKY, `${FLAKY} again and again`]);
    expect(found[0]!.similarity).toBe(1);
  });

  it('uses a substitute in memory if the former embedder is not available', async () => {
    const world = createWorld();
    await changeEmbedder(world, [FLAKY, ROUTER]);
    const rows = () => [...world.tables.range(PATTERN_VECTORS, { prefix: [] })].length;
    const stored = rows();
    const standIn = new HashedWords(256, 3);
    const unfit = new HashedWords(32, 4);
    unfit.isDown = true;
    const store = await openUnsettled(world, {
      listFormer: () => [
        () => Promise.reject(new Error('there is no such folder')),
        async () => unfit,
        async () => standIn,
      ],
    });
    await expect.poll(() => store.state().formerly_embedded).toBe(2);
    expect(standIn.embedded).toBe(2);
    expect(rows()).toBe(stored);
    expect(await find(store, ask(ROUTER))).toMatchObject([{ similarity: 1 }]);
  });

  it('packs vectors that were stored as floats, once and with the same results of searches', async () => {
    const world = createWorld();
    const first = await openStore(world);
    await first.add(ALICE, [pattern(FLAKY), pattern(ROUTER)]);
    await first.close();
    const rows = () => [...world.tables.range<Uint8Array>(PATTERN_VECTORS, { prefix: [] })];
    await world.tables.transact((transaction) => {
      transaction.write({ op: 'remove', table: PATTERN_SETTINGS, row: ['vectors'] });
      for (const { row, value } of rows()) {
        const vector = decodeVector(value, world.embedder.dimensions)!;
        const floats = Buffer.alloc(vector.length * 4);
        for (const [at, number] of vector.entries()) floats.writeFloatLE(number, at * 4);
        transaction.write({ op: 'put', table: PATTERN_VECTORS, row, value: floats });
      }
    });
    expect(rows().every(({ value }) => isUnpackedVector(value))).toBe(true);
    const store = await openStore(world);
    expect(await find(store, ask(ROUTER))).toMatchObject([{ similarity: 1 }]);
    await expect.poll(() => rows().some(({ value }) => isUnpackedVector(value))).toBe(false);
    expect(await find(store, ask(ROUTER))).toMatchObject([{ similarity: 1 }]);
    await store.close();
  });

  it('with the same model and another recipe uses the former vectors until all new ones are made', {
    tags: 'long',
  }, async () => {
    const world = createWorld();
    const first = await openStore(world);
    await first.add(ALICE, [pattern(FLAKY), pattern(ROUTER)]);
    await first.close();
    const [present, former] = [situationVectorsId(world.embedder), formerSituationVectorsId(world.embedder)];
    for (const { row, value } of [...world.tables.range(PATTERN_VECTORS, { prefix: [digest(present)] })]) {
      await world.tables.transact((transaction) => {
        transaction.write({
          op: 'put',
          table: PATTERN_VECTORS,
          row: [digest(former), ...row.slice(1)],
          value,
        });
        transaction.write({ op: 'remove', table: PATTERN_VECTORS, row });
      });
    }
    // The embedder embeds the texts of searches and refuses stored ones.
    const embed = world.embedder.embed.bind(world.embedder);
    let isDown = true;
    world.embedder.embed = (texts) =>
      isDown && texts.length > 1 ? Promise.reject(new Error('not now')) : embed(texts);
    const second = await openUnsettled(world, {});
    await expect.poll(() => second.state().formerly_embedded).toBe(2);
    expect(await find(second, ask(ROUTER))).toMatchObject([{ fields: { situation: ROUTER } }]);
    isDown = false;
    await second.whenSettled();
    expect(second.state()).toMatchObject({ unembedded: 0, formerly_embedded: 0 });
    expect(await find(second, ask(ROUTER))).toMatchObject([{ similarity: 1 }]);
    const left = () =>
      [...world.tables.range(PATTERN_VECTORS, { prefix: [] })].map(({ row }) => String(row[0]));
    await expect.poll(left).toEqual([digest(present), digest(present)]);
  });

  it('that is down without a substitute makes searches unavailable', async () => {
    const world = createWorld();
    await changeEmbedder(world, [FLAKY]);
    const store = await openUnsettled(world, { listFormer: () => [() => Promise.reject(new Error('gone'))] });
    await expect.poll(() => world.logged).toContain('patterns are not found until they are embedded');
    await expect(find(store, ask(FLAKY))).rejects.toThrow('the embedder is down');
  });

  it('that is down refuses additions until it is up', async () => {
    const world = createWorld();
    const first = await openStore(world);
    await first.add(ALICE, [pattern(FLAKY)]);
    await first.close();
    world.embedder = new HashedWords(64, 7);
    world.embedder.isDown = true;
    const note = () => {};
    const clock = createManualClock();
    const second = new PatternStore({
      tables: world.tables,
      embedder: world.embedder,
      makeIndex: chooseIndex(() => {}),
      clock,
      newId: createUlidSource(clock),
      log: { info: note, warn: note },
      starters: [],
    });
    opened.push(second);
    tablesOf.set(second, world.tables);
    await second.whenLoaded();
    expect(second.state()).toMatchObject({ patterns: 1, unembedded: 1 });
    await expect(second.add(ALICE, [pattern(ROUTER)])).rejects.toThrow();
    world.embedder.isDown = false;
    expect(await second.add(ALICE, [pattern(ROUTER)])).toMatchObject([{ created: true }]);
    expect(await find(second, ask(ROUTER))).toHaveLength(1);
  });
});

describe('a restart', () => {
  it('loads the graph from the disk, with the same results', { tags: 'long' }, async () => {
    const world = createWorld();
    const dir = makeFolder();
    const folder = new GraphFolder(dir, createUlidSource(createManualClock()));
    const graphs = { folder, quiet_ms: 1 };
    const first = await openStore(world, { graphs });
    const names = Array.from(
      { length: 2_400 },
      (_, at) => `amber${at} birch${at * 7} cedar${at * 13} delta${at}`,
    );
    for (let at = 0; at < names.length; at += 800)
      await first.add(
        ALICE,
        names.slice(at, at + 800).map((name) => pattern(name)),
      );
    await first.whenSettled();
    expect(first.state().unlinked).toBe(0);
    const listSaved = () => readdirSync(dir).filter((file) => file.endsWith('.json'));
    await expect.poll(listSaved).toHaveLength(1);
    const [before] = listSaved();
    const found = await find(first, ask(names[7]!));
    expect(found[0]!.similarity).toBe(1);
    await first.close();
    expect(world.logged).not.toContain('graphs of patterns are taken from the disk');
    const second = await openStore(world, { graphs });
    expect(world.logged).toContain('graphs of patterns are taken from the disk');
    expect(second.state()).toMatchObject({ patterns: names.length, unlinked: 0 });
    expect(await find(second, ask(names[7]!))).toEqual(found);
    await second.close();
    // The saved graph is not used for the vectors of another embedder.
    world.embedder = new HashedWords(128, 9);
    const third = await openStore(world, { graphs });
    expect((await find(third, ask(names[7]!)))[0]).toMatchObject({ similarity: 1 });
    await expect.poll(() => listSaved().map((name) => name !== before)).toEqual([true]);
  });
});

describe('a removed pattern', () => {
  it('is removed from the disk, from memory and from the saved graph, with an audit entry', {
    tags: 'long',
  }, async () => {
    const world = createWorld();
    const dir = makeFolder();
    const graphs = { folder: new GraphFolder(dir, createUlidSource(createManualClock())), quiet_ms: 1 };
    const store = await openStore(world, { graphs });
    // The names contain no digits, because these would be taken for ids of a run.
    const spell = (n: number) => String(n).replace(/\d/g, (digit) => 'abcdefghij'.charAt(Number(digit)));
    const names = Array.from(
      { length: 2_400 },
      (_, at) => `amber${spell(at)} birch${spell(at * 7)} cedar${spell(at * 13)}`,
    );
    const ids: string[] = [];
    for (let at = 0; at < names.length; at += 800)
      for (const { pattern_id } of await store.add(
        ALICE,
        names.slice(at, at + 800).map((name) => pattern(name, { source_trace_id: `trace of ${name}` })),
      ))
        ids.push(pattern_id);
    await store.whenSettled();
    const saved = () => readdirSync(dir).filter((file) => /\.(json|graph)$/.test(file));
    await expect.poll(saved).toHaveLength(2);
    const audit = makeAuditEntry({ type: 'key', id: 'key_1', address: '' }, 0, {
      org_id: 'alice',
      action: 'pattern.delete',
      target: ids[7]!,
    });
    expect(await store.remove({ scope: BOB, pattern_ids: [ids[7]!], audit })).toBe(0);
    expect(await store.remove({ scope: ALICE, pattern_ids: [ids[7]!, 'pat_none'], audit })).toBe(1);
    expect(saved()).toEqual([]);
    expect([...world.tables.range('audit', { prefix: [] })].map(({ value }) => value)).toEqual([audit]);
    for (const table of ['patterns', 'pattern_vectors', 'pattern_sources']) {
      const rows = [...world.tables.range(table, { prefix: [] })];
      expect(rows).toHaveLength(names.length - 1);
      expect(JSON.stringify(rows)).not.toContain(ids[7]);
    }
    const isFound = async (from: PatternStore) =>
      (await find(from, ask(names[7]!))).some(({ pattern_id }) => pattern_id === ids[7]);
    expect(await isFound(store)).toBe(false);
    // The same trace may store its pattern again, under a new id.
    const [again] = await store.add(ALICE, [
      pattern(names[7]!, { source_trace_id: `trace of ${names[7]!}` }),
    ]);
    expect(again).toMatchObject({ created: true });
    expect(again!.pattern_id).not.toBe(ids[7]);
    await store.remove({ scope: ALICE, pattern_ids: [again!.pattern_id], audit: null });
    // A graph that still contains the vector is not saved. The next start builds a graph without it.
    await store.whenSettled();
    await store.close();
    expect(saved()).toEqual([]);
    const second = await openStore(world, { graphs });
    expect(await isFound(second)).toBe(false);
    await expect.poll(saved).toHaveLength(2);
    expect(readFileSync(join(dir, saved().find((file) => file.endsWith('.json'))!), 'utf8')).not.toContain(
      ids[7],
    );
  });
});

describe('universal starter patterns', () => {
  const starter = (situation: string, unlock = 'do it') => ({
    situation,
    dead_ends: 'none',
    unlock,
    failure_type: 'semantic_loop',
  });

  it('are stored once, by the first start', async () => {
    const world = createWorld();
    const starters = [starter(FLAKY), starter(ROUTER)];
    const first = await openStore(world, { starters });
    // They are stored while the first retrievals are already served.
    await expect.poll(() => first.state().patterns).toBe(2);
    expect(await find(first, ask(FLAKY))).toMatchObject([{ tier: 'e3' }]);
    await first.close();
    const second = await openStore(world, { starters });
    expect(second.state().patterns).toBe(2);
  });

  it('are replaced by those of a new version; other patterns stay', async () => {
    const world = createWorld();
    const first = await openStore(world, { starters: [starter(FLAKY), starter(ROUTER)] });
    await first.add(UNIVERSAL, [pattern(BORROW)]);
    await first.close();
    const second = await openStore(world, {
      starters: [starter(FLAKY, 'do it better'), starter('a third thing entirely')],
    });
    await expect.poll(async () => (await find(second, ask(FLAKY)))[0]?.fields.unlock).toBe('do it better');
    expect(await find(second, ask(ROUTER))).toEqual([]);
    expect(await find(second, ask(BORROW))).toHaveLength(1);
    expect(second.state().patterns).toBe(3);
    expect([...world.tables.range(PATTERNS, { prefix: [] })]).toHaveLength(3);
  });
});

describe('the pattern index', () => {
  it('answers with what its store returns, and refuses with its errors', () => {
    const kit = new ActorKit(patternIndex);
    const answer = kit.ask('retrieve', ask(FLAKY));
    if (answer.type !== 'held') throw new Error('the answer is kept');
    const [io] = kit.takeEffectsOf('io');
    expect(io).toMatchObject({ adapter: PATTERN_STORE_ADAPTER, operation: 'retrieve', input: ask(FLAKY) });
    kit.finish(io!, []);
    expect(kit.answerTo(answer.token)).toEqual({ type: 'reply', value: [] });
    const second = kit.ask('retrieve', ask(FLAKY));
    if (second.type !== 'held') throw new Error('the answer is kept');
    const refusal = { code: 'unavailable', message: 'not now', retryable: true };
    kit.fail(kit.takeEffectsOf('io')[0]!, refusal);
    expect(kit.answerTo(second.token)).toEqual({ type: 'refuse', error: refusal });
  });

  it('tells the live hub of new imported patterns, and of no others', () => {
    const kit = new ActorKit(patternIndex, { now_ms: Date.parse('2026-11-21T10:00:00Z') });
    const patterns = [
      pattern(FLAKY, { failure_type: 'semantic_loop' }),
      pattern(ROUTER),
      pattern(BORROW, { source_trace_id: 'trace-1' }),
    ];
    const outcome = [
      { pattern_id: 'pat_1', created: true },
      { pattern_id: 'pat_2', created: false },
      { pattern_id: 'pat_3', created: true },
    ];
    kit.ask('add', { scope: ALICE, patterns });
    kit.finish(kit.takeEffectsOf('io')[0]!, outcome);
    const told = kit.takeEffectsOf('tell');
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({
      to: { key: 'alice' },
      payload: {
        event: {
          event: 'pattern_created',
          project_id: 'web',
          pattern_id: 'pat_1',
          tier: 'e1',
          failure_type: 'semantic_loop',
          at: '2026-11-21T10:00:00.000Z',
        },
      },
    });
    kit.ask('add', { scope: UNIVERSAL, patterns });
    kit.finish(kit.takeEffectsOf('io')[0]!, outcome);
    expect(kit.takeEffectsOf('tell')).toEqual([]);
  });
});
