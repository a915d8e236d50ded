// How the tests run, in three projects: `unit` in threads that share what they load, for what is pure; `process` in a
// process for each file, for real sockets, threads and files; `long` for storms, kills, soaks and recorded traffic in full,
// which `npm run test:all` adds. A fourth, `clients` (`npm run test:clients`), drives Claude Code, Codex and their like as npm
// has them: hundreds of megabytes that nobody else needs. The limits are there for what never ends, not for what is slow: the machine may have a
// load of many times its cores.
import { defineConfig } from 'vitest/config';
import { ClosingLine } from './test/closing-line.ts';
import { importAddresses } from './test/fixtures/addresses.ts';
import { PATIENCE_MS } from './test/fixtures/patience.ts';
import { COMPILE_CACHE, STRIPPED_FLAGS } from './test/fixtures/strip-types.ts';
import { FolderCoverage } from './test/folder-coverage.ts';
import { UNIT } from './test/unit-files.ts';

const LONG = ['test/**/*.long.test.ts'];
const CLIENTS = ['test/real-clients/*.test.ts'];
/**
 * Tests of real processes meet everything that a busy machine does. One that fails is tried once more, and the closing
 * line names it if it passes then: a fault to look for, which stops nobody else's work meanwhile.
 */
const SECOND_TRY = 1;

// For the processes that run test files, and what they start: Node reads it when one begins.
process.env.NODE_COMPILE_CACHE ??= COMPILE_CACHE;

export default defineConfig({
  plugins: process.argv.includes('--changed') ? [importAddresses()] : [],
  test: {
    globalSetup: ['test/fixtures/strip-types.ts', 'test/fixtures/bundle.ts'],
    setupFiles: ['test/seed.ts'],
    execArgv: STRIPPED_FLAGS,
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: PATIENCE_MS } },
    // As the command does (src/config.ts), for tests that load the model themselves.
    env: { ORT_DISABLE_TELEMETRY: '1' },
    reporters: ['default', new FolderCoverage(), new ClosingLine()],
    coverage: {
      include: ['actors/**/*.ts', 'native/*.ts', 'src/**/*.ts'],
      // `npm run demo` and the maker of the model are programs of their own.
      exclude: ['src/demo/**', 'src/search/model-maker/**'],
      reporter: ['text-summary'],
    },
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: [...UNIT], exclude: LONG, pool: 'threads', isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'process',
          include: ['test/**/*.test.ts'],
          exclude: [...UNIT, ...LONG, ...CLIENTS],
          pool: 'forks',
          retry: SECOND_TRY,
        },
      },
      {
        extends: true,
        test: { name: 'long', include: LONG, pool: 'forks', retry: SECOND_TRY, testTimeout: 1_800_000 },
      },
      {
        extends: true,
        test: { name: 'clients', include: CLIENTS, pool: 'forks', testTimeout: 600_000 },
      },
    ],
  },
});
