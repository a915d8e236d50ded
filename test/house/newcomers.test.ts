/**
 * The lists under "Where to begin" in docs/architecture.md name the places that a new monitor, wire format, admin route
 * or store needs. This test finds those places by searching the tree for the existing ones of each kind.
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { RELEGATION_WIRES } from '../../src/domain/exchange.ts';
import { MONITOR_NAMES } from '../../src/domain/monitors/names.ts';
import { ADMIN_ROUTES } from '../../src/gateway/admin.ts';
import { CAPTURE_ADMIN_METHODS } from '../../src/gateway/capture/capture-control.ts';
import { WIRES } from '../../src/providers/wires.ts';

const ROOT = join(import.meta.dirname, '../..');
const DOC = 'docs/architecture.md';

/**
 * Files that name all items of a kind, but need no change for a new item: documents, and a file that
 * `tools/client-types.ts` generates.
 */
const NOT_PLACES = [DOC, 'CHANGELOG.md', 'docs/api-decisions.md', 'src/client/operation-types.ts'];

const texts = new Map(
  execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
    .split('\0')
    .filter((path) => /\.(?:ts|tsx|md|py|cc|h)$/.test(path))
    .filter((path) => !NOT_PLACES.includes(path))
    .map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]),
);

/** Files in the given folders whose text contains every pattern. Test files other than fixtures do not count. */
function filesWith(folders: RegExp, patterns: readonly RegExp[]): string[] {
  return [...texts]
    .filter(([path]) => folders.test(path) && !path.endsWith('.test.ts'))
    .filter(([, text]) => patterns.every((pattern) => pattern.test(text)))
    .map(([path]) => path);
}

const word = (text: string) => new RegExp(`(?<![\\w/])${text}(?![\\w/])`);

/** @returns the files that a list of the document names before the colon of each item */
function listed(heading: string): string[] {
  const doc = readFileSync(join(ROOT, DOC), 'utf8');
  const list = new RegExp(`^\\*\\*${heading}\\*\\*.*\\n\\n((?:- .*\\n(?: {2}.*\\n)*)+)`, 'm').exec(doc)?.[1];
  if (list === undefined) throw new Error(`${DOC} has no list "${heading}"`);
  return list
    .split(/^- /m)
    .flatMap((item) => [...item.split(/:\s/)[0]!.matchAll(/`([\w./<>-]+)`|\]\(\.\.\/([\w./-]+)\)/g)])
    .map(([, path, link]) => path ?? link!);
}

/** @param places the files that name every existing item of the kind */
function expectListed(heading: string, places: readonly string[]): void {
  const names = listed(heading);
  expect({
    'not in the list': [...new Set(places)].filter((path) => !names.includes(path)),
    'in the list, but without all items': names.filter((path) => !places.includes(path)),
  }).toEqual({ 'not in the list': [], 'in the list, but without all items': [] });
}

describe('docs/architecture.md names the places to change for', () => {
  it('a new monitor', () => {
    const own = MONITOR_NAMES.map((name) => `src/domain/monitors/${name.replaceAll('_', '-')}.ts`);
    expect(own.filter((path) => !texts.has(path))).toEqual([]);
    expectListed('A seventh monitor', [
      'src/domain/monitors/<name>.ts',
      ...filesWith(/^(?:src|actors|native|bench|docs)\//, MONITOR_NAMES.map(word)),
    ]);
  });

  it('a new wire format', () => {
    const shapes = Object.keys(WIRES);
    const own = shapes.map((name) => `src/providers/${name.replaceAll('_', '-')}/wire.ts`);
    expect(own.filter((path) => !texts.has(path))).toEqual([]);
    expectListed("A new provider's wire format", [
      'src/providers/<name>/wire.ts',
      ...filesWith(/^(?:src|actors|native|test|docs)\//, shapes.map(word)),
      // Both clients label requests by path, without the service's code.
      ...filesWith(/^(?:src\/label|clients)\//, [/streamGenerate/, /converse-stream/]),
    ]);
  });

  it('a wire format that a student serves', () => {
    const own = RELEGATION_WIRES.map((name) => `src/student/serving/${name.replaceAll('_', '-')}-wire.ts`);
    expect(own.filter((path) => !texts.has(path))).toEqual([]);
    expectListed('A wire format that a student serves', [
      'src/student/serving/<name>-wire.ts',
      ...filesWith(/^(?:src|docs)\/(?!demo\/|providers\/)/, RELEGATION_WIRES.map(word)),
    ]);
  });

  it('a wire format whose runs can be golden', () => {
    expectListed(
      'A wire format whose runs can be golden',
      filesWith(/^(?:src|docs)\//, [/Messages, chat-completions (?:and|or) responses/]),
    );
  });

  it('a provider known by name', () => {
    expectListed(
      'A provider known by name',
      filesWith(/^(?:src|docs)\//, [/\bmistral\b/, /\bdeepseek\b/, /\bx\.?ai\b/]),
    );
  });

  it('an upstream under its own prefix', () => {
    expectListed(
      'An upstream under its own prefix',
      filesWith(/^(?:src|docs)\/(?!demo\/)/, [/(?<!google_)gemini_base/i]),
    );
  });

  it('a new admin route', () => {
    expectListed('A new admin route', [
      ...filesWith(/^(?:src|docs)\//, Object.keys(ADMIN_ROUTES).map(word)),
      ...filesWith(
        /^(?:src|actors|test)\//,
        CAPTURE_ADMIN_METHODS.map((name) => new RegExp(`^ +(?:async ${name}\\(|${name}: async )`, 'm')),
      ),
    ]);
  });

  const opens = /\bnew Lmdb(?:Tables|Journal)\(|\b(?:openStores|openMain)\(/;

  it('the paths of LMDB’s files', () => {
    const opening = filesWith(/^src\//, [opens]);
    const passing = filesWith(/^src\/(?!storage\/)/, [/\b(?:[dD]atabasePaths|wordPaths|WriteTurn)\b/]);
    expectListed(
      "The paths of LMDB's files",
      passing.filter((path) => !opening.includes(path)),
    );
  });

  it('a second store', () => {
    expectListed('A second store', [
      'src/storage/<name>/',
      ...filesWith(/^src\//, [
        /export interface (?:Tables|JournalStore|TableStores|RunReads)\b|export function toStores\b/,
      ]),
      ...filesWith(/^src\/(?!storage\/lmdb\/)/, [opens]),
      ...[...texts]
        .filter(([path, text]) => path.startsWith('test/storage/') && /\bOne suite for\b/.test(text))
        .map(([path]) => path),
    ]);
  });
});
