/**
 * The journal of shared runs over a database in memory: its suite, boxes that take actors from each other, and its
 * rows. Test thread.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { JournalStore, JournalWrite } from '../../../src/runtime/journal.ts';
import type { ActorAddress, RowKey } from '../../../src/runtime/protocol.ts';
import { MemoryRuns } from '../../../src/storage/memory/runs.ts';
import { type MemoryTrouble, MemoryTruth } from '../../../src/storage/memory/truth.ts';
import { encodePrefixEnd, encodeRowKey } from '../../../src/storage/row-key.ts';
import { CommitBuilder } from '../../../src/storage/shared/runs-commit.ts';
import { SharedRunsJournal } from '../../../src/storage/shared/runs-journal.ts';
import type { HeldActor, RunsStore } from '../../../src/storage/shared/runs-store.ts';
import { TruthRefusedError } from '../../../src/storage/shared/truth.ts';
import { makeFolder } from '../folder.ts';
import { describeJournal, event, readable } from '../journal-suite.ts';
import { loadFirst, RunsBox, TABLES } from './runs-box.ts';

function makeTruths(trouble: () => MemoryTrouble = () => null, isHeld: () => boolean = () => false) {
  const truth = new MemoryTruth(trouble);
  return { truth, runs: new MemoryRuns(truth, isHeld) };
}

describeJournal('shared runs', () => {
  const truths = makeTruths();
  const path = join(makeFolder(), 'shared.mdb');
  return async () => loadFirst(await RunsBox.open(path, truths));
});

async function openBoxes(count: number, truths = makeTruths(), times = {}): Promise<RunsBox[]> {
  const folder = makeFolder();
  const boxes: RunsBox[] = [];
  onTestFinished(async () => {
    for (const box of boxes) await box.close();
    rmSync(folder, { recursive: true });
  });
  for (let at = 0; at < count; at++) boxes.push(await RunsBox.open(join(folder, `${at}.mdb`), truths, times));
  return boxes;
}

/** @returns the addresses of lost actors, or the error */
function commit(journal: JournalStore, ...writes: JournalWrite[]): Promise<Error | string[]> {
  return new Promise((resolve) =>
    journal.commit(writes, (error, lost = []) => resolve(error ?? lost.map(({ key }) => key))),
  );
}

const rowOf = (key: string, table: string, value: unknown, row: RowKey = [key]): JournalWrite => ({
  type: 'row',
  kind: 'run',
  key,
  row: { op: 'put', table, row, value },
});

it('a box that takes an actor continues it; the former box learns it from a notice or from its own commit', async () => {
  const [a, b] = (await openBoxes(2)) as [RunsBox, RunsBox];
  const told: ActorAddress[][] = [];
  a.journal.onLost = (addresses) => told.push([...addresses]);
  for (const key of ['x', 'y']) await a.journal.load('run', key);
  expect(await commit(a.journal, event('run', 'x', 1), event('run', 'y', 1))).toEqual([]);
  expect(readable(await b.journal.load('run', 'x')).events).toEqual(['event 1']);
  // A client that has seen the state on b must not see the former state on a.
  expect(await a.follower.reach(b.follower.position, 60_000)).toBe(true);
  expect(told).toEqual([[{ kind: 'run', key: 'x' }]]);
  expect(await commit(a.journal, event('run', 'x', 2, 'of a'), event('run', 'y', 2))).toEqual(['x']);
  expect(await commit(b.journal, event('run', 'x', 2, 'of b'))).toEqual([]);
  expect(readable(await a.journal.load('run', 'x')).events).toEqual(['event 1', 'of b']);
  expect(readable(await a.journal.load('run', 'y')).events).toEqual(['event 1', 'event 2']);
  // Box a has the actor again, and its own take-over does not count as a loss.
  expect(await commit(a.journal, event('run', 'x', 3))).toEqual([]);
  expect(told).toHaveLength(1);
});

it('the journal writes each row to its place: rows for queries, rows that every box follows, and counters', async () => {
  const [a, b] = (await openBoxes(2)) as [RunsBox, RunsBox];
  await a.journal.load('run', 'x');
  const add: JournalWrite = {
    type: 'row',
    kind: 'run',
    key: 'x',
    row: { op: 'add', table: 'usage', row: ['org', 'd'], counts: { steps: 1, tokens: 5 } },
  };
  const first = [rowOf('x', 'runs', 'running'), rowOf('x', 'run_steps', 'one', ['x', 1]), add];
  expect(await commit(a.journal, event('run', 'x', 1), ...first)).toEqual([]);
  // A box shows the rows that it has acknowledged.
  expect(a.view.tables.get('runs', ['x'])).toBe('running');
  await b.follower.reach(a.follower.position, 60_000);
  expect(b.view.tables.get('runs', ['x'])).toBe('running');
  expect(b.view.tables.get('run_steps', ['x', 1])).toBeUndefined();
  const { position } = a.follower;
  const second = [rowOf('x', 'run_steps', 'two', ['x', 2]), rowOf('x', 'run_totals', 2), add];
  expect(await commit(a.journal, event('run', 'x', 2), ...second)).toEqual([]);
  expect(a.follower.position).toBe(position);
  const steps = {
    table: 'rows:run_steps',
    first: encodeRowKey(['x']),
    end: encodePrefixEnd(['x']),
  };
  expect(await b.runs.readRange(steps, 10, false)).toHaveLength(2);
  expect(await b.runs.readRange(steps, 1, true)).toMatchObject([{ key: encodeRowKey(['x', 2]) }]);
  expect(await b.runs.readRows('rows:run_totals', [encodeRowKey(['x']), encodeRowKey(['y'])])).toEqual([
    expect.any(Buffer),
    null,
  ]);
  const usage = { table: 'rows:usage', first: encodeRowKey(['org']), end: encodePrefixEnd(['org']) };
  expect(await b.runs.sumCounts(usage)).toEqual([
    { key: encodeRowKey(['org', 'd']), counts: { steps: 2, tokens: 10 } },
  ]);
  const trim: JournalWrite = {
    type: 'row',
    kind: 'run',
    key: 'x',
    row: { op: 'trim', table: 'run_steps', row: ['x'], limit: 2 ** 31 - 1 },
  };
  const removed: JournalWrite = { ...trim, row: { op: 'remove', table: 'runs', row: ['x'] } };
  expect(await commit(a.journal, { type: 'forget', kind: 'run', key: 'x' }, trim, removed)).toEqual([]);
  expect(a.view.tables.get('runs', ['x'])).toBeUndefined();
  expect(await b.runs.readRange(steps, 10, false)).toEqual([]);
  expect(await b.journal.load('run', 'x')).toEqual({ snapshot: null, events: [] });
});

it('the journal waits if another box has just taken the actor', async () => {
  let isHeld = true;
  let asked = 0;
  const truths = makeTruths(
    () => null,
    () => {
      asked++;
      return isHeld;
    },
  );
  const [a, b] = (await openBoxes(2, truths, { held_ms: 1 })) as [RunsBox, RunsBox];
  await a.journal.load('run', 'x');
  const loading = b.journal.load('run', 'x');
  await expect.poll(() => asked).toBeGreaterThan(2);
  expect(await commit(a.journal, event('run', 'x', 1))).toEqual([]);
  isHeld = false;
  expect(readable(await loading).events).toEqual(['event 1']);
});

it('the journal takes an actor again if another box took it before the answer arrived', async () => {
  const terms = [4, 9];
  let journal: SharedRunsJournal | null = null;
  const store: Pick<RunsStore, 'take' | 'commit'> = {
    take: async (actor): Promise<HeldActor> => {
      const term = terms.shift()!;
      if (term === 4) journal!.noteLost([{ actor, term: 5 }]);
      return { term, rows: [] };
    },
    commit: async (commits) => {
      expect(commits.map(({ term }) => term)).toEqual([9]);
      return [];
    },
  };
  journal = new SharedRunsJournal(store as RunsStore, TABLES);
  await journal.load('run', 'x');
  expect(terms).toEqual([]);
  expect(await commit(journal, event('run', 'x', 1))).toEqual([]);
});

function makeStore(): RunsStore {
  let term = 0;
  const store: Pick<RunsStore, 'take' | 'commit'> = {
    take: async () => ({ term: ++term, rows: [] }),
    commit: async () => [],
  };
  return store as RunsStore;
}

it('the journal forgets the term of an actor that has left memory', async () => {
  const journal = new SharedRunsJournal(makeStore(), TABLES);
  for (const key of ['a', 'b']) await journal.load('run', key);
  journal.letGo('run', 'a');
  expect(await commit(journal, event('run', 'a', 1), event('run', 'b', 1))).toEqual(['a']);
  await journal.load('run', 'a');
  expect(await commit(journal, event('run', 'a', 1))).toEqual([]);
});

it('the journal forgets the least recently used terms, so that their actors are loaded again', async () => {
  const journal = new SharedRunsJournal(makeStore(), TABLES, 2);
  for (const key of ['a', 'b']) await journal.load('run', key);
  expect(await commit(journal, event('run', 'a', 1))).toEqual([]);
  await journal.load('run', 'c');
  expect(await commit(journal, event('run', 'a', 2), event('run', 'b', 1), event('run', 'c', 1))).toEqual([
    'b',
  ]);
});

it('the journal stores each commit once, and loses none that it acknowledged, while questions and answers are lost', async () => {
  let troubles = 0;
  let calls = 0;
  const truths = makeTruths(() => {
    calls++;
    if (troubles === 0 || calls % 7 !== 0) return null;
    return calls % 2 === 0 ? 'lost before' : 'lost after';
  });
  const times = { retry_ms: 1, poll_ms: 5, patience_ms: 60_000 };
  const [a] = (await openBoxes(1, truths, times)) as [RunsBox];
  troubles = 1;
  const add: JournalWrite = {
    type: 'row',
    kind: 'run',
    key: 'x',
    row: { op: 'add', table: 'usage', row: ['d'], counts: { steps: 1 } },
  };
  await a.journal.load('run', 'x');
  for (let seq = 1; seq <= 60; seq++)
    expect(await commit(a.journal, event('run', 'x', seq), add, rowOf('x', 'runs', seq))).toEqual([]);
  troubles = 0;
  expect((await a.journal.load('run', 'x')).events).toHaveLength(60);
  const usage = { table: 'rows:usage', first: encodeRowKey(['d']), end: encodePrefixEnd(['d']) };
  expect(await a.runs.sumCounts(usage)).toMatchObject([{ counts: { steps: 60 } }]);
  expect(a.view.tables.get('runs', ['x'])).toBe(60);
});

it('the journal continues as another box, which owns no actor, if the database does not know its last batch', async () => {
  const truths = makeTruths();
  const [a] = (await openBoxes(1, truths, { retry_ms: 1 })) as [RunsBox];
  await a.journal.load('run', 'x');
  expect(await commit(a.journal, event('run', 'x', 1))).toEqual([]);
  // Simulates a restore from a backup.
  const [box] = [...truths.runs.boxes.values()];
  box!.last = null;
  box!.session++;
  expect(await commit(a.journal, event('run', 'x', 2))).toMatchObject({
    message: 'it is unknown whether the database has this commit',
  });
  expect(await commit(a.journal, event('run', 'x', 2))).toEqual(['x']);
  expect(readable(await a.journal.load('run', 'x')).events).toEqual(['event 1']);
  expect(await commit(a.journal, event('run', 'x', 2))).toEqual([]);
});

it('the journal fails loads and commits with the expected error while the database is unreachable', async () => {
  let isAway = false;
  const truths = makeTruths(() => (isAway ? 'lost before' : null));
  const [a] = (await openBoxes(1, truths, { patience_ms: 30, retry_ms: 1 })) as [RunsBox];
  await a.journal.load('run', 'x');
  isAway = true;
  const away = { name: 'JournalUnavailableError' };
  expect(await commit(a.journal, event('run', 'x', 1))).toMatchObject(away);
  await expect(a.journal.load('run', 'y')).rejects.toMatchObject(away);
  await expect(a.runs.readRows('rows:run_steps', [Buffer.from('k')])).rejects.toMatchObject({
    name: 'TruthUnavailableError',
  });
  isAway = false;
  await expect.poll(() => a.journal.load('run', 'x').then(readable)).toMatchObject({ snapshot: null });
});

it('a commit that the database refuses does not stop the other commits', async () => {
  const truths = makeTruths();
  const { store } = truths.runs;
  truths.runs.store = (box, commits) => {
    if (commits.some(({ actor }) => actor.includes('poison')))
      throw new TruthRefusedError('this value is refused');
    return store.call(truths.runs, box, commits);
  };
  // The commit after the refused one waits this long, because the database does not know its batch number.
  const [a] = (await openBoxes(1, truths, { patience_ms: 1_500, retry_ms: 1 })) as [RunsBox];
  for (const key of ['poison', 'x']) await a.journal.load('run', key);
  expect(await commit(a.journal, event('run', 'poison', 1))).toMatchObject({
    message: 'this value is refused',
  });
  // The database does not know the batch number, so the box continues as another box.
  await expect
    .poll(async () => {
      await a.journal.load('run', 'x');
      return commit(a.journal, event('run', 'x', 1));
    })
    .toEqual([]);
  expect(readable(await a.journal.load('run', 'x')).events).toEqual(['event 1']);
});

it('a change that a table does not support is refused', () => {
  const builder = new CommitBuilder(Buffer.from('a'), TABLES);
  const key = Buffer.from('k');
  const add = (database: string, change: object) => () =>
    builder.add({ database, key, ...change } as Parameters<CommitBuilder['add']>[0]);
  expect(add('rows:usage', { op: 'put', value: key })).toThrow(TypeError);
  expect(add('rows:runs', { op: 'add', counts: { n: 1 } })).toThrow(TypeError);
  expect(add('rows:runs', { op: 'trim', end: key, limit: 1 })).toThrow(TypeError);
  expect(add('rows:runs', { op: 'clear', end: key })).toThrow(TypeError);
  expect(builder.build(1)).toEqual({ actor: Buffer.from('a'), term: 1, phases: [], common: [], counts: [] });
});

it('a snapshot removes earlier events of the same commit, and a limited removal begins a new phase', () => {
  const builder = new CommitBuilder(Buffer.from('a'), TABLES);
  const key = (text: string) => Buffer.from(text);
  const put = (text: string) =>
    builder.add({ op: 'put', database: 'rows:run_steps', key: key(text), value: key(text) });
  put('a');
  put('b');
  builder.add({ op: 'clear', database: 'rows:run_steps', key: key('a'), end: key('b') });
  builder.add({ op: 'trim', database: 'rows:run_steps', key: key('x'), end: key('z'), limit: 5 });
  put('c');
  builder.add({ op: 'trim', database: 'rows:run_steps', key: key('a'), end: key('z'), limit: 1 });
  const { phases } = builder.build(1);
  expect(
    phases.map(({ removals, rows }) => [
      removals.map(({ first, end, limit }) => `${first}-${end} ${limit}`),
      rows.map((row) => String(row.key)),
    ]),
  ).toEqual([
    [
      ['a-b null', 'x-z 5'],
      ['b', 'c'],
    ],
    [['a-z 1'], []],
  ]);
});
