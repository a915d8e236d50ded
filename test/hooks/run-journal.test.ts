/** The file in which hook processes count the steps of a session. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { RunJournal } from '../../src/hooks/run-journal.ts';

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-journal-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

it('a call that is repeated later counts again, and an event that is reported twice at once counts once', () => {
  const folder = makeFolder();
  const indexOf = (key: string, at_ms: number) => new RunJournal('r', folder).indexOf(key, at_ms);
  expect([indexOf('a', 1_000), indexOf('a', 1_100), indexOf('b', 1_200)]).toEqual([0, 0, 1]);
  expect([indexOf('a', 9_000), indexOf('a', 8_900), indexOf('a', 20_000)]).toEqual([2, 2, 3]);
});

it('two hooks that report one event get the same step index, even if both read the journal before either writes', () => {
  const folder = makeFolder();
  const [first, second] = [new RunJournal('r', folder), new RunJournal('r', folder)];
  expect([first.indexOf('a', 1_000), second.indexOf('a', 1_001)]).toEqual([0, 0]);
});
