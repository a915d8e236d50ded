/**
 * The tests run in these projects:
 *
 * - `unit`: pure code, in threads that share the modules they load (test/unit-files.ts).
 * - `shared`: real sockets, files and services, in processes that the test files share.
 * - `process`: files that change their process (test/unit-files.ts). Each has its own.
 * - `long`: whole files (`*.long.test.ts`) of storms, kills, soaks and complete recordings. `npm run test:long` adds it.
 * - `long-parts`: tests with the tag `long` in the files of the projects above. It runs together with `long`.
 * - `clients`: Claude Code, Codex and similar clients as npm has them (`npm run test:clients`).
 *
 * A failed test is never run again. The time limits catch what hangs, so a busy machine does not reach them.
 * Vitest's own process.
 */
import { defineConfig } from 'vitest/config';
import { ClosingLine } from './test/closing-line.ts';
import { importAddresses } from './test/fixtures/addresses.ts';
import { PATIENCE_MS } from './test/fixtures/patience.ts';
import { COMPILE_CACHE, STRIPPED_FLAGS } from './test/fixtures/strip-types.ts';
import { findTaggedFiles } from './test/long-parts.ts';
import { OWN, UNIT } from './test/unit-files.ts';

const LONG = ['test/**/*.long.test.ts'];
const LONG_LIMIT_MS = 1_800_000;
const CLIENTS = ['test/real-clients/*.test.ts'];

/** Vitest types this as an option of the command line only, but each project reads it from its configuration. */
function filterTags(expression: string): object {
  return { tagsFilter: [expression] };
}

// For the processes that run test files, and what they start: Node reads it when one begins.
process.env.NODE_COMPILE_CACHE ??= COMPILE_CACHE;

export default defineConfig({
  plugins: process.argv.includes('--changed') ? [importAddresses()] : [],
  test: {
    globalSetup: ['test/fixtures/strip-types.ts', 'test/fixtures/bundle.ts'],
    setupFiles: [
      'test/seed.ts',
      ...(process.env.NODE_V8_COVERAGE ? ['test/fixtures/written-coverage.ts'] : []),
    ],
    execArgv: STRIPPED_FLAGS,
    // More than the cores: tests often wait for processes, timers and disks.
    maxWorkers: 3,
    // Node imports the files itself: no test replaces a module, and positions stay those of the sources (strip-types.ts).
    experimental: { viteModuleRunner: false, nodeLoader: false },
    tags: [{ name: 'long', description: 'Runs with `npm run test:long`, not with `npm test`.' }],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: PATIENCE_MS } },
    // As the command does (src/config.ts), for tests that load the model themselves.
    env: { ORT_DISABLE_TELEMETRY: '1' },
    reporters: ['default', new ClosingLine()],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [...UNIT],
          exclude: LONG,
          pool: 'threads',
          isolate: false,
          ...filterTags('!long'),
        },
      },
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['test/**/*.test.ts'],
          exclude: [...UNIT, ...OWN, ...LONG, ...CLIENTS],
          pool: 'forks',
          isolate: false,
          ...filterTags('!long'),
        },
      },
      {
        extends: true,
        test: {
          name: 'process',
          include: [...OWN],
          exclude: LONG,
          pool: 'forks',
          ...filterTags('!long'),
        },
      },
      {
        extends: true,
        test: { name: 'long', include: LONG, pool: 'forks', testTimeout: LONG_LIMIT_MS },
      },
      {
        extends: true,
        test: {
          name: 'long-parts',
          include: findTaggedFiles(import.meta.dirname),
          pool: 'forks',
          testTimeout: LONG_LIMIT_MS,
          ...filterTags('long'),
        },
      },
      {
        extends: true,
        test: { name: 'clients', include: CLIENTS, pool: 'forks', testTimeout: 600_000 },
      },
    ],
  },
});
