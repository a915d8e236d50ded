/** When a thread gives memory back: after work, once it is quiet, and not again without new work. */
import { expect, it, onTestFinished } from 'vitest';
import { QuietWatch } from '../../src/threads/quiet-watch.ts';

function makeWatch({ collects = true, trims = true } = {}) {
  let workedMs = 0;
  const done: string[] = [];
  const watch = new QuietWatch(
    { collects, trims },
    {
      worked_ms: () => workedMs,
      release: () => done.push('release'),
      collect: () => {
        // A garbage collection counts as work.
        workedMs += 2_000;
        done.push('collect');
      },
      trim: () => done.push('trim'),
    },
  );
  onTestFinished(() => watch.stop());
  /** Checks the thread after each of these amounts of work in ms. @returns what was done */
  const look = (...work: number[]): string[] => {
    for (const ms of work) {
      workedMs += ms;
      watch.look();
    }
    return done.splice(0);
  };
  return look;
}

it('a thread that worked gives memory back once, at its second quiet check', () => {
  const look = makeWatch();
  expect(look(3_000, 10)).toEqual([]);
  expect(look(499)).toEqual(['release', 'collect', 'trim']);
  expect(look(0, 100, 499, 0)).toEqual([]);
  expect(look(600, 0)).toEqual([]);
  expect(look(0)).toEqual(['release', 'collect', 'trim']);
});

it('a thread that is briefly quiet, or hardly worked, gives nothing back', () => {
  const look = makeWatch();
  expect(look(2_000, 10, 500, 10, 500)).toEqual([]);
  const idle = makeWatch();
  expect(idle(499, 200, 200, 0, 0, 0, 0, 0)).toEqual([]);
  expect(idle(101)).toEqual(['release', 'collect', 'trim']);
});

it('a thread that is never quiet only trims, at every sixth check', () => {
  const look = makeWatch();
  expect(look(4_000, 4_000, 4_000, 4_000, 4_000)).toEqual([]);
  expect(look(4_000)).toEqual(['trim']);
  expect(look(4_000, 4_000, 4_000, 4_000, 4_000)).toEqual([]);
  expect(look(4_000)).toEqual(['trim']);
});

it('a thread uses only the ways of giving memory back that it was given', () => {
  const main = makeWatch({ collects: false });
  expect(main(4_000, 4_000, 4_000, 4_000, 4_000, 4_000, 4_000, 0, 0)).toEqual(['release', 'trim']);
  const server = makeWatch({ collects: false, trims: false });
  expect(server(4_000, 4_000, 4_000, 4_000, 4_000, 4_000, 4_000, 0, 0)).toEqual(['release']);
});
