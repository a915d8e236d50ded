/**
 * Compares the threads that a header names with those that load the file: the words that headers may use, the entry of
 * each thread, and the function that checks a tree.
 */
import { posix } from 'node:path';
import { readModule } from './imports.ts';

/** The threads of the running service, with the files that start them. The main thread is the first server thread. */
const ENTRIES = {
  server: ['src/main.ts', 'src/threads/server-thread-entry.ts'],
  actor: ['src/threads/actor-thread-entry.ts'],
  compute: ['src/threads/compute-thread-entry.ts'],
  student: ['src/threads/student-thread-entry.ts'],
  proxy: ['src/threads/proxy-thread-entry.ts'],
  // The processes for captures: one writes, one reads for the API, one exports.
  capture: [
    'src/threads/capture-process-entry.ts',
    'src/threads/capture-reader-entry.ts',
    'src/threads/otel-export-entry.ts',
    'src/threads/sealing-thread-entry.ts',
  ],
} as const satisfies Record<string, readonly string[]>;

type Thread = keyof typeof ENTRIES;

/** The words for threads. Every header contains one of them. */
const WORDS: Readonly<Record<Thread | 'any' | 'other' | 'outside', RegExp>> = {
  // Pure code runs on any thread that calls it.
  any: /\b(any thread|wherever actors run|pure|data|types)\b/i,
  server: /\b(server threads?|main thread|main and server threads)\b/i,
  actor: /\bactor threads?\b/i,
  compute: /\bcompute threads?\b/i,
  student: /\bstudent['’]s thread\b/i,
  proxy: /\bproxy thread\b/i,
  capture: /\bcapture (process|reader)\b/i,
  // Threads that the entries above start.
  other: /\b(its own thread|store thread|bucket thread)\b/i,
  // Threads and processes outside of the running service.
  outside: /\b(command line|round['’]s own thread|browser|development|demo)\b/i,
};

/**
 * @param files every source file of src, actors and native by its name relative to the repository
 * @returns what is wrong, one line each; empty if nothing is wrong
 */
export function findThreadViolations(files: ReadonlyMap<string, string>): string[] {
  const imports = new Map<string, string[]>();
  for (const [file, source] of files) {
    const targets = readModule(source)
      .imports.filter(({ specifier, is_type_only }) => specifier.startsWith('.') && !is_type_only)
      .map(({ specifier }) => posix.join(posix.dirname(file), specifier));
    imports.set(file, targets);
  }
  const loaders = new Map<string, Thread[]>();
  for (const thread of Object.keys(ENTRIES) as Thread[]) {
    for (const file of reach(ENTRIES[thread], imports))
      loaders.set(file, [...(loaders.get(file) ?? []), thread]);
  }
  return [...files].flatMap(([file, source]) => judgeHeader(file, source, loaders.get(file) ?? []));
}

function judgeHeader(file: string, source: string, loaders: readonly Thread[]): string[] {
  const header = readHeader(source);
  const named = (Object.keys(WORDS) as (keyof typeof WORDS)[]).filter((word) => WORDS[word].test(header));
  if (named.length === 0) return [`${file}: does not say on which thread it runs`];
  if (named.includes('any')) return [];
  return loaders
    .filter((thread) => !named.includes(thread))
    .map((thread) => `${file}: is loaded on the ${thread} thread, and says ${named.join(', ')}`);
}

/**
 * The doc comment at the beginning of a file as one line, without the threads on which, by that comment, the file never
 * runs.
 */
function readHeader(source: string): string {
  const [, text = ''] = /^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\//.exec(source) ?? [];
  return text
    .replace(/\n \*/g, ' ')
    .replace(/\s+/g, ' ')
    .replaceAll(/never on (a|the) server threads?/g, '');
}

function reach(entries: readonly string[], imports: ReadonlyMap<string, readonly string[]>): Set<string> {
  const seen = new Set<string>();
  const waiting = [...entries];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    waiting.push(...(imports.get(file) ?? []));
  }
  return seen;
}
