/** Import directions, access to the environment, and file headers. */

import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findUnusedAllowances, findViolations } from './direction.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

function tree(files: Record<string, string>): Map<string, string> {
  return new Map(Object.entries(files).map(([name, source]) => [name, `/** Says so. */\n${source}`]));
}

describe('the source tree', () => {
  const names = globSync(['native/*.ts', 'src/**/*.{ts,tsx}', 'actors/**/*.ts', 'bench/**/*.ts'], {
    cwd: root,
  }).map((name) => name.replaceAll('\\', '/'));

  it('is read completely', () => {
    expect(names).toContain('src/config.ts');
    expect(names).toContain('src/cli/understudy.ts');
    expect(names.length).toBeGreaterThan(20);
  });

  const sources = new Map(names.map((name) => [name, readFileSync(`${root}${name}`, 'utf8')]));

  it('follows the import direction', () => {
    expect(findViolations(sources)).toEqual([]);
  });

  it('uses every permitted exception of the import direction', () => {
    expect(findUnusedAllowances(sources)).toEqual([]);
  });
});

describe('the check of the import direction', () => {
  it.each([
    [
      'an import against the direction',
      {
        'src/std/clock.ts': "import { run } from '../domain/run.ts';",
        'src/domain/run.ts': 'export const run = 1;',
      },
      'src/std/clock.ts: std may not import domain (src/domain/run.ts)',
    ],
    [
      'an actor that knows the server',
      { 'actors/run/behaviour.ts': "export * from '../../src/http/server.ts';", 'src/http/server.ts': '' },
      'actors/run/behaviour.ts: actors may not import http (src/http/server.ts)',
    ],
    [
      'an actor that opens storage instead of being handed it',
      {
        'actors/run/behaviour.ts': "import { open } from '../../src/storage/log.ts';",
        'src/storage/log.ts': '',
      },
      'actors/run/behaviour.ts: actors may not import storage (src/storage/log.ts)',
    ],
    [
      'a type against the direction',
      { 'src/domain/a.ts': "type T = import('../http/b.ts').B;", 'src/http/b.ts': 'export type B = 1;' },
      'src/domain/a.ts: domain may not import types of http (src/http/b.ts)',
    ],
    [
      'a dynamic import against the direction',
      { 'src/runtime/a.ts': "await import('../domain/b.ts');", 'src/domain/b.ts': '' },
      'src/runtime/a.ts: runtime may not import domain (src/domain/b.ts)',
    ],
    [
      'messages built outside of an actor and its client',
      { 'src/gateway/a.ts': "import { f } from '../../actors/x/behaviour.ts';", 'actors/x/behaviour.ts': '' },
      'src/gateway/a.ts: gateway may not import actors (actors/x/behaviour.ts)',
    ],
    [
      'an actor that builds messages of another',
      { 'actors/x/behaviour.ts': "import '../y/protocol.ts';", 'actors/y/protocol.ts': '' },
      'actors/x/behaviour.ts: actors are called through their client alone (actors/y/protocol.ts)',
    ],
    [
      'a library outside of its room',
      { 'src/search/a.ts': "import uws from 'uWebSockets.js'; import { request } from 'undici';" },
      'src/search/a.ts: uWebSockets.js lives in http and bench alone',
    ],
    [
      'a library outside of its room, by a path into it',
      { 'src/api/a.ts': "import x from 'lmdb/index.js';" },
      'src/api/a.ts: lmdb lives in storage and lmdb alone',
    ],
    [
      'a handler that knows which store it has',
      {
        'src/api/a.ts': "import type { LmdbTables } from '../storage/lmdb/tables.ts';",
        'src/storage/lmdb/tables.ts': '',
      },
      'src/api/a.ts: api may not import types of lmdb (src/storage/lmdb/tables.ts)',
    ],
    [
      'a handler that knows tables',
      {
        'src/api/a.ts': "import type { TableReader } from '../storage/tables.ts';",
        'src/storage/tables.ts': '',
      },
      'src/api/a.ts: only storage knows tables; ask a port of src/storage/ports',
    ],
    [
      'a port that knows tables',
      {
        'src/storage/ports/a.ts': "import type { TableReader } from '../tables.ts';",
        'src/storage/tables.ts': '',
      },
      'src/storage/ports/a.ts: only storage knows tables; ask a port of src/storage/ports',
    ],
    [
      'an import of one store from another',
      {
        'src/storage/postgres/a.ts': "import { open } from '../lmdb/b.ts';",
        'src/storage/lmdb/b.ts': '',
      },
      'src/storage/postgres/a.ts: postgres may not import lmdb (src/storage/lmdb/b.ts)',
    ],
    [
      'a circle',
      {
        'src/std/c.ts': "export { a } from './a.ts';",
        'src/std/a.ts': "import './b.ts';",
        'src/std/b.ts': "import './c.ts';",
      },
      'circle: src/std/a.ts -> src/std/b.ts -> src/std/c.ts -> src/std/a.ts',
    ],
    [
      'files that take types from each other',
      {
        'src/std/a.ts': "import type { B } from './b.ts'; export type A = 1;",
        'src/std/b.ts': "import type { A } from './a.ts'; export type B = 1;",
      },
      'circle: src/std/a.ts -> src/std/b.ts -> src/std/a.ts',
    ],
    [
      'an import of nothing',
      { 'src/std/a.ts': "import './gone.ts';" },
      'src/std/a.ts: imports src/std/gone.ts, which is not in the tree',
    ],
    [
      'a folder without a place',
      { 'src/utils/a.ts': '' },
      'src/utils/a.ts: no room of the tree has this name',
    ],
    ['a file without a place', { 'src/helpers.ts': '' }, 'src/helpers.ts: no room of the tree has this name'],
    ...[
      'process.env.HOME',
      "process['env'].HOME",
      'const { env } = process',
      "import { env } from 'node:process'",
      'globalThis.process.env',
    ].map((text): [string, Record<string, string>, string] => [
      `environment read as ${text}`,
      { 'src/api/a.ts': text },
      'src/api/a.ts: reads process.env, which src/config.ts alone does',
    ]),
  ])('%s', (_, files, violation) => {
    expect(findViolations(tree(files as Record<string, string>))).toEqual([violation]);
  });

  it('reports a file without a purpose', () => {
    expect(findViolations(new Map([['src/std/a.ts', '// a\nexport {};']]))).toEqual([
      'src/std/a.ts: does not begin with a doc comment',
    ]);
  });

  it('permits what the rules allow', () => {
    const files = {
      'src/domain/run.ts': "import { id } from '../std/id.ts'; // import '../http/server.ts'",
      'src/std/id.ts':
        "import { randomBytes } from 'node:crypto'; export const id = `import('lmdb') process.env`;",
      'actors/run/behaviour.ts':
        "import type { Stores } from '../../src/storage/stores.ts'; import '../x/client.ts';",
      'actors/x/client.ts': "import './protocol.ts';",
      'actors/x/protocol.ts': '',
      'src/storage/stores.ts': "import { open } from 'lmdb';",
      'src/main.ts':
        "import '../actors/run/behaviour.ts'; import './storage/stores.ts'; import './config.ts';",
      'src/config.ts': 'export const home = process.env.HOME;',
    };
    expect(findViolations(tree(files))).toEqual([]);
  });

  it('reports a dynamic import that cannot be followed', () => {
    expect(() => findViolations(tree({ 'src/std/a.ts': 'await import(name);' }))).toThrow(/not a literal/);
  });
});
