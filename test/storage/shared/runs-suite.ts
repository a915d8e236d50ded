/** Tests that every database of shared runs must pass. Test thread. */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type ActorCommit,
  OWNERS,
  type RowPhase,
  type RunsSession,
  type RunsTruth,
} from '../../../src/storage/shared/runs-truth.ts';
import type { StoredRow, Truth } from '../../../src/storage/shared/truth.ts';

interface RunsDatabase {
  truth: Truth;
  runs: RunsTruth;
  /** Lets time pass until no take-over is recent. */
  ripen(): Promise<void>;
}

const text = (value: string) => Buffer.from(value);
export const row = (table: string, key: string, value: string | null): StoredRow => ({
  table,
  key: text(key),
  value: value === null ? null : text(value),
});
const range = (table: string, first: string, end: string) => ({ table, first: text(first), end: text(end) });
/** A phase of a commit that only stores rows. */
export const put = (...rows: StoredRow[]): RowPhase => ({ removals: [], rows });

/** Makes an actor's address. As in the journal, no address is a prefix of another one. */
export const addressOf = (actor: string) => Buffer.from(`${String.fromCharCode(actor.length)}${actor}`);

export function write(actor: string, term: number, more: Partial<ActorCommit>): ActorCommit {
  return { actor: addressOf(actor), term, phases: [], common: [], counts: [], ...more };
}

/** A key of an actor's history. */
function numbered(actor: string, number: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(number, 0, 6);
  return Buffer.concat([addressOf(actor), bytes]);
}

const event = (actor: string, number: number, value: string): StoredRow => ({
  table: 'journal',
  key: numbered(actor, number),
  value: text(value),
});

/** Takes an actor. @returns its term */
export async function takeOne(session: RunsSession, actor: string): Promise<number> {
  const [taken] = await session.take([addressOf(actor)]);
  return taken!.term;
}

/** Defines the suite for one kind of database. @param prepare makes an empty database */
export function describeRuns(name: string, prepare: () => Promise<RunsDatabase>): void {
  describe(`runs in ${name}`, () => {
    let database: RunsDatabase;
    const sessions: { close(): Promise<void> }[] = [];
    const open = async (box: string = randomUUID()) => {
      const session = await database.runs.open(box);
      sessions.push(session);
      return session;
    };
    const values = async (session: RunsSession, table: string, keys: string[]) =>
      (await session.readRows(table, keys.map(text))).map((value) => value?.toString() ?? null);

    beforeEach(async () => {
      database = await prepare();
    });
    afterEach(async () => {
      for (const session of sessions.splice(0)) await session.close();
    });

    it('stores an actor’s changes, and gives its history to the box that takes it next', async () => {
      const a = await open();
      const term = await takeOne(a, 'run1');
      const snapshot = { table: 'snapshots', key: numbered('run1', 0), value: text('state') };
      const phases = [
        put(event('run1', 3, 'c'), event('run1', 256, 'd'), snapshot, event('run10', 1, 'another actor')),
      ];
      expect(await a.commit(1, [write('run1', term, { phases })])).toEqual({ lost: [], position: null });
      await database.ripen();
      const b = await open();
      const [taken] = await b.take([addressOf('run1')]);
      expect(taken!.rows.map(({ table, value }) => [table, String(value)])).toEqual([
        ['snapshots', 'state'],
        ['journal', 'c'],
        ['journal', 'd'],
      ]);
      expect(taken!.rows[1]!.key).toEqual(numbered('run1', 3));
      expect(taken!.term).toBeGreaterThan(term);
      // The same box takes the actor again.
      const [again] = await b.take([addressOf('run1')]);
      expect(again!.term).toBeGreaterThan(taken!.term);
      expect(again!.position).toBeNull();
      expect(again!.rows).toHaveLength(3);
    });

    it('takes many actors at once, independently of each other', async () => {
      const a = await open();
      const names = Array.from({ length: 50 }, (_, at) => `many ${at % 7} ${at}`);
      const taken = await a.take(names.map(addressOf));
      expect(new Set(taken.map((actor) => actor!.term)).size).toBe(50);
      const commits = names.map((actor, at) =>
        write(actor, taken[at]!.term, { phases: [put(event(actor, 1, actor))] }),
      );
      expect(await a.commit(1, commits)).toEqual({ lost: [], position: null });
      const again = await a.take(names.toReversed().map(addressOf));
      expect(again.map((actor) => actor!.rows.map(({ value }) => String(value)))).toEqual(
        names.toReversed().map((actor) => [actor]),
      );
    });

    it('skips the commits of actors that another box has taken, and stores the others', async () => {
      const a = await open();
      const [mine, other] = await a.take([addressOf('mine'), addressOf('other')]);
      await database.ripen();
      const b = await open();
      const later = await takeOne(b, 'other');
      const of = (actor: string, term: number) =>
        write(actor, term, {
          phases: [put(row('rows:steps', actor, `of ${term}`))],
          common: [row('rows:runs', actor, 'x')],
          counts: [{ table: 'rows:usage', key: text('day'), name: 'steps', by: 1 }],
        });
      const outcome = await a.commit(1, [of('other', other!.term), of('mine', mine!.term)]);
      expect(outcome.lost).toEqual([0]);
      expect(await values(a, 'rows:steps', ['mine', 'other'])).toEqual([`of ${mine!.term}`, null]);
      expect((await b.commit(1, [of('other', later)])).lost).toEqual([]);
      expect(await values(a, 'rows:steps', ['other'])).toEqual([`of ${later}`]);
      expect(await a.sumCounts(range('rows:usage', 'a', 'z'))).toEqual([
        { key: text('day'), counts: { steps: 2 } },
      ]);
      // This commit stored nothing at all.
      expect(await a.commit(2, [of('other', other!.term)])).toEqual({ lost: [0], position: null });
      expect(await a.commit(3, [of('unknown', 1)])).toEqual({ lost: [0], position: null });
    });

    it('gives an actor a new term at each take-over, so that commits with earlier terms are refused', async () => {
      const a = await open();
      const first = await takeOne(a, 'run');
      const second = await takeOne(a, 'run');
      expect((await a.commit(1, [write('run', first, {})])).lost).toEqual([0]);
      expect((await a.commit(2, [write('run', second, {})])).lost).toEqual([]);
    });

    it('tells a follower of take-overs, and of rows that all boxes follow, at a position', async () => {
      const a = await open();
      const follower = await database.truth.open(randomUUID(), () => {});
      sessions.push(follower);
      const [before] = await a.take([addressOf('run')]);
      expect(before!.position).toBeNull();
      const common = [row('rows:runs', 'r', 'running'), row('rows:run_lists', 'r', 'x')];
      const { position } = await a.commit(1, [write('run', before!.term, { common })]);
      const delta = await follower.follow(0);
      expect(delta.position).toBe(position);
      expect(delta.rows!.map(({ table, value }) => [table, String(value)]).sort()).toEqual([
        ['rows:run_lists', 'x'],
        ['rows:runs', 'running'],
      ]);
      await database.ripen();
      const b = await open();
      const [taken] = await b.take([addressOf('run')]);
      expect(taken!.position).toBe(position! + 1);
      const later = await follower.follow(position!);
      expect(later).toMatchObject({
        position: taken!.position,
        rows: [{ table: OWNERS, key: numbered('run', taken!.term), value: null }],
      });
      const removed = [row('rows:runs', 'r', null)];
      expect((await b.commit(1, [write('run', taken!.term, { common: removed })])).position).toBe(
        taken!.position! + 1,
      );
    });

    it('performs phases in their order, the removals of each first', async () => {
      const a = await open();
      const term = await takeOne(a, 'run');
      const keys = ['a', 'b', 'c', 'd', 'e'];
      const all = put(...keys.map((key) => row('rows:t', key, key)), row('rows:u', 'a', 'stays'));
      const removal = (first: string, end: string, limit: number | null = null) => ({
        ...range('rows:t', first, end),
        limit,
      });
      const phases: RowPhase[] = [
        all,
        { removals: [removal('b', 'd')], rows: [row('rows:t', 'c', 'new'), row('rows:t', 'e', null)] },
        // Of c and d, the limit of 1 removes only c.
        { removals: [removal('b', 'z', 1)], rows: [row('rows:t', 'f', 'last')] },
      ];
      await a.commit(1, [write('run', term, { phases })]);
      const left = await a.readRange(range('rows:t', 'a', 'z'), 10, false);
      expect(left.map(({ key, value }) => `${key}=${value}`)).toEqual(['a=a', 'd=d', 'f=last']);
      expect(await values(a, 'rows:u', ['a'])).toEqual(['stays']);
      const many = { removals: [removal('a', 'z', 99), removal('a', 'z')], rows: [] };
      await a.commit(2, [write('run', term, { phases: [many] })]);
      expect(await a.readRange(range('rows:t', 'a', 'z'), 10, false)).toEqual([]);
    });

    it('reads rows by key and by range, from either end', async () => {
      const a = await open();
      const term = await takeOne(a, 'run');
      const rows = ['b', 'a', 'd', 'c'].map((key) => row('rows:t', key, key.toUpperCase()));
      await a.commit(1, [write('run', term, { phases: [put(...rows, row('rows:tt', 'b', 'x'))] })]);
      expect(await values(a, 'rows:t', ['c', 'missing', 'a', 'c'])).toEqual(['C', null, 'A', 'C']);
      const read = async (first: string, end: string, limit: number, reverse: boolean) =>
        (await a.readRange(range('rows:t', first, end), limit, reverse)).map(({ key }) => `${key}`).join('');
      expect(await read('a', 'd', 10, false)).toBe('abc');
      expect(await read('b', 'z', 2, false)).toBe('bc');
      expect(await read('a', 'z', 2, true)).toBe('dc');
      expect(await read('x', 'z', 2, true)).toBe('');
    });

    it('sums counters over the boxes', async () => {
      const [a, b] = [await open(), await open()];
      const count = (key: string, name: string, by: number) => ({
        table: 'rows:usage',
        key: text(key),
        name,
        by,
      });
      const add = async (session: RunsSession, batch: number, actor: string, counts: ActorCommit['counts']) =>
        session.commit(batch, [write(actor, await takeOne(session, actor), { counts })]);
      await add(a, 1, 'run1', [
        count('d1', 'steps', 1),
        count('d1', 'steps', 2),
        count('d1', 'tokens', 2 ** 40),
      ]);
      await add(b, 1, 'run2', [count('d1', 'steps', 4), count('d2', 'runs', 1)]);
      await add(a, 2, 'run3', [
        count('d1', 'steps', 8),
        { ...count('d1', 'steps', 99), table: 'rows:other' },
      ]);
      expect(await b.sumCounts(range('rows:usage', 'd1', 'd9'))).toEqual([
        { key: text('d1'), counts: { steps: 15, tokens: 2 ** 40 } },
        { key: text('d2'), counts: { runs: 1 } },
      ]);
      expect(await b.sumCounts(range('rows:usage', 'd2', 'd9'))).toHaveLength(1);
    });

    it('stores a batch once, even if it is sent several times', async () => {
      const box = randomUUID();
      const a = await open(box);
      const term = await takeOne(a, 'run');
      const counts = [{ table: 'rows:usage', key: text('d'), name: 'n', by: 1 }];
      const commit = write('run', term, { counts, common: [row('rows:runs', 'r', 'x')] });
      const lost = write('not ours', 1, { counts });
      expect(a.last_batch).toBeNull();
      const outcome = await a.commit(1, [lost, commit]);
      expect(outcome).toMatchObject({ lost: [0], position: expect.any(Number) });
      const again = await open(box);
      expect(again.last_batch).toEqual({ number: 1, ...outcome });
      expect(await again.commit(1, [lost, commit])).toEqual(outcome);
      expect(await again.sumCounts(range('rows:usage', 'a', 'z'))).toEqual([
        { key: text('d'), counts: { n: 1 } },
      ]);
      // The box keeps the actor.
      expect((await again.commit(2, [commit])).lost).toEqual([]);
      await expect(a.commit(3, [commit])).rejects.toMatchObject({ name: 'TruthUnavailableError' });
      await expect(again.commit(9, [commit])).rejects.toMatchObject({ name: 'TruthUnavailableError' });
    });

    it('performs simultaneous calls in their order', async () => {
      const a = await open();
      const first = await takeOne(a, 'run');
      const [outcome, [taken]] = await Promise.all([
        a.commit(1, [write('run', first, { phases: [put(event('run', 1, 'one'))] })]),
        a.take([addressOf('run')]),
      ]);
      expect(outcome.lost).toEqual([]);
      expect(taken!.rows.map(({ value }) => String(value))).toEqual(['one']);
    });

    it('lets exactly one of two boxes that take an actor continue it', async () => {
      const boxes = [await open(), await open()];
      const stored: string[] = [];
      for (let round = 1; round <= 20; round++) {
        const terms = await Promise.all(
          boxes.map(async (box) => {
            for (;;) {
              const [taken] = await box.take([addressOf('run')]);
              if (taken !== null) return { term: taken!.term, next: taken!.rows.length + 1 };
              await database.ripen();
            }
          }),
        );
        const outcomes = await Promise.all(
          boxes.map((box, at) => {
            const { term, next } = terms[at]!;
            const phases = [put(event('run', next, `${at} in ${round}`))];
            return box.commit(round, [write('run', term, { phases })]);
          }),
        );
        outcomes.forEach(({ lost }, at) => {
          if (lost.length === 0) stored.push(`${at} in ${round}`);
        });
        expect(stored).toHaveLength(round);
      }
      await database.ripen();
      const [last] = await (await open()).take([addressOf('run')]);
      expect(last!.rows.map(({ value }) => String(value))).toEqual(stored);
    });

    it('rejects calls of a session that is closed', async () => {
      const a = await open();
      await a.close();
      await expect(a.take([addressOf('x')])).rejects.toMatchObject({ name: 'TruthUnavailableError' });
      await expect(a.readRows('rows:t', [text('x')])).rejects.toMatchObject({
        name: 'TruthUnavailableError',
      });
    });
  });
}
