/**
 * Proposes rules that do more than copy a value: they choose the element or the line that the task names, read a day or
 * a time from words, move it, count, or join a folder and a path. Such rules are tried when no plain rule explains all
 * golden steps. Pure; teaching.
 */

import { DAY_READINGS, minutesOf } from '../student/model/day-words.ts';
import { proposeChoices } from '../student/model/element-choice.ts';
import {
  applyRule,
  type ExtractionRule,
  type PathPart,
  proposeRules,
  proposeSpans,
  rankRule,
  type Span,
  type StepContext,
  sameValue,
  textAt,
  WRITINGS,
  type Writing,
  writeValue,
} from '../student/model/extraction.ts';
import { isAbsolutePath, listFolders, pathWithin } from '../student/model/file-paths.ts';
import {
  amountOf,
  isNumber,
  isObject,
  isPrimitive,
  type Primitive,
  textOfPrimitive,
} from '../student/model/json-values.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import { isAmount, listTotals } from '../student/model/list-summary.ts';
import { proposeReckoning } from '../student/model/reckoning.ts';

/** Maximum number of rules of each sort that one value suggests. */
const CHOSEN = 60;
const READ = 48;
const LINED = 24;
const RECKONED = 24;
/** Maximum number of ways to find a value in one element of a list. */
const HITS = 3;
/** Maximum number of sources that may name an element or a line. */
const NAMING = 6;
/** Maximum number of days and times inside texts of a step that are tried as inputs of a computed value. */
const BASES = 72;
/** Maximum number of tools whose calls are counted. */
const COUNTED = 8;
/** Maximum number of totals over results that one value suggests. */
const TOTALS = 12;
const TOTAL_WRITINGS: readonly Writing[] = ['same', 'text', 'fixed2', 'grouped', 'grouped2'];
/**
 * Maximum numbers for a value that is a path: folders that contain it and stand in the context, rules that find each of
 * these folders, rules that find the rest of the path, and absolute paths that end with the value.
 */
const FOLDERS = 2;
const FOLDER_PLACES = 4;
const PATH_PLACES = 8;
const LONGER_PATHS = 3;
const RESULT = 'result:';
/** A text that may be a count of calls: 1 to 999. */
const COUNT = /^[1-9]\d{0,2}$/;
/** Maximum number of words of a text that counts as short. Only in a short text does the place of a word count. */
const SHORT_WORDS = 8;

/** Proposes rules that find the value in this step; none for null, a boolean, '' and values with parts. */
export function proposeDerivedRules(value: unknown, context: StepContext): ExtractionRule[] {
  if (!isPrimitive(value) || value === null || typeof value === 'boolean' || value === '') return [];
  return [
    ...proposeChosen(value, context).slice(0, CHOSEN),
    ...proposeRead(value, context).slice(0, READ),
    ...proposeLined(value, context).slice(0, LINED),
    ...proposeReckoned(value, context).slice(0, RECKONED),
    ...proposePaths(value, context),
  ];
}

type Hit = Pick<ExtractionRule, 'path' | 'span' | 'writing'>;

/**
 * Lists sources that may name an element or a line: at most NAMING of the latest ones, without progress, links, and
 * earlier results and calls of a tool (`#`).
 * @param but the source that contains the element or the line
 */
function listNaming(context: StepContext, but: string): string[] {
  const names = context.step.sources.map(({ name }) => name);
  const latest = names.filter(
    (name) => name !== 'progress' && !name.includes('#') && !name.startsWith('links:') && name !== but,
  );
  return latest.slice(0, NAMING);
}

/** Proposes rules that choose the element of a list that holds the value. */
function proposeChosen(value: Primitive, context: StepContext): ExtractionRule[] {
  const rules: ExtractionRule[] = [];
  const findIn = (from: string, at: unknown, depth: number): Hit[] => {
    if (depth > STUDENT_CORE.json_depth) return [];
    const text = textAt(at);
    if (isPrimitive(at) && at !== null) {
      const writing = WRITINGS.find((each) => sameValue(writeValue(at, each), value));
      if (writing !== undefined) return [{ path: [], span: null, writing }];
    }
    if (text !== undefined)
      return proposeSpans(text, value as Exclude<Primitive, null>, context)
        .slice(0, HITS)
        .map(([span, writing]) => ({ path: [], span, writing }));
    if (isObject(at)) return Object.keys(at).flatMap((key) => prefix(key, findIn(from, at[key], depth + 1)));
    if (!Array.isArray(at)) return [];
    const naming = listNaming(context, from);
    return at.flatMap((item, i) => {
      const hits = findIn(from, item, depth + 1).slice(0, HITS);
      if (hits.length === 0) return [];
      return proposeChoices(at, i, naming, context).flatMap((choice) => prefix(choice, hits));
    });
  };
  for (const { name, value: source } of context.step.sources) {
    if (name === 'progress' || rules.length >= CHOSEN) continue;
    for (const hit of findIn(name, source, 0))
      if (hit.path.some((part) => typeof part === 'object')) rules.push({ from: name, ...hit });
  }
  return rules;
}

function prefix(part: PathPart, hits: readonly Hit[]): Hit[] {
  return hits.map((hit) => ({ ...hit, path: [part, ...hit.path] }));
}

/** Texts outside lists, with their places. */
function listTexts({ step }: StepContext): { from: string; path: PathPart[]; text: string }[] {
  const found: { from: string; path: PathPart[]; text: string }[] = [];
  const visit = (from: string, at: unknown, path: PathPart[]): void => {
    const text = textAt(at);
    if (text !== undefined) found.push({ from, path, text });
    else if (isObject(at) && path.length < 3)
      for (const key of Object.keys(at)) visit(from, at[key], [...path, key]);
  };
  for (const { name, value } of step.sources) if (name !== 'progress') visit(name, value, []);
  return found;
}

const DATES: readonly Writing[] = ['same', 'long_date', 'short_date'];

/** Proposes rules that read days and times that texts name, and words of short texts. */
function proposeRead(value: Primitive, context: StepContext): ExtractionRule[] {
  const rules: ExtractionRule[] = [];
  const wanted = textOfPrimitive(value);
  for (const { from, path, text } of listTexts(context)) {
    const writings = new Map<string, Writing[]>();
    for (const { span, found } of readMoments(text, context)) {
      // Most readings of a text find the same days.
      let fitting = writings.get(found);
      if (fitting === undefined) {
        fitting = DATES.filter((writing) => writeValue(found, writing) === wanted);
        writings.set(found, fitting);
      }
      for (const writing of fitting) rules.push({ from, path, span, writing });
    }
    for (const [span, writing] of findWords(text, wanted, context)) rules.push({ from, path, span, writing });
  }
  return rules;
}

/** Spans of a text that read a day or a time. */
function readMoments(text: string, context: StepContext): { span: Span; found: string }[] {
  const moments: { span: Span; found: string }[] = [];
  for (const [nth, found] of context.times(text).entries())
    moments.push({ span: { by: 'time', nth }, found });
  for (const reading of DAY_READINGS)
    for (const [nth, found] of context.days(text, reading).entries())
      moments.push({ span: { by: 'day', nth, reading }, found });
  return moments;
}

const CASES: readonly Writing[] = ['same', 'lower', 'upper', 'capital'];

/** Finds the places of a word in a short text, such as a last name in a full name. Empty for a long text. */
function findWords(text: string, wanted: string, context: StepContext): [Span, Writing][] {
  if (text.length > 200 || /\s/.test(wanted)) return [];
  const words = context.tokens(text).filter(({ kind }) => kind === 'word');
  if (words.length > SHORT_WORDS) return [];
  return words.flatMap(({ start, end }, nth): [Span, Writing][] => {
    const writing = CASES.find((each) => writeValue(text.slice(start, end), each) === wanted);
    if (writing === undefined) return [];
    return [
      [{ by: 'kind', key: 'word', nth }, writing],
      [{ by: 'kind', key: 'word', nth: nth - words.length }, writing],
    ];
  });
}

/** The named line, the next one and the one before it. */
const LINES = [0, 1, -1] as const;

/** Proposes rules that find the value in the line that another source names, or in a line beside it. */
function proposeLined(value: Primitive, context: StepContext): ExtractionRule[] {
  const rules: ExtractionRule[] = [];
  const wanted = textOfPrimitive(value);
  for (const { from, path, text } of listTexts(context)) {
    if (!text.includes('\n') || !text.includes(wanted)) continue;
    for (const source of listNaming(context, from))
      for (const nth of LINES) {
        const line = context.namedLine(text, source, nth);
        if (line === undefined || rules.length >= LINED) continue;
        for (const [of, writing] of proposeSpans(line, value as Exclude<Primitive, null>, context))
          if (of.by !== 'between')
            rules.push({ from, path, span: { by: 'line', in: source, nth, of }, writing });
      }
  }
  return rules;
}

/**
 * Proposes rules that count the successful calls of a tool since the task, for a value that is a number or a text of
 * digits.
 */
function proposeCounts(value: Primitive, context: StepContext): ExtractionRule[] {
  const wanted = typeof value === 'string' && COUNT.test(value) ? Number(value) : amountOf(value);
  const progress = context.source('progress');
  const made = isObject(progress) && isObject(progress.task) ? progress.task : {};
  const tools = Object.keys(made).slice(0, COUNTED);
  return tools
    .filter((tool) => made[tool] === wanted)
    .map((tool) => ({
      from: 'progress',
      path: ['task', { pick: 'calls', tool }],
      span: null,
      writing: isNumber(value) ? 'same' : 'text',
    }));
}

/** Proposes totals over the lists in all results of a tool, such as the rows of all pages that were read. */
function proposeTotals(value: Primitive, context: StepContext): ExtractionRule[] {
  if (!isAmount(value)) return [];
  const rules: ExtractionRule[] = [];
  const visit = (from: string, tool: string, at: unknown, path: PathPart[]): void => {
    if (rules.length >= TOTALS) return;
    if (Array.isArray(at))
      for (const total of listTotals(at))
        for (const writing of TOTAL_WRITINGS) {
          const rule = {
            from,
            path: [...path, total, { pick: 'added', tool } as const],
            span: null,
            writing,
          };
          if (sameValue(applyRule(rule, context), value)) {
            rules.push(rule);
            break;
          }
        }
    else if (isObject(at) && path.length < 3)
      for (const key of Object.keys(at)) visit(from, tool, at[key], [...path, key]);
  };
  for (const { name, value: result } of context.step.sources)
    if (name.startsWith(RESULT) && !name.includes('#')) visit(name, name.slice(RESULT.length), result, []);
  return rules;
}

/** Proposes rules that count something, or compute the value from a day or a time of the step. */
function proposeReckoned(value: Primitive, context: StepContext): ExtractionRule[] {
  const rules = [...proposeCounts(value, context), ...proposeTotals(value, context)];
  if (typeof value !== 'string' || minutesOf(value) === undefined) return rules;
  const add = (base: string, rule: ExtractionRule): void => {
    const by = proposeReckoning(base, value);
    if (by !== undefined) rules.push({ ...rule, path: [...rule.path, { pick: 'reckoned', by }] });
  };
  let bases = 0;
  for (const { from, path, text } of listTexts(context)) {
    if (minutesOf(text) !== undefined) add(text, { from, path, span: null, writing: 'same' });
    else
      for (const { span, found } of readMoments(text, context))
        if (++bases <= BASES) add(found, { from, path, span, writing: 'same' });
  }
  return rules;
}

/** Proposes rules that join a folder and a relative path, or make an absolute path relative to a folder. */
function proposePaths(value: Primitive, context: StepContext): ExtractionRule[] {
  if (typeof value !== 'string') return [];
  const rules: ExtractionRule[] = [];
  const place = (text: string, most: number): ExtractionRule[] =>
    proposeRules(text, context, [])
      .filter(({ writing }) => writing === 'same')
      .sort((a, b) => rankRule(a) - rankRule(b))
      .slice(0, most);
  const add = (as: 'joined' | 'relative', folder: string, paths: readonly string[]): boolean => {
    const folders = place(folder, FOLDER_PLACES);
    if (folders.length === 0) return false;
    for (const { span: of, ...rule } of paths.flatMap((path) => place(path, PATH_PLACES)))
      for (const { from, path, span } of folders)
        rules.push({ ...rule, span: { by: 'path', nth: 0, as, folder: { from, path, span }, of } });
    return true;
  };
  const isAbsolute = isAbsolutePath(value);
  for (const path of isAbsolute ? [value] : listLongerPaths(value, context)) {
    let known = 0;
    for (const folder of listFolders(path)) {
      const within = pathWithin(folder, path)!;
      // The path may be written with a dot for the folder.
      const paths = isAbsolute ? [within, `./${within}`, value] : [path];
      if ((isAbsolute || within === value) && add(isAbsolute ? 'joined' : 'relative', folder, paths))
        if (++known >= FOLDERS) break;
    }
  }
  return rules;
}

/** Lists absolute paths of the context that end with a relative path. */
function listLongerPaths(value: string, context: StepContext): string[] {
  const found = new Set<string>();
  const visit = (at: unknown): void => {
    const text = textAt(at);
    if (text === undefined) {
      if (at !== null && typeof at === 'object') for (const item of Object.values(at)) visit(item);
    } else if (text.includes(value)) {
      if (isAbsolutePath(text)) found.add(text);
      for (const { start, end, kind } of context.tokens(text))
        if (kind === 'path') found.add(text.slice(start, end));
    }
  };
  for (const { name, value: source } of context.step.sources) if (name !== 'progress') visit(source);
  return [...found].filter((path) => isAbsolutePath(path) && path.endsWith(value)).slice(0, LONGER_PATHS);
}
