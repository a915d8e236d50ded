/** The header of each file names the threads that load it, in the words of `threads.ts`. */

import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findThreadViolations } from './threads.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

it('is so in the tree', () => {
  const names = globSync(['native/*.ts', 'src/**/*.ts', 'actors/**/*.ts'], { cwd: root })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => !name.endsWith('.d.ts'));
  expect(names.length).toBeGreaterThan(400);
  expect(
    findThreadViolations(new Map(names.map((name) => [name, readFileSync(`${root}${name}`, 'utf8')]))),
  ).toEqual([]);
});

describe('what is found', () => {
  const judge = (header: string) =>
    findThreadViolations(
      new Map([
        ['src/threads/actor-thread-entry.ts', "/** Actor threads. */\nimport '../std/a.ts';"],
        ['src/std/a.ts', `/** ${header} */`],
      ]),
    );

  it.each(['Actor threads.', 'Actor threads and the command line.', 'Any thread.', 'Pure.'])(
    'nothing of: %s',
    (header) => {
      expect(judge(header)).toEqual([]);
    },
  );

  it('a file that another thread loads', () => {
    expect(judge('Server threads.')).toEqual([
      'src/std/a.ts: is loaded on the actor thread, and says server',
    ]);
    expect(judge('The command line; never on a server thread.')).toEqual([
      'src/std/a.ts: is loaded on the actor thread, and says outside',
    ]);
  });

  it('a file that says nothing', () => {
    expect(judge('Adds things up, never on a server thread.')).toEqual([
      'src/std/a.ts: says of no thread that it runs there',
    ]);
  });

  it('what is only a type of it is not loaded', () => {
    const files = new Map([
      ['src/threads/actor-thread-entry.ts', "/** Actor threads. */\nimport type { A } from '../std/a.ts';"],
      ['src/std/a.ts', '/** Server threads. */'],
    ]);
    expect(findThreadViolations(files)).toEqual([]);
  });
});
