/** The header of each file names the threads that load it, in the words of `threads.ts`. */

import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findThreadViolations } from './threads.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

it('every file of the tree names the threads on which it runs', () => {
  const names = globSync(['native/*.ts', 'src/**/*.ts', 'actors/**/*.ts'], { cwd: root })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => !name.endsWith('.d.ts'));
  expect(names.length).toBeGreaterThan(400);
  expect(
    findThreadViolations(new Map(names.map((name) => [name, readFileSync(`${root}${name}`, 'utf8')]))),
  ).toEqual([]);
});

describe('the check of the thread vocabulary', () => {
  const judge = (header: string) =>
    findThreadViolations(
      new Map([
        ['src/threads/actor-thread-entry.ts', "/** Actor threads. */\nimport '../std/a.ts';"],
        ['src/std/a.ts', `/** ${header} */`],
      ]),
    );

  it.each(['Actor threads.', 'Actor threads and the command line.', 'Any thread.', 'Pure.'])(
    'accepts: %s',
    (header) => {
      expect(judge(header)).toEqual([]);
    },
  );

  it('reports a file that another thread loads', () => {
    expect(judge('Server threads.')).toEqual([
      'src/std/a.ts: is loaded on the actor thread, and says server',
    ]);
    expect(judge('The command line; never on a server thread.')).toEqual([
      'src/std/a.ts: is loaded on the actor thread, and says outside',
    ]);
  });

  it('reports a file that names no thread', () => {
    expect(judge('Adds things up, never on a server thread.')).toEqual([
      'src/std/a.ts: does not say on which thread it runs',
    ]);
  });

  it('ignores a file of which only a type is imported', () => {
    const files = new Map([
      ['src/threads/actor-thread-entry.ts', "/** Actor threads. */\nimport type { A } from '../std/a.ts';"],
      ['src/std/a.ts', '/** Server threads. */'],
    ]);
    expect(findThreadViolations(files)).toEqual([]);
  });
});
