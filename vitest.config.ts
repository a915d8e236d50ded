// How the tests run, in three projects: `unit` in threads that share what they load, for what is pure; `process` in a
// process for each file, for real sockets, threads and files; `long` for storms, kills, soaks and recorded traffic in full,
// which `npm run test:all` adds. The limits are there for what never ends, not for what is slow: the machine may have a
// load of many times its cores.
import { defineConfig } from 'vitest/config';
import { ClosingLine } from './test/closing-line.ts';
import { importAddresses } from './test/fixtures/addresses.ts';
import { PATIENCE_MS } from './test/fixtures/patience.ts';
import { COMPILE_CACHE, STRIPPED_FLAGS } from './test/fixtures/strip-types.ts';
import { FolderCoverage } from './test/folder-coverage.ts';

/** What neither listens, nor starts a thread or a process, nor changes anything outside its own file. */
const UNIT = [
  'test/domain/**/*.test.ts',
  'test/contract/**/*.test.ts',
  'test/client/difficulty.test.ts',
  'test/std/**/*.test.ts',
  'test/integrations/agent-steps.test.ts',
  'test/analysis/**/*.test.ts',
  'test/providers/**/*.test.ts',
  'test/student/model/**/*.test.ts',
  'test/gateway/{known-headers,run-labels}.test.ts',
  'test/gateway/upstream/response-parser.test.ts',
  'test/http/{allowed-hosts,recorded-cases}.test.ts',
  'test/actors/{live-hub,rate-bucket,run,usage-meter,capture-batch,distiller,fault-history}.test.ts',
  'test/api/{clock-jumps,declared-bounds,dispatch,experiments,openapi,patterns,retrieve,stream-credentials}.test.ts',
  'test/cli/{banner,inspect}.test.ts',
  'test/auth/credentials.test.ts',
  'test/label/labelled-target.test.ts',
  'test/native/{byte,vector}-engine.test.ts',
  'test/runtime/{host,recorder}.test.ts',
  'test/redaction/key-shapes.test.ts',
  'test/search/{embedder-config,embedder-features,word-tokens,vector-index}.test.ts',
  'test/sim/**/*.test.ts',
  'test/storage/{accounts-usage,base-cache,capture-record,packing-share,stream-secrets}.test.ts',
  'test/student/serving/{request-rules,tool-schemas,step-handler}.test.ts',
  'test/house/{clocks,config,docs,errors,import-direction,permissions,threads}.test.ts',
];
const LONG = ['test/**/*.long.test.ts'];
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
    globalSetup: ['test/fixtures/strip-types.ts'],
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
        test: { name: 'unit', include: UNIT, exclude: LONG, pool: 'threads', isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'process',
          include: ['test/**/*.test.ts'],
          exclude: [...UNIT, ...LONG],
          pool: 'forks',
          retry: SECOND_TRY,
        },
      },
      {
        extends: true,
        test: { name: 'long', include: LONG, pool: 'forks', retry: SECOND_TRY, testTimeout: 1_800_000 },
      },
    ],
  },
});
