/**
 * A service that shares no database never loads PostgreSQL's driver: only two files import it, and nothing imports
 * these early.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, it } from 'vitest';
import { readModule } from './imports.ts';

const sources = new Map(
  ['src', 'actors'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => [posix.join(folder, name), readFileSync(posix.join(folder, name), 'utf8')] as const),
  ),
);

/** @returns the files that import a file for which `isMeant` is true, except for imports of types */
function importersOf(isMeant: (file: string) => boolean): string[] {
  return [...sources]
    .filter(([file, source]) =>
      readModule(source).imports.some(
        ({ specifier, is_type_only }) =>
          !is_type_only &&
          specifier.startsWith('.') &&
          isMeant(posix.join(posix.dirname(file), specifier)) &&
          !isMeant(file),
      ),
    )
    .map(([file]) => file)
    .sort();
}

it('only the store thread and two commands load the driver', () => {
  const commands = ['src/cli/migrate.ts', 'src/cli/move.ts'];
  const thread = 'src/threads/shared-store-entry.ts';
  expect(importersOf((file) => file.startsWith('src/storage/postgres/'))).toEqual([...commands, thread]);
  expect(importersOf((file) => file === thread)).toEqual([]);
  for (const command of commands) {
    // The command imports the driver while it runs, and the command itself is imported when it is called.
    expect(sources.get(command)).not.toMatch(/^import [^;]*storage\/postgres/m);
    const own = command.slice('src/cli/'.length);
    expect(sources.get('src/cli/command-line.ts')).toContain(`await import('./${own}')`);
  }
});
