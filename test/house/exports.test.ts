/** A file exports what other files use, and nothing else. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findUnusedExports } from './exports.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

describe('the source tree', () => {
  it('exports nothing that only the exporting file uses', () => {
    const names = globSync(['*.ts', '{tools,examples,native,src,actors,bench,test}/**/*.{ts,tsx,mjs}'], {
      cwd: root,
      exclude: ['**/dist/**', 'native/build/**'],
    }).map((name) => name.replaceAll('\\', '/'));
    expect(names.length).toBeGreaterThan(1_000);
    expect(
      findUnusedExports(new Map(names.map((name) => [name, readFileSync(root + name, 'utf8')]))),
    ).toEqual([]);
  });
});

describe('findUnusedExports', () => {
  const judge = (files: Record<string, string>) => findUnusedExports(new Map(Object.entries(files)));

  it.each([
    ['a name', "import { a } from './a.ts';"],
    ['a type', "import type { a } from './a.ts';"],
    ['a name that is exported again', "export { a } from './a.ts'; import './c.ts';"],
    ['every name', "import * as all from './a.ts';"],
    ['a name while it runs', "const { a } = await import('./a.ts');"],
    ['the module while it runs', "const loaded = await import('./a.ts');"],
    ['the address of a module', "await import(new URL('./a.ts', import.meta.url).href);"],
    ['the type of a name', "type A = import('./a.ts').a;"],
  ])('takes the import of %s for a use', (_what, source) => {
    const used = judge({ 'src/a.ts': 'export const a = 1;', 'src/b.ts': source });
    expect(used.filter((name) => name.startsWith('src/a.ts'))).toEqual([]);
  });

  it('finds exports that no other file imports', () => {
    expect(
      judge({
        'src/a.ts':
          'export const a = 1; export function b() {} export type C = 1; const d = 2; export { d }; b();',
        'src/b.ts': "const { a } = await import('./a.ts');",
        'src/c.ts': 'export default 1;',
        'src/label/label.ts': 'export const label = 1;',
      }),
    ).toEqual(['src/a.ts: C', 'src/a.ts: b', 'src/a.ts: d']);
  });
});
