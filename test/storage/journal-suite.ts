/** One suite for the journals of all stores. Test thread. */
import { afterEach, beforeEach, describe, expect, it, type TestOptions } from 'vitest';
import type { JournalStore, JournalWrite, StoredActor } from '../../src/runtime/journal.ts';
import { MAX_KEY_LENGTH } from '../../src/runtime/protocol.ts';
import { createPrng } from '../../src/std/prng.ts';

/** Opens the same store, each time it is called. */
type OpenJournal = () => JournalStore | Promise<JournalStore>;

export function event(kind: string, key: string, seq: number, text = `event ${seq}`): JournalWrite {
  return { type: 'event', kind, key, seq, event: Buffer.from(text) };
}

export function snapshot(kind: string, key: string, seq: number, text: string, version = 1): JournalWrite {
  return { type: 'snapshot', kind, key, seq, version, state: Buffer.from(text) };
}

export function commit(journal: JournalStore, writes: readonly JournalWrite[]): Promise<Error | null> {
  return new Promise((resolve) => journal.commit(writes, resolve));
}

/** The first events of an actor. */
function history(kind: string, key: string, count: number): JournalWrite[] {
  return Array.from({ length: count }, (_, at) => event(kind, key, at + 1));
}

/** The history with bytes as text. */
export function readable({ snapshot: stored, events }: StoredActor) {
  return {
    snapshot: stored && { ...stored, state: Buffer.from(stored.state).toString() },
    events: events.map((bytes) => Buffer.from(bytes).toString()),
  };
}

/**
 * Defines the suite for one kind of store.
 * @param prepare makes an empty store
 * @param options of vitest
 */
export function describeJournal(
  name: string,
  prepare: () => OpenJournal | Promise<OpenJournal>,
  options: TestOptions = {},
): void {
  describe(`a journal in ${name}`, options, () => {
    let openAgain: OpenJournal;
    let journal: JournalStore;

    beforeEach(async () => {
      openAgain = await prepare();
      journal = await openAgain();
    });

    afterEach(() => journal.close());

    it('is empty for an actor that never wrote', async () => {
      expect(await journal.load('run', 'a')).toEqual({ snapshot: null, events: [] });
    });

    it('returns the events of each actor in their order', async () => {
      const writes: JournalWrite[] = [];
      for (let seq = 1; seq <= 300; seq++)
        writes.push(event('run', 'a', seq), event('run', 'b', seq, `b${seq}`));
      writes.push(event('ledger', 'a', 1, 'another kind'));
      expect(await commit(journal, writes)).toBeNull();
      expect(readable(await journal.load('run', 'a')).events).toEqual(
        Array.from({ length: 300 }, (_, at) => `event ${at + 1}`),
      );
      expect(readable(await journal.load('run', 'b')).events[299]).toBe('b300');
      expect(readable(await journal.load('ledger', 'a')).events).toEqual(['another kind']);
    });

    it('calls done once, after the return, when the writes can be read', async () => {
      let calls = 0;
      const seen = await new Promise<StoredActor>((resolve) => {
        journal.commit([event('run', 'a', 1)], () => {
          calls++;
          resolve(journal.load('run', 'a'));
        });
        expect(calls).toBe(0);
      });
      expect(seen.events).toHaveLength(1);
      expect(await commit(journal, [event('run', 'a', 2)])).toBeNull();
      expect(calls).toBe(1);
    });

    it('replaces events by a snapshot, across commits and within one', async () => {
      await commit(journal, [event('run', 'a', 1), event('run', 'a', 2), event('run', 'ab', 1, 'not mine')]);
      await commit(journal, [
        event('run', 'a', 3),
        snapshot('run', 'a', 3, 'three', 7),
        event('run', 'a', 4),
      ]);
      expect(readable(await journal.load('run', 'a'))).toEqual({
        snapshot: { seq: 3, version: 7, state: 'three' },
        events: ['event 4'],
      });
      await commit(journal, [snapshot('run', 'a', 4, 'four')]);
      expect(readable(await journal.load('run', 'a'))).toEqual({
        snapshot: { seq: 4, version: 1, state: 'four' },
        events: [],
      });
      expect(readable(await journal.load('run', 'ab')).events).toEqual(['not mine']);
    });

    it('forgets an actor completely, and accepts its next events as its first ones', async () => {
      await commit(journal, [
        ...history('run', 'a', 3),
        snapshot('run', 'a', 3, 'three'),
        event('run', 'a', 4),
        event('run', 'ab', 1, 'not mine'),
      ]);
      await commit(journal, [event('run', 'a', 5), { type: 'forget', kind: 'run', key: 'a' }]);
      expect(await journal.load('run', 'a')).toEqual({ snapshot: null, events: [] });
      expect(readable(await journal.load('run', 'ab')).events).toEqual(['not mine']);
      await commit(journal, [
        event('run', 'a', 1),
        { type: 'forget', kind: 'run', key: 'a' },
        event('run', 'a', 1, 'anew'),
        event('run', 'a', 2),
      ]);
      expect(readable(await journal.load('run', 'a'))).toEqual({
        snapshot: null,
        events: ['anew', 'event 2'],
      });
      await journal.close();
      journal = await openAgain();
      expect(readable(await journal.load('run', 'a')).events).toEqual(['anew', 'event 2']);
    });

    it('keeps its content when it is opened again', async () => {
      await commit(journal, [
        ...history('run', 'a', 5),
        snapshot('run', 'a', 5, 'five'),
        event('run', 'a', 6),
      ]);
      await journal.close();
      journal = await openAgain();
      expect(readable(await journal.load('run', 'a'))).toEqual({
        snapshot: { seq: 5, version: 1, state: 'five' },
        events: ['event 6'],
      });
    });

    it('closes only after the outstanding commit', async () => {
      const outcome = commit(journal, [event('run', 'a', 1)]);
      await journal.close();
      expect(await outcome).toBeNull();
      journal = await openAgain();
      expect((await journal.load('run', 'a')).events).toHaveLength(1);
    });

    it('fails commits and loads once it is closed', async () => {
      await journal.close();
      expect(await commit(journal, [event('run', 'a', 1)])).toBeInstanceOf(Error);
      await expect((async () => journal.load('run', 'a'))()).rejects.toThrow();
      journal = await openAgain();
      expect((await journal.load('run', 'a')).events).toHaveLength(0);
    });

    it('distinguishes all keys, even very long and unusual ones', async () => {
      const keys = ['a', 'a\0', 'a\0b', '\0', '\u0001', '\u001b', 'é', '\uffff', '😀', ' ', '0', '00', '1e3'];
      keys.push('€'.repeat(MAX_KEY_LENGTH), `${'€'.repeat(MAX_KEY_LENGTH - 1)}a`);
      const prng = createPrng(7);
      for (let i = 0; i < 200; i++) {
        const length = 1 + prng.below(6);
        keys.push(String.fromCharCode(...Array.from({ length }, () => prng.below(40))));
      }
      const unique = [...new Set(keys)];
      await commit(
        journal,
        unique.map((key, at) => event('run', key, 1, String(at))),
      );
      await commit(
        journal,
        unique.filter((_, at) => at % 2 === 0).map((key) => snapshot('run', key, 1, `snapshot of ${key}`)),
      );
      for (const [at, key] of unique.entries()) {
        expect(readable(await journal.load('run', key))).toEqual(
          at % 2 === 0
            ? { snapshot: { seq: 1, version: 1, state: `snapshot of ${key}` }, events: [] }
            : { snapshot: null, events: [String(at)] },
        );
      }
    });

    it('refuses a history with a hole', async () => {
      // A store may refuse the commit, or refuse to load the history.
      if ((await commit(journal, [event('run', 'a', 1), event('run', 'a', 3)])) === null)
        await expect((async () => journal.load('run', 'a'))()).rejects.toThrow(/missing/);
      else expect((await journal.load('run', 'a')).events).toEqual([]);
    });

    it('returns bytes that no other code writes to', async () => {
      const bytes = Buffer.from('as written');
      const committed = commit(journal, [{ type: 'event', kind: 'run', key: 'a', seq: 1, event: bytes }]);
      await committed;
      bytes.fill(0);
      const first = (await journal.load('run', 'a')).events[0]!;
      first.fill(1);
      expect(readable(await journal.load('run', 'a')).events).toEqual(['as written']);
    });

    it('agrees with a plain list under random writes', async () => {
      const prng = createPrng(11);
      const model = new Map<string, { at: number; from: number; state: string | null; events: string[] }>();
      for (let round = 0; round < 60; round++) {
        const writes: JournalWrite[] = [];
        for (let i = prng.below(12); i >= 0; i--) {
          const key = `k${prng.below(5)}`;
          const actor = model.get(key) ?? { at: 0, from: 0, state: null, events: [] };
          model.set(key, actor);
          if (prng.chance(0.2) && actor.at > actor.from) {
            actor.from = actor.at;
            actor.state = `state ${actor.at}`;
            actor.events = [];
            writes.push(snapshot('run', key, actor.at, actor.state));
          } else {
            actor.at++;
            actor.events.push(`${round}/${i}`);
            writes.push(event('run', key, actor.at, `${round}/${i}`));
          }
        }
        expect(await commit(journal, writes)).toBeNull();
        if (prng.chance(0.1)) {
          await journal.close();
          journal = await openAgain();
        }
        for (const [key, { from, state, events }] of model) {
          expect(readable(await journal.load('run', key))).toEqual({
            snapshot: state === null ? null : { seq: from, version: 1, state },
            events,
          });
        }
      }
    });
  });
}
