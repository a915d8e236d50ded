/**
 * bench/results has one result for each suite and machine, in the stored form, and every result that a document cites.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { formatResult, nameMachine, type Provenance } from '../../bench/results.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(root, 'bench/results');
const names = readdirSync(folder);
const results = names
  .filter((name) => name.endsWith('.json'))
  .map((name) => {
    const text = readFileSync(join(folder, name), 'utf8');
    return { name, text, result: JSON.parse(text) as Provenance & { suite: string } };
  });

describe('bench/results', () => {
  it('has at most one result for each suite and machine', () => {
    const kept = new Map<string, string>();
    for (const { name, result } of results) {
      const key = `${result.suite} on ${nameMachine(result)}`;
      expect(kept.get(key), `${key}: ${name} and an older one`).toBeUndefined();
      kept.set(key, name);
    }
    expect(kept.size).toBeGreaterThan(0);
  });

  it.each(results)(
    'contains $name, named by suite, date and commit, and formatted as saveResult does',
    (stored) => {
      const { suite, date, commit } = stored.result;
      expect(stored.name).toBe(`${suite}-${date.slice(0, 10)}-${commit}.json`);
      expect(stored.text).toBe(formatResult(stored.result));
    },
  );

  it('contains every result that a document cites', () => {
    const documents = ['bench', 'docs', 'src', 'actors', 'native', 'clients'].flatMap((each) =>
      readdirSync(join(root, each), { recursive: true, encoding: 'utf8' })
        .filter((path) => path.endsWith('.md'))
        .map((path) => join(each, path)),
    );
    for (const document of ['README.md', ...documents])
      for (const [cited] of readFileSync(join(root, document), 'utf8').matchAll(
        /[a-z-]+-2\d{3}-\d\d-\d\d-[0-9a-f]{7,}\.(json|svg)/g,
      ))
        expect(names, document).toContain(cited);
  });
});

describe('formatResult', () => {
  it('writes short values on one line, rounds to six digits, and writes unmeasured ones as null', () => {
    const written = formatResult({
      p50: 1.23456789,
      none: Number.NaN,
      rows: [{ a: 'x'.repeat(100) }, { b: [1, 2] }],
    });
    expect(written).toBe(
      `{\n "p50": 1.23457,\n "none": null,\n "rows": [\n  {"a":"${'x'.repeat(100)}"},\n  {"b":[1,2]}\n ]\n}\n`,
    );
  });
});
