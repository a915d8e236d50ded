/**
 * A vitest reporter that ends the run with one line of counts, for scripts and quick reading. For each resource that
 * a test needs and that is missing, a line above the counts names the skipped tests (fixtures/shared.ts). Vitest's
 * own process.
 */

import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Matches a test's name: its beginning, and the resource that it names in parentheses. */
const NEEDED = /^(.*?) *\((\.\.\/shared\/[^)]*|[^()]* from npm)\)/s;

/** Prints `N passed, N failed, N skipped`. A failure outside of a test (a file that does not load) counts as one. */
export class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    const skipped: TestCase[] = [];
    for (const module of modules) {
      counts.failed += module.errors().length;
      for (const suite of module.children.allSuites()) counts.failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'skipped' && belongsElsewhere(test)) continue;
        counts[state === 'pending' ? 'skipped' : state] += 1;
        if (state === 'skipped') skipped.push(test);
      }
    }
    for (const line of tellMissing(skipped)) process.stdout.write(`${line}\n`);
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
  }
}

/** @returns a line for each missing resource: `2 skipped without ../shared/x: cli/trace.test.ts, "trace of it"` */
function tellMissing(skipped: readonly TestCase[]): string[] {
  const missing = new Map<string, { count: number; names: Set<string> }>();
  for (const test of skipped) {
    const [, name, needed] = NEEDED.exec(test.fullName) ?? [];
    if (needed === undefined) continue;
    const entry = missing.get(needed) ?? { count: 0, names: new Set() };
    missing.set(needed, entry);
    entry.count += 1;
    entry.names.add(nameOf(test, name ?? ''));
  }
  return [...missing].map(
    ([needed, { count, names }]) => `${count} skipped without ${needed}: ${[...names].join(', ')}`,
  );
}

/**
 * Whether another project runs this test: `long-parts` has the tests of other projects' files that are tagged `long`.
 */
function belongsElsewhere(test: TestCase): boolean {
  return test.tags.includes('long') !== (test.project.name === 'long-parts');
}

function nameOf(test: TestCase, name: string): string {
  return `${test.module.relativeModuleId.replace(/^test\//, '')} "${name}"`;
}
