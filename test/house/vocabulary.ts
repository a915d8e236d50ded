/**
 * Words and identifiers that the tree does not use, each with what to write instead, and the function that finds them.
 * `test/house/vocabulary.test.ts` checks the whole tree.
 */

import { parseAst } from 'vitest/node';

interface ForbiddenWord {
  words: RegExp;
  /** Matches the paths to which the rule applies. Without it, the rule applies to all paths. */
  within?: RegExp;
  instead: string;
}

const TRANSLATED = 'reads like a translation';

/** Searched for in all text: code, comments, strings and docs. */
const FORBIDDEN_WORDS: readonly ForbiddenWord[] = [
  { words: /\bnobody\b/gi, instead: `${TRANSLATED}; name who does not, or use the passive: "is not read"` },
  { words: /\bsomebody\b/gi, instead: `${TRANSLATED}; name who: a client, an operator, another process` },
  { words: /\bwhoever\b/gi, instead: `${TRANSLATED}; name who: the caller, the client that asked` },
  {
    // In lower case only, because `is None` is Python code.
    words: /\b(?:[Ii]s|[Aa]re)[\s*/#]+none\b/g,
    instead: `${TRANSLATED}; "does not exist", "has no …", "without …"`,
  },
  {
    words: /\bof[\s*/#]+(?:its|their)[\s*/#]+own\b/gi,
    instead: `${TRANSLATED}; "its own …", "a separate …", "each has a …"`,
  },
  {
    // The actor's kind is stored with its state and keeps its name.
    words: /\bdistill(?:ation|er)\b(?!')/gi,
    instead: '`distill` makes students; patterns are made by the pattern maker (docs/glossary.md)',
  },
  {
    words: /(?<!topic[ _-])\bdrift(?:s|ed|ing)?\b(?!-)/gi,
    within: /^(?:src|test)\/domain\/monitors\/|^docs\/monitors\.md$/,
    instead: '"topic drift" is what a monitor looks for; "drift" is the upstream\'s (docs/glossary.md)',
  },
];

/** Names that no variable, parameter or function may have. */
const FORBIDDEN_IDENTIFIERS: ReadonlyMap<string, string> = new Map(
  ['its', 'one', 'theirs', 'them', 'they', 'whose', 'nobody', 'somebody'].map((name) => [
    name,
    'a pronoun says nothing about the value; name what the value is (`elementRule`, `left` and `right`)',
  ]),
);

/**
 * @param path decides how the text is read: bindings are searched for only in TypeScript
 * @param text the content of the file
 * @returns a line for each fault: `path:line: word: what to write instead`
 */
export function findVocabularyFaults(path: string, text: string): string[] {
  const faults: string[] = [];
  const fault = (start: number, word: string, instead: string): void => {
    faults.push(`${path}:${text.slice(0, start).split('\n').length}: ${word}: ${instead}`);
  };
  for (const { words, within, instead } of FORBIDDEN_WORDS) {
    if (within?.test(path) === false) continue;
    for (const { 0: word, index } of text.matchAll(words))
      fault(index, `"${word.replace(/\W+/g, ' ')}"`, instead);
  }
  if (/\.tsx?$/.test(path) && MAY_BIND.test(text.replace(COMMENT_LINE, ''))) {
    const lang = path.endsWith('.tsx') ? 'tsx' : path.endsWith('.d.ts') ? 'dts' : 'ts';
    noteBindings(parseAst(text, { lang }), (name, start) => {
      const instead = FORBIDDEN_IDENTIFIERS.get(name);
      if (instead !== undefined) fault(start, `\`${name}\``, instead);
    });
  }
  return faults;
}

/**
 * A quick test, because parsing takes milliseconds for each file: files that cannot bind such a name are not parsed. A
 * bound name has one of these characters or words, a comment, or the end of the line beside it.
 */
const MAY_BIND = new RegExp(
  `\\b(?:${[...FORBIDDEN_IDENTIFIERS.keys()].join('|')})(?=\\s*(?:[=,:;)}\\]?!<(/]|of\\b|in\\b|$))`,
  'm',
);

/** A line with nothing but a comment. */
const COMMENT_LINE = /^\s*(?:\/\/.*|(?:\/\*|\*)(?:(?!\*\/).)*(?:\*\/\s*)?)$/gm;

type Note = (name: string, start: number) => void;

interface Node {
  type: string;
  start: number;
  [key: string]: unknown;
}

/** Calls `note` for each name that a declaration or a parameter binds. */
function noteBindings(node: unknown, note: Note): void {
  if (Array.isArray(node)) {
    for (const item of node) noteBindings(item, note);
    return;
  }
  if (typeof node !== 'object' || node === null) return;
  const { type, id, params, param } = node as Node;
  if (type === 'VariableDeclarator' || type === 'FunctionDeclaration') notePattern(id, note);
  if (type === 'CatchClause') notePattern(param, note);
  if (/Function/.test(type ?? '')) notePattern(params, note);
  for (const value of Object.values(node)) noteBindings(value, note);
}

/** Reports the names that a pattern binds: `a`, `{ a, b: c }`, `[a, ...b]`, `a = 1`. */
function notePattern(pattern: unknown, note: Note): void {
  if (Array.isArray(pattern)) {
    for (const item of pattern) notePattern(item, note);
    return;
  }
  if (typeof pattern !== 'object' || pattern === null) return;
  const { type, start, name, properties, elements, argument, left, value, parameter, items } =
    pattern as Node;
  if (type === 'Identifier') note(name as string, start);
  if (type === 'Property') notePattern(value, note);
  else for (const part of [properties, elements, argument, left, parameter, items]) notePattern(part, note);
}
