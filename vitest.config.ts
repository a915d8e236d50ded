// How the tests run: real threads, sockets and files, so few workers. The limits are there for what never ends, not for
// what is slow: the machine may have a load of many times its cores.
import { defineConfig } from 'vitest/config';
import { ClosingLine } from './test/closing-line.ts';
import { PATIENCE_MS } from './test/fixtures/patience.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/seed.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: PATIENCE_MS } },
    // As the command does (src/config.ts), for tests that load the model themselves.
    env: { ORT_DISABLE_TELEMETRY: '1' },
    reporters: ['default', new ClosingLine()],
  },
});
